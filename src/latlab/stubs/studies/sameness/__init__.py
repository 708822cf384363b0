"""Whether a program does the same with a stub in the place of a component, apart from its time."""
