"""What `test_collectives.py` runs in each of two processes."""

import paddle
import paddle.distributed as dist
import paddle_sot_rs as sot
from paddle import nn


def reduced(x):
    y = x * 2 + 1
    dist.all_reduce(y)
    return y * 3


def largest(x):
    y = x * 2
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    return y - x


def gathered(x):
    y, parts = x * 2, []
    dist.all_gather(parts, y)
    return paddle.concat(parts) * 2


def sent(x):
    y = x * dist.get_rank()
    dist.broadcast(y, src=1)
    return y + 1


def waits(x):
    y = x * 2
    dist.barrier()
    return y / dist.get_world_size()


def summed_at_one(x):
    y = x * 2
    dist.reduce(y, dst=0)
    return y - x


def objects(x):
    y, found = x * 2, []
    dist.all_gather_object(found, {"rank": dist.get_rank(), "shape": list(x.shape)})
    return y * sum(each["rank"] + 1 for each in found)


def objects_of_one(x):
    y, found = x * 2, [dist.get_rank()]
    dist.broadcast_object_list(found, src=1)
    return y + found[0]


def average(y):
    dist.all_reduce(y, sync_op=True)
    y.scale_(1 / dist.get_world_size())


def in_a_callee(x):
    y = x * 2
    average(y)
    return y * 3


def breaks(translated):
    return [each.message for each in sot.stats(translated).graph_breaks]


def check_collectives():
    names = {reduced: "all_reduce", largest: "all_reduce", gathered: "all_gather", sent: "broadcast", waits: "barrier"}
    names |= {summed_at_one: "reduce", objects: "all_gather_object", objects_of_one: "broadcast_object_list"}
    names[in_a_callee] = "all_reduce"
    for function, name in names.items():
        translated = sot.to_static(function, min_graph_size=0)
        for step in range(3):
            x = paddle.arange(4.0) * (dist.get_rank() + 1) + step
            assert translated(x).equal_all(function(x)), name
        assert breaks(translated) == [f"{name}() is for several processes"], breaks(translated)
        assert sot.stats(translated).graphs == 2, name


# Rounds go on behind a break in a loop: in later calls nothing is simulated again.
def check_rounds():
    def function(x):
        for at in range(3):
            x = x * 2 + at
            dist.all_reduce(x)
        return x / 8

    translated = sot.to_static(function, min_graph_size=0)
    made = []
    for step in range(3):
        x = paddle.arange(4.0) * (dist.get_rank() + 1) + step
        assert translated(x).equal_all(function(x))
        made.append(sot.stats(translated).translations)
    assert made == made[:1] * 3
    assert "all_reduce() is for several processes" in breaks(translated)


# What raises behind a collective does not do it again: the other process has gone on.
def check_what_raises_behind():
    def function(x, at):
        y = x * 2
        dist.all_reduce(y)
        return paddle.gather(y, at)

    def outcome(call, at):
        try:
            return call(paddle.arange(4.0), paddle.to_tensor(at)).tolist()
        except (ValueError, IndexError, RuntimeError) as error:
            return type(error)

    translated = sot.to_static(function, min_graph_size=0)
    for at in ([1, 2], [9, 9], [0, 3]):
        assert outcome(translated, at) == outcome(function, at)


def check_data_parallel():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model = paddle.DataParallel(net)

    def loss(x):
        return (model(x) ** 2).mean()

    def gradients(call):
        call(paddle.arange(8.0).reshape([2, 4]) * (dist.get_rank() + 1)).backward()
        found = [parameter.grad.numpy().tobytes() for parameter in net.parameters()]
        net.clear_gradients()
        return found

    translated = sot.to_static(loss, min_graph_size=0)
    want = gradients(loss)
    assert [gradients(translated) for _ in range(3)] == [want] * 3
    assert breaks(translated) == ["DataParallel.forward() is for several processes"]
    assert sot.stats(translated).graphs == 2


def check_sharded_tensors():
    mesh = dist.ProcessMesh([0, 1], dim_names=["x"])

    def sharded(tensor):
        return dist.shard_tensor(tensor, mesh, [dist.Replicate()])

    def function(x, y):
        return (x @ y).tanh() + 1

    translated = sot.to_static(function, min_graph_size=0)
    for step in range(3):
        x, y = paddle.arange(16.0).reshape([4, 4]) + step, paddle.ones([4, 4])
        assert translated(x, y).equal_all(function(x, y))
        found = translated(sharded(x), sharded(y))
        assert found.is_dist()
        assert (found.numpy() == function(x, y).numpy()).all()
    stats = sot.stats(translated)
    assert (stats.translations, stats.graphs, stats.graph_breaks) == (1, 1, [])
    assert [each.message for each in stats.fallbacks] == ["a sharded tensor among the arguments"]

    net = nn.Linear(4, 4)
    net.weight = sharded(net.weight)
    optimizer = dist.shard_optimizer(paddle.optimizer.SGD(0.1, parameters=net.parameters()))
    forward = sot.to_static(net.forward, min_graph_size=0)
    for _ in range(3):
        forward(sharded(paddle.ones([2, 4]))).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    assert sot.stats(forward).translations == 0


if __name__ == "__main__":
    dist.init_parallel_env()
    check_collectives()
    check_rounds()
    check_what_raises_behind()
    check_data_parallel()
    check_sharded_tensors()
    print("all of it holds", flush=True)
