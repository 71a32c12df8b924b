"""Instances of subclasses of `dict`, `OrderedDict` and `list` that a function makes: what networks answer with
(`ModelOutput` of many projects), lists with methods of their own."""

import collections
import dataclasses
from typing import Any

import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor

programs = Programs()
X = tensor(2, 3)


class Output(collections.OrderedDict):
    """As in `transformers` and its relatives: attributes and items at once, without what is None."""

    def __post_init__(self):
        fields = dataclasses.fields(self)
        if not len(fields):
            raise ValueError("no fields")
        first = getattr(self, fields[0].name)
        if all(getattr(self, field.name) is None for field in fields[1:]) and isinstance(first, dict):
            for key, value in first.items():
                self[key] = value
        else:
            for field in fields:
                value = getattr(self, field.name)
                if value is not None:
                    self[field.name] = value

    def __delitem__(self, *args, **kwargs):
        raise Exception(f"no __delitem__ on a {self.__class__.__name__}")

    def setdefault(self, *args, **kwargs):
        raise Exception("no setdefault")

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, str):
            inner_dict = dict(self.items())
            return inner_dict[k]
        return self.to_tuple()[k]

    def __setattr__(self, name: Any, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclasses.dataclass
class Sample(Output):
    sample: Any = None
    hidden: Any = None
    states: Any = None


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class Stack(list):
    kind = "stack"

    def top(self):
        return self[-1]

    def push(self, value):
        self.append(value)
        return self


class Noted(dict):
    def __init__(self, *args, **kwargs):
        self.log = []
        super().__init__(*args, **kwargs)

    def __setitem__(self, key, value):
        self.log.append(key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        self.log.append(("del", key))
        super().__delitem__(key)

    def __len__(self):
        return 40


class Ordered(collections.OrderedDict):
    pass


class Missing(dict):
    def __missing__(self, key):
        self[key] = value = len(self)
        return value


@programs(X, graphs=1, breaks=0)
def output_is_returned(x):
    return Sample(sample=x * 2, states=[x + 1])


@programs(X, graphs=1, breaks=0)
def output_is_read(x):
    out = Sample(x * 2, hidden=x + 1)
    return out.sample + out["hidden"] + out[0], out.to_tuple(), list(out), len(out), "states" in out, out.states


@programs(X, graphs=1, breaks=0)
def output_is_changed(x):
    out = Sample(x * 2)
    out.sample = x * 3
    out["hidden"] = x * 5
    out.states = None
    out.other = 5
    return out, list(out.items()), list(out.values()), out.hidden


@programs(X, graphs=1, breaks=0)
def output_of_a_dict(x):
    return Sample({"sample": x, "more": x * 2})


@programs(X, graphs=2, breaks=1)
def output_behind_a_break(x):
    out = Sample(x * 2, hidden=x + 1)
    again = out
    print("break")
    return out.sample * 2, out["hidden"], out[1], again is out, list(out.keys()), out


@programs(X, breaks=None)
def output_is_changed_behind_a_break(x):
    out = Sample(x * 2)
    print("break")
    out["states"] = 5
    return out, out.states, list(out)


@programs(X, graphs=1, breaks=0)
def output_that_raises(x):
    out = Sample(x * 2)
    try:
        del out["sample"]
    except Exception as error:
        return str(error), out
    return None


@programs(X, graphs=1, breaks=0)
def config(x):
    c = Config(scale=2.0)
    c.shift = 1
    c["name"] = "n"
    c.inner = Config(k=x)
    return x * c.scale + c.shift, c, c.inner.k, getattr(c, "none", 7), {**c}, dict(c)


@programs(X, graphs=1, breaks=0)
def config_methods(x):
    c = Config({"a": 1, "b": x * 2}, c=3)
    c.update(d=4, a=5)
    c.setdefault("e", 6)
    popped = c.pop("c"), c.pop("z", 9), c.get("a"), c.get("y"), c.get("y", 1)
    del c["d"]
    return c, popped, [(k, v) for k, v in c.items()], len(c), bool(c), bool(Config())


@programs(X, graphs=1, breaks=0)
def config_is_cleared(x):
    c = Config(a=1)
    c.clear()
    c["b"] = x + 1
    return c, list(c)


@programs(X, graphs=1, breaks=0)
def stack(x):
    s = Stack([1, x + 1])
    s.push(x * 2).push(3)
    s.extend([4, 5])
    s.insert(0, 7)
    s[1] = 8
    last = s.pop()
    del s[0]
    s.reverse()
    return s, last, s.top(), s.kind, s[1:], len(s), [y for y in s], Stack([3, 3]).count(3), 4 in Stack([4])


@programs(X, graphs=2, breaks=2)
def stack_behind_a_break(x):
    s = Stack()
    s.push(x * 2)
    it = iter(s)
    print("break")
    return s.top() * 2, s, list(it), s


@programs(X, graphs=1, breaks=0)
def noted(x):
    n = Noted(a=1)
    n["b"] = x * 2
    n.update(c=3)
    del n["a"]
    return n, n.log, len(n), [*n], dict(n)


@programs(X, graphs=1, breaks=0)
def ordered(x):
    o = Ordered([("a", 1), ("b", x)], c=3)
    o["d"] = x * 2
    o.move_to_end("a")
    del o["b"]
    return o, list(o), list(o.items()), o["a"], o.get("q", 2)


@programs(X, graphs=2, breaks=None)
def views_behind_a_break(x):
    o, c = Ordered(a=1, b=x * 2), Config(a=1, b=x * 3)
    views = o.keys(), o.values(), c.items(), iter(o), iter(c.values())
    next(views[3])
    print("break")
    return [list(view) for view in views], type(views[0]).__name__, type(views[2]).__name__, o, c, x + 1


@programs(X, breaks=None)
def missing(x):
    m = Missing(a=x)
    return m["q"], m["a"] * 2, m["q"], m


@programs(X, breaks=None)
def a_loop_that_breaks(x):
    out = []
    for i in range(3):
        s = Stack([i])
        print("break", i)
        s.push(x * i)
        out.append(s)
    return out


@programs(X, graphs=1, breaks=0)
def itself(x):
    c = Config(a=1)
    c.me = c
    s = Stack([c])
    c.s = s
    return c.me is c, c.s is s, s[0] is c, x * 2


@programs(X, graphs=1, breaks=0)
def that_holds_itself(x):
    c = Config(a=x * 2)
    c.me = c
    return c


@programs(X, breaks=None)
def is_compared(x):
    a, b = Config(a=1), Config(a=1)
    return a == b, a is b, a == {"a": 1}, Stack([1]) == [1], x * 2, a | {"q": 1}


@programs(X, breaks=None)
def is_given_to_c(x):
    s = Stack([3, 1, 2])
    s.sort()
    c = collections.ChainMap(Config(a=1), {"b": 2})
    return s, sorted(s), sum(s), tuple(s), dict(c), x + len(s), [*s], "".join(Stack("ab")), repr(s)


@pytest.mark.parametrize("function, args, expectations", programs)
def test_new_containers(function, args, expectations):
    check(function, *args, repeat=3, **expectations)


class Network(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 3)

    def forward(self, x):
        hidden = paddle.tanh(self.first(x))
        return Sample(self.second(hidden), hidden=hidden)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_a_network_that_answers_so_is_trained(backend):
    """The loss is computed from the items of an answer that comes out of another translated function, too."""

    def loss_of(out):
        return out.sample.mean() + out["hidden"].sum() + (0 if out.states is None else 1)

    paddle.seed(0)
    network = Network()

    def step(x):
        return loss_of(network(x))

    found = []
    whole = sot.to_static(step, backend=backend)
    parts = sot.to_static(Network.forward, backend=backend), sot.to_static(loss_of, backend=backend)
    for run in (step, whole, whole, lambda x: parts[1](parts[0](network, x)), lambda x: parts[1](parts[0](network, x))):
        loss = run(X)
        loss.backward()
        found.append([loss.numpy(), *(p.grad.numpy() for p in network.parameters())])
        network.clear_gradients()
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert abs(a - b).max() <= 1e-6
    for static in (whole, *parts):
        stats = sot.stats(static)
        assert (stats.graphs, stats.graph_breaks, stats.fallbacks, stats.translations) == (1, [], [], 1)


def test_a_network_that_answers_so_is_exported(tmp_path):
    """Its outputs are in the order of their keys, as those of a dict."""
    network = Network()
    network.eval()
    spec = [paddle.static.InputSpec([None, 3], "float32", "x")]
    static = sot.to_static(network, full_graph=True, input_spec=spec)
    answer = static(X)
    assert type(answer) is Sample and list(answer) == ["sample", "hidden"]
    sot.save(static, str(tmp_path / "network"))
    outputs = paddle.jit.load(str(tmp_path / "network"))(X)
    for output, name in zip(outputs, ["hidden", "sample"], strict=True):
        assert output.tolist() == answer[name].tolist()


CHANGES = {
    "attribute": lambda out: setattr(out, "sample", X * 7),
    "item": lambda out: out.__setitem__("hidden", X * 8),
    "another key": lambda out: out.__setitem__("states", X),
    "order": lambda out: out.move_to_end("sample"),
    "dict below": lambda out: dict.__setitem__(out, "hidden", X * 9),
    "class": lambda out: setattr(Sample, "to_tuple", lambda self: (X, X + 1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_answers_that_are_given_are_guarded(name):
    def function(out):
        return out.sample * 2 + out["hidden"] + out[0], list(out)

    static = sot.to_static(function, min_graph_size=0)
    plain = Sample.to_tuple
    out = Sample(X, hidden=X + 1)
    try:
        for change in (lambda out: None, lambda out: None, CHANGES[name]):
            change(out)
            for _ in range(2):
                (found, keys), (expected, wanted) = static(out), function(out)
                assert found.tolist() == expected.tolist() and keys == wanted
    finally:
        Output.to_tuple = plain
        if "to_tuple" in vars(Sample):
            del Sample.to_tuple
    assert sot.stats(static).graph_breaks == []
