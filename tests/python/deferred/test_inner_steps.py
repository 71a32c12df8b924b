"""Steps of optimizers in the middle of a graph: it goes on with the parameters that they leave."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from train_steps import adam, adamw, described, momentum, sgd, state

pytestmark = pytest.mark.default_python
CALLS = 20


def network(outputs, normalized=False):
    norm = [nn.BatchNorm1D(16)] if normalized else []
    return nn.Sequential(nn.Linear(12, 16), *norm, nn.LeakyReLU(), nn.Linear(16, outputs))


class Pair:
    """Two networks with their optimizers, and averages of the first one."""

    def __init__(self, optimize=adam, normalized=False, second=1):
        paddle.seed(0)
        self.first, self.second = network(12, normalized), network(second, normalized)
        self.updates = optimize(self.first), optimize(self.second)
        self.averages = [it.detach().clone() for it in self.first.parameters()]
        self.losses = []

    def state(self):
        parts = [state(*both) for both in zip((self.first, self.second), self.updates, strict=True)]
        return repr((parts, [described(it) for it in self.averages], self.losses))


def given(number):
    paddle.seed(number)
    return paddle.randn([4, 12]), paddle.randn([4, 12])


def run(step, make=Pair, calls=CALLS, between=None, **options):
    """What calls answer and leave behind in both modes, which must be equal; the translated function."""
    answers, translated = [], translate(step, min_graph_size=0, **options)
    for function in (step, translated):
        pair, seen = make(), []
        for number in range(calls):
            if between is not None:
                seen.append(repr(between(number, pair)))
            try:
                answer = function(pair, *given(number))
            except Exception as error:  # noqa: BLE001 - whatever eager mode raises
                seen.append(type(error).__name__)
            else:
                seen.append(repr(described(answer)))
            seen.append(pair.state())
        answers.append(seen)
    for one, other in zip(*answers, strict=True):
        assert one == other
    return translated


def check(translated, whole=CALLS - 1, breaks=0):
    stats = sot.stats(translated)
    assert (stats.graphs, len(stats.graph_breaks), stats.whole_steps) == (
        1 if not breaks else stats.graphs,
        breaks,
        whole,
    )
    assert stats.fallbacks == []


def adversarial(pair, x, y):
    (generator, critic), (of_generator, of_critic) = (pair.first, pair.second), pair.updates
    fake = generator(x)
    real, other = critic(y), critic(fake.detach())
    loss = F.binary_cross_entropy_with_logits(real, paddle.ones([4, 1]))
    loss = loss + F.binary_cross_entropy_with_logits(other, paddle.zeros([4, 1]))
    loss.backward()
    of_critic.step()
    of_critic.clear_grad()
    fooled = F.binary_cross_entropy_with_logits(critic(fake), paddle.ones([4, 1]))
    fooled.backward()
    of_generator.step()
    of_generator.clear_grad()
    of_critic.clear_grad()
    return loss, fooled


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("optimize", [sgd, momentum, adam, adamw])
def test_two_optimizers(optimize, normalized):
    check(run(adversarial, lambda: Pair(optimize, normalized)))


def to_none(pair, x, y):
    (generator, critic), (of_generator, of_critic) = (pair.first, pair.second), pair.updates
    loss = critic(generator(x).detach()).mean() - critic(y).mean()
    loss.backward()
    of_critic.step()
    of_critic.clear_grad(set_to_zero=False)
    pair.losses.append("critic")
    fooled = -critic(generator(x)).mean()
    fooled.backward()
    of_generator.step()
    of_generator.clear_grad(set_to_zero=False)
    of_critic.clear_grad(set_to_zero=False)
    pair.losses.append("generator")
    return loss.detach(), fooled.detach()


def test_gradients_that_are_let_go():
    check(run(to_none))


def test_full_graph():
    check(run(to_none, full_graph=True))


def plain(pair, x, y):
    loss = F.mse_loss(pair.first(x), y)
    loss.backward()
    pair.updates[0].step()
    pair.updates[0].clear_grad()
    return loss


def by_set_value(pair, x, y):
    loss = plain(pair, x, y)
    with paddle.no_grad():
        for average, parameter in zip(pair.averages, pair.first.parameters(), strict=True):
            average.set_value(average * 0.9 + parameter * 0.1)
    return loss


def by_copy(pair, x, y):
    loss = plain(pair, x, y)
    with paddle.no_grad():
        for average, parameter in zip(pair.averages, pair.first.parameters(), strict=True):
            average.copy_(average * 0.9 + parameter * 0.1, True)
    return loss


def by_assign(pair, x, y):
    loss = plain(pair, x, y)
    with paddle.no_grad():
        for average, parameter in zip(pair.averages, pair.first.parameters(), strict=True):
            paddle.assign(average * 0.9 + parameter * 0.1, output=average)
    return loss


def in_place(pair, x, y):
    loss = plain(pair, x, y)
    with paddle.no_grad():
        for average, parameter in zip(pair.averages, pair.first.parameters(), strict=True):
            average.scale_(0.9).add_(0.1 * parameter)
    return loss


def of_detached(pair, x, y):
    loss = plain(pair, x, y)
    for average, parameter in zip(pair.averages, pair.first.parameters(), strict=True):
        average.set_value(average * 0.9 + parameter.detach() * 0.1)
    return loss


@pytest.mark.parametrize("optimize", [sgd, adamw])
@pytest.mark.parametrize(
    "step", [by_set_value, by_copy, by_assign, in_place, of_detached], ids=lambda step: step.__name__
)
def test_averages_of_weights(step, optimize):
    check(run(step, lambda: Pair(optimize)))


def norms(pair, x, y):
    loss = plain(pair, x, y)
    with paddle.no_grad():
        return loss, sum((it * it).sum() for it in pair.first.parameters()), pair.first(x)


def test_what_reads_parameters():
    check(run(norms))


def test_three_steps():
    class Three(Pair):
        def __init__(self):
            super().__init__()
            self.third = network(1)
            self.others = adamw(self.third)

        def state(self):
            return super().state() + repr(state(self.third, self.others))

    def step(three, x, y):
        loss = F.mse_loss(three.first(x), y)
        loss.backward()
        three.updates[0].step()
        three.updates[0].clear_grad()
        first = (three.second(x) ** 2).mean()
        first.backward()
        three.updates[1].step()
        three.updates[1].clear_grad()
        both = (three.third(three.first(x)) ** 2).mean()
        both.backward()
        three.others.step()
        three.others.clear_grad()
        three.updates[0].clear_grad()
        return loss, first, both

    check(run(step, Three))


def test_states_are_loaded_in_the_middle():
    kept = {}

    def between(number, pair):
        if number == 6:
            for name, part in (("first", pair.first), ("one", pair.updates[0]), ("other", pair.updates[1])):
                kept[name] = {
                    key: it.clone() if isinstance(it, paddle.Tensor) else it for key, it in part.state_dict().items()
                }
        if number == 13:
            pair.first.set_state_dict(kept["first"])
            pair.updates[0].set_state_dict(kept["one"])
            pair.updates[1].set_state_dict(kept["other"])

    translated = run(adversarial, between=between)
    assert sot.stats(translated).whole_steps >= CALLS - 2


@pytest.mark.parametrize("least", [1, 8])
def test_an_exception_in_the_middle(least):
    def step(pair, x, y):
        loss = plain(pair, x, y)
        if pair.fails:
            raise ValueError
        with paddle.no_grad():
            pair.averages[0].set_value(pair.averages[0] + pair.first[0].weight)
        return loss

    def between(number, pair):
        pair.fails = number % 4 == 3 and number >= least

    run(step, between=between)


def test_shapes_that_do_not_fit_behind_a_step():
    def step(pair, x, y):
        loss = plain(pair, x, y)
        with paddle.no_grad():
            return loss, pair.first(x) @ pair.other

    def between(number, pair):
        pair.other = paddle.ones([7 if number % 5 == 4 else 12, 3])

    run(step, between=between)


def test_what_may_fail_behind_a_step():
    """It may not run from its beginning again then."""

    def step(pair, x, labels):
        loss = plain(pair, x, x)
        with paddle.no_grad():
            return loss, F.cross_entropy(pair.first(x), labels)

    def between(number, pair):
        pair.labels = paddle.full([4], 12 if number == 9 else number % 12, "int64")

    translated = run(lambda pair, x, y: step(pair, x, pair.labels), between=between)
    assert sot.stats(translated).whole_steps == 0


def test_nan_checks():
    def between(number, pair):
        paddle.set_flags({"FLAGS_check_nan_inf": 4 <= number < 9})

    try:
        translated = run(adversarial, between=between)
    finally:
        paddle.set_flags({"FLAGS_check_nan_inf": False})
    assert 0 < sot.stats(translated).whole_steps < CALLS - 5


def before_and_after(pair, x, y):
    weight = pair.first[0].weight
    before = weight.detach().clone()
    loss = plain(pair, x, y)
    with paddle.no_grad():
        return loss, (weight - before).abs().sum()


def through_a_view(pair, x, y):
    view = pair.first[0].weight.T
    loss = plain(pair, x, y)
    with paddle.no_grad():
        return loss, view.sum(), pair.first[0].weight.sum()


def computed_before(pair, x, y):
    total = pair.first[0].weight * 2
    loss = plain(pair, x, y)
    with paddle.no_grad():
        return loss, total.sum(), pair.first[0].weight.sum()


def losses_together(pair, x, y):
    loss, other = adversarial(pair, x, y)
    return (loss.detach() + other.detach()).mean()


def backward_of_what_was_before(pair, x, y):
    other = (pair.second(pair.first(x)) ** 2).mean()
    plain(pair, x, y)
    other.backward()
    pair.updates[1].step()
    pair.updates[1].clear_grad()
    pair.updates[0].clear_grad()
    return other


def backward_twice(pair, x, y):
    hidden = pair.first(x)
    loss = F.mse_loss(hidden, y)
    loss.backward()
    pair.updates[1].clear_grad()
    pair.updates[0].step()
    pair.updates[0].clear_grad()
    other = (pair.second(hidden) ** 2).mean()
    other.backward()
    pair.updates[1].step()
    pair.updates[1].clear_grad()
    pair.updates[0].clear_grad()
    return other


def left_gradients(pair, x, y):
    (generator, critic), (of_generator, of_critic) = (pair.first, pair.second), pair.updates
    loss = critic(generator(x).detach()).mean() - critic(y).mean()
    loss.backward()
    of_critic.step()
    of_critic.clear_grad()
    fooled = -critic(generator(x)).mean()
    fooled.backward()
    of_generator.step()
    of_generator.clear_grad()
    return loss, fooled


def returned(pair, x, y):
    loss = plain(pair, x, y)
    with paddle.no_grad():
        weight = pair.first[0].weight
        return loss, weight.clone(), weight.T, weight.flatten(), weight.detach(), weight


def one_optimizer_twice(pair, x, y):
    return plain(pair, x, y), plain(pair, y, x)


OTHERS = (
    before_and_after,
    through_a_view,
    computed_before,
    losses_together,
    backward_of_what_was_before,
    backward_twice,
    left_gradients,
    returned,
    one_optimizer_twice,
)


@pytest.mark.parametrize("step", OTHERS, ids=lambda step: step.__name__)
def test_eager_mode_decides(step):
    run(step)


def holding(number, pair):
    pair.held = [it.grad for it in pair.second.parameters()] if number % 3 == 2 else None


def adding(number, pair):
    if number % 4 == 3:
        (pair.second(paddle.ones([4, 12])) ** 2).sum().backward()


def freezing(number, pair):
    pair.second[0].weight.stop_gradient = 5 <= number < 9


def hooking(number, pair):
    if number == 5:
        pair.hook = pair.second[0].weight.register_hook(lambda gradient: pair.losses.append(gradient.sum().item()))
    if number == 9:
        pair.hook.remove()


def changing_rates(number, pair):
    pair.updates[0].set_lr(0.1 / (number + 1))


def changing_settings(number, pair):
    pair.updates[1]._grad_clip = nn.ClipGradByValue(0.1) if number % 7 > 3 else None


def replacing_an_optimizer(number, pair):
    if number == 8:
        pair.updates = pair.updates[0], optimizer.Adam(0.02, parameters=pair.second.parameters())


BETWEEN = holding, adding, freezing, hooking, changing_rates, changing_settings, replacing_an_optimizer


@pytest.mark.parametrize("between", BETWEEN, ids=lambda it: it.__name__)
def test_changes_between_calls(between):
    translated = run(adversarial, between=between)
    assert sot.stats(translated).whole_steps > 0


def test_gradients_that_are_always_held():
    def between(number, pair):
        pair.held = [it.grad for it in pair.second.parameters()]

    translated = run(adversarial, between=between)
    assert sot.stats(translated).whole_steps <= 1


def test_averages_in_the_memory_of_what_is_updated():
    def make():
        pair = Pair()
        pair.averages = [it.detach() for it in pair.first.parameters()]
        return pair

    run(by_set_value, make)


def test_averages_in_the_memory_of_states():
    def between(number, pair):
        if number == 3:
            states = list(pair.updates[0]._accumulators["moment1"].values())
            pair.averages = [it.detach() for it in states]

    run(by_set_value, between=between)


@pytest.mark.parametrize("backend", ["onednn", "pylayer"])
@pytest.mark.parametrize("step", [adversarial, by_set_value], ids=lambda step: step.__name__)
def test_backends_that_train_by_the_default_one(step, backend):
    check(run(step, calls=6, backend=backend), 5)


@pytest.mark.parametrize("backend", ["cinn", "eager"])
def test_other_backends(backend):
    translated = run(adversarial, calls=6, backend=backend)
    assert sot.stats(translated).whole_steps == 0


def test_an_optimizer_without_a_recipe():
    translated = run(adversarial, lambda: Pair(lambda net: optimizer.RMSProp(0.01, parameters=net.parameters())))
    assert sot.stats(translated).whole_steps == 0
