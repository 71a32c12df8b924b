//! `print` in functions that have to be one graph.
//!
//! Tensors are printed by the graph, and so are lines in captured control flow. Other lines without
//! tensors are printed after it, before all other effects; where that would change the order of
//! what can be seen, `print` breaks the graph.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

use crate::frame::Modules;
use crate::graph::{Callee, Statement};
use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use crate::phi::refuse;
use crate::{Kwargs, Step, Tracer};
use crate::{fold, tensor_scalar};

/// Most items of a line, with those of its containers.
const LONGEST: usize = 256;

/// `print(*args, **kwargs)`; `None` where it is not captured.
pub fn print(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let is_line = |id: &&VarId| matches!(t.vars.kind(**id), Kind::Tuple(..));
    let lines = t.left_behind.iter().filter(is_line).count();
    if args.iter().any(|arg| tensor_scalar::is_captured(t, *arg)) {
        return match kwargs.is_empty() && lines == 0 {
            true => show(t, args).map(Some),
            false => Ok(None),
        };
    }
    if t.flow.is_captured() && kwargs.is_empty() && lines == 0 {
        let mut left = LONGEST;
        if args.iter().all(|arg| is_plain(t, *arg, true, &mut left)) {
            return show(t, args).map(Some);
        }
    }
    let others = t.left_behind.len() > lines || t.changes_what_exists();
    let mut left = LONGEST;
    if !args.iter().all(|arg| is_plain(t, *arg, false, &mut left)) {
        return Ok(None);
    }
    if others || t.flow.is_captured() || t.options.forward_only {
        return Ok(None);
    }
    let mut parts = vec![t.none(), t.none()];
    for (name, value) in kwargs {
        let at = match &**name {
            "sep" => 0,
            "end" => 1,
            _ => return Ok(None),
        };
        if !t.is_none(*value) && t.const_str(*value).is_none() {
            return Ok(None);
        }
        parts[at] = *value;
    }
    parts.extend(args);
    let line = t.add(Kind::Tuple(parts, None));
    t.left_behind.push(line);
    Ok(Some(t.none()))
}

/// The graph prints it. What lists and tuples show is known here, as it is now.
fn show(t: &mut Tracer<'_>, args: &[VarId]) -> Step<VarId> {
    let mut shown = Vec::with_capacity(args.len());
    for arg in args {
        t.realize(*arg);
        let mut left = LONGEST;
        let holds = matches!(t.kind(*arg), Kind::List(_) | Kind::Tuple(..));
        let text = match holds && is_plain(t, *arg, true, &mut left) {
            true => fold::to_object(t, *arg),
            false => None,
        };
        shown.push(match text {
            Some(object) => t.str(object.str()?.to_str()?),
            None => *arg,
        });
    }
    tensor_scalar::statement(t, "show", &shown)
}

/// Stops where the graph would check something behind a line that it prints: where that fails, the
/// interpreter runs everything again, and the line would be there twice.
pub fn refuse_check(t: &Tracer<'_>) -> Step<()> {
    match t.options.forward_only || !has(t, &t.graph.sir.statements, "show")? {
        true => Ok(()),
        false => refuse(t, "what it checks comes after a print"),
    }
}

/// The same for a round of a loop: its checks come after the lines of the rounds before.
pub fn refuse_checks_of_rounds(t: &Tracer<'_>, round: &[Statement]) -> Step<()> {
    let speaks = !t.options.forward_only && has(t, round, "show")? && has(t, round, "check")?;
    match speaks {
        true => refuse(t, "a round checks something, and prints"),
        false => Ok(()),
    }
}

/// The same for a loop of which a variable may lose its last item, where the program fails.
pub fn refuse_rounds_that_empty(t: &Tracer<'_>, round: &[Statement]) -> Step<()> {
    let statements = &t.graph.sir.statements;
    let speaks = has(t, round, "show")? || has(t, statements, "show")?;
    match speaks && !t.options.forward_only {
        true => refuse(t, "a variable of the loop may get empty behind a print"),
        false => Ok(()),
    }
}

/// Whether this function of `paddle_sot_rs._graph.control` is called, also in nested graphs.
fn has(t: &Tracer<'_>, statements: &[Statement], name: &str) -> Step<bool> {
    let function = t.py.module("paddle_sot_rs._graph.control")?.getattr(name)?;
    Ok(calls(statements, &Obj::from(function)))
}

fn calls(statements: &[Statement], function: &Obj) -> bool {
    statements.iter().any(|it| match &it.callee {
        Callee::Api(callee) => callee.is(function),
        Callee::Sir(region) => {
            let mut blocks = region.blocks().into_iter();
            blocks.any(|(_, block)| calls(&block.statements, function))
        }
        Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => false,
    })
}

/// Whether showing it runs no code of the user, and it shows the same later, or `now`.
fn is_plain(t: &mut Tracer<'_>, id: VarId, now: bool, left: &mut usize) -> bool {
    t.realize(id);
    *left = left.saturating_sub(1);
    if *left == 0 {
        return false;
    }
    // A list from outside or of the frame may change before the line is printed.
    let items = match now {
        true => t.kind(id).plain_items(),
        false => t.kind(id).exact_tuple(),
    };
    if let Some(items) = items.map(<[VarId]>::to_vec) {
        return items.into_iter().all(|item| is_plain(t, item, now, left));
    }
    matches!(t.kind(id), Kind::Text(_))
        || t.const_value(id).is_some_and(|value| {
            value.is_none()
                || value.is_exact_instance_of::<PyString>()
                || value.is_exact_instance_of::<PyInt>()
                || value.is_exact_instance_of::<PyFloat>()
                || value.is_exact_instance_of::<PyBool>()
        })
}
