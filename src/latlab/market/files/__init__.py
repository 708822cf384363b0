"""Inputs of any kind and compression, and outputs that are written aside."""
