//! Instructions that call what is on the stack, and that make functions.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::bytecode::OpTable;
use crate::call::{call, merge_kwargs, named};
use crate::frame_state::FrameState;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::variables::{FunctionVar, Kind, NewFunction, VarId};
use crate::{Step, Stop, Tracer, deferred, iterate};

use super::expressions::is_super;
use super::scopes::{cell_get_raw, cell_of};

/// Pushes what is called next, with a NULL in the place of a receiver (methods are bound already),
/// or just a value.
pub(super) fn push_callee(t: &mut Tracer<'_>, f: &mut FrameState, value: VarId, with_null: bool) {
    if !with_null {
        return f.push(value);
    }
    let null = t.null();
    let before = OpTable::get(t.py).is_ok_and(|table| table.dialect.is_null_first());
    if before {
        f.push(null);
        f.push(value);
    } else {
        f.push(value);
        f.push(null);
    }
}

pub(super) fn keyword_names(t: &mut Tracer<'_>, names: &Bound<'_, PyAny>) -> Step<Vec<Arc<str>>> {
    let names = names.cast::<PyTuple>().map_err(PyErr::from)?;
    let mut out = Vec::with_capacity(names.len());
    for name in names.iter() {
        out.push(Arc::from(name.extract::<String>()?));
    }
    let _ = t;
    Ok(out)
}

/// The keyword names of a call that are on the stack.
pub(super) fn constant_names(t: &mut Tracer<'_>, names: VarId) -> Step<Vec<Arc<str>>> {
    let items = iterate::collect(t, names)?;
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        match t.const_str(item) {
            Some(name) => names.push(name),
            None => return t.stop(BreakKind::Internal, "keyword names are not constant"),
        }
    }
    Ok(names)
}

pub(super) fn call_stack(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    argc: usize,
    names: Vec<Arc<str>>,
) -> Step<()> {
    let mut args = f.pop_n(t, argc)?;
    let second = f.pop(t)?;
    let first = f.pop(t)?;
    let is_null = |t: &Tracer<'_>, id| matches!(t.vars.kind(id), Kind::Null);
    let (callee, receiver) = if is_null(t, first) {
        (second, None)
    } else if is_null(t, second) {
        (first, None)
    } else {
        (first, Some(second))
    };
    if let Some(receiver) = receiver {
        args.insert(0, receiver);
    }
    let Some(split) = args.len().checked_sub(names.len()) else {
        return t.stop(BreakKind::Internal, "more keyword names than arguments");
    };
    let values = args.split_off(split);
    let kwargs: Vec<_> = names.into_iter().zip(values).collect();
    let value = match deferred::defer(t, f, callee, &args, &kwargs)? {
        true => t.none(),
        false => call_or_super(t, f, callee, &args, &kwargs)?,
    };
    f.push(value);
    Ok(())
}

/// `super()` without arguments looks at the calling frame.
fn call_or_super(
    t: &mut Tracer<'_>,
    f: &FrameState,
    callee: VarId,
    args: &[VarId],
    kwargs: &crate::Kwargs,
) -> Step<VarId> {
    let bare = args.is_empty() && kwargs.is_empty() && matches!(t.kind(callee), Kind::Class);
    if !(bare && is_super(t, callee)?) {
        t.tail = true;
        return call(t, callee, args, kwargs);
    }
    let class_slot = f
        .code
        .localsplus
        .iter()
        .position(|slot| slot.kind.free && &*slot.name == "__class__");
    if f.code.argcount == 0 {
        return t.stop(BreakKind::Construct, "super() without a first argument");
    }
    let (Some(class_slot), Some(mut receiver)) = (class_slot, f.locals.first().copied().flatten())
    else {
        return t.stop(BreakKind::Construct, "super() without a first argument");
    };
    if f.code.localsplus[0].kind.cell {
        match cell_get_raw(t, receiver)? {
            Some(value) => receiver = value,
            None => return t.stop(BreakKind::Construct, "super() without its first argument"),
        }
    }
    let cell = cell_of(t, f, class_slot as u32)?;
    let Some(class) = cell_get_raw(t, cell)? else {
        return t.stop(BreakKind::Construct, "super() without a class");
    };
    // Run by generated code, it would look at that code's frame.
    call(t, callee, &[class, receiver], &[]).map_err(|stop| match stop {
        Stop::Break(reason) => Stop::Break(Box::new(Break {
            kind: BreakKind::Construct,
            ..*reason
        })),
        raise @ Stop::Raise(_) => raise,
    })
}

pub(super) fn call_ex(t: &mut Tracer<'_>, f: &mut FrameState, has_kwargs: bool) -> Step<()> {
    let mut kwargs = Vec::new();
    if has_kwargs {
        let mapping = f.pop(t)?;
        kwargs = named(t, mapping)?;
    }
    let args = f.pop(t)?;
    let args = iterate::collect_for_list(t, args)?;
    let second = f.pop(t)?;
    let first = f.pop(t)?;
    let callee = if matches!(t.vars.kind(first), Kind::Null) {
        second
    } else {
        first
    };
    let value = call_or_super(t, f, callee, &args, &merge_kwargs(&kwargs, &[]))?;
    f.push(value);
    Ok(())
}

pub(super) fn make_function(t: &mut Tracer<'_>, f: &mut FrameState, flags: u32) -> Step<()> {
    let code = f.pop(t)?;
    let Some(code) = t.const_value(code) else {
        return t.unsupported("MAKE_FUNCTION without a code object");
    };
    let mut new = NewFunction {
        code: Obj::from(code),
        globals: f.globals.clone(),
        defaults: None,
        kwdefaults: None,
        annotations: None,
        closure: Vec::new(),
        attrs: Vec::new(),
    };
    if flags & 8 != 0 {
        let cells = f.pop(t)?;
        new.closure = iterate::collect(t, cells)?;
    }
    if flags & 4 != 0 {
        new.annotations = Some(f.pop(t)?);
    }
    if flags & 2 != 0 {
        new.kwdefaults = Some(f.pop(t)?);
    }
    if flags & 1 != 0 {
        new.defaults = Some(f.pop(t)?);
    }
    let function = t.add(Kind::Function(FunctionVar::New(Box::new(new))));
    f.push(function);
    Ok(())
}

pub(super) fn set_function_attribute(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    flag: u32,
) -> Step<()> {
    let function = f.pop(t)?;
    let value = f.pop(t)?;
    let cells = if flag == 8 {
        iterate::collect(t, value)?
    } else {
        Vec::new()
    };
    t.vars.update(function, |var| {
        if let Kind::Function(FunctionVar::New(new)) = &mut var.kind {
            match flag {
                1 => new.defaults = Some(value),
                2 => new.kwdefaults = Some(value),
                4 => new.annotations = Some(value),
                _ => new.closure = cells,
            }
        }
    });
    f.push(function);
    Ok(())
}
