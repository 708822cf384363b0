"""The shape of a distribution: its humps."""
