"""A custom `PyLayer` inside of a translated network: training, and export with a dynamic batch.

Run it with:  python examples/cus_tanh.py

The user's `forward` and `backward` are captured from byte code and become one operator, `static_pylayer`, of one graph.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import paddle
import paddle_sot_rs as sot
from paddle import nn
from paddle.autograd import PyLayer
from paddle.static import InputSpec

STEPS = 10


class cus_tanh(PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = paddle.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        return dy * (1 - paddle.square(y))


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        return cus_tanh.apply(self.linear(x)).mean()


def main():
    paddle.seed(2026)
    eager, translated = Net(), Net()
    translated.set_state_dict(eager.state_dict())
    sot.to_static(translated, backend="pylayer", full_graph=True)
    networks = (eager, translated)
    optimizers = [paddle.optimizer.SGD(0.1, parameters=net.parameters()) for net in networks]
    equal = True
    for step in range(STEPS):
        x = paddle.randn([16, 4])
        losses = []
        for net, optimizer in zip(networks, optimizers, strict=True):
            loss = net(x)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        pairs = zip(eager.parameters(), translated.parameters(), strict=True)
        same = losses[0] == losses[1] and all(bool((a == b).all()) for a, b in pairs)
        equal &= same
        print(f"step {step}: loss {losses[1]:+.6f}  {'equal to eager' if same else f'eager has {losses[0]:+.6f}'}")
    stats = sot.stats(translated)
    print(f"sub-graphs: {stats.graphs}, graph breaks: {len(stats.graph_breaks)}")
    (graph,) = translated.forward.graphs()
    print(graph.ir)

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cus_tanh")
        sot.save(translated, path, input_spec=[InputSpec([-1, 4], "float32", "x")])
        loaded = paddle.jit.load(path)
        for batch in (1, 3, 32):
            x = paddle.randn([batch, 4])
            equal &= np.allclose(loaded(x).numpy(), eager(x).numpy(), rtol=1e-6, atol=1e-7)
    print(f"saved, loaded and run with batches of 1, 3 and 32: {'equal' if equal else 'DIFFERENT'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
