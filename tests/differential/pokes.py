"""What changes in a program's module between two calls: what was looked up before may be found elsewhere, or be gone."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

MISSING = object()


def _toggle(owner: Any, name: str, value: Any) -> None:
    """Gives the attribute to `owner` itself, or takes it away again where it is that already."""
    if vars(owner).get(name, MISSING) is value:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _swap(owner: Any, name: str, value: Any) -> None:
    """Exchanges an attribute with what stood there before the last exchange."""
    spare = f"_spare_{name}"
    before = getattr(owner, name)
    setattr(owner, name, vars(owner).get(spare, value))
    setattr(owner, spare, before)


def _never(*_: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


def _three(*_: Any) -> int:
    return 3


def _shorter(value: Any, depth: int) -> Any:
    return value - depth


def _named(_: Any, name: str) -> str:
    if name.startswith("__"):
        raise AttributeError(name)
    return name


def _twice(_layer: Any, _inputs: Any, output: Any) -> Any:
    return output * 2


def _reorder(found: dict[str, Any]) -> None:
    first = next(iter(found))
    found[first] = found.pop(first)


def _hook(module: types.ModuleType) -> None:
    hook = vars(module).pop("_hook", None)
    if hook is not None:
        hook.remove()
    elif "NET" in vars(module):
        module._hook = module.NET.linear.register_forward_post_hook(_twice)


# Each gets the module and the `box` of the call that follows.
POKES: list[Callable[[Any, Any], Any]] = [
    lambda module, box: _toggle(module.Box, "late", 7),
    lambda module, box: _toggle(module.Small, "late", 8),
    lambda module, box: _toggle(module, "LATE", 1),
    lambda module, box: setattr(box, "late", 5),
    lambda module, box: setattr(box, "kind", 9),
    lambda module, box: _toggle(module.Small, "__bool__", _never),
    lambda module, box: _toggle(module.Small, "__eq__", _always),
    lambda module, box: _toggle(module.Small, "__len__", _three),
    lambda module, box: _toggle(module.Box, "__getattr__", _named),
    lambda module, box: _swap(module, "halves", _shorter),
    lambda module, box: _toggle(module, "len", _three),
    lambda module, box: _toggle(module, "isinstance", _always),
    lambda module, box: module.Kindly.register(module.Vec),
    lambda module, box: module.Kindly.register(module.Small),
    lambda module, box: module.kind_of.register(module.Vec)(_three),
    lambda module, box: module.kind_of.register(object)(_three),
    lambda module, box: setattr(module.memo, "__defaults__", ([1, 2],)),
    lambda module, box: setattr(module.strict, "__kwdefaults__", {"third": 4}),
    lambda module, box: setattr(module.halves, "__code__", _shorter.__code__),
    lambda module, box: _swap(module.Box, "counted", property(_three)),
    lambda module, box: _swap(module.Box, "push", lambda self, item: self),
    lambda module, box: setattr(box, "__class__", module.Small),
    lambda module, box: _reorder(vars(box)),
    lambda module, box: _reorder(module.TABLE),
    lambda module, box: setattr(module, "TABLE", dict(module.TABLE)),
    lambda module, box: setattr(module, "LOG", list(module.LOG)),
    lambda module, box: setattr(module, "MARK", object()),
    lambda module, box: module.KEEP.__setitem__(0, box),
    lambda module, box: module.KEEP.__setitem__(-1, module.MARK),
    lambda module, box: module.KEEP.append(module.soft),
    lambda module, box: _hook(module),
    lambda module, box: "NET" in vars(module) and _toggle(module.NET, "late", 4),
    lambda module, box: "NET" in vars(module) and _toggle(module.NET, "training", not module.NET.training),
]
