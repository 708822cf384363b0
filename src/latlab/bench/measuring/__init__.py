"""Processes that measure, and the experiments made of them."""
