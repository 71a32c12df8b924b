"""`set_stance`: what calls of translated functions do."""

import threading

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python


@pytest.fixture(autouse=True)
def default_stance():
    yield
    sot.set_stance("default")


def tripled(x):
    return x * 3 + x.shape[0]


ONE, TWO = paddle.ones([1]), paddle.ones([2, 2])


def test_eager_runs_as_it_is():
    static = translate(tripled)
    with sot.set_stance("eager"):
        assert static(ONE).tolist() == [4.0]
    assert sot.stats(static).translations == 0
    assert static(ONE).tolist() == [4.0]
    with sot.set_stance("eager"):
        assert static(TWO).tolist() == [[5.0, 5.0]] * 2
    assert (sot.stats(static).translations, sot.stats(static).cache_misses) == (1, 1)


def test_a_recompile_is_an_error_that_names_the_guard():
    static = translate(tripled)
    with sot.set_stance("fail_on_recompile"):
        # The first translation is none.
        assert static(ONE).tolist() == static(ONE).tolist() == [4.0]
        with pytest.raises(
            sot.RecompileError, match=r"tripled would be translated again: x.ndim: 1 -> 2 \(x.shape == \[1\]"
        ):
            static(TWO)
        assert static(ONE).tolist() == [4.0]
    assert sot.stats(static).recompiles == []
    assert static(TWO).tolist() == [[5.0, 5.0]] * 2
    assert len(sot.stats(static).recompiles) == 1


def test_a_recompile_of_a_function_that_runs_as_it_is_is_an_error():
    def flat(x):
        return x + 1 if x.ndim == 1 else x.reshape([-1]) + 2

    static = sot.to_static(flat)
    for _ in range(100):
        static(ONE)
    assert [reason.id for reason in sot.stats(static).fallbacks] == ["PSR0806"]
    with sot.set_stance("fail_on_recompile"):
        for _ in range(3):
            assert static(ONE).tolist() == [2.0]
            with pytest.raises(sot.RecompileError, match="flat would be translated again: x.ndim: 1 -> 2"):
                static(TWO)
    assert static(TWO).tolist() == [3.0] * 4


def test_both_sides_of_a_branch_are_first_translations():
    def chosen(x):
        if x.sum() > 0:
            return x * 2
        return x * 5

    static = translate(chosen)
    with sot.set_stance("fail_on_recompile"):
        assert (static(ONE).tolist(), static(-ONE).tolist()) == ([2.0], [-5.0])
    assert [reason.code for reason in sot.stats(static).graph_breaks] == ["DDCF"]


def runs(function):
    """Whether a call is translated."""
    before = sot.stats(function).cache_hits + sot.stats(function).cache_misses
    assert function(ONE).tolist() == [4.0]
    return sot.stats(function).cache_hits + sot.stats(function).cache_misses > before


def test_without_a_block_it_holds_until_the_next():
    static = translate(tripled)
    sot.set_stance("eager")
    assert not runs(static)
    with sot.set_stance("default"):
        assert runs(static)
        sot.set_stance("eager")
        assert not runs(static)
    assert not runs(static)
    sot.set_stance("default")
    assert runs(static)


def test_blocks_end_in_any_order():
    static = translate(tripled)
    first, second = sot.set_stance("eager"), None
    first.__enter__()
    second = sot.set_stance("default")
    second.__enter__()
    assert runs(static)
    first.__exit__(None, None, None)
    assert runs(static)
    second.__exit__(None, None, None)
    assert runs(static)


def test_a_block_may_be_entered_once_at_a_time():
    block = sot.set_stance("eager")
    with block, pytest.raises(RuntimeError, match="open already"):
        block.__enter__()
    with block:
        pass


def test_it_holds_in_all_threads():
    static, found = translate(tripled), []
    with sot.set_stance("eager"):
        thread = threading.Thread(target=lambda: found.append(runs(static)))
        thread.start()
        thread.join()
    assert found == [False]


def test_there_are_three():
    with pytest.raises(ValueError, match="stance: expected one of 'default', 'eager', 'fail_on_recompile', got 'lazy'"):
        sot.set_stance("lazy")
