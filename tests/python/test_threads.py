"""Other threads: training in eager mode during translations, and one function called from many."""

import os
import threading
import time

import numpy as np
import paddle
import paddle_sot_rs as sot
from paddle import nn

SECONDS = float(os.environ.get("PADDLE_SOT_THREAD_TEST_SECONDS", "5"))


def in_threads(*bodies):
    errors = []

    def guarded(body):
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_another_thread_trains_in_eager_mode_while_this_one_translates():
    end = time.monotonic() + SECONDS
    rounds = {"eager": 0, "translated": 0}

    def eager():
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
        while time.monotonic() < end:
            x = paddle.ones([3, 4]) * paddle.arange(4).astype("float32")
            loss = (net(x) - paddle.zeros([3, 1])).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            assert np.isfinite(float(loss))
            rounds["eager"] += 1

    def translate():
        x = paddle.randn([3, 4])
        while time.monotonic() < end:
            net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Linear(4, 4))
            net.eval()
            expected = net(x)
            assert np.allclose(expected.numpy(), sot.to_static(net, min_graph_size=0)(x).numpy(), 1e-5, 1e-6)
            rounds["translated"] += 1

    in_threads(eager, translate)
    assert rounds["eager"] > 20 and rounds["translated"] > 5


def test_one_function_from_eight_threads():
    @sot.to_static(min_graph_size=0)
    def f(x, k):
        y = x * k + 1
        if y.sum() > 0:
            return y
        return -y

    def body(k):
        def run():
            x = paddle.full([4], float(k) - 3.5)
            for _ in range(50):
                y = x.numpy() * k + 1
                assert np.allclose(f(x, k).numpy(), y if y.sum() > 0 else -y)

        return run

    in_threads(*[body(k) for k in range(8)])
