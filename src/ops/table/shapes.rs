//! Operators and functions of which the shapes of results are all that is known.

use super::Rows;
use crate::Fact::*;
use crate::ShapeRule::*;

pub(super) const ROWS: Rows = &[
    ("angle", &[Shape(Same)]),
    ("atan2", &[Shape(Broadcast)]),
    ("deg2rad", &[Shape(Same)]),
    ("__floordiv__", &[Shape(Broadcast)]),
    ("fmax", &[Shape(Broadcast)]),
    ("fmin", &[Shape(Broadcast)]),
    ("gammainc", &[Shape(Broadcast)]),
    ("gammaincc", &[Shape(Broadcast)]),
    ("heaviside", &[Shape(Broadcast)]),
    ("i0e", &[Shape(Same)]),
    ("i1", &[Shape(Same)]),
    ("i1e", &[Shape(Same)]),
    ("isneginf", &[Shape(Same)]),
    ("isposinf", &[Shape(Same)]),
    ("isreal", &[Shape(Same)]),
    ("logaddexp", &[Shape(Broadcast)]),
    ("__mod__", &[Shape(Broadcast)]),
    ("nextafter", &[Shape(Broadcast)]),
    ("rad2deg", &[Shape(Same)]),
    ("sgn", &[Shape(Same)]),
    ("signbit", &[Shape(Same)]),
    ("sinc", &[Shape(Same)]),
    ("stanh", &[Shape(Same), KeepsDoubles]),
];
