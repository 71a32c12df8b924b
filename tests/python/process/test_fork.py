"""Processes that are forked after graphs ran: workers of a DataLoader, for one. Threads of the parent are not there."""

import subprocess
import sys
import textwrap

import pytest

FORKED = """
    import os, signal, sys, warnings
    import numpy as np
    import paddle
    import paddle_sot_rs as sot

    def unrolled(x):
        y = x
        for _ in range(20):
            y = (y * 1.01 + x).tanh()
        return y.sum()

    def looped(x):
        at, y = paddle.zeros([1]), x
        while at.sum() < 5:
            at, y = at + 1, (y * 1.1).tanh()
        return y.sum()

    network = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.BatchNorm2D(8), paddle.nn.ReLU())

    def convolved(x):
        return network(x.reshape([-1, 3, 8, 8])).mean()

    function = {"unrolled": unrolled, "looped": looped, "convolved": convolved}[sys.argv[1]]
    translated = sot.to_static(function, full_graph=True, min_graph_size=0)
    x = paddle.linspace(-1, 1, 192 * 40)
    x.stop_gradient = sys.argv[2] == "inference"

    def step():
        result = translated(x)
        if x.stop_gradient:
            return float(result)
        x.clear_gradient()
        result.backward()
        return float(result), x.grad.numpy().tolist()[:5]

    network.eval()
    expected = [step() for _ in range(3)][-1]
    warnings.simplefilter("ignore")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if step() == expected else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert step() == expected
    assert sot.stats(translated).graphs == 1
"""

LOADED = """
    import sys
    import numpy as np
    import paddle
    import paddle_sot_rs as sot

    @sot.to_static(min_graph_size=0)
    def prepared(x):
        return (x * 2 + 1).tanh()

    class Numbers(paddle.io.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, at):
            return prepared(paddle.full([4], float(at))).numpy()

    first = Numbers()[3]
    loaded = [batch[0].numpy() if isinstance(batch, list) else batch.numpy()
              for batch in paddle.io.DataLoader(Numbers(), batch_size=3, num_workers=2)]
    assert (np.concatenate(loaded)[3] == first).all()
    assert (np.concatenate(loaded) == np.stack([Numbers()[at] for at in range(12)])).all()
"""


def _runs(script, *arguments):
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments], capture_output=True, text=True, timeout=180
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize("how", ["inference", "training"])
@pytest.mark.parametrize("what", ["unrolled", "looped", "convolved"])
def test_a_graph_that_ran_runs_in_a_forked_process(what, how):
    _runs(FORKED, what, how)


def test_workers_of_a_data_loader_call_translated_functions():
    _runs(LOADED)


MEANWHILE = """
    import gc, os, signal, sys, threading, warnings
    import paddle
    import paddle_sot_rs as sot

    def doubled(x):
        return paddle.nn.functional.relu(x) * 2

    x = paddle.to_tensor([1.0, -2.0])
    # What is made once in a process is there: see docs/differences.md.
    sot.to_static(doubled, min_graph_size=0)(x)
    inside, forked = threading.Event(), threading.Event()
    activation = sys.modules["paddle.nn.functional.activation"]
    asked = activation.in_dynamic_or_pir_mode

    def wait():
        inside.set()
        forked.wait(TIMEOUT)

    def ask():
        # In static mode an operation is traced.
        if not paddle.in_dynamic_mode():
            wait()
        return asked()

    def compiler(ir, metas):
        wait()
        return lambda *inputs: [doubled(inputs[0])]

    backend = sys.argv[1]
    if backend == "paddle":
        activation.in_dynamic_or_pir_mode = ask
    else:
        # Between two operations.
        sot.register_backend(backend)(compiler)

    def translate():
        sot.to_static(doubled, min_graph_size=0, backend=backend)(x)

    thread = threading.Thread(target=translate)
    thread.start()
    inside.wait()
    warnings.simplefilter("ignore")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        activation.in_dynamic_or_pir_mode = asked
        assert gc.isenabled() and not hasattr(sys, "tracebacklimit")
        result = sot.to_static(lambda x: doubled(x) + 1, min_graph_size=0)(x)
        os._exit(0 if result.tolist() == [3.0, 1.0] else 3)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_process_that_is_forked_while_another_thread_traces_an_operation_translates():
    # The fork waits for the end of the operation, which waits for a second of its own.
    _runs(MEANWHILE.replace("TIMEOUT", "1"), "paddle")


def test_a_process_that_is_forked_while_another_thread_translates_does_so_too():
    _runs(MEANWHILE.replace("TIMEOUT", "None"), "waiting")


HELD = """
    import os, signal, threading, warnings
    import paddle
    import paddle_sot_rs as sot

    handler = lambda number, frame: None
    signal.signal(signal.SIGUSR1, handler)
    inside, forked = threading.Event(), threading.Event()
    statuses = []

    def compiler(ir, metas):
        inside.set()
        forked.wait()
        return lambda *inputs: [inputs[0] * 2]

    def fork():
        inside.wait()
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            os._exit(0 if signal.getsignal(signal.SIGUSR1) is handler else 3)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        forked.set()

    sot.register_backend("waiting")(compiler)
    thread = threading.Thread(target=fork)
    thread.start()
    sot.to_static(lambda x: x * 2, min_graph_size=0, backend="waiting")(paddle.ones([2]))
    thread.join()
    assert statuses == [0]
    assert signal.getsignal(signal.SIGUSR1) is handler
"""


def test_a_process_that_is_forked_while_the_main_thread_translates_has_its_handlers_of_signals():
    _runs(HELD)


MANY = """
    import os, signal, warnings
    import paddle
    import paddle_sot_rs as sot

    def step(function):
        x = paddle.ones([3])
        x.stop_gradient = False
        function(x).sum().backward()
        return x.grad.tolist()

    first = sot.to_static(lambda x: (x * 3).tanh(), min_graph_size=0)
    for _ in range(3):
        expected = step(first)
    warnings.simplefilter("ignore")
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        # More than executors are kept for, where they can be dropped.
        for number in range(150):
            step(sot.to_static(eval(f"lambda x: x * {number}"), min_graph_size=0))
        os._exit(0 if step(first) == expected else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert step(first) == expected
"""


def test_a_forked_process_has_many_graphs():
    # Who drops an executor of the parent waits for its threads, which are not there.
    _runs(MANY)
