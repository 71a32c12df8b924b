"""Exceptions of paddle_sot_rs."""


class GraphBreakError(RuntimeError):
    """Raised under `full_graph=True` when a function is not one graph. The message lists the reasons.

    Attributes:
        ids: of the reasons, such as `PSR0101`.
    """

    def __init__(self, *args: object, ids: tuple[str, ...] = ()) -> None:
        super().__init__(*args)
        self.ids = ids


class RecompileError(RuntimeError):
    """Raised under `set_stance("fail_on_recompile")` where a call would be translated again; names the guard."""


class BackendPanicError(RuntimeError):
    """A backend written in Rust panicked. Users do not see it: the frame runs natively, counted as a fallback."""
