"""Translated functions and methods as objects: copies, pickles, what other decorators said of them, how they bind."""

import abc
import copy
import functools
import inspect
import pickle
import types

import paddle
import paddle_sot_rs as sot
import pytest

X = paddle.to_tensor([1.0, 2.0])


def plain(target):
    return target


def translate(target):
    return sot.to_static(target, min_graph_size=0)


def made():
    def scaled(x, by=2):
        """Scaled."""
        return x * by

    scaled.tag = ["T"]
    return scaled


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.by = 3

    def forward(self, x):
        """Forward."""
        return x * self.by

    forward.tag = "of forward"


class Partial(functools.partial):
    pass


def copies(wrap):
    f = wrap(made())
    f.calls = 3
    for other in (copy.copy(f), copy.deepcopy(f), copy.deepcopy({"f": f})["f"]):
        yield other is f, other.calls, other.tag, other.__name__, other.__doc__


def attributes(wrap):
    f = wrap(made())
    yield f.tag, vars(f)["tag"], hasattr(f, "__self__")
    wrapper = functools.wraps(f)(lambda *args: f(*args))
    yield wrapper.tag, wrapper.__name__, str(inspect.signature(wrapper))
    part = Partial(made(), by=4)
    part.tag = "of part"
    part = wrap(part)
    yield type(part), part.tag, part(X)


def abstract(wrap):
    class Abstract(abc.ABC):
        @wrap
        @abc.abstractmethod
        def method(self): ...

    try:
        yield Abstract()
    except TypeError as error:
        yield str(error)


def layers(wrap):
    net = wrap(Net())
    yield net.forward.tag, net.forward.__self__ is net, net.forward.__func__ is Net.forward
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        other.by = 5
        yield other(X), net(X), other.forward.__self__ is other
        yield other.forward.__name__, other.forward.__doc__, other.forward.tag
    both = copy.deepcopy([net, net.forward])
    both[0].by = 7
    yield both[1](X), both[1].__self__ is both[0], net(X)


def methods_of_others(wrap):
    net = Net()

    class Holder:
        method = wrap(net.forward)

        def run(self, x):
            return self.method(x) + 1

    holder = Holder()
    yield holder.method(X), Holder.method(X), holder.run(X)
    yield wrap(holder.run)(X), wrap(holder.run)(X)


def shown(value):
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    return value.tolist() if isinstance(value, paddle.Tensor) else value


@pytest.mark.parametrize("program", [copies, attributes, abstract, layers, methods_of_others])
def test_translated_functions_are_like_functions(program):
    expected = [shown(answer) for answer in program(plain)]
    assert [shown(answer) for answer in program(translate)] == expected


def test_copies_keep_settings_and_specifications(tmp_path):
    spec = [paddle.static.InputSpec([None], "float32")]
    net = sot.to_static(Net(), input_spec=spec, full_graph=True)
    other = copy.deepcopy(net)
    assert other.forward.specification.input_spec == spec
    with pytest.raises(TypeError, match="x"):
        other(types.SimpleNamespace())
    sot.save(other, str(tmp_path / "net"))
    assert paddle.jit.load(str(tmp_path / "net"))(X).tolist() == [3.0, 6.0]


@pytest.mark.parametrize("mark", [sot.allow_in_graph, sot.disable, sot.black_list])
def test_what_the_process_has_marked_is_no_part_of_a_copy(mark):
    def local(x):
        return x * 2

    mark(local)
    net = translate(Net())
    assert pickle.loads(pickle.dumps(net))(X).tolist() == net(X).tolist()
