"""One function called from many threads."""

import threading

import numpy as np
import paddle
import paddle_sot_rs as sot


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
