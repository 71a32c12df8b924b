"""The Python part of the backend `cinn`."""
