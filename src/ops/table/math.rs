//! Operators and functions of tensors.

use super::{EXPONENT, OF_A_TENSOR, Rows, along, bound};
use crate::Fact::*;
use crate::InPlaceTakes::*;
use crate::NumberAs;
use crate::ShapeRule::*;
use crate::Unlike;

/// One number everywhere, in the shape of another tensor.
pub const FULL_LIKE: &str = "full_like";

/// A choice for each element.
pub const WHERE: &str = "where";

/// A copy of a tensor, also of an array.
pub const ASSIGN: &str = "assign";

/// A tensor of one number.
pub const FULL: &str = "full";

/// A copy that gradients flow through.
pub const CLONE: &str = "clone";

pub(super) const ROWS: Rows = &[
    (
        "abs",
        &[
            ForgetsResult,
            NeverFails,
            Shape(Same),
            InPlaceCopies,
            ProgramCall,
        ],
    ),
    ("acos", &[ForgetsResult, InPlace, Shape(Same)]),
    ("acosh", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        "__add__",
        &[ForgetsResult, ForgetsArguments, Shape(Broadcast)],
    ),
    (
        "add",
        &[
            ForgetsResult,
            ForgetsArguments,
            NeverFails,
            Shape(Broadcast),
            InPlaceForgets,
            InPlaceOneDType,
            InPlaceOfExisting(Alike),
            ProgramCall,
        ],
    ),
    ("addmm", &[ForgetsResult, InPlace, KeepsDoubles]),
    ("all", &[NeverFails, Shape(Reduced)]),
    ("amax", &[NeverFails, Shape(Reduced)]),
    ("amin", &[NeverFails, Shape(Reduced)]),
    ("any", &[NeverFails, Shape(Reduced)]),
    ("argmax", &[Shape(Reduced)]),
    ("argmin", &[Shape(Reduced)]),
    ("argsort", &[Shape(Same)]),
    ("asin", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("asinh", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        ASSIGN,
        &[
            ForgetsResult,
            ForgetsArguments,
            NeverFails,
            Shape(Same),
            ProgramShares,
            ProgramCall,
        ],
    ),
    ("atan", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("atanh", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("baddbmm", &[InPlace]),
    ("bmm", &[NeverFails, Shape(MatMul)]),
    ("ceil", &[ForgetsResult, Shape(Same), InPlaceCopies]),
    (
        "clamp",
        &[ForgetsResult, InPlaceCopies, InPlaceBoundedByFloat],
    ),
    (
        "clip",
        &[
            ForgetsResult,
            NeverFailsAlone,
            Shape(Same),
            Number(1, "min", NumberAs::First),
            Number(2, "max", NumberAs::First),
            Named(0, "x"),
            InPlaceCopies,
            InPlaceBoundedByFloat,
            InPlaceOfExisting(BoundsOfFloats),
            bound(1, "min"),
            bound(2, "max"),
        ],
    ),
    ("clip_", &[bound(1, "min"), bound(2, "max")]),
    (
        CLONE,
        &[ForgetsResult, ForgetsArguments, NeverFails, Shape(Same)],
    ),
    (
        "concat",
        &[
            ForgetsResult,
            ForgetsArguments,
            NeverFailsAlone,
            Shape(Concat),
            MayHaveUnknownDims,
            OF_A_TENSOR,
            TakesRows("concat_rows"),
        ],
    ),
    ("copy", &[InPlaceOfExisting(Alike)]),
    (
        "copysign",
        &[
            BesideNumber,
            ForgetsResult,
            InPlaceCopies,
            InPlaceOneDType,
            Shape(Broadcast),
        ],
    ),
    ("cos", &[NeverFails, ForgetsResult, Shape(Same), InPlace]),
    ("cosh", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("cumprod", &[Shape(Same), InPlaceApart, InPlaceCopies]),
    (
        "cumsum",
        &[ForgetsResult, Shape(Same), InPlaceApart, InPlaceCopies],
    ),
    ("digamma", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("div", &[InPlaceCopies, InPlaceOneDType]),
    (
        "divide",
        &[
            NeverFails,
            Shape(Broadcast),
            InPlaceCopies,
            InPlaceOneDType,
            ProgramCall,
        ],
    ),
    ("erf", &[ForgetsResult, Shape(Same), InPlaceCopies]),
    ("erfinv", &[InPlaceCopies, Shape(Same)]),
    (
        "exp",
        &[NeverFails, Shape(Same), InPlaceForgets, ProgramCall],
    ),
    ("expm1", &[NeverFails, InPlaceCopies, Shape(Same)]),
    (
        "eye",
        &[
            Least(0, "num_rows", 1),
            Least(1, "num_columns", 1),
            MayHaveUnknownDims,
        ],
    ),
    ("fft_c2c", &[ForgetsResult]),
    ("fft_c2r", &[ForgetsResult]),
    ("fft_r2c", &[ForgetsResult]),
    (
        "fill",
        &[
            ForgetsResult,
            ForgetsArguments,
            NeverFails,
            Shape(Same),
            InPlaceOfExisting(OneNumber),
        ],
    ),
    ("flip", &[Shape(Same), WholeFrom(1), along(1, "axis")]),
    ("float_power", &[EXPONENT]),
    ("float_power_", &[EXPONENT]),
    ("floor", &[ForgetsResult, Shape(Same), InPlaceCopies]),
    (
        "floor_divide",
        &[
            BesideNumber,
            InPlace,
            InPlaceOneDType,
            InPlaceOfTensors,
            Shape(Broadcast),
        ],
    ),
    (
        "floor_mod",
        &[
            BesideNumber,
            ForgetsResult,
            InPlaceCopies,
            InPlaceOneDType,
            InPlaceOfTensors,
            Shape(Broadcast),
        ],
    ),
    ("frac", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        FULL,
        &[
            NeverFailsOfConstants,
            Number(1, "fill_value", NumberAs::Dtype),
            Named(2, "dtype"),
            Shape(Made),
            MayHaveUnknownDims,
            Differs(
                1,
                "fill_value",
                Unlike::Rounded,
                "of a complex number with the digits of a double",
            ),
            Differs(
                1,
                "fill_value",
                Unlike::ComplexBeside(2, "dtype"),
                "of a complex number and a dtype",
            ),
        ],
    ),
    (
        FULL_LIKE,
        &[
            Shape(Same),
            Number(1, "fill_value", NumberAs::DtypeOrFirst),
            Named(0, "x"),
            Named(2, "dtype"),
        ],
    ),
    ("gammaln", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("gcd", &[InPlace, Shape(Broadcast)]),
    ("hypot", &[InPlace, InPlaceOneDType, Shape(Broadcast)]),
    ("i0", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("lcm", &[InPlace, Shape(Broadcast)]),
    ("ldexp", &[ForgetsResult, InPlaceCopies, Shape(Broadcast)]),
    (
        "lerp",
        &[
            Number(2, "weight", NumberAs::First),
            Named(0, "x"),
            InPlaceCopies,
        ],
    ),
    ("lgamma", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        "log",
        &[NeverFails, ForgetsResult, Shape(Same), InPlace, ProgramCall],
    ),
    ("log10", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        "log1p",
        &[NeverFails, ForgetsResult, InPlaceCopies, Shape(Same)],
    ),
    ("log2", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("logit", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("lu_unpack", &[AllOrNothing]),
    ("__matmul__", &[ForgetsResult, Shape(MatMul)]),
    (
        "matmul",
        &[ForgetsResult, NeverFails, Shape(MatMul), ProgramCall],
    ),
    ("maximum", &[NeverFails, Shape(Broadcast), ProgramCall]),
    (
        "mean",
        &[
            Shape(Reduced),
            ForgetsResult,
            ForgetsArguments,
            NeverFails,
            MayHaveUnknownDims,
            WholeFrom(1),
        ],
    ),
    ("meshgrid", &[AllOrNothing]),
    ("minimum", &[NeverFails, Shape(Broadcast), ProgramCall]),
    ("mm", &[NeverFails, Shape(MatMul)]),
    (
        "mod",
        &[
            BesideNumber,
            ForgetsResult,
            InPlaceCopies,
            InPlaceOneDType,
            InPlaceOfTensors,
            Shape(Broadcast),
        ],
    ),
    (
        "__mul__",
        &[ForgetsResult, ForgetsBesideNumber, Shape(Broadcast)],
    ),
    (
        "mul",
        &[ForgetsResult, NeverFails, InPlace, InPlaceOneDType],
    ),
    ("multi_dot", &[OF_A_TENSOR]),
    ("multigammaln", &[ForgetsResult, InPlaceCopies]),
    (
        "multiply",
        &[
            ForgetsResult,
            NeverFails,
            Shape(Broadcast),
            InPlace,
            InPlaceOneDType,
            InPlaceOfExisting(Alike),
            ProgramCall,
        ],
    ),
    ("logsumexp", &[NeverFails, Shape(Reduced)]),
    ("nan_to_num", &[ForgetsResult, Shape(Same), InPlaceCopies]),
    (
        "nanquantile",
        &[Differs(1, "q", Unlike::Tensor, "where a tensor says")],
    ),
    ("__neg__", &[ForgetsArguments, Shape(Same)]),
    (
        "neg",
        &[ForgetsResult, NeverFails, Shape(Same), InPlaceCopies],
    ),
    ("negative", &[NeverFails, Shape(Same)]),
    ("ones_like", &[NeverFails, Shape(Same)]),
    ("polygamma", &[ForgetsResult, InPlaceCopies]),
    (
        "pow",
        &[
            BesideNumber,
            NeverFailsAlone,
            ForgetsResult,
            InPlace,
            InPlaceNumberAt(0),
            EXPONENT,
            Shape(Broadcast),
        ],
    ),
    ("__pow__", &[EXPONENT, Shape(Broadcast)]),
    ("pow_", &[EXPONENT]),
    ("qr", &[AllOrNothing]),
    (
        "quantile",
        &[Differs(1, "q", Unlike::Tensor, "where a tensor says")],
    ),
    ("quotient", &[Shape(Same)]),
    (
        "__radd__",
        &[ForgetsResult, ForgetsArguments, Shape(Broadcast)],
    ),
    ("radd", &[NeverFails]),
    ("reciprocal", &[InPlaceForgets, Shape(Same)]),
    (
        "remainder",
        &[
            BesideNumber,
            ForgetsResult,
            InPlaceCopies,
            InPlaceOneDType,
            InPlaceOfTensors,
            Shape(Broadcast),
        ],
    ),
    ("renorm", &[ForgetsResult, InPlaceCopies, KeepsDoubles]),
    (
        "__rmul__",
        &[ForgetsResult, ForgetsBesideNumber, Shape(Broadcast)],
    ),
    ("rmul", &[NeverFails]),
    ("round", &[ForgetsResult, Shape(Same), InPlaceCopies]),
    ("__rpow__", &[EXPONENT]),
    (
        "rsqrt",
        &[NeverFails, Shape(Same), InPlaceForgets, ProgramCall],
    ),
    (
        "__rsub__",
        &[ForgetsResult, ForgetsArguments, Shape(Broadcast)],
    ),
    ("rsub", &[NeverFails]),
    ("__rtruediv__", &[Shape(Broadcast)]),
    ("rtruediv", &[NeverFails]),
    (
        "scale",
        &[
            ForgetsResult,
            ForgetsArguments,
            NeverFails,
            Shape(Same),
            Number(1, "scale", NumberAs::Factor),
            Named(0, "x"),
            InPlaceForgets,
            InPlaceOfExisting(NumbersOfFloats),
            ProgramCall,
        ],
    ),
    ("sign", &[NeverFails, Shape(Same)]),
    ("sin", &[NeverFails, ForgetsResult, Shape(Same), InPlace]),
    ("sinh", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        "sqrt",
        &[NeverFails, Shape(Same), InPlaceForgets, ProgramCall],
    ),
    (
        "square",
        &[ForgetsResult, NeverFails, Shape(Same), InPlace, ProgramCall],
    ),
    (
        "stack",
        &[
            Shape(Stack),
            ForgetsResult,
            ForgetsArguments,
            NeverFailsAlone,
            OF_A_TENSOR,
            TakesRows("stack_rows"),
        ],
    ),
    (
        "__sub__",
        &[ForgetsResult, ForgetsArguments, Shape(Broadcast)],
    ),
    (
        "sub",
        &[ForgetsResult, NeverFails, InPlaceCopies, InPlaceOneDType],
    ),
    (
        "subtract",
        &[
            ForgetsResult,
            ForgetsArguments,
            NeverFails,
            Shape(Broadcast),
            InPlaceForgets,
            InPlaceOneDType,
            InPlaceOfExisting(Alike),
            ProgramCall,
        ],
    ),
    (
        "sum",
        &[Shape(Reduced), ForgetsResult, ForgetsArguments, NeverFails],
    ),
    ("sort", &[Shape(Same)]),
    ("tan", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    (
        "thresholded_relu",
        &[ForgetsResult, InPlaceCopies, Shape(Same), KeepsDoubles],
    ),
    (
        "tile",
        &[
            Shape(Tile),
            ForgetsArguments,
            NeverFailsAlone,
            MayHaveUnknownDims,
            WholeFrom(1),
        ],
    ),
    (
        "topk",
        &[
            Shape(TopK),
            Least(1, "k", 1),
            MayHaveUnknownDims,
            Differs(1, "k", Unlike::Tensor, "of a number that is a tensor"),
        ],
    ),
    (
        "tril",
        &[NeverFails, ForgetsResult, Shape(Same), InPlaceCopies],
    ),
    (
        "triu",
        &[NeverFails, ForgetsResult, Shape(Same), InPlaceCopies],
    ),
    ("__truediv__", &[ForgetsBesideNumber, Shape(Broadcast)]),
    ("truediv", &[NeverFails]),
    ("trunc", &[ForgetsResult, InPlaceCopies, Shape(Same)]),
    ("unstack", &[AllOrNothing, ProgramShares]),
    (
        WHERE,
        &[
            NeverFails,
            Shape(Where),
            Number(1, "x", NumberAs::Next(2)),
            Number(2, "y", NumberAs::Next(1)),
            Named(1, "x"),
            Named(2, "y"),
            MayHaveUnknownDims,
        ],
    ),
    ("zero", &[InPlaceOfExisting(Nothing)]),
    ("zeros_like", &[NeverFails, Shape(Same)]),
];
