"""Experiments of two sides and more: pairs, families of comparisons, what may be said of many at once."""
