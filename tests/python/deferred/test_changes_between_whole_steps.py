"""What changes, and is looked at, between train steps whose update is part of their program."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import optimizer
from paddle.nn import functional as F
from paddle.regularizer import L2Decay
from train_steps import adam, adamw, described, given, momentum, perceptron, run, sgd, state, step

pytestmark = pytest.mark.default_python


def an_input_with_a_gradient(net, updates, x, y):
    x.stop_gradient = False
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss, x.grad


def test_an_input_with_a_gradient():
    answers, _ = run(an_input_with_a_gradient, perceptron, sgd)
    assert answers[0] == answers[1]


KEPT = []


def holds_a_gradient(number, net, updates):
    if number == 0:
        KEPT.clear()
    gradient = net[0].weight.grad
    if gradient is None:
        return None
    KEPT.append(gradient)
    return [each.tolist() for each in KEPT]


def writes_its_memory(number, net, updates):
    if number in (3, 5):
        net[0].weight.grad.detach().fill_(0.5)


def writes_a_gradient(number, net, updates):
    if number in (3, 5):
        net[0].weight.grad.set_value(paddle.full([12, 8], 0.5))


def another_backward(number, net, updates):
    if number in (3, 5):
        net(paddle.ones([1, 12])).sum().backward()


def gives_a_gradient(number, net, updates):
    if number in (3, 5):
        net[0].weight.grad = paddle.full([12, 8], 0.5)


def clears_it(number, net, updates):
    if number in (3, 5):
        net[0].weight.clear_gradient(False)


def zeros_it(number, net, updates):
    if number in (3, 5):
        net[0].weight.grad.set_value(paddle.zeros([12, 8]))


@pytest.mark.parametrize(
    ("between", "whole"),
    [
        (holds_a_gradient, 0),
        (writes_its_memory, 3),
        (writes_a_gradient, 3),
        (another_backward, 3),
        (gives_a_gradient, 3),
        (clears_it, 3),
        (zeros_it, 5),
    ],
    ids=lambda it: getattr(it, "__name__", it),
)
def test_gradients_that_others_see(between, whole):
    answers, translated = run(step, perceptron, momentum, between=between)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps == whole


def sets_the_rate(number, net, updates):
    updates.set_lr(0.1 / (number + 1))


def sets_a_decay(number, net, updates):
    if number == 4:
        updates._weight_decay = 0.5


def sets_a_beta(number, net, updates):
    if number == 4:
        updates._beta1 = 0.3


def replaces_a_state(number, net, updates):
    if number == 4:
        for table in updates._accumulators.values():
            name = next(iter(table))
            table[name] = paddle.full_like(table[name], 0.25)


def loads_states(number, net, updates):
    if number == 4:
        states = updates.state_dict()
        updates.set_state_dict({name: value * 0.5 if "moment" in name else value for name, value in states.items()})


def sets_a_parameter(number, net, updates):
    net[0].weight.set_value(net[0].weight * 0.5)


def freezes(number, net, updates):
    net[0].weight.stop_gradient = number in (4, 5)


def decays_by_itself(number, net, updates):
    if number == 4:
        net[0].weight.regularizer = L2Decay(0.3)


@pytest.mark.parametrize(
    ("between", "whole"),
    [
        (sets_the_rate, 5),
        (sets_a_decay, 4),
        (sets_a_beta, 4),
        (replaces_a_state, 4),
        (loads_states, 4),
        (sets_a_parameter, 5),
    ],
    ids=lambda it: getattr(it, "__name__", it),
)
def test_what_changes_between_calls(between, whole):
    def optimize(net):
        return optimizer.AdamW(0.01, parameters=net.parameters())

    answers, translated = run(step, perceptron, optimize, between=between)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps == whole
    assert sot.stats(translated).graphs == 1


@pytest.mark.parametrize("between", [freezes, decays_by_itself])
def test_what_another_step_is_for(between):
    answers, translated = run(step, perceptron, momentum, calls=10, between=between)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps > 0


DECAYING = []


def of_a_global(net):
    DECAYING[:] = [net[0].weight.name]
    return lambda name: name in DECAYING


def of_a_cell(net):
    names = {net[0].weight.name}

    def decays(name):
        return name in names

    decays.names = names
    return decays


def of_a_text(net):
    own = net[0].weight.name
    return lambda name: name == own


def all_decay(name):
    return True


def changes_the_list(number, updates):
    DECAYING[:] = [updates._parameter_list[number % 4].name]


def changes_the_set(number, updates):
    updates._apply_decay_param_fun.names.add(updates._parameter_list[number % 4].name)


def fills_the_cell(number, updates):
    (cell,) = updates._apply_decay_param_fun.__closure__
    name = updates._parameter_list[number % 4].name
    cell.cell_contents = name if isinstance(cell.cell_contents, str) else [name]


def takes_another_code(number, updates):
    updates._apply_decay_param_fun.__code__ = all_decay.__code__


def takes_another_function(number, updates):
    updates._apply_decay_param_fun = None if number % 2 else all_decay


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (of_a_global, changes_the_list),
        (of_a_cell, changes_the_set),
        (of_a_cell, fills_the_cell),
        (of_a_text, fills_the_cell),
        (of_a_global, takes_another_code),
        (of_a_global, takes_another_function),
    ],
    ids=lambda it: it.__name__,
)
def test_functions_that_say_what_decays(make, change):
    def optimize(net):
        return optimizer.AdamW(0.1, parameters=net.parameters(), weight_decay=0.5, apply_decay_param_fun=make(net))

    def between(number, net, updates):
        if number in (4, 8, 9):
            change(number, updates)

    answers, translated = run(step, perceptron, optimize, calls=11, between=between)
    assert answers[0] == answers[1]
    # Two calls until it is known, one behind each change.
    assert sot.stats(translated).whole_steps >= 2


def test_hooks_of_leaves_are_called():
    answers = []
    for function in (step, translate(step, min_graph_size=0)):
        paddle.seed(0)
        net, seen = perceptron(), []
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        for number in range(8):
            if number == 5:
                hook = net[0].weight.register_hook(lambda gradient, seen=seen: seen.append(gradient.tolist()))
            seen.append(function(net, updates, *given(number)).tolist())
        hook.remove()
        seen.append(function(net, updates, *given(8)).tolist())
        answers.append((seen, state(net, updates)))
    assert answers[0] == answers[1]
    assert len(answers[0][0]) == 12


def test_several_networks_and_optimizers():
    """One function trains two networks in turns, one of them with two optimizers: each clears what the other has
    left."""
    answers, translated = [], translate(step, min_graph_size=0)
    for function in (step, translated):
        paddle.seed(0)
        one, other = perceptron(), perceptron()
        pairs = [(one, sgd(one)), (other, adamw(other)), (one, adam(one))]
        seen = []
        for number in range(18):
            net, updates = pairs[number % 3]
            seen.append((described(function(net, updates, *given(number))), state(net, updates)))
        answers.append(seen)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps == 4


def test_a_smaller_batch_leaves_the_others_their_whole_steps():
    """The last one of each epoch: what is translated for it takes all sizes, and steps behind its graph."""

    def squared(net, updates, x, y):
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    answers, translated = [], translate(squared, min_graph_size=0)
    for function in (squared, translated):
        paddle.seed(0)
        net = perceptron()
        updates, seen = optimizer.AdamW(0.01, parameters=net.parameters()), []
        for number in range(20):
            rows = 3 if number % 5 == 4 else 4
            x, y = paddle.ones([rows, 12]) * (number / 20), paddle.ones([rows, 3])
            seen.append((described(function(net, updates, x, y)), state(net, updates)))
        answers.append(seen)
    assert answers[0] == answers[1]
    stats = sot.stats(translated)
    assert (stats.translations, stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, 2, [], [])
    assert stats.whole_steps == 14
