"""Event traces: the truth that sampling is checked against, and the tail."""
