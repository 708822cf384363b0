"""Runs: native and Python loops, their processes, links and brokers."""
