"""A queueing model fitted to an observation, and its simulation."""
