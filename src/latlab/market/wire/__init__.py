"""Feeds on the wire: received, recorded, sent."""
