//! Operations that have a form in place.

use crate::ops::RESHAPES;

/// Operations whose in-place form gives what they give.
pub(super) const FORMS: &[&str] = &[
    "add",
    "subtract",
    "scale",
    "relu",
    "tanh",
    "sigmoid",
    "exp",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "multiply",
    "divide",
    "clip",
    "abs",
    "floor",
    "ceil",
    "round",
    "neg",
    "square",
    "masked_fill",
    "tril",
    "triu",
    "leaky_relu",
    "elu",
    "softmax",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "cos",
    "cosh",
    "digamma",
    "div",
    "erfinv",
    "floor_divide",
    "floor_mod",
    "frac",
    "gammaln",
    "gcd",
    "hypot",
    "i0",
    "lcm",
    "ldexp",
    "lerp",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "mod",
    "mul",
    "multigammaln",
    "nan_to_num",
    "polygamma",
    "pow",
    "remainder",
    "sin",
    "sinh",
    "sub",
    "tan",
    "trunc",
    "addmm",
    "baddbmm",
    "clamp",
    "erf",
    "expm1",
    "gammainc",
    "gammaincc",
    "hardtanh",
    "renorm",
    "thresholded_relu",
];

/// How many of those do not need what the tensor was for their own gradient.
pub(super) const DIFFERENTIABLE: usize = 10;

/// The same of those that read other numbers of the tensor than the one they write: with the tensor
/// for another argument too they would read what they have written.
pub(super) const APART: &[&str] = &[
    "cumprod",
    "cumsum",
    "index_add",
    "index_fill",
    "index_put",
    "masked_scatter",
    "put_along_axis",
    "scatter",
    "scatter_add",
];

/// The same of those whose result is bool, whatever the tensor was.
pub(super) const COMPARE: &[&str] = &[
    "equal",
    "greater_equal",
    "greater_than",
    "less",
    "less_equal",
    "less_than",
    "not_equal",
];

/// The same of those whose result may have another shape or dtype, next to `RESHAPES`; none needs
/// what the tensor was for its gradient.
const REFORMED: &[&str] = &["cast", "flatten", "squeeze", "t", "transpose", "unsqueeze"];

/// Whether the result may have another shape or dtype, and a gradient that needs no numbers.
pub(super) fn reforms(form: &str) -> bool {
    REFORMED.contains(&form) || RESHAPES.contains(&form)
}

/// Those that are captured as functions of `_followed.py`, and need nothing of the tensor for their
/// gradient.
pub(super) const FOLLOWED: &[&str] = &["fill_diagonal", "fill_diagonal_tensor"];

/// Those that draw new numbers, whatever the tensor holds: functions of `_followed.py`. Where
/// gradients flow to the tensor, eager mode gives what it was zeros.
pub(super) const DRAWN: &[&str] = &[
    "bernoulli",
    "cauchy",
    "exponential",
    "gaussian",
    "geometric",
    "log_normal",
    "normal",
    "uniform",
];
