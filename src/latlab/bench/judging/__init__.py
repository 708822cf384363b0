"""From samples to a verdict: pure."""
