"""Trains and runs resnet18 on generated images, translated and eager side by side."""

import copy
import time

import numpy as np
import paddle
import paddle_sot_rs as sot


def seconds(call, times=1):
    start = time.perf_counter()
    for _ in range(times):
        result = call()
    return (time.perf_counter() - start) / times, result


def step(net, optimizer, images, labels):
    loss = paddle.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return float(loss)


def main() -> None:
    paddle.seed(0)
    eager = paddle.vision.models.resnet18(num_classes=10)
    static = sot.to_static(copy.deepcopy(eager))
    images, labels = paddle.randn([8, 3, 64, 64]), paddle.randint(0, 10, [8])

    for net in (eager, static):
        net.eval()
    with paddle.no_grad():
        expected = eager(images)
        first, _ = seconds(lambda: static(images))
        second, result = seconds(lambda: static(images))
        eager_time, _ = seconds(lambda: eager(images), 5)
        static_time, _ = seconds(lambda: static(images), 5)
        guard_time = static.forward.time_guards(1000, images)
    print(f"inference: equal to eager: {np.allclose(expected.numpy(), result.numpy(), 1e-5, 1e-6)}")
    print(f"  first call {first * 1e3:.0f} ms (traced), second {second * 1e3:.0f} ms (compiled), ", end="")
    print(f"then {static_time * 1e3:.1f} ms; eager {eager_time * 1e3:.1f} ms")
    print(f"  guards {guard_time * 1e6:.2f} us")

    losses = []
    for net in (eager, static):
        net.train()
        optimizer = paddle.optimizer.SGD(0.05, parameters=net.parameters())
        first, loss = seconds(lambda net=net, optimizer=optimizer: step(net, optimizer, images, labels))
        second, _ = seconds(lambda net=net, optimizer=optimizer: step(net, optimizer, images, labels))
        rest, _ = seconds(lambda net=net, optimizer=optimizer: step(net, optimizer, images, labels), 5)
        losses.append((loss, step(net, optimizer, images, labels), (first, second), rest))
    (a0, a1, _, eager_step), (b0, b1, (first, second), static_step) = losses
    same = all(
        np.allclose(a.numpy(), b.numpy(), 1e-4, 1e-5)
        for a, b in zip(eager.state_dict().values(), static.state_dict().values(), strict=True)
    )
    print(f"training: equal to eager after 8 steps: {same} (loss {a0:.4f} -> {a1:.4f}, ours {b0:.4f} -> {b1:.4f})")
    print(f"  first step {first * 1e3:.0f} ms, second {second * 1e3:.0f} ms, ", end="")
    print(f"then {static_step * 1e3:.1f} ms; eager {eager_step * 1e3:.1f} ms")

    record = sot.stats(static)
    print(f"{record.graphs} sub-graphs, {record.ops} statements, {len(record.graph_breaks)} graph breaks")
    for reason in record.graph_breaks:
        print(f"  {reason.code} {reason.file}:{reason.line}: {reason.message}")
    if advice := sot.blas.advice():
        print(advice)


if __name__ == "__main__":
    main()
