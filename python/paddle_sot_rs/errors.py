"""Exceptions of paddle_sot_rs."""


class GraphBreakError(RuntimeError):
    """Raised under `full_graph=True` when a function is not one graph. The message lists the reasons."""
