"""Rewrites of a program between its trace and its executor."""
