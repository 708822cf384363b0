"""Results about queues: what was observed, what it means, a queueing model of it."""
