"""Small networks of PaddleOCR's, PaddleSeg's, PaddleDetection's, PaddleSpeech's and PaddleNLP's families: exports with
open dims, read by `paddle.jit.load` and `paddle.inference`, are equal to eager mode at six sizes each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
import sequence_networks as sequences
import vision_networks as vision
from paddle import nn
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


class Export(NamedTuple):
    """A network, its specification, and arguments by what is open."""

    make: Callable[[], nn.Layer]
    specs: list[Any]
    arguments: Callable[..., list[Any]]
    sizes: list[tuple[int, ...]]


def image(b: int, h: int, w: int) -> list[Any]:
    return [paddle.randn([b, 3, h, w])]


def line(b: int, w: int) -> list[Any]:
    return image(b, 32, w)


def caches(b: int, n: int) -> list[Any]:
    return [(paddle.randn([b, 2, n, 8]), paddle.randn([b, 2, n, 8])) for _ in range(2)]


def frames(b: int, t: int) -> list[Any]:
    return [paddle.randn([b, t, 19]), paddle.to_tensor([max(t - 4 * i, 8) for i in range(b)])]


def chunk(b: int, t: int) -> list[Any]:
    lengths = paddle.to_tensor([max(t - i, 1) for i in range(b)])
    return [paddle.randn([b, t, 12]), lengths, paddle.randn([2, b, 16]), paddle.randn([2, b, 16])]


def ids(*shape: int) -> list[Any]:
    return [paddle.randint(0, 20, shape)]


def spec(*shape: int | None, dtype: str = "float32", name: str | None = None) -> InputSpec:
    return InputSpec(list(shape), dtype, name)


IMAGES = spec(None, 3, None, None, name="image")
LINES = spec(None, 3, 32, None, name="image")
STATES = [spec(2, None, 16, name="h"), spec(2, None, 16, name="c")]
CACHES = [tuple(spec(None, 2, None, 8, name=f"{kind}{at}") for kind in "kv") for at in range(2)]
OF_32 = [(1, 64, 64), (2, 32, 96), (3, 96, 32), (1, 160, 64), (4, 32, 32), (2, 128, 128)]
ANY = [(1, 64, 64), (2, 33, 95), (3, 97, 41), (1, 160, 70), (4, 36, 36), (2, 127, 128)]
LENGTHS = [(1, 1), (1, 7), (2, 4), (3, 12), (5, 2), (2, 31)]
EXPORTS = {
    "DBNet": Export(vision.DBNet, [IMAGES], image, OF_32),
    "SVTR": Export(vision.SVTR, [LINES], line, [(1, 64), (2, 100), (3, 8), (1, 33), (4, 256), (2, 4)]),
    "CRNN": Export(vision.CRNN, [LINES], line, [(1, 64), (2, 100), (3, 8), (1, 33), (4, 256), (2, 4)]),
    "PicoDet": Export(
        vision.PicoDet, [IMAGES, spec(None, 2)], lambda b, h, w: [*image(b, h, w), paddle.full([b, 2], 0.5)], OF_32
    ),
    "PP-LiteSeg": Export(vision.PPLiteSeg, [IMAGES], image, ANY),
    "SegFormer": Export(vision.SegFormer, [IMAGES], image, ANY),
    "ViT": Export(
        vision.ViT, [IMAGES], image, [(1, 32, 32), (2, 64, 40), (3, 8, 8), (1, 16, 96), (4, 56, 48), (2, 24, 25)]
    ),
    "FastSpeech2": Export(
        sequences.FastSpeech2, [spec(None, dtype="int64")], ids, [(1,), (2,), (5,), (9,), (16,), (30,)]
    ),
    "conformer": Export(
        sequences.Conformer,
        [spec(None, None, 19), spec(None, dtype="int64")],
        frames,
        [(1, 16), (2, 33), (3, 50), (1, 101), (4, 27), (2, 64)],
    ),
    "streaming LSTM": Export(
        sequences.StreamingLSTM, [spec(None, None, 12), spec(None, dtype="int64"), *STATES], chunk, LENGTHS
    ),
    "BERT": Export(sequences.Bert, [spec(None, None, dtype="int64")], ids, LENGTHS),
    "GPT": Export(
        sequences.GPT,
        [spec(None, None, dtype="int64"), CACHES],
        lambda b, n: [*ids(b, 1), caches(b, n)],
        LENGTHS,
    ),
}


# Paddle's oneDNN instructions take no scales of `interpolate`, and compute other numbers for the
# last one: those of
# `paddle.jit.save` as well.
NOT_ON_ONEDNN = {"DBNet", "PicoDet", "PP-LiteSeg", "SegFormer", "ViT", "FastSpeech2"}


def flat(value: Any) -> list[Any]:
    """The tensors in a result or in arguments; of dicts in the order of the keys, as Paddle has it."""
    if isinstance(value, paddle.Tensor):
        return [value]
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    return [tensor for item in value for tensor in flat(item)] if isinstance(value, list | tuple) else []


def predictor(prefix: str, onednn: bool) -> Callable[[list[Any]], list[Any]]:
    config = paddle.inference.Config(prefix + ".json", prefix + ".pdiparams")
    config.disable_glog_info()
    if onednn:
        config.enable_mkldnn()
    else:
        config.disable_mkldnn()
    made = paddle.inference.create_predictor(config)

    def predict(arguments: list[Any]) -> list[Any]:
        for name, tensor in zip(made.get_input_names(), flat(arguments), strict=True):
            made.get_input_handle(name).copy_from_cpu(tensor.numpy())
        made.run()
        return [made.get_output_handle(name).copy_to_cpu() for name in made.get_output_names()]

    return predict


def readers(prefix: str, onednn: bool) -> dict[str, Callable[[list[Any]], list[Any]]]:
    """What reads the files of an export, by name."""
    loaded = paddle.jit.load(prefix)
    loaded.eval()
    found = {
        "jit.load": lambda arguments: [tensor.numpy() for tensor in flat(loaded(*flat(arguments)))],
        "inference": predictor(prefix, onednn=False),
    }
    return {**found, "inference, oneDNN": predictor(prefix, onednn=True)} if onednn else found


def difference(wanted: list[np.ndarray], found: list[np.ndarray]) -> str:
    """Where two lists of results differ; empty where they are equal."""
    if [array.shape for array in wanted] != [array.shape for array in found]:
        return f"{[array.shape for array in found]} instead of {[array.shape for array in wanted]}"
    pairs = zip(wanted, found, strict=True)
    worst = max((float(np.abs(a.astype("float64") - b).max(initial=0)) for a, b in pairs), default=0.0)
    return "" if worst < 1e-4 else f"other numbers: {worst}"


def network(name: str) -> tuple[nn.Layer, list[list[Any]]]:
    """The network in `eval()` mode, and arguments of each size."""
    paddle.seed(5)
    export = EXPORTS[name]
    net = export.make()
    net.eval()
    return net, [export.arguments(*size) for size in export.sizes]


@pytest.mark.parametrize("name", EXPORTS)
def test_equal_to_eager_mode_at_six_sizes(name, tmp_path):
    """One program for all sizes, in each of the ways to run it."""
    net, calls = network(name)
    prefix = str(tmp_path / "net")
    with paddle.no_grad():
        wanted = [[tensor.numpy() for tensor in flat(net(*arguments))] for arguments in calls]
    sot.save(net, prefix, input_spec=EXPORTS[name].specs)
    for how, run in readers(prefix, name not in NOT_ON_ONEDNN).items():
        for size, arguments, expected in zip(EXPORTS[name].sizes, calls, wanted, strict=True):
            assert not difference(expected, run(arguments)), (how, size)


# Lengths that only the graph knows, and a first batch of one.
MORE_TRANSLATIONS = {"FastSpeech2", "DBNet"}


@pytest.mark.parametrize("name", [name for name in EXPORTS if name not in MORE_TRANSLATIONS])
def test_calls_take_three_translations(name):
    """The first with known dims, one with open ones, and one for a batch of one."""
    net, calls = network(name)
    translated = sot.to_static(lambda *arguments: net(*arguments))
    with paddle.no_grad():
        for arguments in calls * 2:
            wanted, found = ([it.numpy() for it in flat(call(*arguments))] for call in (net, translated))
            assert not difference(wanted, found)
    stats = sot.stats(translated)
    assert (stats.translations <= 3, stats.graph_breaks, stats.fallbacks) == (True, [], [])
