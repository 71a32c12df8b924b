"""`_core.pyi` and the extension module say the same."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import paddle_sot_rs
import pytest
from paddle_sot_rs import _core

TREE = ast.parse(Path(paddle_sot_rs.__file__).with_name("_core.pyi").read_text())
# What every module and class has, whatever its source says.
IGNORED = {"__all__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"}
IGNORED_IN_CLASSES = {"__doc__", "__module__", "__dict__", "__weakref__"}


def accessor(node):
    """`setter` or `deleter`, of a property."""
    return next((name.attr for name in node.decorator_list if isinstance(name, ast.Attribute)), None)


STUB_CLASSES = {node.name: node for node in TREE.body if isinstance(node, ast.ClassDef)}
STUB_FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}
STUB_VALUES = {node.target.id: node for node in TREE.body if isinstance(node, ast.AnnAssign)}
MEMBERS = [
    pytest.param(class_name, node, id=f"{class_name}.{node.name}")
    for class_name, owner in STUB_CLASSES.items()
    for node in owner.body
    if isinstance(node, ast.FunctionDef) and not accessor(node)
]
SETTERS = [
    pytest.param(class_name, node.name, id=f"{class_name}.{node.name}")
    for class_name, owner in STUB_CLASSES.items()
    for node in owner.body
    if isinstance(node, ast.FunctionDef) and accessor(node) == "setter"
]
DESCRIBED = [TREE, *STUB_CLASSES.values(), *STUB_FUNCTIONS.values(), *(parameter.values[1] for parameter in MEMBERS)]


def is_property(node):
    return any(isinstance(name, ast.Name) and name.id == "property" for name in node.decorator_list)


def in_stub(node, bound):
    """(name, kind, has a default) of each parameter, without `self` or `cls`."""
    arguments, kinds = node.args, inspect.Parameter
    positional = [(arg, kinds.POSITIONAL_ONLY) for arg in arguments.posonlyargs]
    positional += [(arg, kinds.POSITIONAL_OR_KEYWORD) for arg in arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    found = [(arg.arg, kind, index >= without_default) for index, (arg, kind) in enumerate(positional)]
    if arguments.vararg:
        found.append((arguments.vararg.arg, kinds.VAR_POSITIONAL, False))
    found += [
        (arg.arg, kinds.KEYWORD_ONLY, value is not None)
        for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults)
    ]
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, kinds.VAR_KEYWORD, False))
    return found[1:] if bound else found


def in_module(callable_, bound):
    assert callable_.__text_signature__, "no signature to compare with"
    # A class with a property `__wrapped__` is not a wrapper itself.
    parameters = list(inspect.signature(callable_, follow_wrapped=False).parameters.values())
    found = [(one.name, one.kind, one.default is not one.empty) for one in parameters]
    return found[1:] if bound else found


def test_the_module_has_the_names_of_the_stub():
    names = {name for name in vars(_core) if name not in IGNORED}
    assert names == {*STUB_CLASSES, *STUB_FUNCTIONS, *STUB_VALUES}
    assert {name for name in names if isinstance(getattr(_core, name), type)} == set(STUB_CLASSES)
    assert {name for name in names if callable(getattr(_core, name))} == {*STUB_CLASSES, *STUB_FUNCTIONS}
    assert sorted(_core.__all__) == sorted(names)


@pytest.mark.parametrize("name", STUB_CLASSES)
def test_a_class_has_the_members_of_the_stub(name):
    stub = {node.name for node in STUB_CLASSES[name].body if isinstance(node, ast.FunctionDef)}
    assert {member for member in vars(getattr(_core, name)) if member not in IGNORED_IN_CLASSES} == stub


@pytest.mark.parametrize("name", STUB_CLASSES)
def test_a_class_is_final_as_the_stub_says(name):
    assert [decorator.id for decorator in STUB_CLASSES[name].decorator_list] == ["final"]
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (getattr(_core, name),), {})


@pytest.mark.parametrize("name", STUB_FUNCTIONS)
def test_a_function_has_the_parameters_of_the_stub(name):
    assert in_module(getattr(_core, name), bound=False) == in_stub(STUB_FUNCTIONS[name], bound=False)


@pytest.mark.parametrize(("class_name", "node"), MEMBERS)
def test_a_member_is_what_the_stub_says(class_name, node):
    owner = getattr(_core, class_name)
    member = vars(owner)[node.name]
    assert is_property(node) == (inspect.isgetsetdescriptor(member) or inspect.ismemberdescriptor(member))
    if node.name == "__new__":
        assert in_module(owner, bound=False) == in_stub(node, bound=True)
    elif node.name == "__call__":
        # CPython's text for this slot is `*args, **kwargs`, whatever the method takes.
        assert node.args.vararg and len(node.args.args) <= 2
    elif not is_property(node):
        assert in_module(member, bound=True) == in_stub(node, bound=True)


@pytest.mark.parametrize("class_name, name", SETTERS)
def test_a_property_with_a_setter_can_be_set(class_name, name):
    member = vars(getattr(_core, class_name))[name]
    with pytest.raises(TypeError, match="doesn't apply to a 'int' object"):
        member.__set__(1, None)


@pytest.mark.parametrize("name", [name for name in STUB_CLASSES if "__new__" not in vars(getattr(_core, name))])
def test_a_class_without_new_cannot_be_made(name):
    with pytest.raises(TypeError, match="cannot create"):
        getattr(_core, name)()


@pytest.mark.parametrize("node", DESCRIBED, ids=lambda node: getattr(node, "name", "module"))
def test_everything_in_the_stub_is_described_and_typed(node):
    assert ast.get_docstring(node)
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        assert node.returns is not None
        assert all(arg.annotation or arg.arg in ("self", "cls") for arg in every if arg)
