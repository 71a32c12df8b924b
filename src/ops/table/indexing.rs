//! Items, rows and elements of tensors by their places: reading and writing them.

use super::Rows;
use crate::Fact::*;
use crate::NumberAs;
use crate::ShapeRule::*;
use crate::Unlike;

pub(super) const ROWS: Rows = &[
    ("fill_diagonal", &[InPlaceFollowed]),
    ("fill_diagonal_tensor", &[InPlaceFollowed]),
    ("gather", &[Shape(Gather)]),
    ("getitem", &[NeverFailsAlone]),
    ("index_add", &[ForgetsResult, InPlaceApart]),
    (
        "index_fill",
        &[
            ForgetsResult,
            Shape(Same),
            InPlaceApart,
            InPlaceNumberAt(2),
            Differs(3, "value", Unlike::Tensors, "with a tensor for a value"),
        ],
    ),
    ("index_put", &[InPlaceApart]),
    ("index_select", &[Shape(Gather)]),
    (
        "masked_fill",
        &[
            ForgetsResult,
            Number(2, "value", NumberAs::First),
            Named(0, "x"),
            InPlaceCopies,
        ],
    ),
    (
        "masked_scatter",
        &[ForgetsResult, InPlaceApart, InPlaceCopies],
    ),
    ("put_along_axis", &[InPlaceApart]),
    ("put_items", &[ForgetsResult, Shape(Same)]),
    ("scatter", &[ForgetsResult, InPlaceApart, InPlaceCopies]),
    ("scatter_add", &[InPlaceApart]),
    ("set_item", &[ForgetsResult, Shape(Same)]),
];
