"""Shapes: humps of a distribution, knees of a curve, laws by which times grow."""
