"""Statistics of symbols, and the laws that fit them."""
