"""Operations of several tensors of which some want no gradient: frozen weights and the like.

Kernels and Paddle's primitive rules have cases of their own for these, right or wrong: what eager mode gives counts.
"""

import itertools

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate

BACKENDS = ["paddle", "cinn"]

_tensor = paddle.to_tensor


def _written(x, u):
    y = x * 1
    y[1:] = u
    return y


def _batch_norm(x, w, b, training, variance=1.0):
    return F.batch_norm(x, paddle.zeros([4]), paddle.full([4], variance), w, b, training=training)


def _cell(x, h, w, u, b, c):
    return paddle.tanh(F.linear(x, w.T, b) + F.linear(h, u.T, c))


# By name the operation, and the shapes of what it takes.
OPERATIONS = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, [4], w, b), [(3, 4), (4,), (4,)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, weight=w, bias=b), [(2, 4, 3), (4,), (4,)]),
    "group_norm without a shift": (lambda x, w: F.group_norm(x, 2, weight=w), [(2, 4, 3), (4,)]),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [(2, 4, 3), (4,), (4,)]),
    "batch_norm in training": (lambda x, w, b: _batch_norm(x, w, b, True), [(3, 4, 5), (4,), (4,)]),
    "batch_norm in evaluation": (lambda x, w, b: _batch_norm(x, w, b, False, 2.0), [(3, 4, 5), (4,), (4,)]),
    "batch_norm of rows": (lambda x, w, b: _batch_norm(x, w, b, True, 2.0), [(6, 4), (4,), (4,)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [(3, 4), (4, 5), (5,)]),
    "linear3": (lambda x, w, b: F.linear(x, w, b), [(2, 3, 4), (4, 5), (5,)]),
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [(2, 3, 5, 5), (4, 3, 3, 3), (4,)]),
    "conv_transpose": (lambda x, w, b: F.conv2d_transpose(x, w, b), [(2, 3, 4, 4), (3, 4, 2, 2), (4,)]),
    "conv of one dim": (lambda x, w, b: F.conv1d(x, w, b), [(2, 3, 6), (4, 3, 3), (4,)]),
    "bilinear": (lambda x, y, w, b: F.bilinear(x, y, w, b), [(3, 4), (3, 5), (6, 4, 5), (1, 6)]),
    "prelu": (lambda x, w: F.prelu(x - 0.5, w), [(2, 3, 4), (3,)]),
    "matmul": (lambda x, y: x @ y, [(2, 3, 4), (4, 5)]),
    "matmul_b": (lambda x, y: x @ y, [(2, 3, 4), (2, 4, 5)]),
    "matmul_v": (lambda x, y: x @ y, [(3, 4), (4,)]),
    "matmul_vv": (lambda x, y: x @ y, [(4,), (4,)]),
    "transposed matmul": (lambda x, y: paddle.matmul(x, y, True, True), [(4, 3), (5, 4)]),
    "bmm": (lambda x, y: paddle.bmm(x, y), [(2, 3, 4), (2, 4, 5)]),
    "addmm": (lambda a, x, y: paddle.addmm(a, x, y, 0.5, 2.0), [(3, 5), (3, 4), (4, 5)]),
    "addmm of a row": (lambda a, x, y: paddle.addmm(a, x, y, 0.5, 2.0), [(5,), (3, 4), (4, 5)]),
    "baddbmm": (lambda a, x, y: paddle.baddbmm(a, x, y, 0.5, 2.0), [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
    "add": (lambda x, y: x + y, [(3, 4), (4,)]),
    "sub": (lambda x, y: x - y, [(3, 1), (3, 4)]),
    "mul": (lambda x, y: x * y, [(3, 4), (1, 4)]),
    "div": (lambda x, y: x / y, [(3, 4), (3, 1)]),
    "pow": (lambda x, y: x**y, [(3, 4), (4,)]),
    "max": (lambda x, y: paddle.maximum(x, y), [(3, 4), (4,)]),
    "min": (lambda x, y: paddle.minimum(x, y), [(3, 4), (4,)]),
    "fmax": (lambda x, y: paddle.fmax(x, y), [(3, 4), (4,)]),
    "fmin": (lambda x, y: paddle.fmin(x, y), [(3, 4), (4,)]),
    "atan2": (lambda x, y: paddle.atan2(x, y), [(3, 4), (4,)]),
    "hypot": (lambda x, y: paddle.hypot(x, y), [(3, 4), (4,)]),
    "lerp": (lambda x, y, w: paddle.lerp(x, y, w), [(3, 4), (3, 4), (3, 4)]),
    "lerpb": (lambda x, y, w: paddle.lerp(x, y, w), [(3, 4), (4,), (3, 1)]),
    "logaddexp": (lambda x, y: paddle.logaddexp(x, y), [(3, 4), (4,)]),
    "where": (lambda x, y: paddle.where(x > 0.5, x, y), [(3, 4), (3, 4)]),
    "whereb": (lambda x, y: paddle.where(_tensor([[True], [False], [True]]), x, y), [(3, 4), (4,)]),
    "concat": (lambda x, y: paddle.concat([x, y], 1), [(3, 4), (3, 2)]),
    "stack": (lambda x, y: paddle.stack([x, y], 1), [(3, 4), (3, 4)]),
    "addn": (lambda x, y, z: paddle.add_n([x, y, z]), [(3, 4), (3, 4), (3, 4)]),
    "meshgrid": (lambda x, y: sum(paddle.meshgrid(x, y)), [(3,), (4,)]),
    "einsum": (lambda x, y: paddle.einsum("bij,jk->bik", x, y), [(2, 3, 4), (4, 5)]),
    "multi_dot": (lambda x, y, z: paddle.linalg.multi_dot([x, y, z]), [(3, 4), (4, 5), (5, 2)]),
    "scatter": (lambda x, u: paddle.scatter(x, _tensor([0, 2]), u), [(3, 4), (2, 4)]),
    "scatter_a": (lambda x, u: paddle.scatter(x, _tensor([0, 2]), u, overwrite=False), [(3, 4), (2, 4)]),
    "scatter_nd_add": (lambda x, u: paddle.scatter_nd_add(x, _tensor([[0], [2], [2]]), u), [(3, 4), (3, 4)]),
    "put": (lambda x, u: paddle.put_along_axis(x, _tensor([[0, 1, 2, 0]]), u, 0), [(3, 4), (1, 4)]),
    "index_add": (lambda x, u: paddle.index_add(x, _tensor([0, 2]), 0, u), [(3, 4), (2, 4)]),
    "index_put": (lambda x, u: paddle.index_put(x, (_tensor([0, 2]), _tensor([1, 1])), u), [(3, 4), (2,)]),
    "masked_scatter": (lambda x, u: paddle.masked_scatter(x, x > 0.5, u), [(3, 4), (12,)]),
    "masked_fill": (lambda x, u: paddle.masked_fill(x, x > 0.5, u.sum()), [(3, 4), (1,)]),
    "setitem": (lambda x, u: _written(x, u), [(3, 4), (2, 4)]),
    "fill_diag": (lambda x, u: paddle.diagonal_scatter(x, u), [(3, 4), (3,)]),
    "select_scatter": (lambda x, u: paddle.select_scatter(x, u, 0, 1), [(3, 4), (4,)]),
    "slice_scatter": (lambda x, u: paddle.slice_scatter(x, u, [0], [0], [2], [1]), [(3, 4), (2, 4)]),
    "ce": (lambda x, w: F.cross_entropy(x, _tensor([0, 1, 3]), weight=w), [(3, 4), (4,)]),
    "ce_soft": (lambda x, y: F.cross_entropy(x, F.softmax(y), soft_label=True), [(3, 4), (3, 4)]),
    "nll": (lambda x, w: F.nll_loss(F.log_softmax(x), _tensor([0, 1, 3]), weight=w), [(3, 4), (4,)]),
    "bce": (
        lambda x, y, w: F.binary_cross_entropy(x.clip(0.05, 0.95), y.clip(0.05, 0.95), w),
        [(3, 4), (3, 4), (3, 4)],
    ),
    "bcel": (lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w), [(3, 4), (3, 4), (3, 4)]),
    "bcelp": (lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w), [(3, 4), (3, 4), (4,)]),
    "mse": (lambda x, y: F.mse_loss(x, y), [(3, 4), (3, 4)]),
    "l1": (lambda x, y: F.l1_loss(x, y), [(3, 4), (3, 4)]),
    "sl1": (lambda x, y: F.smooth_l1_loss(x, y), [(3, 4), (3, 4)]),
    "kl": (lambda x, y: F.kl_div(F.log_softmax(x), F.softmax(y)), [(3, 4), (3, 4)]),
    "klt": (lambda x, y: F.kl_div(F.log_softmax(x), y, log_target=True), [(3, 4), (3, 4)]),
    "hinge": (lambda x, y: F.hinge_embedding_loss(x, paddle.sign(y - 0.5)), [(3, 4), (3, 4)]),
    "margin": (lambda x, y: F.margin_ranking_loss(x, y, paddle.ones([3, 4], x.dtype), 0.1), [(3, 4), (3, 4)]),
    "cosl": (lambda x, y: F.cosine_embedding_loss(x, y, _tensor([1, -1, 1])), [(3, 4), (3, 4)]),
    "triplet": (lambda a, p, n: F.triplet_margin_loss(a, p, n), [(3, 4), (3, 4), (3, 4)]),
    "gauss": (lambda x, y, v: F.gaussian_nll_loss(x, y, v), [(3, 4), (3, 4), (3, 4)]),
    "poisson": (lambda x, y: F.poisson_nll_loss(x, y), [(3, 4), (3, 4)]),
    "focal": (lambda x, y: F.sigmoid_focal_loss(x, y), [(3, 4), (3, 4)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 3, 2, 4), (2, 3, 2, 4), (2, 3, 2, 4)]),
    "attention with a mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        [(2, 3, 2, 4), (2, 3, 2, 4), (2, 3, 2, 4), (2, 1, 3, 3)],
    ),
    "cos": (lambda x, y: F.cosine_similarity(x, y), [(3, 4), (3, 4)]),
    "pdist": (lambda x, y: F.pairwise_distance(x, y), [(3, 4), (3, 4)]),
    "cdist": (lambda x, y: paddle.cdist(x, y), [(3, 4), (5, 4)]),
    "dist": (lambda x, y: paddle.dist(x, y), [(3, 4), (3, 4)]),
    "dot": (lambda x, y: paddle.dot(x, y), [(3, 4), (3, 4)]),
    "inner": (lambda x, y: paddle.inner(x, y), [(3, 4), (5, 4)]),
    "outer": (lambda x, y: paddle.outer(x, y), [(3,), (4,)]),
    "cross": (lambda x, y: paddle.cross(x, y), [(4, 3), (4, 3)]),
    "kron": (lambda x, y: paddle.kron(x, y), [(2, 3), (2, 2)]),
    "mv": (lambda x, y: paddle.mv(x, y), [(3, 4), (4,)]),
    "tensordot": (lambda x, y: paddle.tensordot(x, y, 1), [(3, 4), (4, 5)]),
    "solve": (lambda x, y: paddle.linalg.solve(x + 3 * paddle.eye(4, dtype=x.dtype), y), [(4, 4), (4, 2)]),
    "cholesky_solve": (
        lambda x, y: paddle.linalg.cholesky_solve(y, x + 3 * paddle.eye(4, dtype=x.dtype)),
        [(4, 4), (4, 2)],
    ),
    "grid": (lambda x, g: F.grid_sample(x, g * 2 - 1), [(2, 3, 4, 4), (2, 3, 3, 2)]),
    "swiglu": (lambda x, y: paddle.incubate.nn.functional.swiglu(x, y), [(3, 4), (3, 4)]),
    "polar": (lambda x, y: paddle.polar(x, y).abs(), [(3, 4), (3, 4)]),
    "complex": (lambda x, y: paddle.complex(x, y).abs(), [(3, 4), (3, 4)]),
    "trapz": (lambda x, y: paddle.trapezoid(x, y), [(3, 4), (3, 4)]),
}
# Eager mode crashes where only some of these want a gradient, or raises.
TOGETHER = frozenset(
    ("addmm of a row", "cholesky_solve", "cross", "grid", "instance_norm", "meshgrid", "multi_dot", "prelu", "solve")
)


def _subsets(name, count):
    """Which of the operands want gradients."""
    if name in TOGETHER:
        return [(True,) * count]
    if count > 3:
        one = [tuple(at == other for other in range(count)) for at in range(count)]
        return [*one, *(tuple(not wants for wants in subset) for subset in one)]
    return [subset for subset in itertools.product((True, False), repeat=count) if any(subset)]


def _outcome(function, shapes, wanted):
    random = np.random.RandomState(5)
    operands = [paddle.to_tensor(random.rand(*shape).astype("float32") + 0.1) for shape in shapes]
    for operand, wants in zip(operands, wanted, strict=True):
        operand.stop_gradient = not wants
    result = function(*operands)
    if not result.stop_gradient:
        weights = paddle.linspace(0.5, 1.5, result.size, dtype=result.dtype).reshape(result.shape)
        (result * weights).sum().backward()
    grads = [None if operand.grad is None else operand.grad.numpy() for operand in operands]
    return result.numpy(), result.stop_gradient, grads


@pytest.mark.default_python
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients_of_some_operands(name, backend):
    operation, shapes = OPERATIONS[name]

    def function(*operands):
        return operation(*operands)

    run = translate(function, backend=backend)
    subsets = _subsets(name, len(shapes))
    for wanted in subsets:
        numbers, stops, expected = _outcome(function, shapes, wanted)
        found_numbers, found_stops, found = _outcome(run, shapes, wanted)
        assert np.allclose(found_numbers, numbers, rtol=1e-5, atol=1e-5)
        assert found_stops == stops
        for one, other in zip(expected, found, strict=True):
            assert (one is None) == (other is None), wanted
            assert one is None or np.allclose(other, one, rtol=2e-4, atol=1e-5), wanted
    stats = sot.stats(run)
    # A program asks for more of the variances than eager mode does.
    assert stats.graphs == len(subsets) * (name != "gauss")
    # What is written into a tensor with a gradient is written by the interpreter.
    assert [it.code for it in stats.graph_breaks] == ["UNSPS"] * (name in ("gauss", "setitem"))
    assert not stats.fallbacks


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("frozen", itertools.product((True, False), repeat=2))
@pytest.mark.parametrize("norm", [paddle.nn.BatchNorm1D, paddle.nn.LayerNorm, paddle.nn.InstanceNorm1D])
def test_norms_in_a_branch(norm, frozen, backend):
    net, linear = norm(3), paddle.nn.Linear(3, 3)
    net.eval()
    scale = net.scale if norm is paddle.nn.InstanceNorm1D else net.weight
    scale.set_value(paddle.to_tensor([0.5, 2.0, 3.0]))
    scale.stop_gradient, net.bias.stop_gradient = frozen
    parameters = [scale, net.bias, *linear.parameters()]

    def function(x, last):
        made = linear(x)
        if last.sum() > 0:
            made = net(made) * 2
        else:
            made = made * 3
        return (made * made * made).sum()

    run = translate(function, backend=backend, capture_control_flow=True)
    for last in (1.0, -1.0, 1.0):
        found = []
        for one in (function, run):
            x = paddle.to_tensor(np.random.RandomState(1).rand(2, 3, 3).astype("float32"))
            one(x, paddle.full([1], last)).backward()
            found.append([None if it.grad is None else it.grad.numpy() for it in parameters])
            for parameter in parameters:
                parameter.clear_gradient(set_to_zero=False)
        for expected, other in zip(*found, strict=True):
            assert (expected is None) == (other is None)
            assert expected is None or np.allclose(other, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    assert sot.stats(run).graphs == 1
    assert not sot.stats(run).graph_breaks
