"""Layers without parameters that come as arguments, or that a function makes and uses behind a break: each call may
have another one."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, tensor, translate
from paddle import nn

X = paddle.to_tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])
LABELS = paddle.to_tensor([0, 2])


class Scaled(nn.Layer):
    """Without parts, but with an attribute that calls may change."""

    def __init__(self, scale=2.0):
        super().__init__()
        self.scale = scale
        self.calls = 0

    def forward(self, x):
        return x * self.scale


def values(result):
    return [values(item) for item in result] if isinstance(result, (list, tuple)) else result.tolist()


def check(function, calls, translations):
    """Each of `calls` makes the arguments of one call, once for each side."""
    static = translate(function)
    for arguments in calls:
        paddle.seed(3)
        expected = values(function(*arguments()))
        paddle.seed(3)
        assert values(static(*arguments())) == expected
    if not IDENTITY:
        record = sot.stats(static)
        assert record.fallbacks == []
        assert record.translations == translations
    return static


def test_a_criterion_made_for_each_call_is_used_behind_a_break():
    def step(x, labels):
        criterion = nn.CrossEntropyLoss(reduction="sum")
        scores = x * 2
        if scores.max() > 100:
            scores = scores / 2
        return criterion(scores, labels)

    static = check(step, [lambda: (X, LABELS)] * 40, translations=3)
    if not IDENTITY:
        # The layer is made natively; the branch depends on data.
        assert (sot.stats(static).graphs, sum(it.count for it in sot.stats(static).graph_breaks)) == (2, 2)


def test_settings_are_guarded():
    def loss(criterion, x, labels):
        return criterion(x * 2, labels)

    def calls(reduction):
        return [lambda: (nn.CrossEntropyLoss(reduction=reduction), X, LABELS)] * 3

    check(loss, calls("mean") + calls("sum") + calls("mean") + calls("none"), translations=3)


def test_of_classes_of_the_user_too():
    def function(layer, x):
        return layer(x + 1)

    check(function, [lambda: (Scaled(), X)] * 5 + [lambda: (nn.ReLU(), X)] * 3, translations=6)


def test_modes():
    def function(layer, x):
        return layer(x + 1)

    def dropout(train):
        layer = nn.Dropout(0.5)
        return layer if train else layer.eval() or layer

    calls = [lambda train=train: (dropout(train), X) for train in (True, True, False, False, True)]
    check(function, calls, translations=2)


def test_hooks_and_forwards_that_come_later():
    def function(layer, x):
        return layer(x + 1)

    def hooked():
        layer = Scaled()
        layer.register_forward_post_hook(lambda layer, inputs, output: output * 10)
        return layer, X

    def replaced():
        layer = Scaled()
        layer.forward = lambda x: x - 5
        return layer, X

    static = translate(function)
    for make in (lambda: (Scaled(), X), hooked, replaced, lambda: (Scaled(), X)):
        for _ in range(2):
            assert static(*make()).tolist() == function(*make()).tolist()
    before = Scaled.forward
    try:
        Scaled.forward = lambda self, x: x * 7
        assert static(Scaled(), X).tolist() == ((X + 1) * 7).tolist()
    finally:
        Scaled.forward = before


@pytest.mark.parametrize("first", ["same", "others"])
def test_one_layer_under_two_names(first):
    def function(one, other, x):
        one.scale = 5.0
        one.calls += 1
        return other(x), one(x), paddle.to_tensor(float(one.calls + other.calls)), x + (one is other)

    def same():
        layer = Scaled()
        return layer, layer, X

    def others():
        return Scaled(), Scaled(), X

    static = translate(function)
    makes = (same, others) if first == "same" else (others, same)
    for make in (*makes, *makes):
        assert values(static(*make())) == values(function(*make()))


def test_a_layer_that_is_a_part_of_another():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.act = Scaled()

        def forward(self, x):
            return self.act(x)

    def function(net, act, x):
        act.scale = 3.0
        return net(x), act(x)

    static = translate(function)

    def make(own):
        net = Net()
        return net, net.act if own else Scaled(), X

    for own in (False, True, False, True):
        assert values(static(*make(own))) == values(function(*make(own)))


WITH_TENSORS_INSIDE = {
    "a size": lambda: nn.Upsample(size=[paddle.to_tensor(8), 8], mode="nearest"),
    "a scale": lambda: nn.Upsample(scale_factor=[paddle.to_tensor(2.0), 2.0], mode="nearest"),
    "a part": lambda: nn.Sequential(nn.ReLU(), nn.Upsample(size=(8, paddle.to_tensor(6)), mode="nearest")),
}


@pytest.mark.parametrize("name", WITH_TENSORS_INSIDE)
def test_settings_with_tensors_inside(name):
    """Programs have values of their own in place of such a tensor: the real one ended the process."""
    layer = WITH_TENSORS_INSIDE[name]()
    function = lambda x: layer(x) * 2  # noqa: E731
    static = translate(function)
    for _ in range(2):
        x = tensor(1, 1, 4, 4)
        assert static(x).tolist() == function(x).tolist()
