"""The Python part of the backend `onednn`."""
