"""Paddle's `jit` on this engine: its functions, and what its `StaticFunction` has."""
