"""Where in the code threads run and block: sampled stacks, and whose functions they show."""
