"""Readers and writers of recordings, counter files and foreign formats."""
