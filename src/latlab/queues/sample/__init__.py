"""From outside: counter files found, sampled and recorded."""
