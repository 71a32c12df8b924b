//! Layers, by their classes.

use super::Rows;
use crate::Fact::*;
use crate::ShapeRule::*;

pub(super) const ROWS: Rows = &[
    ("AdaptiveAvgPool1D", &[LayerNeverFails, Shape(PooledTo)]),
    ("AdaptiveAvgPool2D", &[LayerNeverFails, Shape(PooledTo)]),
    ("AdaptiveAvgPool3D", &[LayerNeverFails, Shape(PooledTo)]),
    ("AdaptiveMaxPool1D", &[LayerNeverFails]),
    ("AdaptiveMaxPool2D", &[LayerNeverFails, Shape(PooledTo)]),
    ("AdaptiveMaxPool3D", &[LayerNeverFails]),
    ("AvgPool1D", &[LayerNeverFails, Shape(Pooled)]),
    ("AvgPool2D", &[LayerNeverFails, Shape(Pooled)]),
    ("AvgPool3D", &[LayerNeverFails, Shape(Pooled)]),
    ("BatchNorm", &[ForgetsResult, LayerNeverFails, Shape(Same)]),
    (
        "BatchNorm1D",
        &[ForgetsResult, LayerNeverFails, Shape(Same)],
    ),
    (
        "BatchNorm2D",
        &[ForgetsResult, LayerNeverFails, Shape(Same)],
    ),
    (
        "BatchNorm3D",
        &[ForgetsResult, LayerNeverFails, Shape(Same)],
    ),
    ("ChannelShuffle", &[ViewLayer]),
    (
        "Conv1D",
        &[ForgetsResult, LayerNeverFails, Shape(Convolution)],
    ),
    ("Conv1DTranspose", &[LayerNeverFails, Shape(Turned)]),
    (
        "Conv2D",
        &[ForgetsResult, LayerNeverFails, Shape(Convolution)],
    ),
    (
        "Conv2DTranspose",
        &[ForgetsResult, LayerNeverFails, Shape(Turned)],
    ),
    (
        "Conv3D",
        &[ForgetsResult, LayerNeverFails, Shape(Convolution)],
    ),
    ("Conv3DTranspose", &[LayerNeverFails, Shape(Turned)]),
    ("Dropout", &[ForgetsResult, LayerNeverFails, Shape(Same)]),
    ("ELU", &[Shape(Same)]),
    ("Embedding", &[Shape(Leading)]),
    ("Flatten", &[ViewLayer, LayerNeverFails, Shape(Flatten)]),
    ("GELU", &[LayerNeverFails, Shape(Same)]),
    ("GroupNorm", &[LayerNeverFails, Shape(Same)]),
    ("Hardsigmoid", &[LayerNeverFails, Shape(Same)]),
    ("Hardswish", &[LayerNeverFails, Shape(Same)]),
    ("Identity", &[LayerNeverFails]),
    ("InstanceNorm2D", &[Shape(Same)]),
    ("LayerNorm", &[ForgetsResult, LayerNeverFails, Shape(Same)]),
    ("LeakyReLU", &[LayerNeverFails, Shape(Same)]),
    ("Linear", &[ForgetsResult, LayerNeverFails, Shape(Leading)]),
    ("MaxPool1D", &[LayerNeverFails, Shape(Pooled)]),
    ("MaxPool2D", &[LayerNeverFails, Shape(Pooled)]),
    ("MaxPool3D", &[LayerNeverFails, Shape(Pooled)]),
    ("Mish", &[Shape(Same)]),
    ("PReLU", &[LayerNeverFails]),
    ("ReLU", &[LayerNeverFails, Shape(Same)]),
    ("ReLU6", &[LayerNeverFails, Shape(Same)]),
    ("Sigmoid", &[LayerNeverFails, Shape(Same)]),
    ("Silu", &[LayerNeverFails, Shape(Same)]),
    ("Softmax", &[LayerNeverFails, Shape(Same)]),
    ("Softplus", &[Shape(Same)]),
    ("Swish", &[LayerNeverFails]),
    ("SyncBatchNorm", &[LayerNeverFails]),
    ("Tanh", &[LayerNeverFails, Shape(Same)]),
    ("Unflatten", &[ViewLayer]),
    ("Upsample", &[Shape(Resized)]),
];
