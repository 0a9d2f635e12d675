"""What runs inside a rank: the process group around gloo, the link to the coordinator, virtual time, fault points."""
