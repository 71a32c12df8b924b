//! Capturing calls of Paddle's API.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt};

use crate::frame::{Modules, PADDLE};
use crate::graph::{Callee, DType, TensorMeta, is_in_place};
use crate::obj::{Obj, module_and_name, text_of};
use crate::ops::{ASSIGN, Fact, TO_TENSOR, WHERE, knows};
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Kind, VarId, Variable};

use crate::{Kwargs, Step, Tracer};
use crate::{
    alias_analysis, arrays, device, differences, grown_lists, inplace, item, provenance,
    scalar_arguments, tensors,
};

/// Modules whose functions are API: a call of one becomes a statement.
const MODULES: &[&str] = &[
    "paddle.tensor.",
    "paddle.nn.functional.",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.vision.ops",
    "paddle.incubate.nn.functional",
    "paddle.geometric",
    "paddle._C_ops",
    "paddle.nn.utils.transform_parameters",
    "paddle.audio.functional",
    SPARSE,
    "paddle.text.viterbi_decode",
];

const SPARSE: &str = "paddle.sparse";

/// Its functions work on Python lists in eager mode: they are code like any other.
const ARRAYS: &str = "paddle.tensor.array";

enum Verdict {
    Capture,
    Refuse(String),
    /// Changes its first argument.
    InPlace {
        module: String,
        name: String,
    },
    NotOurs,
}

fn verdict(t: &Tracer<'_>, function: &Bound<'_, PyAny>) -> PyResult<Verdict> {
    if t.options.allow_list.contains(&(function.as_ptr() as usize)) {
        return Ok(Verdict::Capture);
    }
    let (module, name) = module_and_name(function);
    // Other functions of the extension change the state of the process.
    let ops =
        t.py.module("paddle._C_ops")
            .and_then(|ops| ops.getattr(name.as_str()))
            .is_ok_and(|op| op.is(function));
    let api =
        MODULES.iter().any(|prefix| module.starts_with(prefix)) || module == "paddle.nn.functional";
    let is_ours = ops || api && provenance::is_of_paddle(function);
    if !is_ours || module == ARRAYS {
        return Ok(Verdict::NotOurs);
    }
    // Programs write into the storage that sparse tensors share with others, and do not check what
    // they are made of.
    if module.starts_with(SPARSE) || ops && name.starts_with("sparse_") {
        return Ok(Verdict::Refuse(format!(
            "{module}.{name} is about sparse tensors"
        )));
    }
    if knows(&name, Fact::AsksForMode) {
        return Ok(Verdict::NotOurs);
    }
    if knows(&name, Fact::NoFunctionOfTensors) {
        return Ok(Verdict::Refuse(format!(
            "{module}.{name} is not a function of tensors"
        )));
    }
    if is_in_place(&name) {
        return Ok(Verdict::InPlace { module, name });
    }
    // What the convolutions call, which asks for settings of the process before it computes.
    if name.starts_with('_') && !ops && name != "_conv_nd" {
        return Ok(Verdict::NotOurs);
    }
    Ok(Verdict::Capture)
}

/// `paddle.finfo(dtype)`, `paddle.iinfo(dtype)`.
fn limits(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> PyResult<Option<VarId>> {
    let ([dtype], []) = (args, kwargs) else {
        return Ok(None);
    };
    let paddle = t.py.paddle()?;
    let known = ["finfo", "iinfo"]
        .into_iter()
        .any(|name| paddle.getattr(name).is_ok_and(|one| one.is(function)));
    if !known {
        return Ok(None);
    }
    t.realize(*dtype);
    let dtype = t.const_value(*dtype);
    let limits = dtype.and_then(|dtype| function.call1((dtype,)).ok());
    Ok(limits.map(|limits| t.constant(&limits)))
}

/// Most numbers of a constant that becomes part of a program.
const LARGEST_CONSTANT: usize = 4096;

/// Whether `to_tensor` is given plain numbers, and makes the same new tensor in every call.
fn makes_constant(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> bool {
    let [data, rest @ ..] = args else {
        return false;
    };
    let only_dtype = match (rest, kwargs) {
        ([], []) | ([_], []) => true,
        ([], [(name, _)]) => &**name == "dtype",
        _ => false,
    };
    let mut left = LARGEST_CONSTANT;
    only_dtype && is_plain_data(t, *data, &mut left, 0)
}

/// `to_tensor` of a scalar of NumPy that is known.
fn scalar_tensor(
    t: &mut Tracer<'_>,
    function: VarId,
    object: &Bound<'_, PyAny>,
    data: VarId,
    rest: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    t.guard_identity(function);
    let value = t.value(data).map(|value| Obj::from(&value));
    let plain = t.vars.add(Variable {
        value,
        ..Variable::new(Kind::Const)
    });
    let args = [&[plain], rest].concat();
    let callee = Callee::Api(Obj::from(object));
    tensors::capture(t, callee, None, &args, kwargs, &mut |_| None)
}

fn is_plain_data(t: &mut Tracer<'_>, id: VarId, left: &mut usize, depth: usize) -> bool {
    t.realize(id);
    if let Kind::Const = t.kind(id) {
        let number = t.const_value(id).is_some_and(|value| {
            value.is_exact_instance_of::<PyBool>()
                || value.is_exact_instance_of::<PyInt>()
                || value.is_exact_instance_of::<PyFloat>()
        });
        *left = left.saturating_sub(1);
        return number && *left > 0;
    }
    // Of NumPy.
    if let Kind::Scalar = t.kind(id) {
        return depth == 0 && t.value(id).is_some();
    }
    let Some(items) = t.kind(id).plain_items().map(<[VarId]>::to_vec) else {
        return false;
    };
    depth < 8
        && items
            .into_iter()
            .all(|item| is_plain_data(t, item, left, depth + 1))
}

/// Names of arguments that are written to, or that ask for that, and of such settings of layers.
pub(crate) const WRITTEN: &[&str] = &[
    "out",
    "output",
    "inplace",
    "y_out",
    "cache_kv",
    "cache_kvs",
    "key_cache",
    "value_cache",
];

/// That of an argument that asks for a leaf of autograd.
const LEAF: &str = "requires_grad";

/// Stops where an argument asks to write the result into a tensor, or for a tensor that needs a
/// gradient. `args` begin with `self` for a method.
pub fn check_asked(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<()> {
    let mut innermost = function.clone();
    for _ in 0..8 {
        match innermost.getattr_opt(pyo3::intern!(t.py, "__wrapped__"))? {
            Some(wrapped) => innermost = wrapped,
            None => break,
        }
    }
    let mut written: Vec<VarId> = kwargs
        .iter()
        .filter(|(name, _)| WRITTEN.contains(&&**name))
        .map(|(_, value)| *value)
        .collect();
    let leaf = kwargs.iter().find(|(name, _)| &**name == LEAF);
    if let Some((_, asked)) = leaf {
        if !is_off(t, *asked) {
            return t.stop(
                BreakId::OperatorArguments,
                "a tensor that needs a gradient is made",
            );
        }
    }
    if let Some(code) = innermost.getattr_opt(pyo3::intern!(t.py, "__code__"))? {
        let count: usize = code.getattr("co_argcount")?.extract()?;
        let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
        let given = names.iter().take(count).zip(args);
        written.extend(
            given
                .filter(|(name, _)| WRITTEN.contains(&name.as_str()))
                .map(|(_, value)| *value),
        );
    }
    for value in written {
        if !is_off(t, value) {
            return t.stop(
                BreakKind::InplaceTensor,
                "the result is written into a tensor that is given",
            );
        }
    }
    Ok(())
}

/// Whether an argument is a constant that counts as false.
fn is_off(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.realize(value);
    t.const_value(value)
        .is_some_and(|value| !value.is_truthy().unwrap_or(true))
}

/// Whether `function` is Paddle's (or marked `allow_in_graph`); if so the call becomes a statement.
/// `None`: not ours, inline it.
pub fn try_call<'py>(
    t: &mut Tracer<'py>,
    (function, object): (VarId, &Bound<'py, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if matches!(t.kind(function), Kind::Class) {
        return Ok(None);
    }
    if let Some(limits) = limits(t, object, args, kwargs)? {
        t.guard_identity(function);
        return Ok(Some(limits));
    }
    let verdict = verdict(t, object)?;
    let plain = match verdict {
        Verdict::Refuse(_) if is_of_paddle(t, object, TO_TENSOR)? => {
            Some(device::without_defaults(t, args, kwargs))
        }
        Verdict::Capture | Verdict::Refuse(_) | Verdict::InPlace { .. } | Verdict::NotOurs => None,
    };
    let (args, kwargs) = match &plain {
        Some((args, kwargs)) => (&args[..], &kwargs[..]),
        None => (args, kwargs),
    };
    match verdict {
        Verdict::NotOurs => return Ok(None),
        Verdict::Refuse(_) if plain.is_some() && makes_constant(t, args, kwargs) => {
            if let ([data, rest @ ..], Kind::Scalar) = (args, t.kind(args[0]).clone()) {
                return scalar_tensor(t, function, object, *data, rest, kwargs).map(Some);
            }
        }
        Verdict::InPlace { module, name } => {
            if let Some(done) = inplace::function(t, &module, &name, args, kwargs)? {
                t.guard_identity(function);
                return Ok(Some(done));
            }
            let why = format!("{module}.{name} changes its argument in place");
            return match args.first() {
                Some(tensor) => alias_analysis::changed(t, *tensor, why),
                None => t.stop(BreakKind::InplaceTensor, why),
            };
        }
        Verdict::Refuse(why) => {
            if plain.is_some() {
                let made = match scalar_arguments::to_tensor(t, args, kwargs)? {
                    None => arrays::to_tensor(t, args, kwargs)?,
                    made => made,
                };
                if made.is_some() {
                    t.guard_identity(function);
                    return Ok(made);
                }
            }
            return t.stop(BreakId::OperatorArguments, why);
        }
        Verdict::Capture => {}
    }
    t.guard_identity(function);
    let name = text_of(object, "__name__");
    if let Some(result) = grown_lists::call(t, &name, args, kwargs)? {
        return Ok(Some(result));
    }
    let assigns = name == ASSIGN && is_of_paddle(t, object, &name)?;
    if assigns {
        if let Some(tensor) = inplace::assign(t, args, kwargs)? {
            return Ok(Some(tensor));
        }
    }
    check_asked(t, object, args, kwargs)?;
    let changed = match scalar_arguments::knows(&name) && is_of_paddle(t, object, &name)? {
        true => scalar_arguments::of_call(t, &name, args, kwargs)?,
        false => None,
    };
    let (args, kwargs) = match &changed {
        Some((args, kwargs)) => (&args[..], &kwargs[..]),
        None => (args, kwargs),
    };
    if assigns {
        if let Some(made) = arrays::assign(t, args, kwargs)? {
            return Ok(Some(made));
        }
    }
    differences::check(t, &name, args, kwargs)?;
    let writes = match (name.as_str(), args, kwargs) {
        (ASSIGN, [_, output], []) => Some(*output),
        (ASSIGN, ..) => kwargs
            .iter()
            .find_map(|(name, value)| (&**name == "output").then_some(*value)),
        _ => None,
    };
    if name == WHERE && object.is(&t.py.paddle()?.getattr(WHERE)?) {
        if let Some(result) = choice(t, args, kwargs)? {
            return Ok(Some(result));
        }
    }
    if name == "add_n" && object.is(&t.py.paddle()?.getattr("add_n")?) {
        if let Some(result) = sum(t, args, kwargs)? {
            return Ok(Some(result));
        }
    }
    if writes.is_some_and(|output| !t.is_none(output)) {
        return t.stop(BreakKind::InplaceTensor, "assign() writes into a tensor");
    }
    if let (true, [tensor, rest @ ..]) = (alias_analysis::asks_for_shape(&name), args) {
        if is_of_paddle(t, object, &name)? && matches!(t.kind(*tensor), Kind::Tensor(_)) {
            return tensors::method(t, *tensor, &name, rest, kwargs).map(Some);
        }
    }
    if let Some(tensor) = tensors::keeps_shape(t, &name, args, kwargs)? {
        return Ok(Some(tensor));
    }
    let object = match (&changed, name.as_str()) {
        (Some(_), "dropout") => {
            t.py.module("paddle_sot_rs._graph.control")?
                .getattr("dropout")?
        }
        _ => object.clone(),
    };
    let callee = Callee::Api(Obj::from(object));
    tensors::capture(t, callee, None, args, kwargs, &mut |_| None).map(Some)
}

/// Whether this is the public function of that name.
fn is_of_paddle(t: &Tracer<'_>, function: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    for home in [PADDLE, "paddle.nn.functional"] {
        let known = t.py.module(home)?.getattr_opt(name)?;
        if known.is_some_and(|known| known.is(function)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `paddle.where(condition, x, y)` of tensors and numbers, or `condition.where(x, y)`; `None` for
/// the other forms, and for what eager mode refuses.
pub fn choice(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let mut given: Vec<Option<VarId>> = args.iter().copied().map(Some).collect();
    given.resize(given.len().max(5), None);
    for (name, value) in kwargs {
        let at = match &**name {
            "condition" => 0,
            "x" | "input" => 1,
            "y" | "other" => 2,
            "name" => 3,
            "out" => 4,
            _ => return Ok(None),
        };
        if given[at].replace(*value).is_some() {
            return Ok(None);
        }
    }
    // Nobody looks at the name.
    let [Some(condition), Some(x), Some(y), _, out] = given[..] else {
        return Ok(None);
    };
    // It can be given by name only.
    if args.len() > 4 || out.is_some_and(|it| !t.is_none(it)) {
        return Ok(None);
    }
    if is_complex(t, x) || is_complex(t, y) {
        // A program makes a double of it, and adds zeros to reach one shape.
        return t.stop(BreakId::OperatorArguments, "where() of a complex number");
    }
    let is_tensor = tensors::meta_of(t, condition).is_some();
    if !is_tensor || !is_choice(t, x) || !is_choice(t, y) {
        return Ok(None);
    }
    check_condition(t, condition)?;
    tensors::control(t, WHERE, &[condition, x, y]).map(Some)
}

fn is_complex(t: &mut Tracer<'_>, value: VarId) -> bool {
    let value = t.const_value(value);
    value.is_some_and(|value| value.is_instance_of::<PyComplex>())
}

fn is_choice(t: &mut Tracer<'_>, value: VarId) -> bool {
    let is_number = |value: Bound<'_, PyAny>| {
        value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>()
    };
    // One that the graph makes too: what adds zeros to it forgets the sign of its zeros.
    let is_made = item::symbol(t, value).is_some();
    is_made || tensors::meta_of(t, value).is_some() || t.const_value(value).is_some_and(is_number)
}

/// Eager mode takes conditions of bools only, programs take all.
pub fn check_condition(t: &mut Tracer<'_>, condition: VarId) -> Step<()> {
    if tensors::meta_of(t, condition).is_some_and(|meta| meta.dtype != DType::Bool) {
        return t.stop(
            BreakKind::RaisesException,
            "where() of a condition that is not bool",
        );
    }
    Ok(())
}

/// `paddle.add_n(inputs)` of tensors with and without gradients; `None` for the others.
fn sum(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let inputs = match (args, kwargs) {
        ([inputs], []) => *inputs,
        ([], [(name, inputs)]) if &**name == "inputs" => *inputs,
        _ => return Ok(None),
    };
    let (Kind::List(items) | Kind::Tuple(items, None)) = t.kind(inputs).clone() else {
        return Ok(None);
    };
    let mut metas = Vec::with_capacity(items.len());
    for item in items {
        match tensors::meta_of(t, item) {
            Some(meta) => metas.push(meta),
            None => return Ok(None),
        }
    }
    let stops = |stop| metas.iter().any(|meta| meta.stop_gradient == stop);
    if !stops(true) || !stops(false) {
        return Ok(None);
    }
    // Additions of two would convert and broadcast.
    let alike = |meta: &TensorMeta| meta.dtype == metas[0].dtype && meta.shape == metas[0].shape;
    if !metas.iter().all(alike) {
        return t.stop(
            BreakId::OperatorArguments,
            "add_n() of tensors that differ in dtype or shape",
        );
    }
    tensors::control(t, "add_n", &[inputs]).map(Some)
}
