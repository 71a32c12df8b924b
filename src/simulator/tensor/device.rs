//! Places: `tensor.to(...)`, `tensor.cpu()`, `tensor.place` and the place of `to_tensor`, where
//! there is no other than the one the tensors are in; `CPUPlace()` anywhere.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyString, PyType};

use crate::abi;
use crate::frame::Modules;
use crate::graph::{Callee, DType};
use crate::ops::TO_TENSOR;
use crate::variables::{Kind, VarId};

use crate::tensors::{self, Receiver};
use crate::{Kwargs, Step, Tracer, classes, provenance};

/// What `to` was asked for.
#[derive(Default)]
struct Wanted {
    dtype: Option<DType>,
    /// Eager mode takes a dtype that is given as text for another one, and casts.
    by_text: bool,
}

/// Whether this Paddle computes on the processor and nowhere else.
fn is_one_place(t: &Tracer<'_>) -> PyResult<bool> {
    let core = t.py.module("paddle.base.core")?;
    for kind in ["cuda", "xpu", "ipu"] {
        let name = format!("is_compiled_with_{kind}");
        if core.getattr(&*name)?.call0()?.is_truthy()? {
            return Ok(false);
        }
    }
    let custom = core.call_method0("get_all_custom_device_type")?;
    Ok(custom.len()? == 0)
}

/// `None` where an argument says something else than the processor, a dtype, or another tensor.
fn wanted(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> PyResult<Option<Wanted>> {
    let mut wanted = Wanted::default();
    if args.len() + kwargs.len() == 0 || args.len() > 3 {
        return Ok(None);
    }
    let mut named: Vec<(&str, VarId)> = Vec::new();
    for (at, value) in args.iter().enumerate() {
        t.realize(*value);
        let name = match (at, named.first().map(|(name, _)| *name)) {
            (0, _) if matches!(t.kind(*value), Kind::Tensor(_)) => "other",
            (0, _) if tensors::named_dtype(t, *value).is_some() => "dtype",
            (0, _) => "device",
            (1, Some("device")) => "dtype",
            (1, _) | (2, Some("device")) => "blocking",
            _ => return Ok(None),
        };
        named.push((name, *value));
    }
    for (name, value) in kwargs {
        t.realize(*value);
        if named.iter().any(|(known, _)| *known == &**name) {
            return Ok(None);
        }
        named.push((name, *value));
    }
    let has_other = named.iter().any(|(name, _)| *name == "other");
    if has_other
        && named
            .iter()
            .any(|(name, _)| matches!(*name, "device" | "dtype"))
    {
        return Ok(None);
    }
    for (name, value) in named {
        let known = match name {
            "other" => {
                let meta = tensors::meta_of(t, value);
                wanted.dtype = meta.map(|meta| meta.dtype);
                wanted.dtype.is_some()
            }
            "dtype" if t.is_none(value) => true,
            "dtype" => {
                wanted.dtype = tensors::named_dtype(t, value);
                wanted.by_text = t.const_str(value).is_some();
                wanted.dtype.is_some()
            }
            "device" => t.is_none(value) || t.const_str(value).is_some_and(|text| &*text == "cpu"),
            "blocking" | "non_blocking" => {
                let value = t.const_value(value);
                value.is_some_and(|value| value.is_none() || value.is_exact_instance_of::<PyBool>())
            }
            _ => false,
        };
        if !known {
            return Ok(None);
        }
    }
    Ok(Some(wanted))
}

/// `tensor.to(...)`; `None` where it is not captured.
pub fn to(
    t: &mut Tracer<'_>,
    tensor: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if !is_one_place(t)? {
        return Ok(None);
    }
    let (Some(wanted), Some(meta)) = (wanted(t, args, kwargs)?, tensors::meta_of(t, tensor)) else {
        return Ok(None);
    };
    let casts = |dtype: &DType| wanted.by_text || *dtype != meta.dtype;
    let Some(dtype) = wanted.dtype.filter(casts) else {
        return Ok(Some(tensor));
    };
    // Eager mode sets `stop_gradient` of the result to that of the tensor.
    let flows = t.grad.enabled && meta.dtype.is_differentiable() && dtype.is_differentiable();
    if !meta.stop_gradient && !flows {
        return Ok(None);
    }
    let name = PyString::intern(t.py, dtype.as_str()).into_any();
    let args = [t.constant(&name)];
    let receiver = Some(Receiver::Tensor(tensor));
    let callee = Callee::Method(Arc::from("cast"));
    tensors::capture(t, callee, receiver, &args, &[], &mut |_| None).map(Some)
}

/// `tensor.cpu()`: the tensor itself.
pub fn cpu(t: &Tracer<'_>, tensor: VarId) -> PyResult<Option<VarId>> {
    Ok(is_one_place(t)?.then_some(tensor))
}

/// `tensor.place`: all have the same.
pub fn of_tensors(t: &mut Tracer<'_>) -> PyResult<Option<VarId>> {
    static PLACE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !is_one_place(t)? {
        return Ok(None);
    }
    let py = t.py;
    let place = PLACE.get_or_try_init(py, || {
        let tensor = py.paddle()?.call_method1(TO_TENSOR, (0.0,))?;
        tensor.getattr("place").map(Bound::unbind)
    })?;
    Ok(Some(t.constant(place.bind(py))))
}

/// `paddle.CPUPlace()`; `None` for other classes.
pub fn made(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> PyResult<Option<VarId>> {
    let known = provenance::name_in_paddle(class).is_some_and(|name| name == "CPUPlace");
    if !known || !args.is_empty() || !kwargs.is_empty() {
        return Ok(None);
    }
    let place = class.call0()?;
    Ok(Some(t.constant(&place)))
}

/// The arguments of `to_tensor(data, dtype, place, stop_gradient)` but for a place where tensors
/// are anyway and for gradients that stop, as they do anyway.
pub fn without_defaults(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> (Vec<VarId>, Box<Kwargs>) {
    let mut is_default = |name: &str, value: VarId| match name {
        "place" => t.is_none(value) || is_processor(t, value) && is_one_place(t).unwrap_or(false),
        "stop_gradient" => t.const_value(value).is_some_and(|value| {
            value
                .cast_exact::<PyBool>()
                .is_ok_and(|flag| flag.is_true())
        }),
        _ => false,
    };
    let mut positional = args.to_vec();
    let mut named = kwargs.to_vec();
    named.retain(|(name, value)| !is_default(name, *value));
    for (at, name) in [(3, "stop_gradient"), (2, "place")] {
        if positional.len() == at + 1 && is_default(name, positional[at]) {
            positional.pop();
        }
    }
    (positional, named.into())
}

/// Whether this is a method that says what kind of place a place is: `is_gpu_place`.
pub fn is_question(t: &mut Tracer<'_>, place: &Bound<'_, PyAny>, name: &str) -> bool {
    let class = place.get_type();
    let of_places = provenance::name_in_paddle(&class);
    let known = matches!(of_places.as_deref(), Some("CPUPlace" | "Place"))
        && name.starts_with("is_")
        && name.ends_with("_place");
    if known {
        classes::guard_names(t, &class, &[name]);
    }
    known
}

/// Whether a place that is known, or its name, is the processor.
fn is_processor(t: &mut Tracer<'_>, place: VarId) -> bool {
    if let Some(name) = t.const_str(place) {
        return &*name == "cpu";
    }
    let Some(value) = t.const_value(place) else {
        return false;
    };
    match provenance::name_in_paddle(&value.get_type()).as_deref() {
        Some("CPUPlace") => true,
        Some("Place") => abi::is_cpu_place(&value).unwrap_or(false),
        _ => false,
    }
}
