"""Functions as components: their calls recorded, replayed and replaced."""
