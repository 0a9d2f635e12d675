"""What torch does on gloo and CPU: the same programs on plain gloo and inside `simulator.run`, compared bit for bit."""
