"""The Python part of the backend `pylayer`."""
