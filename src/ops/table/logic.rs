//! Comparisons, and operators of bools and bits.

use super::{Rows, tolerance};
use crate::Fact::*;
use crate::ShapeRule::*;

pub(super) const ROWS: Rows = &[
    ("allclose", &[tolerance(2, "rtol"), tolerance(3, "atol")]),
    ("__and__", &[Shape(Broadcast)]),
    ("bitwise_and", &[Shape(Broadcast), InPlace]),
    ("bitwise_invert", &[InPlace]),
    ("bitwise_left_shift", &[InPlace]),
    ("bitwise_not", &[Shape(Same), InPlace]),
    ("bitwise_or", &[Shape(Broadcast), InPlace]),
    ("bitwise_right_shift", &[InPlace]),
    ("bitwise_xor", &[Shape(Broadcast), InPlace]),
    ("__eq__", &[Shape(Broadcast)]),
    (
        "equal",
        &[
            BesideNumber,
            NeverFails,
            Shape(Broadcast),
            InPlaceCompares,
            InPlaceOneDType,
            InPlaceOfTensors,
        ],
    ),
    ("__ge__", &[Shape(Broadcast)]),
    (
        "greater_equal",
        &[
            NeverFails,
            Shape(Broadcast),
            InPlaceCompares,
            InPlaceOneDType,
        ],
    ),
    (
        "greater_than",
        &[
            NeverFails,
            Shape(Broadcast),
            InPlaceCompares,
            InPlaceOneDType,
        ],
    ),
    ("__gt__", &[Shape(Broadcast)]),
    ("__invert__", &[Shape(Same)]),
    (
        "isclose",
        &[tolerance(2, "rtol"), tolerance(3, "atol"), Shape(Broadcast)],
    ),
    ("isfinite", &[NeverFails, Shape(Same)]),
    ("isinf", &[Shape(Same)]),
    ("isnan", &[NeverFails, Shape(Same)]),
    ("__le__", &[Shape(Broadcast)]),
    ("less", &[InPlaceCompares, InPlaceOneDType]),
    (
        "less_equal",
        &[
            NeverFails,
            Shape(Broadcast),
            InPlaceCompares,
            InPlaceOneDType,
        ],
    ),
    (
        "less_than",
        &[
            NeverFails,
            Shape(Broadcast),
            InPlaceCompares,
            InPlaceOneDType,
        ],
    ),
    ("logical_and", &[NeverFails, Shape(Broadcast), InPlace]),
    ("logical_not", &[NeverFails, Shape(Same), InPlace]),
    ("logical_or", &[NeverFails, Shape(Broadcast), InPlace]),
    ("logical_xor", &[Shape(Broadcast), InPlace]),
    ("__lt__", &[Shape(Broadcast)]),
    ("__ne__", &[Shape(Broadcast)]),
    (
        "not_equal",
        &[
            NeverFails,
            Shape(Broadcast),
            InPlaceCompares,
            InPlaceOneDType,
        ],
    ),
    ("__or__", &[Shape(Broadcast)]),
    ("__xor__", &[Shape(Broadcast)]),
];
