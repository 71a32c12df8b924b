//! Common sub-expressions: the same call on the same tensors is made once.

use std::collections::HashMap;
use std::fmt::Write;

use paddle_sot_backend::graph::{Arg, Callee, Statement, StatementIr, SymbolId};
use paddle_sot_backend::obj::Obj;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

use crate::pure::{is_pure, stays_inside};

type Replaced = HashMap<SymbolId, SymbolId>;

/// Removes statements that compute what an earlier one did; the answer is how many.
pub fn merge(py: Python<'_>, sir: &mut StatementIr) -> usize {
    let pure: Vec<bool> = sir.statements.iter().map(|s| is_pure(py, s)).collect();
    let mut seen: HashMap<String, SymbolId> = HashMap::new();
    let mut replaced = Replaced::new();
    let mut kept = Vec::new();
    for (statement, pure_one) in sir.statements.iter().zip(&pure) {
        let mut statement = statement.clone();
        replace_all(&mut statement, &replaced);
        if let (Arg::Symbol(symbol), true) = (&statement.output, *pure_one) {
            let symbol = *symbol;
            let key = key(py, sir, &statement);
            match seen.get(&key) {
                Some(first) if stays_inside(sir, &pure, symbol) => {
                    replaced.insert(symbol, *first);
                    continue;
                }
                _ => seen.insert(key, symbol),
            };
        }
        kept.push(statement);
    }
    sir.statements = kept;
    replaced.len()
}

fn replace_all(statement: &mut Statement, replaced: &Replaced) {
    let named = statement.kwargs.iter_mut().map(|(_, arg)| arg);
    for arg in statement.args.iter_mut().chain(named) {
        replace(arg, replaced);
    }
}

fn replace(arg: &mut Arg, replaced: &Replaced) {
    match arg {
        Arg::Symbol(symbol) => *symbol = *replaced.get(symbol).unwrap_or(symbol),
        Arg::Const(_) => {}
        Arg::List(items) | Arg::Tuple(items) | Arg::NamedTuple(_, items) => {
            items.iter_mut().for_each(|item| replace(item, replaced));
        }
        Arg::Dict(items) => items
            .iter_mut()
            .for_each(|(_, item)| replace(item, replaced)),
        Arg::Slice(parts) => parts.iter_mut().for_each(|item| replace(item, replaced)),
    }
}

/// Equal for statements that compute the same: callee, arguments, and whether gradients flow.
fn key(py: Python<'_>, sir: &StatementIr, statement: &Statement) -> String {
    let mut text = match &statement.callee {
        Callee::Method(name) => format!("method {name}"),
        Callee::Api(function) => format!("api {:?}", function.as_ptr()),
        _ => unreachable!("only functions and methods are pure"),
    };
    for arg in &statement.args {
        describe(py, &mut text, arg);
    }
    for (name, arg) in &statement.kwargs {
        let _ = write!(text, "|{name}=");
        describe(py, &mut text, arg);
    }
    if let Arg::Symbol(symbol) = &statement.output {
        let _ = write!(text, "->{:?}", sir.meta(*symbol));
    }
    text
}

fn describe(py: Python<'_>, text: &mut String, arg: &Arg) {
    let mut many = |kind: &str, items: &[Arg]| {
        let _ = write!(text, " {kind}{}", items.len());
        items.iter().for_each(|item| describe(py, text, item));
    };
    match arg {
        Arg::List(items) => many("list", items),
        Arg::Tuple(items) => many("tuple", items),
        Arg::Const(value) => {
            let _ = write!(text, " {}", constant(py, value));
        }
        other => {
            let _ = write!(text, " {other:?}");
        }
    }
}

/// Numbers and strings by type and value (`1`, `1.0`, `True`, `-0.0` all differ), other objects by
/// identity.
fn constant(py: Python<'_>, value: &Obj) -> String {
    let object = value.bind(py);
    let plain = object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyString>();
    match object.repr() {
        Ok(text) if plain => text.to_string(),
        _ => format!("{:p}", value.as_ptr()),
    }
}
