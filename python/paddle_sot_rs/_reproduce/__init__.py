"""Calls compared with plain Python, and what differs reduced to a script of few lines."""
