//! Attributes of tensors: what metadata knows, what is computed, and whether they are Paddle's own.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyType};

use crate::frame::{BUILTINS, Modules};
use crate::graph::{Callee, Region, Statement};
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::paddle::is_name_of_paddle;
use crate::reason::BreakId;
use crate::tracker::{DictKey, Tracker};
use crate::variables::{Kind, TensorVar, VarId, Variable};
use crate::{
    Step, Tracer, alias_analysis, attributes, carried_aliases, classes, device, program_numbers,
    provenance, pylayer, recompute,
};

use super::{Receiver, capture};

/// Attributes that are known from the metadata.
const PROPERTIES: &[&str] = &["shape", "ndim", "size", "stop_gradient", "dtype", "type"];

/// Attributes that are tensors computed from this one.
const TENSOR_ATTRIBUTES: &[&str] = &["T", "mT", "H", "mH"];

/// Stops where a property of tensors is the user's; guards that it is the one it is.
fn refuse_patched(t: &mut Tracer<'_>, class: &Obj, name: &str) -> Step<()> {
    let class = class.bind(t.py).clone();
    let Ok(class) = class.cast::<PyType>() else {
        return t.unsupported("tensors without a class");
    };
    classes::guard_names(t, class, &[name]);
    let getter = attributes::lookup(class, name).and_then(|found| found.getattr("fget").ok());
    if getter.is_some_and(|getter| !provenance::is_of_paddle(&getter)) {
        return t.stop(
            BreakId::TensorObject,
            format!("attribute {name} of a tensor is not Paddle's"),
        );
    }
    Ok(())
}

/// Whether it is a parameter, and of no class of the user's.
fn is_parameter(t: &mut Tracer<'_>, tensor: VarId) -> bool {
    let class = t.type_of(tensor);
    class.is_some_and(|class| class.is(t.paddle.parameter.bind(t.py)))
}

/// Whether a tensor has no attribute of this name, guarded.
pub fn lacks(t: &mut Tracer<'_>, tensor: VarId, name: &str) -> Step<bool> {
    let Some(class) = t.type_of(tensor) else {
        return Ok(false);
    };
    if attributes::lookup(&class, name).is_some() {
        return Ok(false);
    }
    if let (Some(value), Some(source)) = (t.value(tensor), t.source(tensor)) {
        if value.getattr("__dict__")?.contains(name)? {
            return Ok(false);
        }
        let dict = Arc::new(Tracker::InstanceDict(source));
        let tracker = Tracker::DictItem(dict, DictKey::Str(Arc::from(name)));
        t.guards.add(&Arc::new(tracker), GuardKind::Absent);
    }
    classes::guard_names(t, &class, &[name, "__getattr__", "__getattribute__"]);
    Ok(true)
}

/// Whether a tensor that has gradients may have none on some way through captured control flow.
pub fn may_stop(t: &Tracer<'_>, tensor: VarId) -> bool {
    let given = if let Kind::Tensor(TensorVar { symbol, .. }) = *t.vars.kind(tensor) {
        t.graph.is_input(symbol)
    } else {
        false
    };
    let decides = |statement: &Statement| match &statement.callee {
        Callee::Sir(region) => matches!(**region, Region::If { .. } | Region::While { .. }),
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => false,
    };
    !given && (t.flow.is_captured() || t.graph.sir.statements.iter().any(decides))
}

/// The class of `x.size`: that of the number itself in Paddle 3.2, where it has no such class.
fn size_class<'py>(t: &Tracer<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    t.py.module("paddle.base.dygraph.math_op_patch")?
        .getattr_opt("TensorSize")
}

/// `x.name` for a tensor.
pub fn attribute(t: &mut Tracer<'_>, tensor: VarId, name: &str) -> Step<VarId> {
    let Kind::Tensor(var) = t.kind(tensor).clone() else {
        return t.unsupported("a method of tensors on another object");
    };
    let Some(meta) = t.graph.meta(var.symbol).cloned() else {
        return t.unsupported("a tensor without metadata");
    };
    if PROPERTIES.contains(&name) || TENSOR_ATTRIBUTES.contains(&name) {
        refuse_patched(t, &t.paddle.tensor, name)?;
    }
    match name {
        "trainable" if is_parameter(t, tensor) => {
            refuse_patched(t, &t.paddle.parameter, name)?;
            attribute(t, tensor, "stop_gradient")?;
            return Ok(t.bool(!meta.stop_gradient));
        }
        "shape" if meta.is_static() => {
            let dims = meta.shape.iter().map(|dim| t.int(*dim)).collect();
            return t.size(dims);
        }
        "shape" => {
            let dims = meta.shape.iter().enumerate();
            let dims = dims
                .map(|(at, dim)| super::dim(t, (var.symbol, at), *dim))
                .collect();
            return t.size(dims);
        }
        "ndim" => return Ok(t.int(meta.shape.len() as i64)),
        "size" if meta.is_static() => {
            let Some(class) = size_class(t)? else {
                return Ok(t.int(meta.shape.iter().product()));
            };
            let size = Obj::from(class.call1((meta.shape.to_vec(),))?);
            return Ok(t.vars.add(Variable {
                value: Some(size),
                ..Variable::new(Kind::Const)
            }));
        }
        "size" => {
            let dims = meta.shape.iter().enumerate();
            let dims: Vec<VarId> = dims
                .map(|(at, dim)| super::dim(t, (var.symbol, at), *dim))
                .collect();
            let size = program_numbers::product(t, &dims)?;
            if let (false, Some(class)) = (program_numbers::computes_dims(t), size_class(t)?) {
                t.vars
                    .update(size, |var| var.class = Some(Obj::from(class)));
            }
            return Ok(size);
        }
        "stop_gradient" => {
            recompute::check_reads(t)?;
            pylayer::check_reads(t, Some(var.symbol))?;
            let is_kept = alias_analysis::keeps_gradient(t, tensor);
            if is_kept || !meta.stop_gradient && may_stop(t, tensor) {
                return t
                    .unsupported("whether gradients stop, which captured control flow decides");
            }
            return Ok(t.bool(meta.stop_gradient));
        }
        "dtype" => {
            let dtype = t.paddle.module.bind(t.py).getattr(meta.dtype.as_str())?;
            return Ok(t.constant(&dtype));
        }
        "type" => {
            let core = t.py.module("paddle.base.core")?;
            let kinds = core.getattr("VarDesc")?.getattr("VarType")?;
            return Ok(t.constant(&kinds.getattr("DENSE_TENSOR")?));
        }
        "place" => {
            if let Some(place) = device::of_tensors(t)? {
                return Ok(place);
            }
        }
        "__class__" => {
            if carried_aliases::other_class(t, tensor).is_some() {
                return t.unsupported(carried_aliases::CLASS);
            }
            if let Some(class) = t.type_of(tensor) {
                return Ok(t.constant(class.as_any()));
            }
        }
        _ if TENSOR_ATTRIBUTES.contains(&name) => {
            return capture(
                t,
                Callee::Attribute(Arc::from(name)),
                Some(Receiver::Tensor(tensor)),
                &[],
                &[],
                &mut |_| None,
            );
        }
        _ => {}
    }
    let class = t.paddle.tensor.bind(t.py).clone();
    if var
        .class
        .as_ref()
        .is_some_and(|class| !class.is(&t.paddle.parameter))
    {
        return t.stop(
            BreakId::TensorObject,
            format!("attribute {name} of a tensor subclass"),
        );
    }
    match class.getattr(name) {
        Ok(found) if found.is_callable() => {
            if is_users(t, name) {
                let function = t.constant(&found);
                return Ok(t.add(Kind::Method {
                    receiver: tensor,
                    function,
                }));
            }
            Ok(t.add(Kind::BoundBuiltin {
                receiver: tensor,
                name: Arc::from(name),
            }))
        }
        _ => t.stop(
            BreakId::TensorObject,
            format!("attribute {name} of a tensor"),
        ),
    }
}

/// Whether a method of tensors is the user's; the class is guarded to have the method it has now.
pub(crate) fn is_users(t: &mut Tracer<'_>, name: &str) -> bool {
    let class = t.paddle.tensor.clone();
    let found = match class.bind(t.py).cast::<PyType>() {
        Ok(class) => attributes::lookup(class, name),
        Err(_) => None,
    };
    attributes::guard_type_attr(t, &class, name, found.as_ref());
    let Some(found) = found else {
        return false;
    };
    if found.is_exact_instance_of::<PyFunction>() {
        return !provenance::is_of_paddle(&found);
    }
    let module = found.getattr("__module__").and_then(|of| of.extract());
    module.is_ok_and(|of: String| !is_name_of_paddle(&of) && of != BUILTINS)
}
