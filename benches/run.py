"""Side by side in one run: eager, Paddle's SOT and AST modes, and ours. Medians, and ratios to ours."""

import contextlib
import functools
import itertools
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("MIN_GRAPH_SIZE", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))

import growth
import paddle
import paddle_sot_rs as sot
import whole_steps
from paddle_sot_rs import blas

MODES = {
    "ours": lambda f: sot.to_static(f, min_graph_size=0),
    "eager": lambda f: f,
    "paddle SOT": lambda f: paddle.jit.to_static(f, full_graph=False),
    "paddle AST": lambda f: paddle.jit.to_static(f, full_graph=True),
}


@contextlib.contextmanager
def as_installed():
    """The others' executors are made with the flag that ours change at its default."""
    flag = "FLAGS_eager_delete_tensor_gb"
    before = paddle.get_flags(flag)
    paddle.set_flags({flag: 0.0})
    yield
    paddle.set_flags(before)


def interleaved(calls: dict, rounds: int, inner: int) -> dict[str, float]:
    """Median seconds per call; the modes take turns so that noise hits all of them."""
    for name, call in calls.items():
        with contextlib.nullcontext() if name == "ours" else as_installed():
            for _ in range(3):
                call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(inner):
                call()
            times[name].append((time.perf_counter() - start) / inner)
    return {name: statistics.median(values) for name, values in times.items()}


def row(title: str, times: dict[str, float]) -> None:
    ours = times["ours"]
    cells = [f"{times[name] * 1e6:.1f} us ({times[name] / ours:.2f})" if name in times else "-" for name in MODES]
    print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def add(x, y):
    return x + y


def small_operators(x, y):
    for _ in range(10):
        x = (x + y) * 0.5 - y / 3 + x
    return x


def warm() -> None:
    x, y = paddle.randn([64]), paddle.randn([64])
    for title, function in (("x + y, warm, no grad", add), ("50 elementwise operators", small_operators)):
        with paddle.no_grad():
            made = {name: wrap(function) for name, wrap in MODES.items()}
            row(title, interleaved({n: lambda f=f: f(x, y) for n, f in made.items()}, 15, 200))


def above_bare() -> None:
    """What a warm call costs above Paddle's own entry point with the same program."""
    x, y = paddle.randn([64]), paddle.randn([64])
    sot.to_static(add, min_graph_size=0)(x, y)
    backend, seen = sys.modules["paddle_sot_rs._paddle.foreign_programs"], []
    bare = backend.run_program

    def noted(*given):
        seen.append(given)
        return bare(*given)

    with paddle.no_grad():
        backend.run_program = noted
        try:
            sot.to_static(lambda x, y: x + y, min_graph_size=0)(x, y)
        finally:
            backend.run_program = bare
        ours = sot.to_static(add, min_graph_size=0)
        times = interleaved({"ours": lambda: ours(x, y), "bare": lambda: bare(*seen[-1])}, 15, 1000)
    above = (times["ours"] - times["bare"]) * 1e6
    print(f"\nx + y, warm: {above:.2f} us above a bare run_program of {times['bare'] * 1e6:.2f} us\n", flush=True)


WANTED = ("resnet18", "mobilenet_v3_small", "transformer_encoder", "lstm_classifier", "gpt_decoder", "unet")


def network(name: str, mode: str) -> None:
    """Median seconds of inference and of a training step, in this process."""
    import zoo

    known = next(network for network in zoo.NETWORKS if network.name == name)
    paddle.seed(0)
    model, inputs = MODES[mode](known.make()), known.inputs()

    def infer():
        with paddle.no_grad():
            model(*inputs)

    def step():
        loss = sum(output.mean() for output in zoo.outputs_of(model(*inputs)))
        loss.backward()
        model.clear_gradients()

    for call in (infer, step):
        model.train() if call is step else model.eval()
        for _ in range(5):
            call()
        times, end = [], time.perf_counter() + 2
        while len(times) < 30 or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


# Which kernels MKL takes where it has better ones than it takes by itself: what stands behind a
# row's title, and
# `PADDLE_SOT_NATIVE_BLAS`.
KERNELS = (("", "0"), (", native_blas()", "1")) if blas.advice() else (("", "0"),)


def networks() -> None:
    """Each mode in processes of its own, as users run them, that take turns."""
    for name in WANTED:
        times: dict[tuple[str, str, str], list[float]] = {}
        for _ in range(3):
            for mode, (kernels, native) in itertools.product(MODES, KERNELS):
                command = [sys.executable, __file__, name, mode]
                environment = {**os.environ, "PADDLE_SOT_NATIVE_BLAS": native}
                result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                for kind, seconds in zip(("inference", "training"), result.stdout.split()[-2:], strict=True):
                    times.setdefault((kind, kernels, mode), []).append(float(seconds))
        for kind, (kernels, _) in itertools.product(("inference", "training"), KERNELS):
            row(f"{name} {kind}{kernels}", {mode: statistics.median(times[kind, kernels, mode]) for mode in MODES})


def on_onednn() -> None:
    """The backend `onednn` beside Paddle's predictor, each network in a process of its own."""
    import onednn

    sides = onednn.SIDES
    print("\n| inference on oneDNN | " + " | ".join(sides) + " | largest difference |\n|" + "---|" * (len(sides) + 2))
    for name, (kernels, native) in itertools.product(onednn.NETWORKS, KERNELS):
        environment = {**os.environ, "PADDLE_SOT_NATIVE_BLAS": native}
        command = [sys.executable, onednn.__file__, name]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        *times, difference = map(float, result.stdout.split()[-len(sides) - 1 :])
        cells = (f"{value:.3g} ms ({value / times[0]:.2f})" for value in times)
        print(f"| {name}{kernels} | " + " | ".join(cells) + f" | {difference:.0e} |", flush=True)


def train_steps() -> None:
    """Paddle's AST mode takes none of them."""
    for name in whole_steps.STEPS:
        calls = {}
        for mode in ("ours", "eager", "paddle SOT"):
            step, given = whole_steps.step_of(name)
            calls[mode] = functools.partial(MODES[mode](step), *given)
        row(f"train step: {name}", interleaved(calls, 60, 5))
    for name, make in whole_steps.LOSSES.items():
        calls = {}
        for mode in ("ours", "eager", "paddle SOT"):
            loss_of, given = make()
            calls[mode] = functools.partial(_go_backward, MODES[mode](loss_of), given)
        row(f"{name}, backward", interleaved(calls, 60, 5))


def _go_backward(loss_of, given) -> None:
    loss_of(*given).backward()


def guards() -> None:
    net = sot.to_static(paddle.vision.models.resnet18())
    net.eval()
    images = paddle.randn([1, 3, 64, 64])
    with paddle.no_grad():
        net(images)
        best = min(net.forward.time_guards(2000, images) for _ in range(5))
    print(f"\nresnet18 cache lookup, all guards true: {best * 1e6:.2f} us\n", flush=True)


FIRST_CALL = """
import os, sys, time
os.environ["MIN_GRAPH_SIZE"] = "0"
import paddle, paddle_sot_rs as sot
mode, train = sys.argv[1], sys.argv[2] == "training"
net = paddle.vision.models.resnet50()
net.train() if train else net.eval()
x = paddle.randn([1, 3, 64, 64])
def run(net):
    if train:
        net(x).mean().backward()
    else:
        with paddle.no_grad():
            net(x)
for _ in range(2):
    run(net)
wrap = {"ours": sot.to_static, "eager": lambda n: n, "paddle SOT": lambda n: paddle.jit.to_static(n, full_graph=False),
        "paddle AST": lambda n: paddle.jit.to_static(n, full_graph=True)}[mode]
net = wrap(net)
start = time.perf_counter()
for _ in range(2):
    run(net)
    print(time.perf_counter() - start)
"""


def first_calls() -> None:
    for kind in ("inference", "training"):
        # The program is made at the second call.
        times: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(3):
            for name, (kernels, native) in itertools.product(MODES, KERNELS):
                environment = {**os.environ, "PADDLE_SOT_NATIVE_BLAS": native}
                command = [sys.executable, "-c", FIRST_CALL, name, kind]
                result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                one, two = result.stdout.split()[-2:]
                times.setdefault((name, kernels), []).append((float(one), float(two)))
        for (at, calls), (kernels, _) in itertools.product(enumerate(("first call", "first two calls")), KERNELS):
            medians = {name: statistics.median(pair[at] for pair in times[name, kernels]) for name in MODES}
            row(f"resnet50 {calls}, {kind}{kernels}", medians)


ONEDNN = """
import paddle
convolution = paddle.jit.to_static(paddle.nn.Conv2D(1, 1, 1), full_graph=True)
with paddle.no_grad():
    convolution(paddle.ones([1, 1, 4, 4]))
"""


def processor() -> None:
    """Which processor this is, and which kernels Paddle's libraries run on it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    environment = {**os.environ, "DNNL_VERBOSE": "1", "FLAGS_use_onednn": "1"}
    command = [sys.executable, "-c", ONEDNN]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    isa = next((line.partition("isa:")[2] for line in told.splitlines() if "cpu,isa:" in line), "not known")
    mkl = "generic, AVX2 with native_blas()" if blas.advice() else "what it takes by itself"
    print(f"Processor: {name}, {os.cpu_count()} cores. Kernels: MKL {mkl}; oneDNN {isa}.\n", flush=True)


def main() -> None:
    if sys.argv[1:]:
        return network(*sys.argv[1:])
    processor()
    print("Times, and in brackets the ratio to ours.\n")
    print("| | " + " | ".join(MODES) + " |\n|" + "---|" * (len(MODES) + 1), flush=True)
    warm()
    first_calls()
    networks()
    on_onednn()
    above_bare()
    train_steps()
    growth.rows()
    guards()


if __name__ == "__main__":
    main()
