"""From a question to one answer."""
