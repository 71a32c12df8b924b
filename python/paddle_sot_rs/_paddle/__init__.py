"""The Python part of the default backend: what only Python reaches in Paddle."""
