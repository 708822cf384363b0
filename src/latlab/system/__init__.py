"""The machine: its clock, its environment and its settings."""
