"""Market results as text and HTML."""
