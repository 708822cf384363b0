"""How fast is a piece of code, and did a change help."""
