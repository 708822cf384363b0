"""Results as text, JSON, HTML and other outputs: one module per output."""
