"""Calls that are appended to a program: what they may be, and what they are made as."""
