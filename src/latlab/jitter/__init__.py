"""How quiet is this machine, and who disturbs it."""
