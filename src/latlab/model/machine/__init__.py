"""Results about the machine: its clock, its environment, its jitter."""
