"""`Cache` and `StaticCache` of `MultiHeadAttention`, made in the function or given: one graph."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn

paddle.seed(0)
ATTENTION = nn.MultiHeadAttention(8, 2)
DECODER = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2)
ATTENTION.eval()
DECODER.eval()
X, MEMORY = paddle.randn([2, 3, 8]), paddle.randn([2, 4, 8])
STATIC = nn.MultiHeadAttention.StaticCache

FUNCTIONS = {
    "given": (lambda x, cache: ATTENTION(x, x, x, None, cache), (X, ATTENTION.gen_cache(X))),
    "given, static": (
        lambda x, cache: ATTENTION(x, x, x, None, cache),
        (X, ATTENTION.gen_cache(MEMORY, MEMORY, type=STATIC)),
    ),
    "made": (lambda x: ATTENTION(x, x, x, None, ATTENTION.gen_cache(x)), (X,)),
    "of a decoder": (lambda x, memory, cache: DECODER(x, memory, cache=cache), (X, MEMORY, DECODER.gen_cache(MEMORY))),
    "made by a decoder": (lambda x, memory: DECODER(x, memory, cache=DECODER.gen_cache(memory)), (X, MEMORY)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_captured(name):
    function, given = FUNCTIONS[name]
    translated = translate(lambda *args: function(*args))
    for _ in range(2):
        assert str(translated(*given)) == str(function(*given))
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def test_decoding_step_by_step():
    def step(x, cache):
        return DECODER(x, MEMORY, cache=cache)

    translated = translate(step)
    one = other = DECODER.gen_cache(MEMORY)
    for _ in range(5):
        x, one = step(X[:, :1], one)
        y, other = translated(X[:, :1], other)
        assert str((x, one)) == str((y, other))
    assert sot.stats(translated).graph_breaks == []
