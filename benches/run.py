"""Side by side in one run: eager, Paddle's SOT and AST modes, and ours. Medians, and ratios to ours."""

import contextlib
import copy
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("MIN_GRAPH_SIZE", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))

import paddle
import paddle_sot_rs as sot

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
    bare, seen = paddle._C_ops.run_program, []

    def noted(*given):
        seen.append(given)
        return bare(*given)

    with paddle.no_grad():
        paddle._C_ops.run_program = noted
        try:
            sot.to_static(lambda x, y: x + y, min_graph_size=0)(x, y)
        finally:
            paddle._C_ops.run_program = bare
        ours = sot.to_static(add, min_graph_size=0)
        times = interleaved({"ours": lambda: ours(x, y), "bare": lambda: bare(*seen[-1])}, 15, 1000)
    above = (times["ours"] - times["bare"]) * 1e6
    print(f"\nx + y, warm: {above:.2f} us above a bare run_program of {times['bare'] * 1e6:.2f} us\n", flush=True)


WANTED = ("resnet18", "mobilenet_v3_small", "transformer_encoder", "lstm_classifier", "gpt_decoder", "unet")


def network(name: str) -> None:
    """All modes of one network, in one process."""
    import zoo

    known = next(network for network in zoo.NETWORKS if network.name == name)
    paddle.seed(0)
    net, inputs = known.make(), known.inputs()
    made = {mode: wrap(copy.deepcopy(net)) for mode, wrap in MODES.items()}
    for model in made.values():
        model.eval()
    with paddle.no_grad():
        row(f"{name} inference", interleaved({mode: lambda m=m: m(*inputs) for mode, m in made.items()}, 15, 3))

    def step(model):
        loss = sum(output.mean() for output in zoo.outputs_of(model(*inputs)))
        loss.backward()
        model.clear_gradients()

    for model in made.values():
        model.train()
    row(f"{name} training", interleaved({mode: lambda m=m: step(m) for mode, m in made.items()}, 15, 3))


def networks() -> None:
    """Each in a process of its own, as users run them: Paddle keeps the threads of every program that ever ran."""
    for name in WANTED:
        subprocess.run([sys.executable, __file__, name], stderr=subprocess.DEVNULL, check=True)


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
run(net)
print(time.perf_counter() - start)
"""


def first_calls() -> None:
    for kind in ("inference", "training"):
        times: dict[str, list[float]] = {name: [] for name in MODES}
        for _ in range(3):
            for name in MODES:
                command = [sys.executable, "-c", FIRST_CALL, name, kind]
                result = subprocess.run(command, capture_output=True, text=True, check=True)
                times[name].append(float(result.stdout.split()[-1]))
        row(
            f"resnet50 first call, {kind}",
            {name: statistics.median(values) for name, values in times.items()},
        )


def main() -> None:
    for name in sys.argv[1:]:
        network(name)
    if sys.argv[1:]:
        return
    print("Times, and in brackets the ratio to ours.\n")
    print("| | " + " | ".join(MODES) + " |\n|" + "---|" * (len(MODES) + 1), flush=True)
    warm()
    first_calls()
    networks()
    above_bare()
    guards()


if __name__ == "__main__":
    main()
