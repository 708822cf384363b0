"""What can be diagnosed: the trading pipeline, a command, a process; all by one protocol."""
