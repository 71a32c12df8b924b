//! Numbers that functions of Paddle take as arguments, as tensors of no dims: those that differ
//! between calls, which are inputs of the graph then, and those next to doubles that a program
//! would round to a float.
//!
//! Only where the result has the same bits as with the number.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyFloat;

use crate::bytecode::CmpOp;
use crate::frame::Modules;
use crate::graph::{Callee, DType};
use crate::ops::{FULL_LIKE, Fact, NumberAs, facts, said};
use crate::reason::BreakId;
use crate::tracker::number::Type;
use crate::variables::{Kind, VarId};

use crate::{Kwargs, Step, Tracer, tensors};
use crate::{arrays, dynamic_scalar, item, numpy_scalars, program_numbers, tensor_scalar};

/// The arguments of a call.
struct Given<'a> {
    name: &'a str,
    args: Vec<VarId>,
    kwargs: Vec<(Arc<str>, VarId)>,
}

impl Given<'_> {
    fn get(&self, at: usize) -> Option<VarId> {
        if let Some(arg) = self.args.get(at) {
            return Some(*arg);
        }
        let named = said!(facts(self.name), Fact::Named(place, name) if *place == at => *name);
        self.named(named?)
    }

    fn named(&self, name: &str) -> Option<VarId> {
        let mut kwargs = self.kwargs.iter();
        kwargs
            .find(|(known, _)| &**known == name)
            .map(|(_, value)| *value)
    }

    fn set(&mut self, at: usize, name: &str, value: VarId) {
        if let Some(arg) = self.args.get_mut(at) {
            *arg = value;
            return;
        }
        match self.kwargs.iter_mut().find(|(known, _)| &**known == name) {
            Some(arg) => arg.1 = value,
            None => self.kwargs.push((Arc::from(name), value)),
        }
    }
}

/// Whether arguments of a function or method of this name are looked at.
pub fn knows(name: &str) -> bool {
    let is_number =
        |fact: &Fact| matches!(fact, Fact::Number(..) | Fact::Least(..) | Fact::Count(..));
    facts(name).iter().any(is_number)
}

/// The positional and the named arguments of a call.
pub type Arguments = (Vec<VarId>, Vec<(Arc<str>, VarId)>);

/// The arguments of a call of this function or method, with tensors for numbers; `None` when all
/// stay. The receiver of a method is the first one.
pub fn of_call(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<Arguments>> {
    if !knows(name) {
        return Ok(None);
    }
    let mut given = Given {
        name,
        args: args.to_vec(),
        kwargs: kwargs.to_vec(),
    };
    check_least(t, &given)?;
    let mut changed = false;
    for fact in facts(name) {
        if let Fact::Count(at, argument) = *fact {
            let count = given.args.get(at).copied().or(given.named(argument));
            let plain = count
                .map(|count| numpy_scalars::size(t, count))
                .transpose()?;
            if let Some(plain) = plain.flatten() {
                let plain = t.constant(plain.bind(t.py));
                given.set(at, argument, plain);
                changed = true;
            }
            continue;
        }
        let Fact::Number(at, argument, kind) = *fact else {
            continue;
        };
        let number = match args.get(at) {
            Some(number) => Some(*number),
            None => given.named(argument),
        };
        let number = match number {
            Some(number) if !t.is_none(number) => number,
            _ => match missing_bound(t, &given, argument) {
                Some(bound) => bound,
                None => continue,
            },
        };
        let number = match written_out(t, name, number) {
            Some(float) => {
                given.set(at, argument, float);
                changed = true;
                float
            }
            None => number,
        };
        if matches!(kind, NumberAs::Dtype) && given.get(2).is_none_or(|dtype| t.is_none(dtype)) {
            is_of_default_dtype(t, number)?;
        }
        let Some(dtype) = wanted(t, &given, number, kind)? else {
            continue;
        };
        if name == FULL_LIKE {
            check_limits(t, number, dtype)?;
        }
        if let Some(symbol) = dynamic_scalar::as_tensor(t, number, dtype)? {
            let value = t.add(Kind::SymNumber(symbol));
            given.set(at, argument, value);
            changed = true;
        }
    }
    Ok(changed.then_some((given.args, given.kwargs)))
}

/// Stops at a number of the graph that may be less than the function takes; dims are guarded.
fn check_least(t: &mut Tracer<'_>, given: &Given<'_>) -> Step<()> {
    let name = given.name;
    for fact in facts(name) {
        let Fact::Least(at, argument, least) = *fact else {
            continue;
        };
        let positional = given.args.get(at).copied();
        let number = positional.or_else(|| given.named(argument));
        let Some(number) = number.filter(|number| dynamic_scalar::is_of_graph(t, *number)) else {
            continue;
        };
        let of_dims = matches!(t.kind(number), Kind::Int(_));
        let limit = t.int(least);
        // Nobody guards what is exported: the program looks.
        if t.options.forward_only {
            if let Some(fits) = tensor_scalar::comparison(t, CmpOp::Ge, number, limit)? {
                tensor_scalar::statement(t, "check", &[fits])?;
                continue;
            }
        }
        if !of_dims || dynamic_scalar::compare(t, CmpOp::Ge, number, limit)? != Some(true) {
            return t.stop(
                BreakId::OperatorArguments,
                format!("{name}() of a number that may be below {least}"),
            );
        }
    }
    Ok(())
}

/// `paddle.full(shape, "-inf")`: programs take no texts. Eager mode makes a double of it.
fn written_out(t: &mut Tracer<'_>, function: &str, value: VarId) -> Option<VarId> {
    if !function.starts_with("full") {
        return None;
    }
    let text = t.const_str(value)?;
    let plain = |text: &str| {
        let digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        digits(whole) && digits(rest)
    };
    let text = &*text;
    let known = matches!(text, "inf" | "-inf") || plain(text.strip_prefix('-').unwrap_or(text));
    let value = text.parse().ok().filter(|_| known)?;
    let value = PyFloat::new(t.py, value).into_any();
    Some(t.constant(&value))
}

/// The bound that `clip` of doubles has where none is given: in a program it is infinite.
fn missing_bound(t: &mut Tracer<'_>, given: &Given<'_>, argument: &str) -> Option<VarId> {
    let first = given.get(0)?;
    if given.name != "clip" || tensors::meta_of(t, first)?.dtype != DType::Float64 {
        return None;
    }
    let bound = match argument {
        "min" => f64::MIN,
        _ => f64::MAX,
    };
    let bound = PyFloat::new(t.py, bound).into_any();
    Some(t.constant(&bound))
}

/// The dtype that the number gets; `None` where it has to stay one.
fn wanted(
    t: &mut Tracer<'_>,
    given: &Given<'_>,
    number: VarId,
    kind: NumberAs,
) -> Step<Option<DType>> {
    let Some(class) = dynamic_scalar::class(t, number) else {
        return Ok(None);
    };
    let of = |t: &mut Tracer<'_>, at| {
        let tensor = given.get(at)?;
        Some(tensors::meta_of(t, tensor)?.dtype)
    };
    let dtype = match kind {
        NumberAs::First => of(t, 0),
        NumberAs::Dtype | NumberAs::DtypeOrFirst => {
            match given.get(2).filter(|dtype| !t.is_none(*dtype)) {
                Some(dtype) => tensors::named_dtype(t, dtype),
                None if matches!(kind, NumberAs::Dtype) => Some(default_dtype(t)?),
                None => of(t, 0),
            }
        }
        NumberAs::Next(other) => match (of(t, other), class) {
            (Some(DType::Float32 | DType::Float64), Type::Float) => Some(default_dtype(t)?),
            (Some(DType::Int64), Type::Int) => Some(DType::Int64),
            _ => None,
        },
        NumberAs::Factor => match (of(t, 0), class) {
            (Some(DType::Float32 | DType::Float64), Type::Float) => Some(DType::Float64),
            (Some(DType::Float32 | DType::Float64), Type::Int) => Some(DType::Int64),
            _ => None,
        },
        NumberAs::Probability => {
            let floating = matches!(of(t, 0), Some(DType::Float32 | DType::Float64));
            let whole = given.get(2).is_none_or(|axis| t.is_none(axis));
            let fits = floating && whole && class == Type::Float && is_probability(t, number)?;
            fits.then_some(DType::Float64)
        }
    };
    // Paddle takes floats only.
    let refused = given.name == "lerp" && class == Type::Int;
    Ok(dtype.filter(|dtype| !refused && keeps(class, *dtype)))
}

/// Whether a tensor of this dtype takes such a number without another conversion.
fn keeps(class: Type, dtype: DType) -> bool {
    match dtype {
        DType::Float32 | DType::Float64 => true,
        DType::Int64 => class == Type::Int,
        DType::Bool
        | DType::UInt8
        | DType::Int8
        | DType::UInt16
        | DType::Int16
        | DType::UInt32
        | DType::Int32
        | DType::UInt64
        | DType::Complex64
        | DType::Complex128
        | DType::Float16
        | DType::BFloat16
        | DType::Float8E4M3
        | DType::Float8E5M2 => false,
    }
}

/// The value of `tensor[key] = value`, as a tensor where that is the same; the answer is for the
/// graph.
pub fn of_item(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> Step<Option<VarId>> {
    let (Some(class), Some(meta)) = (dynamic_scalar::class(t, value), tensors::meta_of(t, tensor))
    else {
        return Ok(None);
    };
    if !keeps(class, meta.dtype) {
        return Ok(None);
    }
    // Eager mode makes a double of it.
    if meta.dtype != DType::Float64 && dynamic_scalar::is_given(t, value) {
        dynamic_scalar::check_double(t, value)?;
    }
    let symbol = dynamic_scalar::as_tensor(t, value, meta.dtype)?;
    Ok(symbol.map(|symbol| t.add(Kind::SymNumber(symbol))))
}

/// `full_like` makes a double of a whole number, and raises where the dtype does not hold the
/// number.
fn check_limits(t: &mut Tracer<'_>, number: VarId, dtype: DType) -> Step<()> {
    if dtype != DType::Float32 || !dynamic_scalar::is_given(t, number) {
        return Ok(());
    }
    dynamic_scalar::check_double(t, number)?;
    if dynamic_scalar::class(t, number) != Some(Type::Float) {
        return Ok(());
    }
    let most = f64::from(f32::MAX);
    if let Some(symbol) = item::symbol(t, number) {
        return item::is_below(t, symbol, most);
    }
    for (op, limit) in [(CmpOp::Ge, -most), (CmpOp::Le, most)] {
        let limit = t.constant(&PyFloat::new(t.py, limit).into_any());
        if dynamic_scalar::compare(t, op, number, limit)? != Some(true) {
            return t.stop(
                BreakId::OperatorArguments,
                "full_like() of a number that the dtype may not hold",
            );
        }
    }
    Ok(())
}

/// Whether a number is more than 0, with which `dropout` answers with the tensor itself, and at
/// most 1.
fn is_probability(t: &mut Tracer<'_>, number: VarId) -> Step<bool> {
    if let Some(value) = t.const_value(number) {
        let value = value.extract::<f64>();
        return Ok(value.is_ok_and(|value| 0.0 < value && value <= 1.0));
    }
    let (none, all) = (t.int(0), t.int(1));
    Ok(
        dynamic_scalar::compare(t, CmpOp::Gt, number, none)? == Some(true)
            && dynamic_scalar::compare(t, CmpOp::Le, number, all)? == Some(true),
    )
}

/// Stops at a bool of the graph that chooses the dtype: programs see a tensor, and take the default dtype.
fn is_of_default_dtype(t: &mut Tracer<'_>, number: VarId) -> Step<()> {
    let Kind::SymNumber(symbol) = *t.kind(number) else {
        return Ok(());
    };
    match t.graph.meta(symbol).map(|meta| meta.dtype) {
        Some(DType::Bool) => t.stop(
            BreakId::OperatorArguments,
            "full() of a bool that the graph makes",
        ),
        _ => Ok(()),
    }
}

fn default_dtype(t: &Tracer<'_>) -> Step<DType> {
    let name = t.py.paddle()?.call_method0("get_default_dtype")?;
    match DType::from_name(&name.str()?.to_string()) {
        Some(dtype) => Ok(dtype),
        None => t.stop(BreakId::OperatorArguments, "an unknown default dtype"),
    }
}

/// `paddle.to_tensor` of a number that differs between calls, or of a list of such.
pub fn to_tensor(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let (data, dtype) = match (args, kwargs) {
        ([data], []) => (*data, None),
        ([data, dtype], []) => (*data, Some(*dtype)),
        ([data], [(name, dtype)]) if &**name == "dtype" => (*data, Some(*dtype)),
        _ => return Ok(None),
    };
    let items = t
        .kind(data)
        .plain_items()
        .map_or_else(|| vec![data], <[VarId]>::to_vec);
    let computed = |t: &mut Tracer<'_>, id| {
        let is_dim = matches!(t.kind(id), Kind::Int(_)) && crate::arguments::depends_on_dims(t, id);
        dynamic_scalar::is_given(t, id)
            || is_dim
            || program_numbers::computes_dims(t) && program_numbers::is_of_graph(t, id)
    };
    if !items.iter().any(|item| computed(t, *item)) {
        return Ok(None);
    }
    let Some(class) = program_numbers::numbers_class(t, items[0]) else {
        return Ok(None);
    };
    let dtype = match (dtype.filter(|dtype| !t.is_none(*dtype)), class) {
        (Some(dtype), _) => tensors::named_dtype(t, dtype),
        (None, Type::Int) => Some(DType::Int64),
        (None, Type::Float) => Some(default_dtype(t)?),
    };
    let fits = match dtype {
        Some(DType::Float32 | DType::Float64) => true,
        Some(DType::Int32 | DType::Int64) => class == Type::Int,
        _ => false,
    };
    let (Some(dtype), true) = (dtype, fits) else {
        return Ok(None);
    };
    let mut parts = Vec::with_capacity(items.len());
    for item in &items {
        if program_numbers::numbers_class(t, *item) != Some(class) {
            return Ok(None);
        }
        let Some(symbol) = program_numbers::as_tensor(t, *item, dtype)? else {
            return Ok(None);
        };
        parts.push(t.add(Kind::SymNumber(symbol)));
    }
    let (name, given) = match parts[..] {
        // A new tensor, whatever else the number is for.
        [part] if items[0] == data => (arrays::NEW_TENSOR, part),
        _ => (arrays::NEW_STACK, t.add(Kind::List(parts))),
    };
    let callee = Callee::Api(arrays::made_by(t, name)?);
    tensors::capture(t, callee, None, &[given], &[], &mut |_| None).map(Some)
}
