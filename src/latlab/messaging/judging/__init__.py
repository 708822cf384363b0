"""What limited a run, how far its figures can be trusted, and what stands behind its slow messages."""
