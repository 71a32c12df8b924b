"""Existing programs on this engine: `patch_paddle`."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

import paddle
from paddle.nn import Layer

from . import _core, api, jit

_log = logging.getLogger("paddle_sot_rs.compat")
_paddle_save = paddle.jit.save


def _to_static(
    function: Any = None,
    input_spec: Any = None,
    build_strategy: Any = None,
    backend: Any = "CINN",
    *,
    property: bool = False,
    full_graph: bool | None = None,
    **kwargs: Any,
) -> Any:
    """`paddle.jit.to_static` on this engine; takes what Paddle's takes."""
    if kwargs:
        _log.warning("to_static: %s not used by paddle_sot_rs", ", ".join(sorted(kwargs)))
    # Paddle's full graph mode makes operators of control flow on tensors. A break is no error.
    captures = True if full_graph is True else None
    return jit.to_static(
        function, input_spec, build_strategy, backend, property=property, capture_control_flow=captures
    )


def _is_ours(target: Any) -> bool:
    return api.static_of(target) is not None


def _save(layer: Any, path: str, input_spec: Any = None, **configs: Any) -> None:
    """`paddle.jit.save`; Layers and functions that this engine translates are saved by it."""
    inner = layer._layers if isinstance(layer, paddle.DataParallel) else layer
    names = ["forward", *dir(type(inner))] if isinstance(inner, Layer) else []
    if _is_ours(inner) or any(_is_ours(getattr(inner, name, None)) for name in names):
        jit.save(inner, path, input_spec, **configs)
    else:
        _paddle_save(layer, path, input_spec, **configs)


class _Replaced:
    """What stands in `paddle.jit` while there are patches, however many, and what stood there before."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def put(self) -> None:
        # Not in `paddle.jit.api`: Paddle's own `save` uses Paddle's own `to_static`.
        self._set(paddle.jit, "to_static", _to_static)
        self._set(paddle.jit, "save", _save)
        translator = paddle.jit.dy2static.program_translator.ProgramTranslator
        enable = translator.enable

        def switch(self: Any, enable_to_static: bool) -> None:
            enable(self, enable_to_static)
            _core.switch_off(not enable_to_static)

        self._set(translator, "enable", switch)
        _core.switch_off(not translator().enable_to_static)

    def take_away(self) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)
        _core.switch_off(False)


_replaced = _Replaced()
# Those that have not been undone, in any order.
_patches: list[Patch] = []


class Patch:
    """What `patch_paddle` answers with: a context manager that undoes the patch, or call `undo`."""

    def apply(self) -> None:
        """Puts this engine behind `paddle.jit`; does nothing when this patch has done so already."""
        if self in _patches:
            return
        if not _patches:
            _replaced.put()
        _patches.append(self)

    def undo(self) -> None:
        """Puts back what was there before, unless there are other patches."""
        if self in _patches:
            _patches.remove(self)
            if not _patches:
                _replaced.take_away()

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def patch_paddle() -> Patch:
    """Makes `paddle.jit.to_static` and `paddle.jit.save` of existing programs use this engine.

    Use it as a function, or as a context manager that puts Paddle's own back. Functions that were decorated
    before, and names imported by `from paddle.jit import to_static` before, are not changed. Where a program asks
    for `full_graph=True`, control flow on tensors becomes part of the graph, and what cannot be captured breaks it.
    Calls may differ from their `input_spec`, as Paddle lets them; a warning names the first one that does.
    `paddle.jit.enable_to_static(False)` lets functions run as they are.

    Returns:
        A context manager with `undo()`.
    """
    patch = Patch()
    patch.apply()
    return patch
