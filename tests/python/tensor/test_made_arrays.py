"""NumPy arrays that a function makes of numbers that are known: masks, positions, tables of indices."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

X = np.random.RandomState(0).randn(2, 5, 8).astype("float32")


def plain(result):
    if isinstance(result, (list, tuple)):
        return [plain(item) for item in result]
    if isinstance(result, paddle.Tensor):
        return plain(result.numpy())
    if isinstance(result, np.ndarray):
        return result.dtype, result.shape, result.strides, result.flags.writeable, result.tobytes()
    return result


def check(function, breaks=0, calls=3, **options):
    static = sot.to_static(function, min_graph_size=0, **options)
    for call in range(calls):
        x = paddle.to_tensor(X + call)
        assert plain(function(x)) == plain(static(x))
    assert sum(it.count for it in sot.stats(static).graph_breaks) == breaks, sot.stats(static).graph_breaks
    return static


def positions(length, width):
    angles = np.arange(length)[:, None] / np.power(10000, (2 * (np.arange(width) // 2)) / np.float32(width))
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return angles.astype("float32")


def windows():
    mask, count = np.zeros((4, 8), dtype="float32"), 0
    for rows in (slice(0, -2), slice(-2, -1), slice(-1, None)):
        for columns in (slice(0, -2), slice(-2, None)):
            mask[rows, columns] = count
            count += 1
    return mask - mask[:1]


def buckets(length):
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]
    return (distance > 0).astype("int64") * 2 + np.minimum(np.abs(distance), 3)


MASKS = {
    "tril": lambda x: x * paddle.to_tensor(np.tril(np.ones((x.shape[1], x.shape[2])))).astype("float32"),
    "triu": lambda x: x + paddle.to_tensor(np.triu(np.full((5, 8), -1e9, "float32"), k=1)),
    "least": lambda x: x + paddle.to_tensor(np.full(8, np.finfo(np.float32).min)),
    "positions": lambda x: x + paddle.to_tensor(positions(x.shape[1], x.shape[2])),
    "windows": lambda x: x[:, :4] + paddle.to_tensor(windows()),
    "buckets": lambda x: paddle.gather(x, paddle.to_tensor(buckets(3).ravel()), axis=1),
    "grid": lambda x: x + paddle.to_tensor(np.stack(np.meshgrid(np.arange(8.0), np.arange(5)), -1), "float32")[..., 0],
    "where": lambda x: x + paddle.to_tensor(np.where(np.arange(8) > 3, 0.0, -100.0), dtype="float32"),
    "list": lambda x: x + paddle.to_tensor(np.array([i * 2.0 for i in range(8)], dtype="float32")),
    "assign": lambda x: x + paddle.assign(np.eye(5, 8).astype(np.float32)),
    "numbers": lambda x: x * float(np.arange(3).mean()) + np.ones(4).sum().item(),
    "sorted": lambda x: paddle.index_select(x, paddle.to_tensor(np.argsort(np.array([3, 1, 2]))), axis=1),
    "only": lambda x: (paddle.to_tensor(np.tri(3)), x + 0),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    assert sot.stats(check(MASKS[name])).graphs == 1


@pytest.mark.parametrize("backend", ["cinn", "onednn", "pylayer", "eager"])
def test_other_backends(backend):
    check(MASKS["positions"], backend=backend)


def test_gradients_and_export(tmp_path):
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = paddle.nn.Linear(8, 8)

        def forward(self, x):
            hidden = self.linear(x)
            weights = paddle.matmul(hidden, hidden, transpose_y=True)
            mask = np.tril(np.ones((x.shape[1], x.shape[1]), dtype="float32"))
            return (weights + paddle.to_tensor((1 - mask) * -1e9)) @ hidden

    net = Net()
    x = paddle.to_tensor(X)
    static = sot.to_static(net.forward, min_graph_size=0)
    found = []
    for call in (lambda x: Net.forward(net, x), static):
        call(x).sum().backward()
        found.append(plain([parameter.grad for parameter in net.parameters()]))
        net.clear_gradients()
    assert found[0] == found[1]
    assert sot.stats(static).graph_breaks == []
    sot.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 5, 8], "float32")])
    assert plain(paddle.jit.load(str(tmp_path / "net"))(x)) == plain(net(x))


def test_each_call_makes_its_own():
    def function(x):
        array = np.arange(8.0)
        same = array
        result = x + paddle.to_tensor(array.astype("float32"))
        array[2] = 5
        return result, array, same, paddle.to_tensor(same)

    static = check(function)
    _, array, same, tensor = static(paddle.to_tensor(X))
    assert array is same
    array[:] = 77
    tensor.fill_(66)
    assert plain(static(paddle.to_tensor(X))) == plain(function(paddle.to_tensor(X)))


def test_views():
    def function(x):
        whole = np.zeros((5, 8), "float32")
        rows = whole[1:3]
        some, turned = rows[:, ::-2], whole.T
        rows[0] = 1
        some[:] = 3
        whole[0, 0] = 7
        turned[2] += 4
        rows += rows
        return [x[0, 0, 0] + paddle.to_tensor(it.copy()) for it in (whole, rows, some, turned)]

    check(function)


def test_views_that_leave_share_memory():
    def function(x):
        whole = np.arange(8)
        return x * 2, whole, whole[1:]

    static = check(function, breaks=2)
    _, whole, part = static(paddle.to_tensor(X))
    whole[1] = 50
    assert part[0] == 50


def test_kept_outside():
    kept = []

    def function(x):
        array = np.ones(8, "float32")
        kept.append(array)
        return x + paddle.to_tensor(array)

    check(function)
    assert len({id(array) for array in kept}) == 6


def test_behind_a_break():
    def function(x):
        mask = np.tri(5, 8, dtype="float32")
        y = x * paddle.to_tensor(mask)
        float(x.sum())
        mask[0, 0] = 9
        return y + paddle.to_tensor(mask)

    check(function, breaks=2)


def test_operators_and_attributes():
    def function(x):
        array = np.ones((2, 4), "float32")
        alias = array
        array += 2
        array *= alias
        array = array - alias / 2
        alias[alias > 3] = 0
        other = np.asarray(array)
        facts = (other is array, np.array(array) is array, isinstance(array, np.ndarray), len(array), array.shape)
        more = (
            array.ndim,
            array.size,
            array.dtype == np.float32,
            array.tolist(),
            float(array.max()),
            -array,
            ~(array > 2),
        )
        return x * 2, alias, facts, more, 3 - array, array @ array.T, bool((array > 0).all())

    check(function)


def test_in_a_closure():
    def function(x):
        array = np.zeros(8, "float32")

        def step():
            array[0] += 1
            return paddle.to_tensor(array)

        return x + step() + step()

    check(function)


def test_what_is_left_to_the_interpreter():
    """What NumPy warns of or raises, what it writes to, what random numbers or texts are."""

    def refused(x, array):
        with pytest.raises(ValueError, match="broadcast"):
            sot.to_static(lambda x: x + paddle.to_tensor(np.ones(3) + np.ones(4)), min_graph_size=0)(x)

    refused(paddle.to_tensor(X), None)

    def warns(x):
        return x + paddle.to_tensor(np.log(np.zeros(8)).astype("float32")).isinf().astype("float32")

    static = sot.to_static(warns, min_graph_size=0)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            static(paddle.to_tensor(X))

    def written(x):
        array = np.ones(8, "float32")
        np.add(array, 1, array)
        np.add(array, 1, out=array)
        return x + paddle.to_tensor(array)

    def shown(x):
        return x * 2, str(np.ones(3)), f"{np.zeros(2)}"

    def drawn(x):
        return x + paddle.to_tensor(np.random.rand(8).astype("float32"))

    for function in (written, shown):
        static = sot.to_static(function, min_graph_size=0)
        for _ in range(2):
            assert plain(function(paddle.to_tensor(X))) == plain(static(paddle.to_tensor(X)))
    static = sot.to_static(drawn, min_graph_size=0)
    np.random.seed(3)
    want = [plain(drawn(paddle.to_tensor(X))) for _ in range(3)]
    np.random.seed(3)
    assert [plain(static(paddle.to_tensor(X))) for _ in range(3)] == want


def test_control_flow_that_writes():
    def branch(x):
        array = np.zeros(8, "float32")
        if x.sum() > 0:
            array[0] = 1
        else:
            array[1] = 1
        return x + paddle.to_tensor(array)

    static = sot.to_static(branch, min_graph_size=0, capture_control_flow=True)
    for sign in (1, -1, 1):
        x = paddle.ones([2, 8]) * sign
        assert plain(static(x)) == plain(branch(x))
    assert "a ndarray is changed inside" in sot.stats(static).graph_breaks[0].message


def test_replaced_functions(monkeypatch):
    def function(x):
        return x + paddle.to_tensor(np.ones(8, "float32"))

    static = check(function)
    monkeypatch.setattr(np, "ones", np.zeros)
    assert plain(static(paddle.to_tensor(X))) == plain(function(paddle.to_tensor(X)))


def test_many_lengths():
    def function(x):
        length = x.shape[1]
        return x @ paddle.to_tensor(np.tril(np.ones((length, length), "float32")))

    static = sot.to_static(function, min_graph_size=0)
    for length in range(2, 12):
        x = paddle.rand([2, length])
        assert plain(static(x)) == plain(function(x))
    assert sot.stats(static).graph_breaks == []


def test_iteration():
    def function(x):
        for number in np.arange(3):
            x = x + float(number) + paddle.to_tensor(np.full(8, number, "float32"))
        first, second = np.array([1.0, 2.0])
        rows = [row.tolist() for row in np.eye(2)]
        return x * float(first) + float(second), rows, list(np.arange(3)), sum(np.arange(4)), tuple(np.tri(2)[0])

    check(function)


def test_iteration_sees_writes():
    def function(x):
        array, found = np.arange(4), []
        for number in array:
            array[3] = 9
            found.append(int(number))
        rows = np.zeros((2, 3))
        for row in rows:
            row[0] = 5
        iterator = iter(array)
        return x * 2, found, rows, type(iterator).__name__, next(iterator)

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        assert plain(static(paddle.to_tensor(X))) == plain(function(paddle.to_tensor(X)))


BESIDE = {
    "floats": lambda x: (x + np.full((5, 8), 2, "float32")) * np.ones(8, "float32") - np.eye(5, 8).astype("float32"),
    "doubles": lambda x: np.linspace(0, 1, 8) * x / np.arange(1.0, 9.0) ** np.full(8, 2.0),
    "halves": lambda x: np.ones(8, "float16") - x,
    "matrices": lambda x: x @ np.tri(8, dtype="float32"),
    "comparisons": lambda x: (x > np.zeros(8, "float32"), x == np.ones((5, 1), "float32")),
    "rows": lambda x: x[np.array([1, 0, 1])],
    "columns": lambda x: x[:, np.array([4, 0, -1]), 1:] + x[..., np.arange(7)][:, :3],
    "pairs": lambda x: x[np.array([[0, 1], [1, 1]]), np.array([2, 3])],
}


@pytest.mark.parametrize("name", BESIDE)
def test_beside_tensors(name):
    function = BESIDE[name]
    static = check(function)
    if name == "comparisons":
        return
    found = []
    for call in (function, static):
        x = paddle.to_tensor(X, stop_gradient=False)
        (call(x) ** 2).sum().backward()
        found.append(plain(x.grad))
    assert found[0] == found[1]
