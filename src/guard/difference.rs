//! What a failed guard found: `x.shape[0]: 4 -> 5`. Runs no code of the user's.

use pyo3::prelude::*;

use crate::obj::{is_plain_constant, name_of, shown};
use crate::paddle::tensor_meta;

use super::TensorGuard;
use super::checks::Check;
use crate::native::{self, Ptr};

/// What is there now in the place of what was; `text` is the guard in words. `None` where it is
/// more than one thing.
pub(super) fn of(py: Python<'_>, check: &Check, object: Ptr<'_>, text: &str) -> Option<String> {
    if object.is_null() {
        return None;
    }
    let found = native::to_bound(py, object);
    match check {
        Check::ConstEq(constant) => {
            let known = shown(constant.bind(py));
            let x = text.strip_suffix(&format!(" == {known}"))?;
            if !is_plain_constant(&found) {
                let was = name_of(constant.bind(py).get_type().as_any())?;
                let is = name_of(found.get_type().as_any())?;
                return Some(format!("type({x}): {was} -> {is}"));
            }
            Some(format!("{x}: {known} -> {}", shown(&found)))
        }
        Check::Is(_) => {
            let (x, known) = text.rsplit_once(" is ")?;
            let now = shown(&found);
            // Another one of the same kind looks the same.
            let another = if now == known { "another " } else { "" };
            Some(format!("{x}: {known} -> {another}{now}"))
        }
        Check::TypeIs(_) => {
            let (x, known) = text.rsplit_once(" is ")?;
            Some(format!(
                "{x}: {known} -> {}",
                name_of(found.get_type().as_any())?
            ))
        }
        Check::Len(len) => {
            let (x, _) = text.rsplit_once(" == ")?;
            Some(format!("{x}: {len} -> {}", native::length(object)?))
        }
        Check::Tensor(guard) => {
            let (x, _) = text.split_once(".shape == [")?;
            tensor(x, guard, &found)
        }
        Check::Present
        | Check::Absent
        | Check::Filled(_)
        | Check::MaxLen(_)
        | Check::Holds(..)
        | Check::Elements(_)
        | Check::DictKeys(_)
        | Check::Contiguous
        | Check::Apart(_)
        | Check::ApartFromAll(_)
        | Check::Unhooked
        | Check::PlainOptimizer
        | Check::Array(_)
        | Check::SameAs(_)
        | Check::OtherThan(_)
        | Check::Order(_)
        | Check::Registered(_)
        | Check::Named(..)
        | Check::Outcome(_)
        | Check::Quiet
        | Check::Layer(_)
        | Check::Never => None,
    }
}

/// Whether it is a tensor of other dims, or another answer of a comparison of numbers.
pub(super) fn is_of_sizes(py: Python<'_>, check: &Check, object: Ptr<'_>) -> bool {
    if object.is_null() {
        return false;
    }
    if let Check::Tensor(known) = check {
        let now = tensor_meta(&native::to_bound(py, object));
        return now.is_some_and(|now| {
            now.dtype == known.dtype
                && now.stop_gradient == known.stop_gradient
                && now.shape.len() == known.dims.len()
        });
    }
    matches!(check, Check::Outcome(_))
}

/// The first difference of a tensor: rank, dims, dtype, gradients.
fn tensor(x: &str, known: &TensorGuard, found: &Bound<'_, PyAny>) -> Option<String> {
    let Some(now) = tensor_meta(found) else {
        let class = name_of(found.get_type().as_any())?;
        return Some(format!("type({x}): Tensor -> {class}"));
    };
    if now.shape.len() != known.dims.len() {
        let (was, is) = (known.dims.len(), now.shape.len());
        return Some(format!("{x}.ndim: {was} -> {is}"));
    }
    let dims = known.dims.iter().zip(&now.shape).enumerate();
    for (at, (was, is)) in dims {
        let was = match was {
            Some(was) if was == is => continue,
            None if *is > 1 => continue,
            Some(was) => was.to_string(),
            None => "2 or more".to_owned(),
        };
        return Some(format!("{x}.shape[{at}]: {was} -> {is}"));
    }
    if now.dtype != known.dtype {
        let (was, is) = (known.dtype.as_str(), now.dtype.as_str());
        return Some(format!("{x}.dtype: paddle.{was} -> paddle.{is}"));
    }
    let flag = |stops: bool| if stops { "True" } else { "False" };
    let (was, is) = (flag(known.stop_gradient), flag(now.stop_gradient));
    (was != is).then(|| format!("{x}.stop_gradient: {was} -> {is}"))
}
