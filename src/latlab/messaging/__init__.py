"""How fast do messages travel."""
