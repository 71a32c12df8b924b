"""Every network of the zoo, inference and training, against eager: equal, graphs, breaks, recompiles."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests" / "python"
sys.path.insert(0, str(TESTS))


def one(name: str) -> None:
    import paddle_sot_rs as sot
    import zoo

    network = next(network for network in zoo.NETWORKS if network.name == name)
    cells = [name]
    for run, wanted in ((zoo.infer, True), (zoo.train, network.train)):
        if not wanted:
            cells.append("-")
            continue
        eager, static, inputs = zoo.pair(network, sot.to_static)
        difference = zoo.difference(run(eager, inputs), run(static, inputs))
        run(static, inputs)
        record = sot.stats(static)
        cells.append(
            f"{difference:.1e}, {record.graphs} graphs, {len(record.graph_breaks)} breaks, "
            f"{len(record.fallbacks)} fallbacks, {len(record.recompiles)} recompiles"
        )
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        one(sys.argv[1])
        return
    import zoo

    print("| network | inference: largest difference | five training steps |\n|---|---|---|", flush=True)
    for network in zoo.NETWORKS:
        # A crash of one network must not hide the others.
        result = subprocess.run([sys.executable, __file__, network.name], stderr=subprocess.DEVNULL, check=False)
        if result.returncode:
            print(f"| {network.name} | failed with exit code {result.returncode} | |", flush=True)


if __name__ == "__main__":
    main()
