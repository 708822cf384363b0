"""From samples to what limits: pure functions on an observation."""
