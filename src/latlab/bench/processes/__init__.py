"""The processes that measure: how they start, what runs inside of them, what becomes of them."""
