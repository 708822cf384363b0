"""Studies: a component made faster in steps, and the curve that follows."""
