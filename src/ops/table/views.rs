//! Tensors and views.

use super::{MAY_HAVE_GAPS, OF_A_TENSOR, Rows, along, sizes};
use crate::Fact::*;
use crate::ShapeRule::*;
use crate::Unlike;

/// The tensor without its gradient: what the simulator asks for itself.
pub const DETACH: &str = "detach";

/// The same numbers in another dtype.
pub const ASTYPE: &str = "astype";

/// The shape of a list, or another dtype of the same memory: it copies nothing.
pub const VIEW: &str = "view";

/// The tensor, in storage of its own where it has gaps or another order.
pub const CONTIGUOUS: &str = "contiguous";

pub(super) const ROWS: Rows = &[
    ("as_complex", &[View, MAY_HAVE_GAPS]),
    ("as_real", &[View]),
    ("as_strided", &[View, ProgramView]),
    (ASTYPE, &[View, NeverFails, Shape(Same)]),
    ("atleast_1d", &[View]),
    ("atleast_2d", &[View]),
    ("atleast_3d", &[View]),
    ("broadcast_tensors", &[View, AllOrNothing, OF_A_TENSOR]),
    (
        "broadcast_to",
        &[Shape(Expand), View, MayHaveUnknownDims, WholeFrom(1)],
    ),
    ("cartesian_prod", &[View]),
    (
        "cast",
        &[
            View,
            NeverFails,
            Shape(Same),
            InPlaceReforms,
            ProgramShares,
            ProgramCall,
        ],
    ),
    ("channel_shuffle", &[View]),
    ("chunk", &[Shape(Split), View, NeverFailsAlone, OneKernel]),
    ("conj", &[View, Shape(Same)]),
    (CONTIGUOUS, &[View, Shape(Same)]),
    (DETACH, &[CheapView, KeepsOrder, NeverFails, Shape(Same)]),
    ("diagonal", &[CheapView, ProgramView]),
    ("dsplit", &[View, OneKernel]),
    ("einsum", &[View]),
    (
        "expand",
        &[
            Shape(Expand),
            View,
            NeverFailsAlone,
            MayHaveUnknownDims,
            ProgramShares,
            WholeFrom(1),
        ],
    ),
    ("expand_as", &[View]),
    (
        "flatten",
        &[
            CheapView,
            KeepsOrder,
            NeverFailsAlone,
            Shape(Flatten),
            InPlaceReforms,
            ProgramView,
        ],
    ),
    (
        "__getitem__",
        &[
            CheapView,
            ForgetsArguments,
            SavesPlaces,
            Shape(GetItem),
            MayHaveUnknownDims,
        ],
    ),
    ("H", &[View]),
    ("hsplit", &[View, OneKernel]),
    ("imag", &[View, ProgramShares]),
    ("matrix_transpose", &[CheapView]),
    ("mH", &[View]),
    ("moveaxis", &[CheapView]),
    ("mT", &[CheapView]),
    // Eager mode goes back through the strides of its operand.
    (
        "narrow",
        &[
            View,
            Differs(
                0,
                "input",
                Unlike::MayHaveGaps,
                "of a tensor that may have gaps",
            ),
        ],
    ),
    ("permute", &[CheapView, along(1, "perm")]),
    ("ravel", &[View]),
    ("real", &[View, ProgramShares]),
    (
        "reshape",
        &[
            CheapView,
            NeverFailsAlone,
            Shape(Reshape),
            InPlaceReforms,
            InPlaceListAt(0),
            MayHaveUnknownDims,
            ProgramView,
            WholeFrom(1),
            sizes("shape"),
        ],
    ),
    ("rot90", &[View]),
    ("select", &[View]),
    (
        "slice",
        &[CheapView, MayHaveUnknownDims, ProgramView, WholeFrom(1)],
    ),
    (
        "split",
        &[
            Shape(Split),
            View,
            NeverFailsAlone,
            OneKernel,
            MayHaveUnknownDims,
            ProgramShares,
            Differs(
                1,
                "num_or_sections",
                Unlike::TensorsInList,
                "with a list of tensors",
            ),
        ],
    ),
    (
        "squeeze",
        &[
            Shape(Squeeze),
            CheapView,
            KeepsOrder,
            NeverFailsAlone,
            InPlaceReforms,
            ProgramView,
        ],
    ),
    ("strided_slice", &[View, ProgramView, WholeFrom(1)]),
    (
        "swapaxes",
        &[
            CheapView,
            along(1, "axis0"),
            along(2, "axis1"),
            along(1, "dim0"),
            along(2, "dim1"),
        ],
    ),
    (
        "swapdims",
        &[
            CheapView,
            along(1, "axis0"),
            along(2, "axis1"),
            along(1, "dim0"),
            along(2, "dim1"),
        ],
    ),
    ("T", &[Shape(Reversed), CheapView]),
    ("t", &[Shape(Reversed), CheapView, InPlaceReforms]),
    ("tensor_split", &[View, OneKernel]),
    (
        "transpose",
        &[
            CheapView,
            NeverFailsAlone,
            ForgetsArguments,
            ForgetsResult,
            Shape(Transpose),
            InPlaceReforms,
            InPlaceListAt(0),
            ProgramView,
            along(1, "perm"),
        ],
    ),
    ("unbind", &[CheapView, OneKernel, ProgramView]),
    ("unflatten", &[CheapView, MayHaveUnknownDims]),
    ("unfold", &[View]),
    (
        "unsqueeze",
        &[
            CheapView,
            KeepsOrder,
            NeverFailsAlone,
            Shape(Unsqueeze),
            InPlaceReforms,
            ProgramView,
            WholeFrom(1),
        ],
    ),
    (VIEW, &[CheapView, Shape(Reshape)]),
    ("view_as", &[View]),
    ("view_as_complex", &[View, MAY_HAVE_GAPS]),
    ("view_as_real", &[View]),
    ("vsplit", &[View, OneKernel]),
];
