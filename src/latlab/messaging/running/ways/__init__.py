"""The ways that messages take: how each hop is opened, here, over a line or through a plug-in."""
