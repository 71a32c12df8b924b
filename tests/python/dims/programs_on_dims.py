"""What Python computes from open dims: one program a row. All take a tensor of two open dims."""

import math
import operator
from functools import reduce

import numpy as np
import paddle
from paddle.nn import functional as F

NUMBERS = {
    "quotient": lambda x: x / x.shape[0],
    "whole quotient": lambda x: x * (x.shape[1] // 2),
    "remainder": lambda x: x + x.shape[0] % 3,
    "negative": lambda x: x + -x.shape[0],
    "sum of dims": lambda x: x * (x.shape[0] + 2 * x.shape[1] - 1),
    "product of dims": lambda x: x.reshape([x.shape[0] * x.shape[1]]),
    "square": lambda x: x * x.shape[1] ** 2,
    "root as a power": lambda x: x * x.shape[1] ** 0.5,
    "inverse root as a power": lambda x: x * (x.shape[1] + 1) ** -0.5,
    "math.sqrt": lambda x: x / math.sqrt(x.shape[1] + 1),
    "math.log2": lambda x: x * math.log2(x.shape[0] + 1),
    "math.log": lambda x: x * math.log(x.shape[0] + 1),
    "math.exp": lambda x: x * math.exp(-x.shape[0]),
    "math.floor": lambda x: x[: math.floor(x.shape[0] / 2)],
    "math.ceil": lambda x: x[: math.ceil(x.shape[0] / 2)],
    "math.gcd": lambda x: x * math.gcd(x.shape[0], x.shape[1]),
    "math.lcm": lambda x: x * math.lcm(x.shape[0], 4),
    "math.isqrt": lambda x: x[: math.isqrt(x.shape[0])],
    "math.hypot": lambda x: x * math.hypot(x.shape[0], 3),
    "math.cos": lambda x: x * math.cos(x.shape[0]),
    "math.trunc": lambda x: x + math.trunc(x.shape[0] * 0.7),
    "math.prod": lambda x: x.reshape([math.prod(x.shape)]),
    "math.comb": lambda x: x * math.comb(x.shape[0], 2),
    "round": lambda x: x[: round(x.shape[0] * 0.5)],
    "round to one digit": lambda x: x * round(x.shape[0] / 3, 1),
    "round to tens": lambda x: x * round(x.shape[0], -1),
    "abs": lambda x: x * abs(x.shape[0] - x.shape[1]),
    "int of a float": lambda x: x[:, : int(x.shape[1] * 0.5)],
    "float": lambda x: x * float(x.shape[0]),
    "bool": lambda x: x * bool(x.shape[0] - 1),
    "divmod": lambda x: x * divmod(x.shape[0], 3)[0] + divmod(x.shape[0], 3)[1],
    "min": lambda x: x[: min(x.shape[0], 3)],
    "max": lambda x: x * max(x.shape[0], x.shape[1]),
    "min of the shape": lambda x: x * min(x.shape),
    "sum of the shape": lambda x: x * sum(x.shape),
    "shifts": lambda x: x * (x.shape[0] << 1) + (x.shape[1] >> 1),
    "bits": lambda x: x * (x.shape[0] & 3) + (x.shape[1] | 1) + (x.shape[0] ^ 2),
    "bit_length": lambda x: x * x.shape[0].bit_length(),
    "size": lambda x: x.sum() / max(x.size, 1),
    "len": lambda x: x * len(x),
    "numel": lambda x: x.sum() * x.numel(),
    "comparison": lambda x: x * (x.shape[0] > x.shape[1]),
    "chain of comparisons": lambda x: x * (1 < x.shape[0] < 6),
    "and, or, not": lambda x: x * ((x.shape[0] > 2 and x.shape[1] > 2) or not x.shape[0]),
    "choice": lambda x: x * (2.0 if x.shape[0] % 2 == 0 else 3.0),
    "reduce": lambda x: x * reduce(operator.mul, x.shape, 1),
    "padding to a multiple": lambda x: F.pad(x, [0, (-x.shape[1]) % 4]),
    "clamp": lambda x: x[: max(1, min(x.shape[0] - 1, 4))],
}

OPERATIONS = {
    "slices": lambda x: x[: x.shape[0] // 2] * 2,
    "slices from the middle": lambda x: x[x.shape[0] // 2 :],
    "slices from the end": lambda x: x[:, -(x.shape[1] // 2 + 1) :],
    "steps": lambda x: x[:: x.shape[0] // 4 + 1],
    "an index": lambda x: x[x.shape[0] - 1],
    "an index of a product": lambda x: x.flatten()[x.shape[0] * x.shape[1] // 2],
    "split": lambda x: paddle.split(x, [1, x.shape[0] - 1])[1],
    "chunk": lambda x: sum(part.sum() for part in paddle.concat([x, x], 1).chunk(2, 1)),
    "split by halves": lambda x: paddle.concat(paddle.split(paddle.concat([x, x]), 2)[::-1]),
    "reshape": lambda x: x.reshape([x.shape[1], x.shape[0]]),
    "reshape with a part": lambda x: paddle.concat([x, x], 1).reshape([x.shape[0], 2, -1]),
    "expand": lambda x: x.unsqueeze(0).expand([x.shape[1], x.shape[0], x.shape[1]]),
    "tile": lambda x: paddle.tile(x, [1, x.shape[0]]),
    "arange": lambda x: paddle.arange(x.shape[1]) * (x > 0).sum(),
    "arange with bounds": lambda x: paddle.arange(1, x.shape[1] + 1, dtype="float32") * x,
    "arange with a step": lambda x: paddle.arange(0, x.shape[1] * 2, 2).astype("float32") * x,
    "gather of columns": lambda x: paddle.gather(x.unsqueeze(1), paddle.arange(x.shape[0]) * 0, 1),
    "gather of columns from the end": lambda x: x.unsqueeze(1).gather(paddle.arange(x.shape[1]) // 2, axis=-1),
    "linspace": lambda x: x * paddle.linspace(0, 1, x.shape[1]),
    "full": lambda x: paddle.full([x.shape[0], 2], x.shape[1]) * 2,
    "zeros and ones": lambda x: paddle.concat([paddle.zeros([1, x.shape[1]]), x, paddle.ones([2, x.shape[1]])]),
    "eye": lambda x: paddle.eye(x.shape[0]) @ x,
    "triangle": lambda x: paddle.tril(paddle.ones([x.shape[1], x.shape[1]])) @ x.T,
    "topk": lambda x: paddle.topk(x, min(3, x.shape[1]), 1)[0],
    "topk of half": lambda x: x.topk((x.shape[1] + 1) // 2, 1)[0],
    "one_hot": lambda x: F.one_hot(x.argmax(1), x.shape[1]),
    "pad": lambda x: F.pad(x.unsqueeze(0), [0, 8 - x.shape[1]], data_format="NCL"),
    "pad with a shape": lambda x: F.pad(x, [0, paddle.shape(x)[1]]),
    "pad all with shapes": lambda x: F.pad(x, [0, paddle.shape(x)[0], 0, 1]),
    "interpolate to a size": lambda x: F.interpolate(x[None, None], size=[x.shape[0] * 2, x.shape[1]], mode="nearest"),
    "interpolate bilinear": lambda x: F.interpolate(x[None, None], [x.shape[0] + 1, 5], mode="bilinear"),
    "pool": lambda x: F.adaptive_avg_pool1d(x[None], (x.shape[1] + 1) // 2),
    "roll": lambda x: paddle.roll(x, x.shape[0] // 2, 0),
    "gather": lambda x: paddle.gather(x, paddle.arange(x.shape[0] - 1, -1, -1)),
    "scaled product": lambda x: F.softmax(x @ x.T / math.sqrt(x.shape[-1])) @ x,
    "layer_norm": lambda x: F.layer_norm(x, [x.shape[1]]) if x.shape[1] > 1 else x,
    "mask of lengths": lambda x: x * (paddle.arange(x.shape[1]) < x.shape[0]).astype("float32"),
    "sequence_mask": lambda x: F.sequence_mask(paddle.full([2], x.shape[0]), maxlen=x.shape[0] + 1),
    "meshgrid": lambda x: sum(paddle.meshgrid(paddle.arange(x.shape[0]), paddle.arange(x.shape[1]))),
    "cumulative mean": lambda x: x.cumsum(0) / paddle.arange(1, x.shape[0] + 1, dtype="float32").unsqueeze(-1),
    "unbiased": lambda x: ((x - x.mean()) ** 2).sum() / max(x.shape[0] * x.shape[1] - 1, 1),
    "repeat_interleave": lambda x: paddle.repeat_interleave(x, x.shape[1], 0),
    "scatter": lambda x: paddle.scatter(paddle.zeros_like(x), paddle.arange(x.shape[0]), x),
    "crop": lambda x: paddle.crop(x, shape=[x.shape[0], x.shape[1] - x.shape[1] // 2], offsets=[0, 0]),
    "unfold": lambda x: F.unfold(F.pad(x[None, None], [1, 1, 1, 1]), 3).reshape([9, x.shape[0], x.shape[1]]),
    "numpy": lambda x: x * float(np.sqrt(x.shape[1])),
    "numpy.arange": lambda x: x + paddle.to_tensor(np.arange(x.shape[1]).astype("float32")),
    "to_tensor": lambda x: x * paddle.to_tensor([x.shape[0], x.shape[1]]).sum(),
    "named shape": lambda x: x.sum() * paddle.shape(x)[1],
}


def zipped(x):
    out = x
    for size, factor in zip(x.shape, (2, 3)):
        out = out + size * factor
    return out


def counted(x):
    total = paddle.zeros([x.shape[1]])
    for i in range(x.shape[0]):
        total = total * 0.5 + x[i]
    return total


def counted_in_steps(x):
    total = x.sum() * 0
    for i in range(0, x.shape[0], 2):
        total = total + x[i].sum() * (i + 1)
    return total


def nested(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total = total + x[i, j] * (i - j)
    return total


def enumerated(x):
    total = x[:1].sum() * 0
    for i, row in enumerate(x):
        total = total + row.sum() * i
    return total


def reversed_rows(x):
    state = paddle.zeros([x.shape[1]])
    for i in reversed(range(x.shape[0])):
        state = (state + x[i]).tanh()
    return state


def grown(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append(x[i] * i)
    return paddle.stack(rows)


def grown_and_joined(x):
    parts = [paddle.zeros([1, x.shape[1]])]
    for i in range(x.shape[0]):
        parts.append(x[i : i + 1] + parts[-1])
    return paddle.concat(parts)


def branch(x):
    if x.shape[0] > 3:
        return x * 2
    return x - 1


def branch_on_both(x):
    if x.shape[0] == x.shape[1]:
        return x + x.T
    elif x.shape[0] > x.shape[1]:
        return x * 2
    else:
        return x * 3


def branch_on_parity(x):
    if x.shape[1] % 2:
        x = F.pad(x, [0, 1])
    return x.reshape([x.shape[0], x.shape[1] // 2, 2]).sum(-1)


def early_return(x):
    if x.shape[0] == 0:
        return paddle.zeros([1])
    return x.max().reshape([1])


def early_return_of_a_loop(x):
    for i in range(x.shape[0]):
        if i * 2 > x.shape[1]:
            return x[i] * i
    return x[0]


def left_early(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        if i == 3:
            break
        total = total + x[i].sum()
    return total


def skipped(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        if i % 2:
            continue
        total = total + x[i].sum()
    return total


def halved(x):
    n, steps = x.shape[1], 0
    while n > 1:
        n = (n + 1) // 2
        steps += 1
    return x * steps


def doubled(x):
    n = 1
    while n < x.shape[0]:
        n *= 2
    return F.pad(x.T, [0, n - x.shape[0]]).T


def checked(x):
    assert x.shape[1] < 1000, f"too long: {x.shape[1]}"
    return x * 2


def raised(x):
    if x.shape[0] > 1000:
        raise ValueError(f"too many: {x.shape[0]}")
    return x * 2


def text(x):
    name = f"{x.shape[0]}x{x.shape[1]}"
    return x * len(name)


def text_as_a_key(x):
    table = {f"{x.shape[0]}": x * 2}
    return table[str(x.shape[0])]


def key_of_a_dict(x):
    table = {x.shape[0]: x * 2}
    return table[x.shape[0]]


def set_of_dims(x):
    return x * len({x.shape[0], x.shape[1]})


def comprehension(x):
    sizes = [size * 2 for size in x.shape]
    return paddle.ones(sizes) * sizes[0]


def comprehension_of_a_range(x):
    return paddle.stack([x[i] * i for i in range(x.shape[0])])


def generator_of_dims(x):
    return x * sum(size - 1 for size in x.shape)


def generator_of_a_range(x):
    return x * sum(i * i for i in range(x.shape[0]))


def two_generators(x):
    return x * sum(i * j for i in range(x.shape[0]) for j in range(x.shape[1]))


def any_of_dims(x):
    return x * any(size > 4 for size in x.shape) + all(size > 1 for size in x.shape)


def sorted_dims(x):
    small, large = sorted(x.shape)
    return x * (large - small)


def sorted_by_a_key(x):
    first = sorted(x.shape, key=lambda size: -size)[0]
    return x * first


def unpacked(x):
    rows, columns = x.shape
    return x.reshape([columns, rows]).T + rows


def rest(x):
    *others, last = [2, *x.shape]
    return x * sum(others) / (last + 1)


def dict_of_dims(x):
    sizes = {"rows": x.shape[0], "columns": x.shape[1]}
    sizes["both"] = sizes["rows"] * sizes["columns"]
    return x.reshape([sizes["both"]])


def list_of_dims(x):
    sizes = list(x.shape)
    sizes[0], sizes[1] = sizes[1], sizes[0]
    sizes.append(1)
    return x.reshape(sizes)


def map_of_dims(x):
    return x * max(map(lambda size: size + 1, x.shape))


def filtered_dims(x):
    return x * len([size for size in x.shape if size > 2])


def lambda_of_dims(x):
    scale = lambda n, k=2: n * k + 1  # noqa: E731
    return x * scale(x.shape[0]) + scale(x.shape[1], k=3)


def recursive(x):
    def depth(n):
        return 0 if n <= 1 else 1 + depth(n // 2)

    return x * depth(x.shape[0])


def windows(x):
    size = 2
    count = x.shape[0] // size
    return x[: count * size].reshape([count, size, x.shape[1]]).mean(1)


def position_encoding(x):
    rows, columns = x.shape
    position = paddle.arange(rows, dtype="float32").unsqueeze(1)
    rate = paddle.exp(paddle.arange(columns, dtype="float32") * (-math.log(10000.0) / columns))
    return x + paddle.sin(position * rate)


def relative_positions(x):
    n = x.shape[0]
    position = paddle.arange(n)
    distance = position[None, :] - position[:, None] + n - 1
    return paddle.gather(paddle.arange(2 * n - 1).astype("float32"), distance.flatten()).reshape([n, n]) @ x


def items_set_in_a_loop(x):
    out = x * 1
    for i in range(x.shape[0]):
        out[i] = x[i] * i
    return out


def an_item_set(x):
    out = paddle.zeros([x.shape[0] + 1, x.shape[1]])
    out[: x.shape[0]] = x
    return out


def ring(x):
    n = x.shape[0]
    return paddle.stack([x[(i + 1) % n] - x[i] for i in range(n)])


def shape_compared(x):
    y = x.T
    return x + y if x.shape == y.shape else x * 2


def shape_in(x):
    return x * (3 if x.shape[0] in (2, 4, 8) else 1)


def tuples_compared(x):
    return x * 2 if tuple(x.shape) > (3, 3) else x


STATEMENTS = {
    function.__name__: function
    for function in (
        *(zipped, counted, counted_in_steps, nested, enumerated, reversed_rows, grown, grown_and_joined),
        *(branch, branch_on_both, branch_on_parity, early_return, early_return_of_a_loop, left_early, skipped),
        *(halved, doubled, checked, raised, text, text_as_a_key, key_of_a_dict, set_of_dims, comprehension),
        *(comprehension_of_a_range, generator_of_dims, generator_of_a_range, two_generators, any_of_dims),
        *(sorted_dims, sorted_by_a_key, unpacked, rest, dict_of_dims, list_of_dims, map_of_dims, filtered_dims),
        *(lambda_of_dims, recursive, windows, position_encoding, relative_positions, items_set_in_a_loop),
        *(an_item_set, ring, shape_compared, shape_in, tuples_compared),
    )
}

PROGRAMS = {**NUMBERS, **OPERATIONS, **STATEMENTS}
