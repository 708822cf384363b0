"""The kernel's events of threads, and the schedule derived from them."""
