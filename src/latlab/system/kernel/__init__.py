"""What the kernel tells: tracepoints, sockets, symbols, counters."""
