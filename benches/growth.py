"""First calls and settled calls of programs that grow: CPU time of one thread, each row in a process of its own.

`growth.py [ROW ...]` measures the rows whose names have one of these in them.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import statistics
import subprocess
import sys
import time

import paddle
import paddle_sot_rs as sot
from paddle import nn


class Rounds(nn.Layer):
    """A loop over an LSTM cell, which unrolls."""

    def __init__(self, count: int):
        super().__init__()
        self.cell, self.count = nn.LSTMCell(8, 8), count

    def forward(self, x):
        h = c = paddle.zeros([x.shape[0], 8])
        for _ in range(self.count):
            out, (h, c) = self.cell(x, (h, c))
        return out


class Operators(nn.Layer):
    """Small operators in a row."""

    def __init__(self, count: int):
        super().__init__()
        self.count = count

    def forward(self, x):
        for at in range(self.count // 2):
            x = (x + 0.5) * (0.5 + at % 7 / 16)
        return x


def encoder(layers: int) -> nn.Layer:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0), layers)


# A network of so many pieces, the shape of its input, and how many pieces are measured.
ROWS = {
    "layers of an encoder": (encoder, [2, 16, 64], (6, 24)),
    "rounds of an LSTM cell": (Rounds, [2, 8], (100, 400)),
    "small operators": (Operators, [64], (400, 4000)),
}
KINDS = ("inference", "training")
CALLS = 30


def measure(name: str, count: int, kind: str) -> None:
    """Prints the first, the second and a settled call in ms, and one of eager mode."""
    paddle.seed(0)
    make, shape, _ = ROWS[name]
    network, x = make(count), paddle.randn(shape)
    network.train() if kind == "training" else network.eval()
    if kind == "training":
        x.stop_gradient = False

    def timed(called) -> float:
        start = time.process_time()
        if kind == "training":
            called(x).mean().backward()
        else:
            with paddle.no_grad():
                called(x)
        spent = time.process_time() - start
        network.clear_gradients()
        return spent * 1e3

    for _ in range(3):
        timed(network)
    # What a process loads once.
    warm = nn.Linear(4, 4)
    sot.to_static(warm, min_graph_size=0)(paddle.randn([2, 4])).mean().backward()
    translated = sot.to_static(make(count))
    translated.set_state_dict(network.state_dict())
    translated.train() if kind == "training" else translated.eval()
    first, second = timed(translated), timed(translated)
    pairs = [(timed(translated), timed(network)) for _ in range(CALLS)]
    settled, eager = (statistics.median(side) for side in zip(*pairs[5:], strict=True))
    print(first, second, settled, eager)


def rows() -> None:
    """The first two calls: the program is made at the second."""
    wanted = sys.argv[1:] if __name__ == "__main__" else []
    print("\n| large programs | first call | first two calls | settled | eager | settled / eager |\n|" + "---|" * 6)
    for name, (_, _, counts) in ROWS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        for kind in KINDS:
            for count in counts:
                command = [sys.executable, __file__, "--measure", name, str(count), kind]
                result = subprocess.run(command, capture_output=True, text=True, check=True)
                first, second, settled, eager = map(float, result.stdout.split()[-4:])
                cells = (f"{first:.0f} ms", f"{first + second:.0f} ms", f"{settled:.2f} ms", f"{eager:.2f} ms")
                print(f"| {count} {name}, {kind} | " + " | ".join(cells) + f" | {settled / eager:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        rows()
