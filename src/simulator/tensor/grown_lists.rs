//! Lists that grow in captured loops: their tensors are the rows of one, which the loop carries.
//!
//! A row is a copy. So nothing that is in such a list, or was taken out of it, may change in place:
//! they are noted as results of control flow that may be one another, see `carried_aliases`.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::frame::Modules;
use crate::graph::{Arg, BlockOutput, Callee, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::ops::{Fact, facts, said};
use crate::tensor_scalar::{self, program_numbers};
use crate::variables::{Item, IterVar, Kind, NumberVar, RowsVar, VarId};
use crate::{Kwargs, Step, Tracer};
use crate::{branches, carried_aliases, dynamic_scalar, phi, region, rows, tensors};

/// The methods that change it.
pub use crate::methods::names::{APPEND, EXTEND, POP, REVERSE};

/// Stops: what is done with such a list is not in the program.
pub fn refuse<T>(t: &Tracer<'_>, what: &str) -> Step<T> {
    phi::refuse(
        t,
        format!(
            "{what} of a list that grows in a loop, whose length only the program knows: it can be appended to, \
             indexed, sliced, iterated over, stacked and concatenated"
        ),
    )
}

/// A call of a function of `_graph/rows.py`.
fn helper(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<VarId> {
    let function = t.py.module("paddle_sot_rs._graph.rows")?.getattr(name)?;
    let callee = Callee::Api(Obj::from(function));
    tensors::capture(t, callee, None, args, &[], &mut |_| None)
}

fn symbol_of(t: &mut Tracer<'_>, made: VarId) -> Step<SymbolId> {
    match t.kind(made).tensor() {
        Some(tensor) => Ok(tensor.symbol),
        None => refuse(t, "a row"),
    }
}

/// Whether a list is one of the frame's alone, that is no instance of a subclass.
fn is_plain(t: &Tracer<'_>, list: VarId) -> bool {
    let var = t.vars.get(list);
    let is_new = var.source.is_none() && var.value.is_none();
    is_new && var.class.is_none() && var.owner.is_none()
}

/// What items of this metadata and these can have in common as rows.
fn joined(t: &mut Tracer<'_>, meta: &TensorMeta, item: VarId) -> Step<TensorMeta> {
    let Kind::Tensor(tensor) = t.kind(item).clone() else {
        return refuse(t, "something that is no tensor");
    };
    let Some(own) = t.graph.meta(tensor.symbol).cloned() else {
        return refuse(t, "something that is no tensor");
    };
    if tensor.class.is_some() {
        return refuse(t, "a tensor of a class of its own");
    }
    phi::keeps_no_gradient(t, &own, "an item of a list")?;
    let flags = own.stop_gradient == meta.stop_gradient || t.options.forward_only;
    let ranks = own.shape.len() == meta.shape.len();
    let pairs = || own.shape.iter().zip(&meta.shape);
    let alike = |(a, b): (&i64, &i64)| *a == *b || *a < 0 || *b < 0;
    if own.dtype != meta.dtype || !ranks || !flags || !pairs().all(alike) {
        return refuse(t, "tensors of several dtypes or shapes");
    }
    let shape = pairs().map(|(a, b)| (*a).min(*b)).collect();
    Ok(TensorMeta { shape, ..own })
}

/// The list, which grows by tensors of this metadata, is rows of a tensor from now on.
pub fn become_rows(t: &mut Tracer<'_>, list: VarId, meta: &TensorMeta) -> Step<()> {
    let Kind::List(items) = t.kind(list).clone() else {
        return refuse(t, "something else");
    };
    if !is_plain(t, list) {
        return refuse(t, "an instance");
    }
    let mut meta = meta.clone();
    for item in &items {
        meta = joined(t, &meta, *item)?;
    }
    if t.goes_backward() && !meta.stop_gradient {
        return refuse(t, "tensors that need gradients");
    }
    let may_be_empty = items.is_empty();
    let made = match may_be_empty {
        true => {
            let dims = meta.shape.iter().map(|dim| t.int(*dim)).collect();
            let dims = t.add(Kind::List(dims));
            let dtype = PyString::new(t.py, meta.dtype.as_str()).into_any();
            let dtype = t.constant(&dtype);
            helper(t, "empty_rows", &[dims, dtype])?
        }
        false => {
            let given = t.add(Kind::List(items.clone()));
            helper(t, "rows_of", &[given])?
        }
    };
    let symbol = symbol_of(t, made)?;
    t.vars.update(made, |var| var.kind = Kind::Null);
    for item in items {
        let item = symbol_of(t, item)?;
        carried_aliases::note(t, symbol, item);
    }
    let rows = RowsVar {
        symbol,
        at: t.frames.outermost,
        may_be_empty,
        iterated: false,
    };
    t.vars.mutate(list, |var| var.kind = Kind::Rows(rows));
    Ok(())
}

/// `list.append(value)`
pub fn append(t: &mut Tracer<'_>, list: VarId, rows: RowsVar, value: VarId) -> Step<VarId> {
    if rows.iterated {
        return refuse(t, "append() behind an iterator");
    }
    let Some(meta) = t.graph.meta(rows.symbol).cloned() else {
        return refuse(t, "append()");
    };
    let meta = TensorMeta {
        shape: meta.shape[1..].into(),
        ..meta
    };
    t.realize(value);
    joined(t, &meta, value)?;
    let item = symbol_of(t, value)?;
    let symbol = appended(t, rows, value)?;
    carried_aliases::note(t, symbol, rows.symbol);
    carried_aliases::note(t, symbol, item);
    let rows = RowsVar {
        symbol,
        may_be_empty: false,
        ..rows
    };
    t.vars.mutate(list, |var| var.kind = Kind::Rows(rows));
    Ok(t.none())
}

/// `list.extend(values)` and `list += values`, of a list or tuple of the frame.
pub fn extend(t: &mut Tracer<'_>, list: VarId, values: VarId) -> Step<()> {
    t.realize(values);
    let Some(values) = t.kind(values).plain_items().map(<[VarId]>::to_vec) else {
        return refuse(t, "extend() by something else than a list or tuple");
    };
    for value in values {
        if let Kind::Rows(rows) = *t.kind(list) {
            append(t, list, rows, value)?;
        }
    }
    Ok(())
}

/// The rows with one more. The first one stands alone: nothing is put together with no rows.
fn appended(t: &mut Tracer<'_>, rows: RowsVar, value: VarId) -> Step<SymbolId> {
    let before = region::tensor(t, rows.symbol);
    let row = helper(t, "row_of", &[value])?;
    let symbol = match rows.may_be_empty {
        false => {
            let made = helper(t, "append_row", &[before, row])?;
            let symbol = symbol_of(t, made)?;
            t.vars.update(made, |var| var.kind = Kind::Null);
            symbol
        }
        true => {
            let any = helper(t, "has_rows", &[before])?;
            let any = symbol_of(t, any)?;
            let mark = t.mark();
            let made = helper(t, "append_row", &[before, row])?;
            let further = BlockOutput::Inner(symbol_of(t, made)?);
            let appends = t.cut(mark);
            let mark = t.mark();
            let nothing = t.cut(mark);
            let first = BlockOutput::Outer(symbol_of(t, row)?);
            let made = branches::either(t, any, [&appends, &nothing], [&[further], &[first]])?;
            match made[..] {
                [symbol] => symbol,
                _ => return refuse(t, "append()"),
            }
        }
    };
    for other in [before, row] {
        t.vars.update(other, |var| var.kind = Kind::Null);
    }
    Ok(symbol)
}

/// `len(list)`
fn len(t: &mut Tracer<'_>, rows: RowsVar) -> Step<VarId> {
    let len = t.add(Kind::Int(NumberVar::Dim(rows.symbol, 0)));
    match dynamic_scalar::in_graph(t, len)? {
        Some(len) => Ok(t.add(Kind::SymNumber(len))),
        None => refuse(t, "the length"),
    }
}

/// The place that a key says, as a number of the graph.
fn place(t: &mut Tracer<'_>, key: VarId) -> Step<Option<SymbolId>> {
    let key = program_numbers::lowered(t, key)?;
    if let Some(value) = t.const_value(key) {
        return match value.is_exact_instance_of::<PyInt>() {
            true => tensor_scalar::number(t, &Obj::from(value)),
            false => Ok(None),
        };
    }
    Ok(t.kind(key).form().symbol().map(|(symbol, _)| symbol))
}

/// `list[key]`
pub fn item(t: &mut Tracer<'_>, rows: RowsVar, key: VarId) -> Step<VarId> {
    t.realize(key);
    if let Kind::Slice(parts) = *t.kind(key) {
        return slice(t, rows, parts);
    }
    let Some(at) = place(t, key)? else {
        return refuse(t, "such an index");
    };
    let first = Obj::from(PyInt::new(t.py, 0).into_any());
    let checked = vec![Arg::Symbol(rows.symbol), Arg::Symbol(at), Arg::Const(first)];
    tensor_scalar::control(t, "check_place", checked)?;
    row(t, rows, at)
}

/// `list[start:stop:step]`: another list.
fn slice(t: &mut Tracer<'_>, rows: RowsVar, parts: [VarId; 3]) -> Step<VarId> {
    for part in parts {
        t.realize(part);
        if !t.is_none(part) && t.const_int(part).is_none() || t.const_int(parts[2]) == Some(0) {
            return refuse(t, "such a slice");
        }
    }
    let symbol = some(t, rows, parts)?;
    let rows = RowsVar {
        symbol,
        at: t.frames.outermost,
        may_be_empty: true,
        iterated: false,
    };
    Ok(t.add(Kind::Rows(rows)))
}

/// Some of the rows.
fn some(t: &mut Tracer<'_>, rows: RowsVar, [start, stop, step]: [VarId; 3]) -> Step<SymbolId> {
    let all = region::tensor(t, rows.symbol);
    let made = helper(t, "some_rows", &[all, start, stop, step])?;
    let symbol = symbol_of(t, made)?;
    for other in [all, made] {
        t.vars.update(other, |var| var.kind = Kind::Null);
    }
    let is_open = |meta: &TensorMeta| meta.shape.first() == Some(&-1);
    if !t.graph.meta(symbol).is_some_and(is_open) {
        return refuse(t, "such a slice");
    }
    carried_aliases::note(t, symbol, rows.symbol);
    Ok(symbol)
}

/// `list.pop()`, `list.pop(0)`: behind the loops, whose rounds carry what grows.
pub fn pop(t: &mut Tracer<'_>, list: VarId, rows: RowsVar, args: &[VarId]) -> Step<VarId> {
    if rows.iterated || t.flow.is_captured() {
        return refuse(t, "pop() behind an iterator, in a loop or in a branch");
    }
    let key = args.first().copied().unwrap_or_else(|| t.int(-1));
    let (none, one, last) = (t.none(), t.int(1), t.int(-1));
    let rest = match t.const_int(key) {
        Some(0) => [one, none, none],
        Some(-1) => [none, last, none],
        _ => return refuse(t, "pop() of such a place"),
    };
    let taken = item(t, rows, key)?;
    let symbol = some(t, rows, rest)?;
    let rows = RowsVar {
        symbol,
        may_be_empty: true,
        ..rows
    };
    t.vars.mutate(list, |var| var.kind = Kind::Rows(rows));
    Ok(taken)
}

/// `list.reverse()`, behind the loops.
pub fn reverse(t: &mut Tracer<'_>, list: VarId, rows: RowsVar) -> Step<VarId> {
    if rows.iterated || t.flow.is_captured() {
        return refuse(t, "reverse() behind an iterator, in a loop or in a branch");
    }
    let (none, step) = (t.none(), t.int(-1));
    let symbol = some(t, rows, [none, none, step])?;
    let rows = RowsVar { symbol, ..rows };
    t.vars.mutate(list, |var| var.kind = Kind::Rows(rows));
    Ok(t.none())
}

/// The row at a place that there is.
pub fn row(t: &mut Tracer<'_>, rows: RowsVar, at: SymbolId) -> Step<VarId> {
    let (all, at) = (region::tensor(t, rows.symbol), region::tensor(t, at));
    let made = helper(t, "row_at", &[all, at])?;
    for other in [all, at] {
        t.vars.update(other, |var| var.kind = Kind::Null);
    }
    let symbol = symbol_of(t, made)?;
    carried_aliases::note(t, symbol, rows.symbol);
    Ok(made)
}

/// `iter(list)`
pub fn iterate(t: &mut Tracer<'_>, list: VarId, rows: RowsVar) -> Step<VarId> {
    let stop = len(t, rows)?;
    let iterated = RowsVar {
        iterated: true,
        ..rows
    };
    t.vars.update(list, |var| var.kind = Kind::Rows(iterated));
    let state = IterVar::Numbers {
        next: t.int(0),
        stop,
        step: 1,
        item: Rc::new(Item::OfList(rows)),
    };
    Ok(t.add(Kind::Iter(state)))
}

/// `reversed(list)`
pub fn reversed(t: &mut Tracer<'_>, list: VarId, rows: RowsVar) -> Step<VarId> {
    let len = len(t, rows)?;
    let iterated = RowsVar {
        iterated: true,
        ..rows
    };
    t.vars.update(list, |var| var.kind = Kind::Rows(iterated));
    let Some(next) = tensor_scalar::less(t, len, 1)? else {
        return refuse(t, "reversed()");
    };
    let state = IterVar::Numbers {
        next,
        stop: t.int(-1),
        step: -1,
        item: Rc::new(Item::OfList(rows)),
    };
    Ok(t.add(Kind::Iter(state)))
}

/// What the iterator over such a list yields for a number.
pub fn item_of(t: &mut Tracer<'_>, rows: RowsVar, number: VarId) -> Step<VarId> {
    match place(t, number)? {
        Some(at) => row(t, rows, at),
        None => refuse(t, "the number of a round"),
    }
}

/// A call of a function that puts the tensors of such a list together; `None` for others.
pub fn call(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let named = |wanted: &str| {
        let mut found = kwargs.iter().filter(|(name, _)| &**name == wanted);
        found.next().map(|(_, value)| *value)
    };
    let Some(list) = args.first().copied().or_else(|| named("x")) else {
        return Ok(None);
    };
    let Kind::Rows(rows) = *t.kind(list) else {
        return Ok(None);
    };
    let helper_name = said!(facts(name), Fact::TakesRows(helper) => *helper);
    let Some(helper_name) = helper_name else {
        return refuse(t, name);
    };
    let known = |(name, _): &(std::sync::Arc<str>, VarId)| matches!(&**name, "x" | "axis" | "name");
    if args.len() > 2 || !kwargs.iter().all(known) {
        return refuse(t, name);
    }
    let axis = args.get(1).copied().or_else(|| named("axis"));
    let axis = axis.unwrap_or_else(|| t.int(0));
    let rank = t.graph.meta(rows.symbol).map_or(0, |meta| meta.shape.len()) as i64;
    let stacks = helper_name == "stack_rows";
    let most = if stacks { rank } else { rank - 1 };
    let is_int = (t.const_value(axis)).is_some_and(|it| it.is_exact_instance_of::<PyInt>());
    let fits = t
        .const_int(axis)
        .is_some_and(|axis| is_int && (-most..most).contains(&axis));
    if !fits {
        return refuse(t, &format!("{name}() along such an axis"));
    }
    let all = region::tensor(t, rows.symbol);
    let any = helper(t, "has_rows", &[all])?;
    tensor_scalar::statement(t, "check", &[any])?;
    let made = helper(t, helper_name, &[all, axis])?;
    t.vars.update(all, |var| var.kind = Kind::Null);
    Ok(Some(made))
}

/// What decides the truth of a value: whether a list of rows has one.
pub fn asked(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let Kind::Rows(rows) = *t.vars.kind(value) else {
        return Ok(value);
    };
    if !rows.may_be_empty {
        return Ok(t.bool(true));
    }
    let all = region::tensor(t, rows.symbol);
    let any = helper(t, "has_rows", &[all])?;
    t.vars.update(all, |var| var.kind = Kind::Null);
    Ok(any)
}

/// `len()` of such a list, of a tensor with an open first dim, or of a `range()` that counts in the
/// graph.
pub fn len_of(t: &mut Tracer<'_>, list: VarId) -> Step<Option<VarId>> {
    if let Kind::Rows(rows) = *t.kind(list) {
        return len(t, rows).map(Some);
    }
    if let Kind::NumberRange(start, stop, step) = *t.kind(list) {
        return crate::variables::kinds::count(t, [start, stop], step).map(Some);
    }
    Ok(rows::len(t, list))
}

/// Notes that a list has grown on a way, where a program could hold it: see `Captured::run`.
pub fn note(
    t: &mut Tracer<'_>,
    list: VarId,
    before: &[phi::Piece],
    now: &[phi::Piece],
    meta_of: impl Fn(SymbolId) -> Option<TensorMeta>,
) {
    if now.len() <= before.len() || !is_plain(t, list) {
        return;
    }
    let is_kept = |(a, b): (&phi::Piece, &phi::Piece)| matches!((a, b), (phi::Piece::Same(a), phi::Piece::Same(b)) if a == b);
    if !before.iter().zip(now).all(is_kept) {
        return;
    }
    let mut found: Option<TensorMeta> = None;
    for piece in &now[before.len()..] {
        let meta = match piece {
            phi::Piece::Tensor(symbol, _) => meta_of(*symbol),
            phi::Piece::Same(id) => tensors::meta_of(t, *id),
            phi::Piece::Unbound
            | phi::Piece::Real(..)
            | phi::Piece::Number(_)
            | phi::Piece::Const(_)
            | phi::Piece::List(..)
            | phi::Piece::Tuple(..)
            | phi::Piece::Dict(_)
            | phi::Piece::Maybe(_)
            | phi::Piece::Other(_) => None,
        };
        let Some(meta) = meta else { return };
        found.get_or_insert(meta);
    }
    t.flow.grown.extend(found.map(|meta| (list, meta)));
}

/// The same of one that has become rows on the way.
pub fn note_rows(t: &mut Tracer<'_>, list: VarId, rows: RowsVar) {
    let meta = t.graph.meta(rows.symbol).cloned();
    t.flow.grown.extend(meta.map(|meta| {
        let shape = meta.shape[1..].into();
        (list, TensorMeta { shape, ..meta })
    }));
}
