"""`x.numpy()` where control flow is captured: an array that the program has, with the numbers of then."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

VECTORS = [[0.5, -2.0, 3.0], [-0.5, -2.0, 3.0], [float("nan"), 1.0, 1.0], [0.1, 7.0, 0.1]]


def shown(value):
    if isinstance(value, paddle.Tensor):
        return "tensor", value.dtype, value.shape, value.numpy().tobytes(), value.stop_gradient
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value), value.dtype, value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value), *map(shown, value)
    return type(value), repr(value)


def check(function, inputs, *, whole=True):
    graphs = {"full_graph": True} if whole else {"capture_control_flow": True, "min_graph_size": 0}
    translated = sot.to_static(function, **graphs)
    for values in [*inputs, *inputs]:
        for stops in (True, False):
            found, wanted = (paddle.to_tensor(values) for _ in range(2))
            if found.dtype == paddle.float32:
                found.stop_gradient = wanted.stop_gradient = stops
            assert shown(translated(found)) == shown(function(wanted))
            assert shown(found) == shown(wanted)
    stats = sot.stats(translated)
    assert (not stats.graph_breaks) == whole
    assert not whole or stats.graphs == stats.translations


def test_an_item_decides():
    def choose(x):
        if x.numpy()[0] > 0:
            return x + 1
        return x - 1

    check(choose, VECTORS)


def test_a_mean_decides_in_tests_of_several():
    def choose(x):
        if x is not None and (x.mean().numpy() > 0.4 or x.numpy()[1] == 1) and not x.numpy()[2] > 5:
            x = x * 2
        return x

    check(choose, VECTORS)


def test_python_floats_take_the_dtype_of_the_array():
    def alike(x):
        made = []
        for number in (0.1, 3, 7.0, float("nan")):
            if x.numpy()[0] == number:
                made.append(x + 1)
            else:
                made.append(x * 0)
            if number >= x.numpy()[2]:
                made.append(x + 2)
            else:
                made.append(x * 0 + 2)
        return made

    check(alike, VECTORS)


def test_scalars_of_numpy_keep_their_dtype():
    doubles, whole = np.float64(0.1), np.int64(7)

    def alike(x):
        item = x.numpy()[0]
        # The float next to 0.1 is larger than the double.
        if doubles < item:
            x = x * 2
        return x + 1, doubles == item, item != doubles, whole == x.numpy()[1], item >= doubles

    check(alike, VECTORS)


def test_loops_count_to_an_item():
    def counted(x):
        total = paddle.zeros([1], "int64")
        for i in range(x.numpy()[0]):
            total = total + i
        return total

    check(counted, [[3, 1], [0, 2], [5, 5]])


def test_loops_end_by_an_item():
    def grown(x):
        rounds = 0
        while x.numpy()[0] < 5 and rounds < 7:
            x = x + 1
            rounds += 1
        return x

    check(grown, VECTORS)


def test_items_are_gone_over():
    def summed(x):
        total = paddle.zeros([1])
        for i, number in enumerate(x.numpy(), 1):
            if number < 0:
                continue
            total = total + number * paddle.ones([1]) + i
        return total

    check(summed, VECTORS)


def test_numbers_of_items():
    def numbers(x):
        return x * int(x.numpy()[2]), x + x.sum().numpy().item(), x * float(x.numpy()[1])

    check(numbers, VECTORS[:2] + VECTORS[3:])


@pytest.mark.parametrize("values", [0.5, 3, True, [0.5, 2.0], [True, False], [[1, 2], [3, 4]]])
def test_arrays_are_what_eager_mode_makes(values):
    def arrays(x):
        array = x.numpy()
        return array, type(array), array.dtype, array.shape, array.ndim, x.reshape([-1]).numpy()[0]

    check(arrays, [values])


def test_tensors_of_arrays_have_no_gradient():
    def copied(x):
        return paddle.to_tensor(x.numpy()) * 2, paddle.to_tensor(x.numpy()[1]) + 1

    check(copied, VECTORS)


def test_comparisons_answer_with_numpys_bools():
    def answers(x):
        array = x.numpy()
        return array[0] > 0, array < 1, (array[1] < 0) is True, not array[0] > 0

    check(answers, VECTORS)


def test_arrays_do_not_change_with_their_tensor():
    def changed(x):
        y = x * 1
        array = y.numpy()
        y.add_(paddle.to_tensor(10.0))
        if array[0] > 0:
            return y + 1
        return y - 1

    found, wanted = (paddle.to_tensor(VECTORS[1]) for _ in range(2))
    assert shown(sot.to_static(changed, full_graph=True)(found)) == shown(changed(wanted))


def written(x):
    array = x.numpy()
    array[0] = 100
    return paddle.to_tensor(array) + x


def part_written(x):
    array = x.numpy()
    part = array[1:]
    part[0] = 100
    return array, part


def computed(x):
    array = x.numpy()
    return array + 1, array * 2, -array, array.sum(), array.max(), np.exp(array), np.maximum(array, 1)


def ambiguous(x):
    if x.numpy().any():
        return x
    return -x


def formatted(x):
    return f"{x.numpy()[0]} {x.numpy()}"


@pytest.mark.parametrize("function", [written, part_written, computed, ambiguous, formatted])
def test_what_numpy_does_itself_breaks(function):
    """It shares memory, warns, and has digits of its own."""
    check(function, VECTORS, whole=False)
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.to_tensor(VECTORS[0]))


def test_exceptions_are_numpys():
    def ambiguous_array(x):
        if x.numpy() > 0:
            return x
        return -x

    translated = sot.to_static(ambiguous_array, capture_control_flow=True, min_graph_size=0)
    for function in (translated, ambiguous_array):
        with pytest.raises(ValueError, match="ambiguous"):
            function(paddle.to_tensor(VECTORS[0]))


def test_files_decide_by_items(tmp_path):
    def choose(x):
        if x.sum().numpy() > 0:
            x = x * 2
        for _ in range(x.astype("int64").numpy()[0]):
            x = x - 1
        return x

    sot.save(choose, str(tmp_path / "m"), input_spec=[InputSpec([None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for values in ([0.5, 4.0], [-3.0], [2.0, -1.0, 5.0]):
        x = paddle.to_tensor(values)
        assert shown(loaded(x))[:-1] == shown(choose(x))[:-1]


def test_items_at_places():
    def items(x):
        return x + x.item(4), x * x.item(1, 2)

    translated = sot.to_static(items, full_graph=True)
    for seed in range(3):
        paddle.seed(seed)
        x = paddle.randn([2, 3])
        assert shown(translated(x)) == shown(items(x))
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(lambda x: x.item(6), full_graph=True)(x)


def test_numbers_of_items_are_known():
    """`paddle.grad` is not captured next to a branch."""

    def gradient(x):
        y = paddle.tanh(x)
        if x.numel() > 0:
            return paddle.grad([y], [x])[0]
        return paddle.ones_like(x)

    translated = sot.to_static(gradient, full_graph=True)
    for size in (2, 3):
        x = paddle.randn([size, 2])
        x.stop_gradient = False
        assert shown(translated(x)) == shown(gradient(x))
