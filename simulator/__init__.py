"""The deterministic world: real ranks, virtual time."""
