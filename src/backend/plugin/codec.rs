//! Graphs as Python tuples, and back. Part of the plug-in interface: see [`super::ABI_VERSION`].
//!
//! | what | tuple |
//! |---|---|
//! | graph | name, inputs, outputs, symbols, statements |
//! | symbol | `"tensor"`, dims, dtype code, stop_gradient; or `"layer"`, object |
//! | statement | callee, args, (name, arg) pairs, output, (file, line, function), whether gradients are on |
//! | callee | `"api"`, object; `"method"` or `"attribute"`, name; `"layer"`, number; `"sir"`, region |
//! | region | `"if"`, graphs, (); `"while"`, graphs, (carried,); `"pylayer"`, graphs, (name, inputs, outputs, gradients) |
//! | arg | `"symbol"`, number; `"const"`, object; `"list"` or `"tuple"`, args; `"dict"`, pairs; `"slice"`, 3 args; `"named"`, class, args |

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::bytecode::SourceLoc;
use crate::graph::{
    Arg, Callee, DType, LayerRef, Region, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta,
};
use crate::obj::Obj;

type Encoded<'py> = PyResult<Bound<'py, PyAny>>;

fn pack<'py, T: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>>(
    py: Python<'py>,
    items: T,
) -> Encoded<'py>
where
    T::Error: Into<PyErr>,
{
    Ok(items.into_pyobject(py).map_err(Into::into)?.into_any())
}

fn many<'py, T>(
    py: Python<'py>,
    items: &[T],
    encode: impl Fn(&T) -> Encoded<'py>,
) -> PyResult<Bound<'py, PyTuple>> {
    let items = items.iter().map(encode).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, items)
}

fn numbers<'py>(py: Python<'py>, symbols: &[SymbolId]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, symbols.iter().map(|symbol| symbol.0))
}

fn encode_arg<'py>(py: Python<'py>, arg: &Arg) -> Encoded<'py> {
    let args = |items: &[Arg]| many(py, items, |item| encode_arg(py, item));
    match arg {
        Arg::Symbol(symbol) => pack(py, ("symbol", symbol.0)),
        Arg::Const(value) => pack(py, ("const", value.bind(py))),
        Arg::List(items) => pack(py, ("list", args(items)?)),
        Arg::Tuple(items) => pack(py, ("tuple", args(items)?)),
        Arg::Slice(parts) => pack(py, ("slice", args(&parts[..])?)),
        Arg::NamedTuple(class, items) => pack(py, ("named", class.bind(py), args(items)?)),
        Arg::Dict(items) => {
            let pair = |(key, value): &(Obj, Arg)| pack(py, (key.bind(py), encode_arg(py, value)?));
            pack(py, ("dict", many(py, items, pair)?))
        }
    }
}

/// A callee as a tuple.
pub fn encode_callee<'py>(py: Python<'py>, callee: &Callee) -> Encoded<'py> {
    match callee {
        Callee::Api(function) => pack(py, ("api", function.bind(py))),
        Callee::Method(name) => pack(py, ("method", &**name)),
        Callee::Attribute(name) => pack(py, ("attribute", &**name)),
        Callee::Layer(symbol) => pack(py, ("layer", symbol.0)),
        Callee::Sir(region) => pack(py, ("sir", encode_region(py, region)?)),
    }
}

fn encode_region<'py>(py: Python<'py>, region: &Region) -> Encoded<'py> {
    let blocks = region.blocks();
    let graphs = many(py, &blocks, |(_, block)| encode_sir(py, block))?;
    match region {
        Region::If { .. } => pack(py, ("if", graphs, PyTuple::empty(py))),
        Region::While {
            carried,
            differentiable,
            ..
        } => pack(py, ("while", graphs, (*carried, *differentiable))),
        Region::Recompute { given, .. } => pack(py, ("recompute", graphs, (given.clone(),))),
        Region::PyLayer {
            name,
            inputs,
            outputs,
            gradients,
            ..
        } => {
            let rest = (&**name, *inputs, *outputs, gradients.clone());
            pack(py, ("pylayer", graphs, rest))
        }
    }
}

fn decode_region(region: &Bound<'_, PyAny>) -> PyResult<Region> {
    let tag: String = region.get_item(0)?.extract()?;
    let graphs = decode_many(&region.get_item(1)?, decode_sir)?;
    let mut graphs = graphs.into_iter().map(Arc::new);
    let mut graph = || {
        graphs
            .next()
            .ok_or_else(|| malformed("a region without its graphs"))
    };
    let rest = region.get_item(2)?;
    Ok(match &*tag {
        "if" => Region::If {
            then: graph()?,
            otherwise: graph()?,
        },
        "while" => Region::While {
            body: graph()?,
            carried: rest.get_item(0)?.extract()?,
            differentiable: rest.get_item(1)?.extract()?,
        },
        "recompute" => Region::Recompute {
            body: graph()?,
            given: rest.get_item(0)?.extract()?,
        },
        "pylayer" => {
            let (name, inputs, outputs, gradients): (String, usize, usize, Vec<Option<usize>>) =
                rest.extract()?;
            Region::PyLayer {
                name: Arc::from(name),
                forward: graph()?,
                backward: graph()?,
                inputs,
                outputs,
                gradients,
            }
        }
        _ => return Err(malformed(&format!("a region of kind {tag:?}"))),
    })
}

fn encode_symbol<'py>(py: Python<'py>, kind: &SymbolKind) -> Encoded<'py> {
    match kind {
        SymbolKind::Layer(layer) => pack(py, ("layer", layer.bind(py))),
        SymbolKind::Tensor(meta) => {
            let dims = PyTuple::new(py, &meta.shape)?;
            pack(py, ("tensor", dims, meta.dtype as i32, meta.stop_gradient))
        }
    }
}

fn encode_statement<'py>(py: Python<'py>, statement: &Statement) -> Encoded<'py> {
    let loc = &statement.loc;
    let named = |(name, value): &(Arc<str>, Arg)| pack(py, (&**name, encode_arg(py, value)?));
    pack(
        py,
        (
            encode_callee(py, &statement.callee)?,
            many(py, &statement.args, |arg| encode_arg(py, arg))?,
            many(py, &statement.kwargs, named)?,
            encode_arg(py, &statement.output)?,
            (&*loc.file, loc.line, &*loc.function),
            statement.grad_enabled,
            statement.copies,
            statement.draws,
            numbers(py, &statement.updates)?,
        ),
    )
}

/// A graph as a tuple.
pub fn encode_sir<'py>(py: Python<'py>, sir: &StatementIr) -> Encoded<'py> {
    pack(
        py,
        (
            &sir.name,
            numbers(py, &sir.inputs)?,
            numbers(py, &sir.outputs)?,
            many(py, &sir.symbols, |kind| encode_symbol(py, kind))?,
            many(py, &sir.statements, |statement| {
                encode_statement(py, statement)
            })?,
        ),
    )
}

fn malformed(what: &str) -> PyErr {
    PyValueError::new_err(format!("a malformed graph: {what}"))
}

fn decode_many<T>(
    items: &Bound<'_, PyAny>,
    decode: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    items.try_iter()?.map(|item| decode(&item?)).collect()
}

fn decode_arg(arg: &Bound<'_, PyAny>) -> PyResult<Arg> {
    let tag: String = arg.get_item(0)?.extract()?;
    let value = arg.get_item(1)?;
    let args = |items: &Bound<'_, PyAny>| decode_many(items, decode_arg);
    Ok(match &*tag {
        "symbol" => Arg::Symbol(SymbolId(value.extract()?)),
        "const" => Arg::Const(Obj::from(value)),
        "list" => Arg::List(args(&value)?),
        "tuple" => Arg::Tuple(args(&value)?),
        "named" => Arg::NamedTuple(Obj::from(value), args(&arg.get_item(2)?)?),
        "dict" => Arg::Dict(decode_many(&value, |pair| {
            Ok((
                Obj::from(pair.get_item(0)?),
                decode_arg(&pair.get_item(1)?)?,
            ))
        })?),
        "slice" => {
            let parts: [Arg; 3] = args(&value)?
                .try_into()
                .map_err(|_| malformed("a slice has three parts"))?;
            Arg::Slice(Box::new(parts))
        }
        _ => return Err(malformed(&format!("an argument of kind {tag:?}"))),
    })
}

/// A callee from its tuple.
pub fn decode_callee(callee: &Bound<'_, PyAny>) -> PyResult<Callee> {
    let tag: String = callee.get_item(0)?.extract()?;
    let value = callee.get_item(1)?;
    let name = || Ok::<_, PyErr>(Arc::from(value.extract::<String>()?));
    Ok(match &*tag {
        "api" => Callee::Api(Obj::from(value)),
        "method" => Callee::Method(name()?),
        "attribute" => Callee::Attribute(name()?),
        "layer" => Callee::Layer(SymbolId(value.extract()?)),
        "sir" => Callee::Sir(Arc::new(decode_region(&value)?)),
        _ => return Err(malformed(&format!("a callee of kind {tag:?}"))),
    })
}

fn decode_symbol(symbol: &Bound<'_, PyAny>) -> PyResult<SymbolKind> {
    let tag: String = symbol.get_item(0)?.extract()?;
    if tag == "layer" {
        return Ok(SymbolKind::Layer(LayerRef::new(&symbol.get_item(1)?)));
    }
    let (_, dims, code, stop_gradient): (String, Vec<i64>, i32, bool) = symbol.extract()?;
    let dtype =
        DType::from_code(code).ok_or_else(|| malformed(&format!("a dtype of number {code}")))?;
    Ok(SymbolKind::Tensor(TensorMeta {
        shape: dims.into(),
        dtype,
        stop_gradient,
    }))
}

fn decode_statement(statement: &Bound<'_, PyAny>) -> PyResult<Statement> {
    let (file, line, function): (String, u32, String) = statement.get_item(4)?.extract()?;
    let updates: Vec<u32> = statement.get_item(8)?.extract()?;
    Ok(Statement {
        callee: decode_callee(&statement.get_item(0)?)?,
        args: decode_many(&statement.get_item(1)?, decode_arg)?,
        kwargs: decode_many(&statement.get_item(2)?, |pair| {
            let name: String = pair.get_item(0)?.extract()?;
            Ok((Arc::from(name), decode_arg(&pair.get_item(1)?)?))
        })?,
        output: decode_arg(&statement.get_item(3)?)?,
        grad_enabled: statement.get_item(5)?.extract()?,
        copies: statement.get_item(6)?.extract()?,
        draws: statement.get_item(7)?.extract()?,
        computes_dims: false,
        alone: false,
        updates: updates.into_iter().map(SymbolId).collect(),
        loc: SourceLoc {
            file: file.into(),
            line,
            function: function.into(),
            ..SourceLoc::default()
        },
    })
}

/// A graph from its tuple; every symbol it names exists.
pub fn decode_sir(sir: &Bound<'_, PyAny>) -> PyResult<StatementIr> {
    let symbols = |index: usize| -> PyResult<Vec<SymbolId>> {
        let numbers: Vec<u32> = sir.get_item(index)?.extract()?;
        Ok(numbers.into_iter().map(SymbolId).collect())
    };
    let sir = StatementIr {
        name: sir.get_item(0)?.extract()?,
        inputs: symbols(1)?,
        outputs: symbols(2)?,
        symbols: decode_many(&sir.get_item(3)?, decode_symbol)?,
        statements: decode_many(&sir.get_item(4)?, decode_statement)?,
    };
    check(&sir)?;
    Ok(sir)
}

/// What the rest of the engine takes for granted about a graph.
fn check(sir: &StatementIr) -> PyResult<()> {
    let mut unknown = None;
    let mut see = |symbol: SymbolId| {
        if symbol.0 as usize >= sir.symbols.len() {
            unknown = unknown.or(Some(symbol));
        }
    };
    sir.inputs
        .iter()
        .chain(&sir.outputs)
        .for_each(|id| see(*id));
    for statement in &sir.statements {
        statement.for_each_argument(&mut see);
        statement.output.for_each_symbol(&mut see);
        let needs_receiver = match &statement.callee {
            Callee::Layer(symbol) => {
                see(*symbol);
                true
            }
            Callee::Method(_) | Callee::Attribute(_) => true,
            Callee::Api(_) | Callee::Sir(_) => false,
        };
        if needs_receiver && statement.args.is_empty() {
            return Err(malformed("a method without a receiver"));
        }
    }
    match unknown {
        Some(symbol) => Err(malformed(&format!("symbol {symbol} is not defined"))),
        None => Ok(()),
    }
}
