"""The captured schedule simulated again, unchanged and with a part of it made faster."""
