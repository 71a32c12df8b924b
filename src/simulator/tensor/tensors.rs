//! Tensors: what is known of them, and calls that become statements of the graph.

mod kept_shape;
mod tensor_attributes;
mod tensor_methods;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::backend::{ComparedDims, ComparedWith};
use crate::frame::Modules;
use crate::graph::{Arg, Callee, DType, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::TrackerRef;
use crate::variables::{Kind, NumberVar, TensorVar, VarId};

use crate::deferred::unchanged;
use crate::{Kwargs, Step, Tracer, alias_analysis, arguments, dynamic_scalar, provenance};

pub use kept_shape::keeps_shape;
pub(crate) use tensor_attributes::is_users;
pub use tensor_attributes::{attribute, lacks, may_stop};
pub use tensor_methods::{method, row, set_item};

/// Stops when the user listed this callee by name, or the backend refuses it (CDBL).
pub fn refuse_listed(t: &Tracer<'_>, callee: &Callee) -> Step<()> {
    if !t.options.black_names.is_empty() {
        let names = callee.api_names(t.py);
        let listed = |name: &&String| t.options.black_names.contains(*name);
        if let Some(name) = names.iter().find(listed) {
            let why = format!("{name}() is on the black list");
            return t.stop(BreakKind::BlackListed, why);
        }
    }
    match t.backend.refuses(t.py, callee) {
        Some(why) => t.stop(BreakKind::BlackListed, why),
        None => Ok(()),
    }
}

/// What a captured call is made on.
#[derive(Clone, Copy)]
pub enum Receiver {
    /// A method or attribute of a tensor.
    Tensor(VarId),
    /// A layer.
    Layer(SymbolId),
}

/// The metadata of a tensor.
pub fn meta_of(t: &mut Tracer<'_>, tensor: VarId) -> Option<TensorMeta> {
    symbol_and_meta(t, tensor).map(|(_, meta)| meta)
}

/// The symbol of a tensor, too.
pub fn symbol_and_meta(t: &mut Tracer<'_>, tensor: VarId) -> Option<(SymbolId, TensorMeta)> {
    let Kind::Tensor(TensorVar { symbol, .. }) = *t.kind(tensor) else {
        return None;
    };
    Some((symbol, t.graph.meta(symbol)?.clone()))
}

/// A constant that is a dtype of Paddle, or its name.
pub fn named_dtype(t: &mut Tracer<'_>, id: VarId) -> Option<DType> {
    let dtype = t.const_value(id)?;
    let known = dtype.is_exact_instance_of::<PyString>()
        || provenance::name_in_paddle(&dtype.get_type()).is_some_and(|name| name == "DataType");
    if !known {
        return None;
    }
    DType::from_name(&dtype.str().ok()?.to_string())
}

/// The dim of a tensor as a number; -1: it is open.
pub fn dim(t: &mut Tracer<'_>, (symbol, at): (SymbolId, usize), dim: i64) -> VarId {
    match dim {
        -1 => t.add(Kind::Int(NumberVar::Dim(symbol, at))),
        known => t.int(known),
    }
}

/// Sends a call of `paddle_sot_rs._graph.control.name` to the graph.
pub fn control(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<VarId> {
    let function = t.py.module("paddle_sot_rs._graph.control")?.getattr(name)?;
    let callee = Callee::Api(Obj::from(function));
    capture(t, callee, None, args, &[], &mut |_| None)
}

/// Sends a call to the graph; the answer is its result.
pub fn capture(
    t: &mut Tracer<'_>,
    callee: Callee,
    receiver: Option<Receiver>,
    args: &[VarId],
    kwargs: &Kwargs,
    locate: &mut dyn FnMut(&Obj) -> Option<TrackerRef>,
) -> Step<VarId> {
    refuse_listed(t, &callee)?;
    let symbol = match receiver {
        None => None,
        Some(Receiver::Layer(symbol)) => Some(symbol),
        Some(Receiver::Tensor(tensor)) => {
            if let Kind::Tensor(tensor) = t.kind(tensor) {
                Some(tensor.symbol)
            } else {
                return t.unsupported("a method of tensors on another object");
            }
        }
    };
    let mut given: Vec<Arg> = symbol.into_iter().map(Arg::Symbol).collect();
    for arg in args {
        given.push(arguments::to_arg(t, *arg)?);
    }
    let mut named = Vec::with_capacity(kwargs.len());
    for (name, value) in kwargs {
        named.push((name.clone(), arguments::to_arg(t, *value)?));
    }
    let loc = t.loc();
    t.graph.set_grad_enabled(t.grad.enabled);
    let of_tensor = match receiver {
        Some(Receiver::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    let args: Vec<VarId> = of_tensor.into_iter().chain(args.iter().copied()).collect();
    let named_args = kwargs.iter().map(|(_, value)| *value);
    let all = arguments::parts(t, args.iter().copied().chain(named_args));
    alias_analysis::refuse_kept_gradients(t, &all)?;
    let view = alias_analysis::recipe(t, &callee, (&args, kwargs), (&given, &named))?;
    let output = unchanged::call(t, callee, given, named, loc, locate)?;
    guard_compared(t)?;
    alias_analysis::refuse_updated(t)?;
    let named = kwargs.iter().map(|(_, value)| *value);
    let known = arguments::parts(t, args.into_iter().chain(named));
    let result = arguments::from_arg(t, &output, &known)?;
    if let Some(view) = alias_analysis::unless_copied(t, view)? {
        alias_analysis::mark(t, view, result, &known)?;
    }
    Ok(result)
}

/// A function of Paddle's has compared open dims in Python, which are all -1 there, or an operation
/// does something else where one is 0 or 1: guards keep the answer.
fn guard_compared(t: &mut Tracer<'_>) -> Step<()> {
    for compared in t.graph.take_compared() {
        // Nobody guards what is exported.
        if !t.options.varies.guards_outcomes {
            continue;
        }
        let is_so = match compared {
            ComparedDims::Known {
                left: (symbol, at),
                op,
                right,
                holds,
            } => {
                let left = t.add(Kind::Int(NumberVar::Dim(symbol, at)));
                let right = match right {
                    ComparedWith::Dim(symbol, at) => t.add(Kind::Int(NumberVar::Dim(symbol, at))),
                    ComparedWith::Number(number) => t.int(number),
                };
                dynamic_scalar::compare(t, op, left, right)? == Some(holds)
            }
            ComparedDims::Unknown => false,
        };
        if !is_so {
            return t.unsupported("what is done depends on a dim that differs between calls");
        }
    }
    Ok(())
}
