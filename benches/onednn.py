"""Inference on oneDNN: the backend `onednn` and `freeze` beside eager mode and Paddle's predictor."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import paddle
import paddle_sot_rs as sot
from paddle import nn

SIDES = ("onednn", "frozen", "eager", "paddle", "predictor, oneDNN")


class Chain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(768)

    def forward(self, x):
        for _ in range(4):
            x = nn.functional.silu(nn.functional.gelu(self.norm(x)))
        return x


NETWORKS = {
    "resnet50": (paddle.vision.models.resnet50, [1, 3, 224, 224]),
    "mobilenet_v3_small": (paddle.vision.models.mobilenet_v3_small, [1, 3, 224, 224]),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0), 4), [1, 128, 256]),
    "chain": (Chain, [32, 128, 768]),
    "mobilenet_v2": (paddle.vision.models.mobilenet_v2, [1, 3, 224, 224]),
    "shufflenet_v2": (paddle.vision.models.shufflenet_v2_x1_0, [1, 3, 224, 224]),
    "resnet18": (paddle.vision.models.resnet18, [1, 3, 224, 224]),
    "a Linear of 8x8": (lambda: nn.Linear(8, 8), [1, 8]),
}


def predictor(network, x):
    """A call of Paddle's predictor with its oneDNN passes, one thread."""
    from paddle import inference

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "network")
        paddle.jit.save(network, path, input_spec=[paddle.static.InputSpec(x.shape, "float32")])
        config = inference.Config(path + ".json", path + ".pdiparams")
        config.disable_glog_info()
        config.set_cpu_math_library_num_threads(1)
        config.enable_mkldnn()
        made = inference.create_predictor(config)
    given = made.get_input_handle(made.get_input_names()[0])
    answer = made.get_output_handle(made.get_output_names()[0])
    numbers = x.numpy()

    def run():
        given.copy_from_cpu(numbers)
        made.run()
        return answer.copy_to_cpu()

    return run


def measure(name: str, rounds: int = 15) -> None:
    """Prints the median milliseconds of each side, which take turns, and the largest difference from eager mode."""
    make, shape = NETWORKS[name]
    paddle.seed(0)
    network, x = make(), paddle.randn(shape)
    network.eval()
    # Short calls are timed many at once.
    calls_at_once = 1 if x.size > 1000 else 200
    translated = {backend: sot.to_static(type(network).forward, backend=backend) for backend in ("onednn", "paddle")}
    frozen = sot.freeze(network, [(x,)])
    calls = {
        "onednn": lambda: translated["onednn"](network, x),
        "frozen": lambda: frozen(x),
        "eager": lambda: network(x),
        "paddle": lambda: translated["paddle"](network, x),
        "predictor, oneDNN": predictor(network, x),
    }
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    with paddle.no_grad():
        found, expected = (np.asarray(calls[side]()) for side in ("onednn", "eager"))
        for call in calls.values():
            call()
        for _ in range(rounds):
            for side in SIDES:
                start = time.perf_counter()
                for _ in range(calls_at_once):
                    calls[side]()
                times[side].append((time.perf_counter() - start) * 1e3 / calls_at_once)
    print(*(statistics.median(times[side]) for side in SIDES), np.abs(found - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    measure(sys.argv[1])
