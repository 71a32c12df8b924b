//! Constant folding: statements over constants run now, and their results become inputs of the
//! graph.

use std::collections::HashMap;

use paddle_sot_backend::graph::{Arg, Callee, Statement, StatementIr, SymbolId};
use paddle_sot_backend::obj::Obj;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::pure::{for_each_use, is_pure, stays_inside};

type Known = HashMap<SymbolId, Obj>;

/// Removes what can be computed now; the answer is the tensors of the inputs that were added.
pub fn fold(py: Python<'_>, sir: &mut StatementIr, max_elements: i64) -> PyResult<Vec<Obj>> {
    let pure: Vec<bool> = sir.statements.iter().map(|s| is_pure(py, s)).collect();
    let mut known = Known::new();
    let mut kept = Vec::new();
    for (statement, pure_one) in sir.statements.iter().zip(&pure) {
        match foldable(sir, &pure, *pure_one, statement, &known, max_elements) {
            Some(symbol) => {
                let value = run(py, statement, &known)?;
                known.insert(symbol, value);
            }
            None => kept.push(statement.clone()),
        }
    }
    sir.statements = kept;
    let mut constants = Vec::new();
    for symbol in used(sir) {
        if let Some(value) = known.remove(&symbol) {
            sir.inputs.push(symbol);
            constants.push(value);
        }
    }
    Ok(constants)
}

fn foldable(
    sir: &StatementIr,
    pure: &[bool],
    pure_one: bool,
    statement: &Statement,
    known: &Known,
    max_elements: i64,
) -> Option<SymbolId> {
    let Arg::Symbol(symbol) = statement.output else {
        return None;
    };
    let meta = sir.meta(symbol)?;
    let small = meta.is_static() && meta.shape.iter().product::<i64>() <= max_elements;
    let mut constant = pure_one && small && meta.stop_gradient && stays_inside(sir, pure, symbol);
    for_each_use(statement, &mut |used| constant &= known.contains_key(&used));
    constant.then_some(symbol)
}

/// The symbols that are used, each once, in order.
fn used(sir: &StatementIr) -> Vec<SymbolId> {
    let mut found = Vec::new();
    for statement in &sir.statements {
        for_each_use(statement, &mut |symbol| {
            if !found.contains(&symbol) {
                found.push(symbol);
            }
        });
    }
    found
}

fn run(py: Python<'_>, statement: &Statement, known: &Known) -> PyResult<Obj> {
    let args = objects(py, &statement.args, known)?;
    let kwargs = PyDict::new(py);
    for (name, value) in &statement.kwargs {
        kwargs.set_item(&**name, object(py, value, known)?)?;
    }
    let result = match &statement.callee {
        Callee::Api(function) => function
            .bind(py)
            .call(PyTuple::new(py, args)?, Some(&kwargs))?,
        Callee::Method(name) => {
            args[0].call_method(&**name, PyTuple::new(py, &args[1..])?, Some(&kwargs))?
        }
        _ => unreachable!("only functions and methods are pure"),
    };
    Ok(Obj::from(result))
}

fn objects<'py>(py: Python<'py>, args: &[Arg], known: &Known) -> PyResult<Vec<Bound<'py, PyAny>>> {
    args.iter().map(|arg| object(py, arg, known)).collect()
}

fn object<'py>(py: Python<'py>, arg: &Arg, known: &Known) -> PyResult<Bound<'py, PyAny>> {
    Ok(match arg {
        Arg::Symbol(symbol) => known[symbol].bind(py).clone(),
        Arg::Const(value) => value.bind(py).clone(),
        Arg::List(items) => PyList::new(py, objects(py, items, known)?)?.into_any(),
        Arg::Tuple(items) => PyTuple::new(py, objects(py, items, known)?)?.into_any(),
        _ => unreachable!("no pure function takes dicts or slices"),
    })
}
