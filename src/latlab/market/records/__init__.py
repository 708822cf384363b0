"""Every field of every message, as arrays and tables."""
