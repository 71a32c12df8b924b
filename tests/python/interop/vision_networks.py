"""Vision networks of PaddleOCR's, PaddleDetection's and PaddleSeg's families in small, as people export them."""

from __future__ import annotations

import math

import paddle
from paddle import nn
from paddle.nn import functional as F


class ConvNorm(nn.Layer):
    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, act: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2D(inputs, outputs, kernel, stride, padding=kernel // 2, bias_attr=False)
        self.norm = nn.BatchNorm2D(outputs)
        self.act = act

    def forward(self, x):
        x = self.norm(self.conv(x))
        return F.relu(x) if self.act else x


class Backbone(nn.Layer):
    """Features at strides of 4, 8, 16 and 32."""

    def __init__(self, widths: tuple[int, ...] = (8, 12, 16, 24)) -> None:
        super().__init__()
        self.stem = ConvNorm(3, widths[0], stride=2)
        before = (widths[0], *widths[:-1])
        self.stages = nn.LayerList([ConvNorm(a, b, stride=2) for a, b in zip(before, widths)])  # noqa: B905 - the AST mode of Paddle knows no strict=

    def forward(self, x):
        found = []
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


class DBNet(nn.Layer):
    """Text detection: a pyramid of features, and a head of transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.lateral = nn.LayerList([nn.Conv2D(width, 16, 1, bias_attr=False) for width in (8, 12, 16, 24)])
        self.smooth = nn.LayerList([nn.Conv2D(16, 4, 3, padding=1, bias_attr=False) for _ in range(4)])
        self.head = nn.Sequential(
            ConvNorm(16, 8),
            nn.Conv2DTranspose(8, 8, 2, 2),
            nn.BatchNorm2D(8),
            nn.ReLU(),
            nn.Conv2DTranspose(8, 1, 2, 2),
        )

    def forward(self, x):
        c2, c3, c4, c5 = self.backbone(x)
        in5, in4, in3, in2 = self.lateral[3](c5), self.lateral[2](c4), self.lateral[1](c3), self.lateral[0](c2)
        out4 = in4 + F.upsample(in5, scale_factor=2, mode="nearest", align_mode=1)
        out3 = in3 + F.upsample(out4, scale_factor=2, mode="nearest", align_mode=1)
        out2 = in2 + F.upsample(out3, scale_factor=2, mode="nearest", align_mode=1)
        p5 = F.upsample(self.smooth[3](in5), scale_factor=8, mode="nearest", align_mode=1)
        p4 = F.upsample(self.smooth[2](out4), scale_factor=4, mode="nearest", align_mode=1)
        p3 = F.upsample(self.smooth[1](out3), scale_factor=2, mode="nearest", align_mode=1)
        p2 = self.smooth[0](out2)
        return {"maps": F.sigmoid(self.head(paddle.concat([p5, p4, p3, p2], axis=1)))}


class Mixer(nn.Layer):
    """Attention over all places, as SVTR's global mixing."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.scale = (width // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon=1e-6), nn.LayerNorm(width, epsilon=1e-6)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        qkv = self.qkv(y).reshape((0, -1, 3, self.heads, self.width // self.heads)).transpose((2, 0, 3, 1, 4))
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attention = F.softmax(q.matmul(k.transpose((0, 1, 3, 2))), axis=-1)
        x = x + self.proj(attention.matmul(v).transpose((0, 2, 1, 3)).reshape((0, -1, self.width)))
        return x + self.mlp(self.norm2(x))


class SVTR(nn.Layer):
    """Text recognition of lines with a height of 32: a label for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(ConvNorm(3, 8, stride=2), ConvNorm(8, 16, stride=2))
        self.blocks1 = nn.LayerList([Mixer(16, 2)])
        self.merge, self.norm = nn.Conv2D(16, 24, 3, stride=(2, 1), padding=1), nn.LayerNorm(24)
        self.blocks2 = nn.LayerList([Mixer(24, 2)])
        self.head = nn.Linear(24, 11)

    def forward(self, x):
        x = self.embed(x)
        b, c, h, w = x.shape
        x = x.flatten(2).transpose((0, 2, 1))
        for block in self.blocks1:
            x = block(x)
        x = self.merge(x.transpose((0, 2, 1)).reshape([-1, c, h, w]))
        x = self.norm(x.flatten(2).transpose((0, 2, 1)))
        for block in self.blocks2:
            x = block(x)
        x = x.transpose((0, 2, 1)).reshape([-1, 24, h // 2, w])
        x = F.adaptive_avg_pool2d(x, [1, w])
        x = x.squeeze(2).transpose((0, 2, 1))
        return F.softmax(self.head(x), axis=2)


class CRNN(nn.Layer):
    """Text recognition: columns of features through a recurrent layer of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvNorm(3, 8, stride=2), nn.MaxPool2D(2, 2), ConvNorm(8, 16), nn.MaxPool2D((8, 1), (8, 1))
        )
        self.rnn = nn.LSTM(16, 12, direction="bidirectional", num_layers=2)
        self.head = nn.Linear(24, 11)

    def forward(self, x):
        x = self.features(x)
        B, C, H, W = x.shape
        assert H == 1
        x = x.squeeze(axis=2).transpose([0, 2, 1])
        x, _ = self.rnn(x)
        labels = self.head(x)
        if not self.training:
            labels = F.softmax(labels, axis=2)
        return labels


class PicoDet(nn.Layer):
    """Detection: points of two levels, distances as expectations, and multi-class suppression."""

    def __init__(self, classes: int = 3, bins: int = 7) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.lateral = nn.LayerList([ConvNorm(width, 16, 1) for width in (12, 16)])
        self.down = ConvNorm(16, 16, stride=2)
        self.towers = nn.LayerList([nn.Conv2D(16, classes + 4 * (bins + 1), 1) for _ in range(2)])
        self.project = paddle.linspace(0, bins, bins + 1)
        self.classes, self.bins, self.strides = classes, bins, (8, 16)

    def points(self, feature, stride: int):
        h, w = paddle.shape(feature)[2], paddle.shape(feature)[3]
        xs = (paddle.arange(end=w).astype("float32") + 0.5) * stride
        ys = (paddle.arange(end=h).astype("float32") + 0.5) * stride
        ys, xs = paddle.meshgrid(ys, xs)
        return paddle.stack([xs.flatten(), ys.flatten()], axis=-1)

    def forward(self, image, scale_factor):
        _, c3, c4, _ = self.backbone(image)
        p4 = self.lateral[1](c4)
        p3 = self.lateral[0](c3) + F.interpolate(p4, size=c3.shape[2:], mode="nearest")
        scores, boxes = [], []
        for feature, tower, stride in zip((p3, p4 + self.down(p3)), self.towers, self.strides):  # noqa: B905 - the AST mode of Paddle knows no strict=
            b, _, h, w = feature.shape
            found = tower(feature)
            score, distances = found[:, : self.classes], found[:, self.classes :]
            scores.append(F.sigmoid(score.reshape([b, self.classes, h * w])))
            distances = F.softmax(distances.transpose([0, 2, 3, 1]).reshape([-1, self.bins + 1]), axis=-1)
            distances = distances.matmul(self.project).reshape([b, h * w, 4]) * stride
            centers = self.points(feature, stride)
            boxes.append(paddle.concat([centers - distances[..., :2], centers + distances[..., 2:]], axis=-1))
        boxes = paddle.concat(boxes, axis=1)
        im_scale = scale_factor.flip([1]).tile([1, 2]).unsqueeze(1)
        return self.suppressed(boxes / im_scale, paddle.concat(scores, axis=-1))

    def suppressed(self, boxes, scores):
        """As PaddleDetection's `MultiClassNMS`."""
        attrs = (0.1, 50, 20, 0.5, True, 1.0, -1)
        out, index, number = paddle._C_ops.multiclass_nms3(boxes, scores, None, *attrs)
        return out, number


class Fusion(nn.Layer):
    """PP-LiteSeg's unified attention over two sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attend = nn.Sequential(ConvNorm(4, 2), nn.Conv2D(2, 1, 3, padding=1))
        self.out = ConvNorm(width, width)

    def forward(self, low, high):
        high = F.interpolate(high, paddle.shape(low)[2:], mode="bilinear")
        parts = []
        for x in [low, high]:
            parts += [x.mean(1, keepdim=True), x.max(1, keepdim=True)]
        share = F.sigmoid(self.attend(paddle.concat(parts, axis=1)))
        return self.out(low * share + high * (1 - share))


class PPLiteSeg(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.pools = nn.LayerList([nn.AdaptiveAvgPool2D(size) for size in (1, 2, 4)])
        self.pooled = nn.LayerList([ConvNorm(24, 8, 1) for _ in range(3)])
        self.context = ConvNorm(8, 12)
        self.lateral = nn.LayerList([ConvNorm(width, 12, 1) for width in (12, 16)])
        self.fusions = nn.LayerList([Fusion(12) for _ in range(2)])
        self.head = nn.Conv2D(12, 5, 1)

    def forward(self, x):
        hw = paddle.shape(x)[2:]
        _, c3, c4, c5 = self.backbone(x)
        total = None
        size = paddle.shape(c5)[2:]
        for pool, conv in zip(self.pools, self.pooled):  # noqa: B905 - the AST mode of Paddle knows no strict=
            part = F.interpolate(conv(pool(c5)), size, mode="bilinear", align_corners=False)
            total = part if total is None else total + part
        y = self.context(total)
        for fusion, lateral, low in zip(self.fusions, reversed(list(self.lateral)), (c4, c3)):  # noqa: B905 - the AST mode of Paddle knows no strict=
            y = fusion(lateral(low), y)
        logits = F.interpolate(self.head(y), hw, mode="bilinear", align_corners=False)
        return paddle.argmax(logits, axis=1, dtype="int32"), logits


class ReducedAttention(nn.Layer):
    """SegFormer's attention over a reduced image, and a depthwise convolution in the mlp."""

    def __init__(self, width: int, heads: int, reduced: int) -> None:
        super().__init__()
        self.heads, self.width, self.reduced = heads, width, reduced
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.kv, self.proj = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        if reduced > 1:
            self.sr, self.norm = nn.Conv2D(width, width, reduced, stride=reduced), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dw = nn.Conv2D(2 * width, 2 * width, 3, padding=1, groups=2 * width)

    def attend(self, x, H, W):
        x_shape = paddle.shape(x)
        B, N = x_shape[0], x_shape[1]
        C, d = self.width, self.width // self.heads
        q = self.q(x).reshape([B, N, self.heads, d]).transpose([0, 2, 1, 3])
        if self.reduced > 1:
            x = x.transpose([0, 2, 1]).reshape([B, C, H, W])
            x = self.norm(self.sr(x).reshape([B, C, -1]).transpose([0, 2, 1]))
        k, v = self.kv(x).reshape([B, -1, 2, self.heads, d]).transpose([2, 0, 3, 1, 4])
        attention = F.softmax((q @ k.transpose([0, 1, 3, 2])) * d**-0.5, axis=-1)
        return self.proj((attention @ v).transpose([0, 2, 1, 3]).reshape([B, N, C]))

    def forward(self, x, H, W):
        x = x + self.attend(self.norm1(x), H, W)
        y = self.fc1(self.norm2(x))
        B, _, C = y.shape
        y = self.dw(y.transpose([0, 2, 1]).reshape([B, C, H, W])).flatten(2).transpose([0, 2, 1])
        return x + self.fc2(F.gelu(y))


class SegFormer(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.LayerList([nn.Conv2D(3, 8, 7, 4, 3), nn.Conv2D(8, 16, 3, 2, 1)])
        self.norms = nn.LayerList([nn.LayerNorm(8), nn.LayerNorm(16)])
        self.blocks = nn.LayerList([ReducedAttention(8, 1, 2), ReducedAttention(16, 2, 1)])
        self.linears = nn.LayerList([nn.Linear(8, 12), nn.Linear(16, 12)])
        self.fuse, self.head = ConvNorm(24, 12, 1), nn.Conv2D(12, 5, 1)

    def forward(self, image):
        features = []
        x = image
        for patch, norm, block in zip(self.patches, self.norms, self.blocks):  # noqa: B905 - the AST mode of Paddle knows no strict=
            x = patch(x)
            B, C, H, W = paddle.shape(x)
            x = block(norm(x.flatten(2).transpose([0, 2, 1])), H, W)
            x = x.reshape([B, H, W, x.shape[2]]).transpose([0, 3, 1, 2])
            features.append(x)
        size = paddle.shape(features[0])[2:]
        parts = []
        for feature, linear in zip(features, self.linears):  # noqa: B905 - the AST mode of Paddle knows no strict=
            shape = paddle.shape(feature)
            y = linear(feature.flatten(2).transpose([0, 2, 1])).transpose([0, 2, 1])
            y = y.reshape([shape[0], -1, shape[2], shape[3]])
            parts.append(F.interpolate(y, size=size, mode="bilinear", align_corners=False))
        logits = self.head(self.fuse(paddle.concat(parts[::-1], axis=1)))
        return F.interpolate(logits, size=paddle.shape(image)[2:], mode="bilinear", align_corners=False)


class ViT(nn.Layer):
    """Positions of a 4 x 4 image are interpolated to that of the call."""

    def __init__(self, width: int = 16, patch: int = 8) -> None:
        super().__init__()
        self.patch, self.width = patch, width
        self.embed = nn.Conv2D(3, width, patch, patch)
        self.cls = self.create_parameter([1, 1, width])
        self.positions = self.create_parameter([1, 17, width])
        self.blocks = nn.LayerList([Mixer(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 7)

    def interpolated(self, x, w, h):
        count = x.shape[1] - 1
        stored = self.positions.shape[1] - 1
        if count == stored and w == h:
            return self.positions
        side = int(math.sqrt(stored))
        patches = self.positions[:, 1:].reshape([1, side, side, self.width]).transpose([0, 3, 1, 2])
        patches = F.interpolate(patches, size=(h // self.patch, w // self.patch), mode="bicubic")
        patches = patches.transpose([0, 2, 3, 1]).reshape([1, -1, self.width])
        return paddle.concat([self.positions[:, :1], patches], axis=1)

    def forward(self, x):
        B, _, h, w = x.shape
        x = self.embed(x).flatten(2).transpose([0, 2, 1])
        x = paddle.concat([self.cls.expand([B, -1, -1]), x], axis=1)
        x = x + self.interpolated(x, w, h)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
