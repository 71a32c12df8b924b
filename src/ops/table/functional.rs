//! Functions of layers: `paddle.nn.functional`.

use super::{Rows, sizes};
use crate::Fact::*;
use crate::NumberAs;
use crate::ShapeRule::*;
use crate::Unlike;

pub(super) const ROWS: Rows = &[
    (
        "adaptive_avg_pool1d",
        &[NeverFails, Shape(PooledTo), WholeFrom(1)],
    ),
    (
        "adaptive_avg_pool2d",
        &[
            NeverFails,
            Shape(PooledTo),
            MayHaveUnknownDims,
            WholeFrom(1),
        ],
    ),
    (
        "adaptive_avg_pool3d",
        &[NeverFails, WholeFrom(1), Shape(PooledTo)],
    ),
    ("adaptive_max_pool1d", &[NeverFails, WholeFrom(1)]),
    (
        "adaptive_max_pool2d",
        &[NeverFails, Shape(PooledTo), WholeFrom(1)],
    ),
    ("adaptive_max_pool3d", &[NeverFails, WholeFrom(1)]),
    ("alpha_dropout", &[Shape(Same)]),
    ("avg_pool1d", &[NeverFails, Shape(Pooled)]),
    ("avg_pool2d", &[NeverFails, Shape(Pooled)]),
    ("avg_pool3d", &[NeverFails, Shape(Pooled)]),
    (
        "batch_norm",
        &[ForgetsResult, NeverFails, Shape(Same), KeepsDoubles],
    ),
    ("binary_cross_entropy_with_logits", &[NeverFails]),
    ("celu", &[NeverFails, Shape(Same), KeepsDoubles]),
    (
        "conv1d",
        &[
            ForgetsResult,
            NeverFails,
            Shape(Convolution),
            Differs(
                2,
                "bias",
                Unlike::SeveralDims,
                "with a bias of several dims",
            ),
        ],
    ),
    ("conv1d_transpose", &[NeverFails, WholeInLists]),
    (
        "conv2d",
        &[
            ForgetsResult,
            NeverFails,
            Shape(Convolution),
            Differs(
                2,
                "bias",
                Unlike::SeveralDims,
                "with a bias of several dims",
            ),
        ],
    ),
    (
        "conv2d_transpose",
        &[NeverFails, Shape(Batch), MayHaveUnknownDims, WholeInLists],
    ),
    (
        "conv3d",
        &[
            ForgetsResult,
            NeverFails,
            Shape(Convolution),
            Differs(
                2,
                "bias",
                Unlike::SeveralDims,
                "with a bias of several dims",
            ),
        ],
    ),
    ("conv3d_transpose", &[NeverFails, WholeInLists]),
    (
        "dropout",
        &[
            ForgetsResult,
            NeverFailsAlone,
            Shape(Same),
            Number(1, "p", NumberAs::Probability),
            Named(0, "x"),
            Named(2, "axis"),
            MayHaveUnknownDims,
            Draws,
            ProgramShares,
            Differs(
                1,
                "p",
                Unlike::TensorsBeside(2, "axis"),
                "along an axis by a tensor",
            ),
        ],
    ),
    ("dropout1d", &[MayHaveUnknownDims, Shape(Same)]),
    (
        "dropout2d",
        &[
            NeverFailsAlone,
            MayHaveUnknownDims,
            Differs(1, "p", Unlike::Tensors, "by a tensor"),
        ],
    ),
    (
        "dropout3d",
        &[
            MayHaveUnknownDims,
            Differs(1, "p", Unlike::Tensors, "by a tensor"),
        ],
    ),
    (
        "elu",
        &[
            NeverFails,
            Shape(Same),
            InPlaceCopies,
            ProgramCall,
            KeepsDoubles,
        ],
    ),
    ("embedding", &[Shape(Leading), SelectsRows]),
    ("feature_alpha_dropout", &[Shape(Same)]),
    ("gelu", &[NeverFails, Shape(Same), ProgramCall]),
    ("glu", &[Shape(Halved)]),
    ("group_norm", &[NeverFails, Shape(Same), KeepsDoubles]),
    ("hardshrink", &[Shape(Same), KeepsDoubles]),
    (
        "hardsigmoid",
        &[NeverFails, Shape(Same), ProgramCall, KeepsDoubles],
    ),
    ("hardswish", &[NeverFails, Shape(Same), ProgramCall]),
    (
        "hardtanh",
        &[
            ForgetsResult,
            NeverFails,
            InPlaceCopies,
            Shape(Same),
            KeepsDoubles,
        ],
    ),
    ("instance_norm", &[NeverFails, Shape(Same), KeepsDoubles]),
    (
        "interpolate",
        &[
            NeverFailsAlone,
            Shape(Resized),
            MayHaveUnknownDims,
            WholeInLists,
            Differs(
                2,
                "scale_factor",
                Unlike::Tensors,
                "with a tensor for a factor",
            ),
            sizes("size"),
        ],
    ),
    ("label_smooth", &[Shape(Same), KeepsDoubles]),
    (
        "layer_norm",
        &[ForgetsResult, NeverFails, Shape(Same), ProgramCall],
    ),
    (
        "leaky_relu",
        &[
            ForgetsResult,
            NeverFails,
            Shape(Same),
            InPlaceCopies,
            ProgramCall,
            KeepsDoubles,
        ],
    ),
    ("kl_div", &[NeverFails]),
    ("l1_loss", &[NeverFails]),
    ("linear", &[ForgetsResult, NeverFails, Shape(Leading)]),
    ("log_sigmoid", &[NeverFails, Shape(Same)]),
    ("log_softmax", &[NeverFails, Shape(Same)]),
    ("max_pool1d", &[NeverFails, Shape(Pooled)]),
    ("max_pool2d", &[NeverFails, Shape(Pooled)]),
    ("max_pool3d", &[NeverFails, Shape(Pooled)]),
    ("mish", &[NeverFails, Shape(Same)]),
    ("mse_loss", &[NeverFails]),
    ("normalize", &[NeverFails, Shape(Same), KeepsDoubles]),
    ("pad", &[NeverFailsAlone, MayHaveUnknownDims, WholeInLists]),
    ("pixel_shuffle", &[NeverFailsAlone]),
    ("pixel_unshuffle", &[NeverFailsAlone]),
    ("prelu", &[NeverFails]),
    (
        "relu",
        &[NeverFails, Shape(Same), InPlaceForgets, ProgramCall],
    ),
    ("relu6", &[NeverFails, Shape(Same), ProgramCall]),
    ("rms_norm", &[Shape(Same)]),
    ("selu", &[Shape(Same), KeepsDoubles]),
    (
        "sigmoid",
        &[NeverFails, Shape(Same), InPlaceForgets, ProgramCall],
    ),
    ("silu", &[NeverFails, Shape(Same), ProgramCall]),
    (
        "softmax",
        &[NeverFails, Shape(Same), InPlaceCopies, ProgramCall],
    ),
    ("softmax_with_cross_entropy", &[AllOrNothing]),
    ("smooth_l1_loss", &[NeverFails, KeepsDoubles]),
    ("softplus", &[NeverFails, Shape(Same), KeepsDoubles]),
    ("softshrink", &[Shape(Same), KeepsDoubles]),
    ("softsign", &[Shape(Same)]),
    ("square_error_cost", &[NeverFails, Shape(Broadcast)]),
    ("swish", &[NeverFails, Shape(Same)]),
    (
        "tanh",
        &[NeverFails, Shape(Same), InPlaceForgets, ProgramCall],
    ),
    ("tanhshrink", &[Shape(Same)]),
    (
        "upsample",
        &[
            NeverFailsAlone,
            Shape(Resized),
            MayHaveUnknownDims,
            WholeInLists,
            Differs(
                2,
                "scale_factor",
                Unlike::Tensors,
                "with a tensor for a factor",
            ),
            sizes("size"),
        ],
    ),
];
