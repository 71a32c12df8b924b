"""Every network of the zoo under every backend, against plain Python: the table of `docs/backends.md`.

`python benches/backends_table.py [network ...]` measures (all networks without arguments) and rewrites the table.
`--quick` takes the networks of the test suite, `--backend NAME` one backend. Rows that are not measured stay as they
are. Results so far are kept in `--results FILE`, one JSON line each, so that a run can be continued.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

BACKENDS = ("eager", "paddle", "pylayer", "cinn")
DOCUMENT = ROOT / "docs" / "backends.md"
BEGIN, END = "<!-- table: benches/backends_table.py -->", "<!-- end of the table -->"
# Rounds in which each runs once: enough for a median, within a time.
ROUNDS, SECONDS = 200, 8.0


def steady(static: Any, eager: Any) -> tuple[float, float]:
    """Median milliseconds of `static`, and the median of how many times longer `eager` took in the same round.

    Rounds are short, so what else the machine does slows both of one down; who goes first changes from round to round.
    """
    times: list[float] = []
    ratios: list[float] = []
    end = time.perf_counter() + SECONDS
    for number in range(ROUNDS):
        taken = {}
        for call in (static, eager) if number % 2 else (eager, static):
            start = time.perf_counter()
            call()
            taken[call] = time.perf_counter() - start
        times.append(taken[static] * 1e3)
        ratios.append(taken[eager] / taken[static])
        if number >= 4 and time.perf_counter() > end:
            break
    return statistics.median(times), statistics.median(ratios)


def measured(static: Any, calls: dict[str, Any], difference: float | None) -> dict[str, Any]:
    import paddle_sot_rs as sot

    calls["eager"]()
    start = time.perf_counter()
    calls["static"]()
    first = (time.perf_counter() - start) * 1e3
    calls["static"]()
    milliseconds, ratio = steady(calls["static"], calls["eager"])
    record = sot.stats(static)
    return {
        "difference": difference,
        "graphs": record.graphs,
        "breaks": len(record.graph_breaks),
        "fallbacks": len(record.fallbacks),
        "first": first,
        "steady": milliseconds,
        "ratio": ratio,
    }


def one(name: str, backend: str) -> dict[str, Any]:
    import paddle
    import paddle_sot_rs as sot
    import zoo

    network = next(network for network in zoo.NETWORKS if network.name == name)

    def wrap(net):
        # Every graph is compiled, however small: the backends are what is compared.
        return sot.to_static(net, backend=backend, min_graph_size=0)

    # Imports, and what Paddle makes at first use, are no part of a first call.
    wrap(lambda x: x * 2 + 1)(paddle.ones([2]))
    answer: dict[str, Any] = {"network": name, "backend": backend}

    eager, static, inputs = zoo.pair(network, wrap)
    calls = {"eager": lambda: zoo.infer(eager, inputs), "static": lambda: zoo.infer(static, inputs)}
    answer["inference"] = measured(static, calls, None)
    answer["inference"]["difference"] = zoo.difference(calls["eager"](), calls["static"]())

    eager, static, inputs = zoo.pair(network, wrap)

    def step(net):
        net.train()
        sum((output**2).mean() for output in zoo.outputs_of(net(*inputs))).backward()
        net.clear_gradients()

    answer["training"] = measured(static, {"eager": lambda: step(eager), "static": lambda: step(static)}, None)
    answer["training"] |= gradients(network, wrap)
    return answer


def gradients(network: Any, wrap: Any) -> dict[str, Any]:
    """How far gradients and running statistics differ after one step, in double precision where eager mode can."""
    import paddle
    import zoo

    for precision in ("float64", "float32"):
        # Some networks cannot be made in double precision, but converted.
        paddle.set_default_dtype("float32")
        eager, static, inputs = zoo.pair(network, wrap)
        try:
            if precision == "float64":
                for net in (eager, static):
                    net.to(dtype=precision)
                inputs = [value.astype(precision) if value.dtype == paddle.float32 else value for value in inputs]
                paddle.set_default_dtype(precision)
            expected = zoo.one_step(eager, inputs)
        except (RuntimeError, ValueError, TypeError):
            continue
        return {"difference": zoo.relative_difference(expected, zoo.one_step(static, inputs)), "precision": precision}
    return {"difference": None, "precision": "-"}


def cells(part: dict[str, Any]) -> list[str]:
    difference = part["difference"]
    equal = "-" if difference is None else "exactly" if difference == 0 else f"{difference:.0e}"
    if part.get("precision") == "float32":
        equal += " (single)"
    breaks = f"{part['graphs']} / {part['breaks']}"
    if part["fallbacks"]:
        breaks += f" ({part['fallbacks']} fallbacks)"
    return [equal, breaks, f"{part['first']:.0f}", f"{part['steady']:.1f} ({part['ratio']:.2f})"]


def rows_so_far() -> dict[tuple[str, str], str]:
    """The rows of the table as it is."""
    text = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return {(name.strip(), backend.strip()): row for row in rows for _, name, backend, *_ in [row.split("|")]}


def table(results: list[dict[str, Any]], networks: list[str]) -> str:
    import paddle

    before = rows_so_far()
    done = {(result["network"], result["backend"]): result for result in results}
    kinds = ("inference", "training")
    titles = [f"{kind}: {title}" for kind in kinds for title in ("equal", "graphs / breaks", "first", "steady")]
    known = {name for name, _ in [*done, *before] if name in networks}
    lines = [
        f"Paddle {paddle.__version__}, CPython {platform.python_version()}, CPU. "
        f"{len(known)} of {len(networks)} networks measured.",
        "",
        "| network | backend | " + " | ".join(titles) + " |",
        "|---|---|" + "---|" * len(titles),
    ]
    for name in networks:
        for backend in BACKENDS:
            result = done.get((name, backend))
            if result is None:
                lines += [before[name, backend]] if (name, backend) in before else []
                continue
            if "failed" in result:
                lines.append(f"| {name} | {backend} | {result['failed']} |" + " |" * (len(titles) - 1))
                continue
            row = [cell for kind in kinds for cell in cells(result[kind])]
            lines.append(f"| {name} | {backend} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def write(text: str) -> None:
    document = DOCUMENT.read_text()
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def measure(name: str, backend: str) -> dict[str, Any]:
    # A process of its own: a crash of one network must not hide the others, and first calls are
    # first.
    command = [sys.executable, __file__, "--one", name, backend]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in run.stdout.splitlines():
        if line.startswith("{"):
            return json.loads(line)
    why = run.stderr.strip().splitlines()[-1:] or [f"exit code {run.returncode}"]
    return {"network": name, "backend": backend, "failed": f"failed: {why[0][:80]}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "BACKEND"))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(*given.one)), flush=True)
        return
    import zoo

    names = [network.name for network in zoo.NETWORKS]
    wanted = given.networks or [network.name for network in zoo.NETWORKS if network.quick or not given.quick]
    results = []
    if given.results and given.results.exists():
        results = [json.loads(line) for line in given.results.read_text().splitlines()]
    known = {(result["network"], result["backend"]) for result in results}
    for name in wanted:
        for backend in [given.backend] if given.backend else BACKENDS:
            if (name, backend) in known:
                continue
            results.append(measure(name, backend))
            print(json.dumps(results[-1]), flush=True)
            if given.results:
                with given.results.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    write(table(results, names))


if __name__ == "__main__":
    main()
