"""Market data: feeds, books and their statistics."""
