"""Calls of ours nest on the C stack, where those of plain Python do not. Each runs in a process that may die."""

import subprocess
import sys
import textwrap

import pytest

START = """
import sys, threading
import paddle
import paddle_sot_rs as sot

sys.setrecursionlimit(1_000_000)
x = paddle.ones([2])


def in_a_thread(kibibytes, body):
    errors = []

    def run():
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threading.stack_size(kibibytes << 10)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def settled(function, *args):
    translated = sot.to_static(function)
    for _ in range(100):
        translated(*args)
    return translated
"""


def run(code):
    script = START + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.split()


@pytest.mark.parametrize("breaks", ["", "sot.graph_break()"])
@pytest.mark.parametrize("kibibytes", [256, 8192])
def test_functions_that_call_themselves(breaks, kibibytes):
    found = run(f"""
    def count(x, again, n):
        {breaks}
        return again(x + 1, again, n - 1) if n else x

    def body():
        translated = settled(count, x, count, 0)
        print(translated(x, translated, 5000).tolist() == [5001.0] * 2)

    in_a_thread({kibibytes}, body)
    """)
    assert found == ["True"]


def test_plain_functions_below_one_that_breaks():
    """The hook sees them, and Python nests there as well while it is installed."""
    found = run("""
    def count(x, n):
        return count(x + 1, n - 1) if n else x

    def outer(x):
        sot.graph_break()
        return list(map(count, [x], [3000]))[0] * 2

    in_a_thread(256, lambda: print(sot.to_static(outer)(x).tolist() == [6002.0] * 2))
    """)
    assert found == ["True"]


def test_translations_of_nested_calls():
    """One graph of forty functions that are inlined in one another, on a stack that has no room for them."""
    found = run("""
    functions = [lambda x: x + 1]
    for _ in range(40):
        functions.append(lambda x, inner=functions[-1]: inner(x) * 1.0)

    def body():
        translated = sot.to_static(functions[-1], min_graph_size=0)
        print(translated(x).tolist() == [2.0] * 2, sot.stats(translated).graphs, sot.stats(translated).graph_breaks)

    in_a_thread(256, body)
    """)
    assert found == ["True", "1", "[]"]


def test_endless_recursion_raises():
    found = run("""
    sys.setrecursionlimit(1000)

    def forever(x, again):
        return again(x + 1, again)

    def body():
        translated = sot.to_static(forever)
        for _ in range(3):
            try:
                translated(x, translated)
            except RecursionError:
                print("raised")

    in_a_thread(256, body)
    """)
    assert found == ["raised"] * 3


def test_gradients_of_deep_calls():
    found = run("""
    def count(x, again, n):
        return again(x * 1.0, again, n - 1) if n else x.sum()

    def body():
        translated = settled(count, x, count, 0)
        y = paddle.ones([2])
        y.stop_gradient = False
        translated(y, translated, 300).backward()
        print(y.grad.tolist() == [1.0] * 2)

    in_a_thread(1024, body)
    """)
    assert found == ["True"]
