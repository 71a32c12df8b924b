"""Writes a call down as a script that stands alone: the function, what it uses, and its arguments."""

from __future__ import annotations

import ast
import base64
import builtins
import enum
import functools
import inspect
import math
import sys
import sysconfig
import textwrap
import types
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from ..settings import SETTINGS

# Arrays of more numbers are written by their shape, and drawn.
_SHOWN = 16

_HEAD = "import paddle\nimport paddle_sot_rs as sot\n"
_MADE = '''
def made(cls, **parts):
    """An object of a class with these attributes, without its constructor."""
    it = cls.__new__(cls)
    if not isinstance(it, paddle.nn.Layer):
        vars(it).update(parts)
        return it
    paddle.nn.Layer.__init__(it)
    for name, part in parts.items():
        if isinstance(part, paddle.nn.Layer):
            it.add_sublayer(name, part)
        elif isinstance(part, paddle.base.framework.EagerParamBase):
            it.add_parameter(name, part)
        elif isinstance(part, paddle.Tensor):
            it.register_buffer(name, part)
        else:
            setattr(it, name, part)
    return it
'''
# Layers that only hold others, by what makes them.
_HOLDERS = {paddle.nn.Sequential: "paddle.nn.Sequential({})", paddle.nn.LayerList: "paddle.nn.LayerList([{}])"}


class CannotBeWrittenDown(Exception):
    """Something that no source makes again."""


def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _is_installed(module: str) -> bool:
    """Whether another process can import it."""
    found = sys.modules.get(module)
    if module in sys.builtin_module_names or module.split(".")[0] in ("paddle", "numpy"):
        return True
    file = getattr(found, "__file__", None)
    return found is not None and module != "__main__" and (file is None or file.startswith(_installed()))


class _Undecorated(ast.NodeTransformer):
    """Takes `to_static` away: the script translates the function itself."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # noqa: N802 - by name of the node
        node.decorator_list = [it for it in node.decorator_list if "to_static" not in ast.unparse(it)]
        return self.generic_visit(node)


class Writer:
    """Collects the lines of a script.

    Args:
        exact: write all numbers of arrays down, however many.
    """

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.imports: list[str] = []
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.known: dict[int, str] = {}
        self.helper = False

    def _name(self, wanted: str, value: Any) -> str:
        name, number = wanted, 1
        while name in self.names and self.names[name] is not value or name in ("made", "sot", "paddle"):
            number += 1
            name = f"{wanted}_{number}"
        self.names[name] = value
        return name

    def _import(self, line: str) -> None:
        if line not in self.imports and line not in _HEAD:
            self.imports.append(line)

    def value(self, value: Any, wanted: str = "value") -> str:
        """An expression for it; what may change is given a name, and has that one whenever it is met."""
        if (
            value is None
            or isinstance(value, bool | int | str | bytes | complex)
            and type(value).__module__ == "builtins"
        ):
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if value is Ellipsis:
            return "..."
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.value, (value.start, value.stop, value.step)))})"
        if isinstance(value, paddle.dtype):
            return str(value)
        if isinstance(value, paddle.static.InputSpec):
            return repr(value)
        if id(value) in self.known:
            return self.known[id(value)]
        if isinstance(value, types.ModuleType | type | types.FunctionType | types.BuiltinFunctionType):
            return self._defined(value, wanted)
        if type(value) in (tuple, frozenset):
            inner = ", ".join(self.value(item, wanted) for item in value)
            return f"({inner}{',' * (len(value) == 1)})" if type(value) is tuple else f"frozenset([{inner}])"
        expression = self._made(value, wanted)
        name = self._name(wanted, value)
        self.lines.append(f"{name} = {expression}")
        self.known[id(value)] = name
        return name

    def _made(self, value: Any, wanted: str) -> str:
        if isinstance(value, paddle.Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            self._import("import numpy as np")
            return f"np.{value.dtype.name}({value.item()!r})"
        if isinstance(value, paddle.nn.Layer):
            made = self._layer(value, wanted)
            return made if value.training or made.endswith(".eval()") else f"{made}.eval()"
        if type(value) is list:
            return f"[{', '.join(self.value(item, wanted) for item in value)}]"
        if type(value) is set:
            return f"{{{', '.join(self.value(item, wanted) for item in value)}}}" if value else "set()"
        if type(value) is dict:
            return f"{{{', '.join(f'{self.value(k)}: {self.value(v, wanted)}' for k, v in value.items())}}}"
        if isinstance(value, enum.Enum):
            return f"{self.value(type(value))}.{value.name}"
        if isinstance(value, types.MethodType):
            return f"{self.value(value.__self__, 'it')}.{value.__name__}"
        if isinstance(value, functools.partial):
            self._import("import functools")
            parts = [self.value(value.func), *map(self.value, value.args)]
            parts += [f"{name}={self.value(part, name)}" for name, part in value.keywords.items()]
            return f"functools.partial({', '.join(parts)})"
        if hasattr(value, "__dict__") and type(value).__new__ is object.__new__:
            self.helper = True
            parts = [f", {name}={self.value(part, name)}" for name, part in vars(value).items()]
            return f"made({self.value(type(value))}{''.join(parts)})"
        raise CannotBeWrittenDown(f"an object of {type(value).__qualname__}")

    def _tensor(self, value: paddle.Tensor) -> str:
        if value.is_dist() or not value.is_dense():
            raise CannotBeWrittenDown("a tensor that is not dense")
        dtype = str(value.dtype).removeprefix("paddle.")
        if isinstance(value, paddle.base.framework.EagerParamBase):
            if not self.exact:
                return f"paddle.create_parameter({list(value.shape)}, {dtype!r})"
            array = self._array(value.numpy())
            initial = f"paddle.nn.initializer.Assign({array})"
            return f"paddle.create_parameter({list(value.shape)}, {dtype!r}, default_initializer={initial})"
        stop = "" if value.stop_gradient else ", stop_gradient=False"
        if dtype == "bfloat16":
            return f"paddle.to_tensor({self._array(value.astype('float32').numpy())}, 'bfloat16'{stop})"
        if value.size <= _SHOWN:
            numbers = self._numbers(value.numpy())
            return f"paddle.to_tensor({numbers}, {dtype!r}{stop})"
        return f"paddle.to_tensor({self._array(value.numpy())}{stop})"

    def _numbers(self, array: np.ndarray) -> str:
        listed = repr(array.tolist())
        for word in ("nan", "inf"):
            listed = listed.replace(word, f'float("{word}")')
        return listed

    def _array(self, array: np.ndarray) -> str:
        self._import("import numpy as np")
        kind, dtype, shape = array.dtype.kind, f"np.{array.dtype.name}", array.shape
        if kind == "b":
            dtype = "bool"
        if kind not in "biufc":
            raise CannotBeWrittenDown(f"an array of {array.dtype}")
        if array.size <= _SHOWN:
            return f"np.array({self._numbers(array)}, {dtype})"
        if self.exact:
            self._import("import base64")
            self._import("import zlib")
            data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()
            bytes_of = f"zlib.decompress(base64.b64decode({data!r}))"
            return f"np.frombuffer({bytes_of}, {dtype}).reshape({shape}).copy()"
        if kind in "biu":
            low, high = int(array.min()), int(array.max())
            return f"np.random.default_rng(0).integers({low}, {high + 1}, {shape}).astype({dtype})"
        return f"np.random.default_rng(0).standard_normal({shape}).astype({dtype})"

    def _layer(self, value: paddle.nn.Layer, wanted: str) -> str:
        cls = type(value)
        if (form := _HOLDERS.get(cls)) and [*value._sub_layers] == [str(at) for at in range(len(value._sub_layers))]:
            return form.format(", ".join(self._part(part, wanted) for part in value._sub_layers.values()))
        for arguments in ("", _constructed(value)):
            if arguments is not None and not self.exact and _makes(cls, arguments, value):
                return f"{self.value(cls)}({arguments})"
        self.helper = True
        fresh = vars(paddle.nn.Layer())
        parts = {**value._parameters, **value._buffers, **value._sub_layers}
        parts |= {name: part for name, part in vars(value).items() if name not in fresh and name != "forward"}
        inner = []
        for name, part in parts.items():
            given = self._part(part, name)
            inner.append(f"{name}={given}" if name.isidentifier() else f"**{{{name!r}: {given}}}")
        return f"made({', '.join([self.value(cls), *inner])})"

    def _part(self, part: Any, wanted: str) -> str:
        """A part of a layer; one that is met once needs no name."""
        if not isinstance(part, paddle.nn.Layer) or id(part) in self.known:
            return self.value(part, wanted if wanted.isidentifier() else "part")
        made = self._layer(part, "part")
        return made if part.training else f"{made}.eval()"

    def _defined(self, value: Any, wanted: str) -> str:
        """A module, a class or a function."""
        if isinstance(value, types.ModuleType):
            if not _is_installed(value.__name__):
                raise CannotBeWrittenDown(f"the module {value.__name__}")
            name = self._name(wanted if wanted != "value" else value.__name__, value)
            is_plain = name == value.__name__
            self._import(f"import {value.__name__}" if is_plain else f"import {value.__name__} as {name}")
            self.known[id(value)] = name
            return name
        module, name = value.__module__ or "builtins", value.__qualname__
        if getattr(builtins, name, None) is value:
            return name
        if module and _is_installed(module) and "<" not in name:
            public = _public(module, name, value)
            if not public[0].startswith("paddle"):
                self._import(f"import {public[0]}")
            return ".".join(public)
        if isinstance(value, types.BuiltinFunctionType):
            raise CannotBeWrittenDown(f"the function {name}")
        return self._source(value, wanted)

    def _source(self, value: Any, wanted: str) -> str:
        node = parsed(value)
        name = self._name(node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else wanted, value)
        self.known[id(value)] = name
        scopes = _scopes(value)
        bound = {node.name} if isinstance(node, ast.ClassDef) else set()
        for used in dict.fromkeys(it.id for it in ast.walk(node) if isinstance(it, ast.Name)):
            if used in scopes and used not in bound and scopes[used] is not value:
                self._use(used, scopes[used])
        if isinstance(node, ast.Lambda):
            self.lines.append(f"{name} = {ast.unparse(node)}")
        else:
            node.name = name
            self.lines.append(ast.unparse(_Undecorated().visit(node)))
        return name

    def _use(self, name: str, value: Any) -> None:
        """Lets the script know this value by this name."""
        if name in self.names:
            if self.names[name] is not value:
                raise CannotBeWrittenDown(f"two things that are named {name}")
            return
        if value in (paddle,) or getattr(value, "__name__", "") == "paddle_sot_rs":
            if name not in ("paddle", "sot"):
                self._import(f"import {value.__name__} as {name}")
            return
        plain = getattr(value, "dygraph_function", value)
        made = self.value(plain, name)
        if made != name:
            self.lines.append(f"{name} = {made}")
            self.names[name] = value

    def script(self) -> str:
        """All of it."""
        head = "\n".join(sorted(self.imports))
        return f"{head}\n{_HEAD}{_MADE if self.helper else ''}\n" + "\n".join(self.lines) + "\n"


def _public(module: str, name: str, value: Any) -> tuple[str, str]:
    """Where it is found, as near to the top as it can be."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        place = ".".join(parts[:count])
        if getattr(sys.modules.get(place), name, None) is value:
            return place, name
    found = functools.reduce(lambda at, part: getattr(at, part, None), name.split("."), sys.modules.get(module))
    if found is not value:
        raise CannotBeWrittenDown(f"{module}.{name}")
    return module, name


def _scopes(value: Any) -> dict[str, Any]:
    """The names that the source of a function or class sees."""
    functions = [value] if isinstance(value, types.FunctionType) else []
    functions += [it for it in vars(value).values() if isinstance(it, types.FunctionType)] if not functions else []
    module = sys.modules.get(value.__module__)
    found = dict(vars(module)) if module else {}
    for function in functions:
        found |= function.__globals__
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in closure:
            try:
                found[name] = cell.cell_contents
            except ValueError:
                continue
    found.pop("__class__", None)
    return found


def parsed(value: Any) -> Any:
    """The tree of a function, class or lambda.

    Raises:
        CannotBeWrittenDown: it has no source.
    """
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        raise CannotBeWrittenDown(f"{value.__qualname__}, which has no source") from None
    if getattr(value, "__name__", "") != "<lambda>":
        return ast.parse(source).body[0]
    for end in range(len(source), 0, -1):
        # The line of a lambda may be a part of a call.
        start = source.find("lambda")
        try:
            tree = ast.parse(source[start:end].strip(), mode="eval")
        except SyntaxError:
            continue
        if isinstance(tree.body, ast.Lambda):
            return tree.body
    raise CannotBeWrittenDown("a lambda whose source is not found")


def _constructed(value: paddle.nn.Layer) -> str | None:
    """Arguments for its class, as `extra_repr` shows them."""
    try:
        shown = value.extra_repr()
        call = ast.parse(f"f({shown})", mode="eval").body
    except Exception:  # noqa: BLE001 - it is for people
        return None
    assert isinstance(call, ast.Call)
    given = [ast.unparse(it) for it in call.args]
    for keyword in call.keywords:
        # Texts are shown without quotes.
        text = isinstance(keyword.value, ast.Name) and keyword.value.id not in ("True", "False", "None")
        written = repr(ast.unparse(keyword.value)) if text else ast.unparse(keyword.value)
        given.append(f"{keyword.arg}={written}")
    try:
        names = inspect.signature(type(value).__init__).parameters
    except (TypeError, ValueError):
        return None
    return ", ".join(it for it in given if "=" not in it or it.split("=")[0] in names)


def _makes(cls: type, arguments: str, value: paddle.nn.Layer) -> bool:
    """Whether the class makes such a layer of these arguments."""
    try:
        other = eval(f"cls({arguments})", {"cls": cls})  # noqa: S307 - what its own `extra_repr` says
    except Exception:  # noqa: BLE001 - then it does not
        return False

    def plain(layer: Any) -> Any:
        attributes = {
            name: repr(part) if isinstance(part, bool | int | float | str | list | tuple | type(None)) else type(part)
            for name, part in vars(layer).items()
            if not name.startswith(("_full_name", "_helper")) and name not in ("forward", "training")
        }
        shapes = {name: (list(it.shape), it.dtype, it.stop_gradient) for name, it in layer.state_dict().items()}
        return type(layer), attributes, shapes, [plain(it) for it in layer.children()]

    return plain(other) == plain(value)


def _unbound(function: Any) -> tuple[Any, Any]:
    return getattr(function, "__func__", function), getattr(function, "__self__", None)


def script(static: Any, args: tuple[Any, ...], kwargs: dict[str, Any], exact: bool, calls: int, check: bool) -> str:
    """A script that makes this call of a translated function.

    Args:
        static: what `to_static` made.
        exact: write all numbers down.
        calls: how often it is made.
        check: compare it with plain Python.

    Raises:
        CannotBeWrittenDown: there is no source for something.
    """
    writer = Writer(exact)
    function, owner = _unbound(static.dygraph_function)
    options = static.compile_options
    # Only what differs from the default; a black list holds objects, which no text is.
    kept = [name for name, it in SETTINGS.items() if it.per_function and it.default != () and name != "check"]
    values = {name: options["backend_options" if name == "options" else name] for name in kept}
    given = [f"{name}={value!r}" for name, value in values.items() if value not in (None, {}, SETTINGS[name].default)]
    given += ["check=True"] if check else []
    names = [*inspect.signature(static.dygraph_function).parameters]
    if owner is None:
        called = writer.value(function, "function")
    else:
        called = f"{writer.value(owner, 'it')}.{function.__name__}"
    arguments = [writer.value(it, names[at] if at < len(names) else "value") for at, it in enumerate(args)]
    arguments += [f"{name}={writer.value(it, name)}" for name, it in kwargs.items()]
    writer.lines.append(f"translated = sot.to_static({', '.join([called, *given])})")
    writer.lines += [f"translated({', '.join(arguments)})"] * calls
    return writer.script()


def in_child(write: Callable[[], str]) -> str:
    """Writes in a process of its own: constructors are called for it, and draw random numbers.

    Raises:
        CannotBeWrittenDown: what cannot be.
    """
    from .checking import Child

    def answer() -> tuple[str, str]:
        try:
            return "script", write()
        except CannotBeWrittenDown as error:
            return "refused", str(error)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            return "refused", f"{type(error).__name__}: {error}"

    kind, text = Child(answer).ask() or ("refused", "the process that writes it ended")
    if kind == "refused":
        raise CannotBeWrittenDown(text)
    return text
