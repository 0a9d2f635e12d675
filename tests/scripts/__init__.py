"""Scripts as torchrun starts them, and tests that they run unmodified in the simulator, and recorded under torchrun."""
