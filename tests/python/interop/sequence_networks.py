"""Speech and language networks of PaddleSpeech's and PaddleNLP's families in small, as people export them."""

from __future__ import annotations

import math

import paddle
from paddle import nn
from paddle.nn import functional as F


class FeedForwardTransformer(nn.Layer):
    """FastSpeech2's block: attention, then convolutions over time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiHeadAttention(width, 2)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.conv1, self.conv2 = nn.Conv1D(width, 2 * width, 3, padding=1), nn.Conv1D(2 * width, width, 1)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        y = self.conv2(F.relu(self.conv1(x.transpose([0, 2, 1])))).transpose([0, 2, 1])
        return self.norm2(x + y)


class LengthRegulator(nn.Layer):
    """PaddleSpeech's: a matrix of zeros and ones, made column by column."""

    def forward(self, encodings, durations):
        batch_size, t_enc = paddle.shape(durations)
        t_dec_1 = paddle.max(paddle.sum(durations, -1)) + 1
        ends = paddle.cumsum(paddle.reshape(durations, [batch_size * t_enc])) + 1
        before = paddle.zeros([t_dec_1])
        m_batch = batch_size * t_enc
        M = paddle.zeros([t_dec_1, m_batch])
        for i in range(m_batch):
            d = ends[i]
            m = paddle.concat([paddle.ones([d]), paddle.zeros([t_dec_1 - d])], axis=0)
            M[:, i] = m - before
            before = m
        M = paddle.reshape(M, [t_dec_1, batch_size, t_enc])[1:, :, :]
        return paddle.matmul(paddle.transpose(M, (1, 0, 2)), encodings)


class FastSpeech2(nn.Layer):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, width, padding_idx=0)
        self.encoder, self.decoder = FeedForwardTransformer(width), FeedForwardTransformer(width)
        self.duration = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 1))
        self.pitch, self.pitch_embed = nn.Linear(width, 1), nn.Conv1D(1, width, 3, padding=1)
        self.regulator, self.mel = LengthRegulator(), nn.Linear(width, 10)
        self.scale = math.sqrt(width)

    def positions(self, x):
        length, width = x.shape[1], x.shape[2]
        position = paddle.arange(0, length, dtype="float32").unsqueeze(1)
        rate = paddle.exp(paddle.arange(0, width, 2, dtype="float32") * -(math.log(10000.0) / width))
        return paddle.stack([paddle.sin(position * rate), paddle.cos(position * rate)], axis=-1).reshape(
            [length, width]
        )

    def forward(self, text):
        x = self.embed(text).unsqueeze(0)
        hs = self.encoder(x * self.scale + self.positions(x))
        hs = hs + self.pitch_embed(self.pitch(hs).transpose([0, 2, 1])).transpose([0, 2, 1])
        durations = paddle.clip(paddle.round(self.duration(hs).squeeze(-1).exp()), min=1, max=4).astype("int64")
        hs = self.regulator(hs, durations)
        return self.mel(self.decoder(hs + self.positions(hs)))[0], durations[0]


class RelativeAttention(nn.Layer):
    """Attention of a conformer: positions relative to each other, and a mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.h, self.d_k = heads, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.pos = nn.Linear(width, width, bias_attr=False)
        self.u, self.w = self.create_parameter([heads, self.d_k]), self.create_parameter([heads, self.d_k])

    def forward(self, x, mask, positions):
        n = x.shape[0]
        q = self.q(x).reshape([n, -1, self.h, self.d_k])
        k = self.k(x).reshape([n, -1, self.h, self.d_k]).transpose([0, 2, 1, 3])
        v = self.v(x).reshape([n, -1, self.h, self.d_k]).transpose([0, 2, 1, 3])
        p = self.pos(positions).reshape([positions.shape[0], -1, self.h, self.d_k]).transpose([0, 2, 1, 3])
        first = paddle.matmul((q + self.u).transpose([0, 2, 1, 3]), k.transpose([0, 1, 3, 2]))
        second = paddle.matmul((q + self.w).transpose([0, 2, 1, 3]), p.transpose([0, 1, 3, 2]))
        scores = (first + second) / math.sqrt(self.d_k)
        hidden = mask.unsqueeze(1).equal(0)
        scores = paddle.where(hidden, paddle.full_like(scores, -float("inf")), scores)
        attention = paddle.where(hidden, paddle.zeros_like(scores), F.softmax(scores, axis=-1))
        return self.out(paddle.matmul(attention, v).transpose([0, 2, 1, 3]).reshape([n, -1, self.h * self.d_k]))


class ConformerLayer(nn.Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in range(4)])
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.Swish(), nn.Linear(2 * width, width))
        self.attention = RelativeAttention(width, 2)
        self.point1, self.point2 = nn.Conv1D(width, 2 * width, 1), nn.Conv1D(width, width, 1)
        self.depth, self.norm = nn.Conv1D(width, width, 5, padding=2, groups=width), nn.BatchNorm1D(width)

    def forward(self, x, mask, positions, mask_pad):
        x = x + 0.5 * self.feed(self.norms[0](x))
        x = x + self.attention(self.norms[1](x), mask, positions)
        y = self.norms[2](x).transpose([0, 2, 1])
        if mask_pad.shape[2] > 0:
            y = y * mask_pad.astype(y.dtype)
        y = self.point2(F.silu(self.norm(self.depth(F.glu(self.point1(y), axis=1)))))
        x = x + (y * mask_pad.astype(y.dtype)).transpose([0, 2, 1])
        return self.norms[3](x)


class Conformer(nn.Layer):
    """Frames and their lengths; every fourth frame has an output. The table of positions has a largest length."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2D(1, width, 3, 2), nn.ReLU(), nn.Conv2D(width, width, 3, 2), nn.ReLU())
        self.linear = nn.Linear(width * 4, width)
        self.layers = nn.LayerList([ConformerLayer(width) for _ in range(2)])
        self.head = nn.Linear(width, 12)
        position = paddle.arange(0, 200, dtype="float32").unsqueeze(1)
        rate = paddle.exp(paddle.arange(0, width, 2, dtype="float32") * -(math.log(10000.0) / width))
        table = paddle.concat([paddle.sin(position * rate), paddle.cos(position * rate)], axis=-1)
        self.register_buffer("table", table.unsqueeze(0))

    def forward(self, xs, lengths):
        T = xs.shape[1]
        seq = paddle.arange(0, T, dtype=lengths.dtype).unsqueeze(0)
        masks = (seq < lengths.unsqueeze(-1)).unsqueeze(1)
        x = self.conv(xs.unsqueeze(1))
        b, c, t, f = x.shape
        x = self.linear(x.transpose([0, 2, 1, 3]).reshape([b, -1, c * f])) * math.sqrt(16)
        masks = masks[:, :, :-2:2][:, :, :-2:2]
        assert x.shape[1] < self.table.shape[1]
        positions = self.table[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x, masks, positions, masks)
        return F.log_softmax(self.head(x), axis=-1), masks.squeeze(1).astype("int64").sum(1)


class StreamingLSTM(nn.Layer):
    """A chunk of frames and the states of the one before; the new states go out."""

    def __init__(self) -> None:
        super().__init__()
        self.rnns = nn.LayerList([nn.LSTM(12, 16), nn.LSTM(16, 16)])
        self.norms = nn.LayerList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.head = nn.Linear(16, 9)

    def forward(self, chunk, lengths, h, c):
        hs, cs = paddle.split(h, len(self.rnns), axis=0), paddle.split(c, len(self.rnns), axis=0)
        new_h, new_c = [], []
        x = chunk
        for i in range(len(self.rnns)):
            x, (one, other) = self.rnns[i](x, (hs[i], cs[i]), lengths)
            x = self.norms[i](x)
            new_h.append(one)
            new_c.append(other)
        return F.softmax(self.head(x), axis=-1), paddle.concat(new_h, axis=0), paddle.concat(new_c, axis=0)


class Bert(nn.Layer):
    """The mask is made of the ids, positions are counted."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(50, width), nn.Embedding(64, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, activation="gelu")
        self.encoder, self.pooler = nn.TransformerEncoder(layer, 2), nn.Linear(width, width)
        self.pad_token_id = 0

    def forward(self, input_ids, token_type_ids=None):
        mask = paddle.unsqueeze((input_ids == self.pad_token_id).astype(self.pooler.weight.dtype) * -1e4, axis=[1, 2])
        ones = paddle.ones_like(input_ids, dtype="int64")
        position_ids = paddle.cumsum(ones, axis=-1) - ones
        if token_type_ids is None:
            token_type_ids = paddle.zeros_like(input_ids)
        x = self.words(input_ids) + self.places(position_ids) + self.kinds(token_type_ids)
        x = self.encoder(self.norm(x), mask)
        return x, paddle.tanh(self.pooler(x[:, 0]))


class CachedBlock(nn.Layer):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, cache):
        b, s, _ = x.shape
        qkv = self.qkv(self.norm1(x))
        qkv = qkv.reshape([b, s, self.heads, 3 * self.width // self.heads]).transpose([0, 2, 1, 3])
        q, k, v = paddle.split(qkv, 3, axis=-1)
        k, v = paddle.concat([cache[0], k], axis=2), paddle.concat([cache[1], v], axis=2)
        scores = q @ k.transpose([0, 1, 3, 2]) * (self.width // self.heads) ** -0.5
        length = k.shape[2]
        mask = paddle.tril(paddle.ones([s, length]), diagonal=length - s)
        scores = scores + (1 - mask) * -1e4
        y = (F.softmax(scores, axis=-1) @ v).transpose([0, 2, 1, 3]).reshape([b, s, self.width])
        x = x + self.out(y)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)))), (k, v)


class GPT(nn.Layer):
    """A decoder that takes the keys and values of before, and gives them back with one more."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, width), nn.Embedding(64, width)
        self.blocks = nn.LayerList([CachedBlock(width, heads) for _ in range(2)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, caches):
        x = self.words(ids) + self.places(paddle.arange(ids.shape[1]) + caches[0][0].shape[2])
        new = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, caches[i])
            new.append(cache)
        logits = paddle.matmul(self.norm(x), self.words.weight, transpose_y=True)[:, -1]
        return logits.argmax(-1), new
