"""Pieces that several pages share: figures and the drawing of a pipeline."""
