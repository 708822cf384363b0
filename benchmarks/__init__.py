"""Ratios, interleaved in one run; nothing here is asserted in a test."""
