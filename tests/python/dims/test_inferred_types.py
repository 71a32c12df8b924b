"""Operations whose results Paddle infers otherwise in a program than eager mode makes them: the graph knows the right
type. With them the functions of Paddle that ask which mode it is, and rows in their reverse order."""

import paddle
import pytest
from harness import Programs, check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

programs = Programs()
SQUARE = paddle.to_tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], stop_gradient=False)
BATCH = paddle.stack([SQUARE, SQUARE * 2]).detach()
BATCH.stop_gradient = False
TALL = tensor(4, 3, grad=True)
SIGNAL, LONG = tensor(2, 256, grad=True), tensor(256, grad=True)
WINDOW = paddle.audio.functional.get_window("hann", 64, dtype="float32")


@programs(SQUARE, graphs=1, breaks=0)
@programs(BATCH, graphs=1, breaks=0)
def determinants(x):
    sign, log = paddle.linalg.slogdet(x)
    return sign, log, paddle.linalg.slogdet(x) * 2


@programs(SQUARE, graphs=1, breaks=0)
@programs(BATCH, graphs=1, breaks=0)
@programs(TALL, graphs=1, breaks=0)
def singular_values(x):
    return paddle.linalg.svdvals(x).sum(-1)


@programs(SQUARE, graphs=1, breaks=0)
@programs(BATCH, graphs=1, breaks=0)
@programs(TALL, graphs=1, breaks=0)
def ranks(x):
    rank = paddle.linalg.matrix_rank(x)
    strict = paddle.linalg.matrix_rank(x, tol=0.5)
    return rank, rank + strict, rank.astype("float32") * x.sum(), paddle.linalg.matrix_rank(x, atol=0.1, rtol=0.1)


@programs(SQUARE, SQUARE, graphs=1, breaks=0, close=True)
@programs(BATCH, BATCH, graphs=1, breaks=0, close=True)
@programs(TALL, TALL, graphs=1, breaks=0, close=True)
def least_squares(x, y):
    """LAPACK's last digits depend on where its memory lies."""
    solution, residuals, rank, values = paddle.linalg.lstsq(x, y)
    return solution, rank, rank + 1, residuals


@programs(TALL, TALL, graphs=1, breaks=0, close=True)
def least_squares_by_another_driver(x, y):
    return paddle.linalg.lstsq(x, y, driver="gelsd")[0] * 2


@programs(SQUARE, graphs=1, breaks=0)
def equal(x):
    same = paddle.equal_all(x, x * 1)
    return same, ~same, same.astype("float32") + x


@programs(SIGNAL, WINDOW, graphs=1, breaks=0)
def spectra(x, window):
    spectrum = paddle.signal.stft(x, n_fft=64, hop_length=16, window=window)
    return spectrum.abs(), paddle.signal.stft(x, 64, center=False, onesided=False).real()


@programs(LONG, graphs=1, breaks=0)
def spectrum_of_one(x):
    return paddle.signal.stft(x, 64, normalized=True).abs()


@programs(SIGNAL, WINDOW, breaks=1)
def there_and_back(x, window):
    """It looks whether the window leaves gaps."""
    spectrum = paddle.signal.stft(x, n_fft=64, hop_length=16, window=window)
    return paddle.signal.istft(spectrum * 2, n_fft=64, hop_length=16, window=window)


@programs(LONG, graphs=None)
def a_signal_that_is_too_short(x):
    return paddle.signal.stft(x, 512)


@programs(SIGNAL, graphs=1, breaks=0)
def rank_of_a_tensor(x):
    return paddle.rank(x), x + paddle.rank(x).astype("float32")


@programs(TALL, graphs=1, breaks=0)
def rows_reversed(x):
    rows = reversed(x)
    first = next(rows)
    return first, [row * 2 for row in rows], next(rows, None), paddle.stack(list(reversed(x)))


@programs(TALL, breaks=2)
def rows_reversed_behind_a_break(x):
    rows = reversed(x * 2)
    first = next(rows)
    return first * float(first.sum()), list(rows)


@programs(TALL)
def rows_reversed_while_they_change(x):
    y = x.detach() * 2
    rows = reversed(y)
    first = next(rows)
    y[0] = 7.0
    return [first, *rows]


@programs(paddle.to_tensor(1.0))
def no_rows(x):
    return list(reversed(x))


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("function, args, takes", programs)
def test_results(function, args, takes, backend):
    # `cinn` leaves dims that the numbers decide to eager mode.
    takes = {} if backend == "cinn" else takes
    takes = {"close": backend == "cinn", "fallbacks": None, **takes}
    check(function, *args, backend=backend, **takes)
