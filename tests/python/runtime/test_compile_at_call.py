"""Graphs run call by call until they are called again, and become programs then."""

import os
import resource
import signal
import sys
import threading
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from harness import apart
from paddle import nn

pytestmark = pytest.mark.default_python


def scaled(x):
    return ((x * 2 + 1).sin() - x.mean()) / (x.abs().max() + 1) * x.exp() + x.min()


def waiting(function, **settings):
    return sot.to_static(apart(function), compile_at_call=2, min_graph_size=0, **settings)


def is_program(translated, at=0):
    """Whether a graph of it is a program by now."""
    return "pd_op." in sot.report.static_function(translated).graphs()[at].program


def bits(tensor):
    return tensor.numpy().tobytes()


def test_the_second_call_compiles():
    translated, x = waiting(scaled), paddle.randn([4, 3])
    found = []
    for _ in range(3):
        assert bits(translated(x)) == bits(scaled(x))
        found.append(is_program(translated))
    assert found == [False, True, True]
    stats = sot.stats(translated)
    assert (stats.graphs, stats.translations, stats.graph_breaks, stats.fallbacks) == (1, 1, [], [])
    assert stats.seconds.backend > 0


@pytest.mark.parametrize(
    ("settings", "compiles"),
    [
        ({}, False),
        ({"compile_at_call": 1}, True),
        ({"min_graph_size": 0}, True),
        ({"full_graph": True}, True),
        ({"full_graph": True, "compile_at_call": 2}, True),
        ({"backend": "cinn"}, True),
    ],
)
def test_who_waits(settings, compiles):
    translated = sot.to_static(apart(scaled), **settings)
    translated(paddle.ones([2, 3]))
    assert is_program(translated) is compiles


def test_a_later_call():
    translated, x = sot.to_static(apart(scaled), compile_at_call=4), paddle.randn([4, 3])
    found = [translated(x) is not None and is_program(translated) for _ in range(5)]
    assert found == [False, False, False, True, True]


def test_explain_shows_the_program():
    assert "pd_op." in sot.explain(waiting(scaled))(paddle.ones([3, 2])).graphs[0].program
    other = waiting(scaled)
    other(paddle.ones([3, 2]))
    assert not is_program(other)


def test_sizes_that_do_not_come_again_are_never_compiled():
    translated = waiting(scaled)
    for rows in (2, 3, 4, 5):
        x = paddle.randn([rows, 3])
        assert bits(translated(x)) == bits(scaled(x))
    assert [is_program(translated, at) for at in (0, 1)] == [False, True]
    assert sot.stats(translated).translations == 2


def test_numbers_that_differ_do_not_wait():
    translated = waiting(lambda x, number: x * 3 / number)
    for number in (2.0, 3.0, 4.0):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        result = translated(x, number)
        result.add_(paddle.ones([2]))
        result.sum().backward()
        assert x.grad.tolist() == pytest.approx([3.0 / number] * 2)
    assert [is_program(translated, at) for at in (0, 1)] == [False, True]


def test_hooks_that_come_between_the_calls():
    x, seen = paddle.to_tensor([1.0, 2.0], stop_gradient=False), []
    translated = waiting(lambda x: (x * x).sum())
    translated(x)
    x.register_hook(lambda gradient: seen.append(gradient.stop_gradient))
    for _ in range(2):
        translated(x).backward()
    assert seen == [False, False]


def test_rounds_of_a_loop_are_calls():
    def rounds(x):
        for _ in range(4):
            x = scaled(x)
            print(end="", flush=float(x.sum()) > 1e9)
        return x

    translated, x = waiting(rounds), paddle.randn([4, 3])
    assert bits(translated(x)) == bits(rounds(x))
    programs = [is_program(translated, at) for at in range(sot.stats(translated).graphs)]
    assert len(programs) < 4
    assert programs[0] is False
    assert any(programs)


def network():
    paddle.seed(3)
    layers = nn.Conv2D(3, 4, 3, bias_attr=False), nn.BatchNorm2D(4), nn.ReLU(), nn.Dropout(0.5)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 5))


def trained(translate):
    net = network()
    call = translate(lambda x: (net(x) ** 2).mean())
    updates = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
    seen = []
    for step in range(4):
        paddle.seed(step)
        x = paddle.randn([2, 3, 6, 6])
        x.stop_gradient = False
        loss = call(x)
        loss.backward()
        grads = [it.grad for it in (x, *net.parameters())]
        seen += [bits(loss), *(None if it is None else bits(it) for it in grads)]
        updates.step()
        updates.clear_grad()
        seen += [paddle.rand([1]).item(), *(bits(it) for it in net.state_dict().values())]
    return seen, call


def test_training():
    wanted, _ = trained(lambda function: function)
    found, translated = trained(waiting)
    assert found == wanted
    assert is_program(translated)
    assert sot.stats(translated).graphs == 1


def test_side_effects_happen_once_a_call():
    log = []

    def noted(x):
        y = scaled(x)
        log.append(y.shape)
        x.add_(paddle.ones([1]))
        return y, x

    translated, x, own = waiting(noted), paddle.ones([2, 3]), paddle.ones([2, 3])
    for calls in range(1, 4):
        y, same = translated(x)
        wanted, _ = noted(own)
        assert same is x
        assert (bits(y), bits(x)) == (bits(wanted), bits(own))
        assert len(log) == 2 * calls


def test_nothing_that_was_given_stays_alive():
    translated, x = waiting(scaled), paddle.randn([4, 3])
    gone = weakref.ref(x)
    translated(x)
    del x
    assert gone() is None


def test_what_lies_between_goes():
    def long(x):
        for _ in range(60):
            x = x * 1.5 + 1
        return x.sum()

    translated, x = waiting(long), paddle.ones([1_000_000])
    long(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    translated(x)
    # 120 results of four megabytes would be there together; the unit is a kilobyte.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert not is_program(translated)


def test_errors_are_the_users():
    def indexed(x, i):
        y = scaled(x)
        return paddle.gather(y, i) + y.sum()

    translated = waiting(indexed)
    x, good, bad = paddle.randn([3, 2]), paddle.to_tensor([1]), paddle.to_tensor([7])
    for i in (good, bad, bad, good, good):
        answers = []
        for call in (indexed, translated):
            try:
                answers.append(bits(call(x, i)))
            except (ValueError, IndexError, RuntimeError) as error:
                answers.append(type(error))
        assert answers[0] == answers[1]


def test_second_gradients_of_both_kinds():
    def penalty(x):
        return (x * x * x).sum() * 2 + x.sin().mean()

    translated, found = waiting(penalty), []
    for call in (penalty, translated, translated):
        x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        first = paddle.grad(call(x), x, create_graph=True)[0]
        found.append(bits(paddle.grad(first.sum(), x)[0]))
    assert found[0] == found[1] == found[2]


@pytest.fixture
def compiling(monkeypatch):
    """Puts something in the place of what compiles, for one call."""

    def call(instead, translated, x):
        programs = sys.modules["paddle_sot_rs._paddle.programs"]
        known = programs.compile_graph
        with monkeypatch.context() as patch:
            patch.setattr(programs, "compile_graph", lambda *args: instead(known, *args))
            return translated(x)

    return call


def test_a_graph_that_does_not_compile_runs_call_by_call(compiling):
    translated, x = waiting(scaled), paddle.randn([4, 3])
    wanted = bits(scaled(x))
    assert bits(translated(x)) == wanted

    def failing(known, *args):
        raise NotImplementedError("nothing compiles here")

    assert bits(compiling(failing, translated, x)) == wanted
    assert bits(translated(x)) == wanted
    assert [it.message for it in sot.stats(translated).fallbacks] == ["nothing compiles here"]
    assert not is_program(translated)


def test_an_interrupt_while_it_compiles(compiling):
    # Who starts a process in the background has it ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    translated, x = waiting(scaled), paddle.randn([4, 3])
    wanted = bits(scaled(x))
    translated(x)

    def interrupted(known, *args):
        os.kill(os.getpid(), signal.SIGINT)
        return known(*args)

    try:
        with pytest.raises(KeyboardInterrupt):
            compiling(interrupted, translated, x)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [bits(translated(x)) for _ in range(2)] == [wanted, wanted]
    assert is_program(translated)
    assert sot.stats(translated).fallbacks == []


def test_what_ends_the_process_while_it_compiles(compiling):
    translated, x = waiting(scaled), paddle.randn([4, 3])
    wanted = bits(scaled(x))
    translated(x)

    def ended(known, *args):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        compiling(ended, translated, x)
    # What was traced is traced again.
    assert [bits(translated(x)) for _ in range(2)] == [wanted, wanted]
    assert is_program(translated)


@pytest.mark.usefixtures("impatient")
def test_threads():
    for _ in range(10):
        translated, x = waiting(scaled), paddle.randn([4, 3])
        wanted, found, start = bits(scaled(x)), [], threading.Barrier(4)

        def call(translated=translated, x=x, found=found, start=start):
            start.wait()
            found.extend(bits(translated(x)) for _ in range(4))

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [wanted] * 16
        stats = sot.stats(translated)
        assert stats.fallbacks == []
        assert any(is_program(translated, at) for at in range(stats.graphs))


def test_a_child_of_a_fork_compiles_by_itself():
    translated, x = waiting(scaled), paddle.randn([4, 3])
    wanted = bits(scaled(x))
    translated(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if bits(translated(x)) == wanted and is_program(translated) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bits(translated(x)) == wanted


def test_what_was_forgotten_meanwhile():
    translated, x = waiting(scaled), paddle.randn([4, 3])
    translated(x)
    sot.reset(translated)
    found = [translated(x) is not None and is_program(translated) for _ in range(2)]
    assert found == [False, True]
