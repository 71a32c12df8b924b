"""Generated graphs with several results: what each use of the results does to gradients, and whom it tells."""

import random

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]

UNARY = [
    "{}.tanh()",
    "{}.sin() * 2",
    "({} * 0.5).exp()",
    "{}.detach()",
    "({0} * {0}).sqrt()",
    "{}.mean(-1, keepdim=True) + x",
    "D({})",
]
BINARY = ["{} + {}", "{} * {}", "{} @ L.weight + {}", "paddle.where({} > 0, {}, {} * 3)", "L({}) - {}", "N({}) * {}"]


def source(chance):
    """A function of three tensors, with a layer that is used again and again, dropout and running statistics."""
    names, lines = ["x", "y", "w"], []
    for number in range(chance.randint(4, 14)):
        form = chance.choice(UNARY + BINARY * 2)
        lines.append(f"    t{number} = " + form.format(*(chance.choice(names[-5:]) for _ in range(3))))
        names.append(f"t{number}")
    results = chance.sample(names[3:], min(len(names) - 3, chance.randint(2, 4)))
    return "\n".join(["def forward(x, y, w):", *lines, f"    return {', '.join(results)}"]), len(results)


class World:
    """One side: the function over layers of its own, and what is seen of it."""

    def __init__(self, text, seed, translated):
        paddle.seed(seed)
        self.layer, self.norm, self.dropout = nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Dropout(0.4)
        names = {"paddle": paddle, "L": self.layer, "N": self.norm, "D": self.dropout}
        exec(text, names)  # noqa: S102
        self.forward = names["forward"]
        if translated:
            self.forward = sot.to_static(self.forward, min_graph_size=0)

    def tensors(self, seed, leaves):
        numbers = np.random.default_rng(seed)
        found = [paddle.to_tensor(numbers.standard_normal((3, 4)).astype("float32")) for _ in range(3)]
        for tensor in found:
            tensor.stop_gradient = False
        return found, [tensor if leaf else tensor * 1.5 for tensor, leaf in zip(found, leaves, strict=True)]

    def step(self, seed, chance):
        """Calls it, uses the results as `chance` says, and answers with all that there is to see."""
        paddle.seed(seed)
        told = []
        leaves, given = self.tensors(seed, [chance.random() < 0.7 for _ in range(3)])
        for at, tensor in enumerate(leaves):
            tensor.register_hook(lambda g, at=at: told.append(("leaf", at, np.abs(g.numpy()).sum())))
        results = list(self.forward(*given))
        for at, tensor in enumerate(results):
            how = chance.randrange(4)
            if tensor.stop_gradient:
                continue
            if how == 0:
                tensor.register_hook(lambda g, at=at: told.append(("result", at, np.abs(g.numpy()).sum())))
            elif how == 1:
                tensor.register_hook(lambda g: g * 2)
            elif how == 2:
                tensor.retain_grads()
        order = [at for at in range(len(results)) if not results[at].stop_gradient]
        chance.shuffle(order)
        together = chance.random() < 0.4
        uses = [order[: chance.randint(1, len(order))]] if order and together else [[at] for at in order]
        for number, use in enumerate(uses):
            sum((results[at] * (at + 1)).sum() for at in use).backward(retain_graph=number + 1 < len(uses))
        grads = [*leaves, *results, *self.layer.parameters(), *self.norm.parameters()]
        seen = [None if tensor.grad is None else tensor.grad.numpy() for tensor in grads]
        seen += [tensor.numpy() for tensor in (*results, self.norm._mean, self.norm._variance, paddle.rand([2]))]
        for part in (self.layer, self.norm):
            part.clear_gradients(set_to_zero=False)
        flags = [(tensor.stop_gradient, tensor.is_leaf) for tensor in results]
        return sorted(told), flags, seen


@pytest.mark.parametrize("seed", range(150))
def test_generated(seed):
    text, _ = source(random.Random(seed))
    plain, ours = World(text, seed, False), World(text, seed, True)
    for number in range(3):
        expected = plain.step(number, random.Random(f"{seed} {number}"))
        actual = ours.step(number, random.Random(f"{seed} {number}"))
        assert expected[1] == actual[1], text
        assert [one[:2] for one in expected[0]] == [one[:2] for one in actual[0]], text
        for one, other in zip(expected[0], actual[0], strict=True):
            np.testing.assert_allclose(one[2], other[2], rtol=1e-3, atol=1e-4, err_msg=text)
        for at, (one, other) in enumerate(zip(expected[2], actual[2], strict=True)):
            assert (one is None) == (other is None), f"{at}: {one} and {other}\n{text}"
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, err_msg=f"{at}\n{text}")
    assert not sot.stats(ours.forward).fallbacks
