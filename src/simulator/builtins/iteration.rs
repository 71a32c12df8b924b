//! Builtins that walk over their arguments, or make what is walked over.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyString, PyType};

use crate::bytecode::OpTable;
use crate::call::call;
use crate::call::registry::call_polyfill;
use crate::frame_state::Consumer;
use crate::reason::{BreakId, BreakKind};
use crate::variables::kinds::RANGE;
use crate::variables::{IterVar, Kind, VarId};
use crate::{
    Kwargs, Step, Tracer, comparisons, exceptions, fold, generators, given_iterators, graph_arrays,
    iterate, methods, operators, program_numbers, rows, tensor_scalar, truth,
};

use super::{consumers, wrong};

pub(crate) fn range(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let args = args.iter().map(|arg| graph_arrays::as_place(t, *arg));
    let args = args.collect::<Step<Vec<_>>>()?;
    if let Some(range) = tensor_scalar::range(t, &args, kwargs)? {
        return Ok(range);
    }
    let mut numbers = Vec::new();
    for arg in &args {
        match (t.const_int(*arg), t.kind(*arg)) {
            (Some(number), _) => numbers.push(number),
            (None, Kind::Tensor(_)) => return t.stop(BreakId::TensorIndex, "range() of a tensor"),
            _ => return wrong(t, RANGE),
        }
    }
    let (start, stop, step) = match (numbers[..].as_ref(), kwargs) {
        ([stop], []) => (0, *stop, 1),
        ([start, stop], []) => (*start, *stop, 1),
        ([start, stop, step], []) if *step != 0 => (*start, *stop, *step),
        _ => return wrong(t, RANGE),
    };
    if !iterate::is_short(start, stop, step) {
        return t.unsupported("a range() of such numbers");
    }
    Ok(t.add(Kind::Range(start, stop, step)))
}

fn iterators(t: &mut Tracer<'_>, values: &[VarId]) -> Step<Vec<VarId>> {
    values
        .iter()
        .map(|value| iterate::get_iter(t, *value))
        .collect()
}

pub(crate) fn enumerate(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, start) = match (args, kwargs) {
        ([over], []) => (*over, None),
        ([over, start], []) => (*over, Some(*start)),
        ([over], [(name, start)]) if &**name == "start" => (*over, Some(*start)),
        _ => return wrong(t, "enumerate"),
    };
    let count = match start {
        Some(start) => t.const_int(start),
        None => Some(0),
    };
    let Some(count) = count else {
        return wrong(t, "enumerate");
    };
    let inner = iterate::get_iter(t, over)?;
    let state = match rows::counted(t, inner, count) {
        Some(rows) => rows,
        None => IterVar::Enumerate { inner, count },
    };
    Ok(t.add(Kind::Iter(state)))
}

pub(crate) fn zip(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let strict = match kwargs {
        [] => false,
        [(name, value)] if &**name == "strict" => truth::truth(t, *value)?,
        _ => return wrong(t, "zip"),
    };
    let inner = iterators(t, args)?;
    let state = match rows::several(t, &inner, strict)? {
        Some(rows) => rows,
        None => IterVar::Zip { inner, strict },
    };
    Ok(t.add(Kind::Iter(state)))
}

pub(crate) fn map(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([function, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "map");
    };
    if rest.is_empty() {
        return wrong(t, "map");
    }
    let inner = iterators(t, rest)?;
    Ok(t.add(Kind::Iter(IterVar::Map {
        function: *function,
        inner,
    })))
}

pub(crate) fn filter(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (function, inner) = filtered(t, "filter", args, kwargs)?;
    Ok(t.add(Kind::Iter(IterVar::Filter { function, inner })))
}

/// What `filter()` and `filterfalse()` take: a function, if it is not `None`, and an iterator.
pub(crate) fn filtered(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<(Option<VarId>, VarId)> {
    let ([function, over], []) = (args, kwargs) else {
        return wrong(t, name);
    };
    let function = (!t.is_none(*function)).then_some(*function);
    Ok((function, iterate::get_iter(t, *over)?))
}

pub(crate) fn sorted(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [over] = args else {
        return wrong(t, "sorted");
    };
    let items = iterate::collect_for_list(t, *over)?;
    let items = methods::sort(t, items, kwargs)?;
    Ok(t.add(Kind::List(items)))
}

pub(crate) fn next(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([iterator, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "next");
    };
    match rest {
        [] => generators::next_or_stop(t, *iterator),
        [default] => match given_iterators::next(t, *iterator)? {
            Some(item) => Ok(item),
            None => Ok(iterate::next(t, *iterator)?.unwrap_or(*default)),
        },
        _ => wrong(t, "next"),
    }
}

/// Whether this is a `str`, `bytes` or `bytearray`, or of a class derived from one.
fn is_text(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.type_of(value).is_some_and(|class| {
        class.is_subclass_of::<PyString>().unwrap_or(true)
            || class.is_subclass_of::<PyBytes>().unwrap_or(true)
            || class.is_subclass_of::<PyByteArray>().unwrap_or(true)
    })
}

pub(crate) fn sum(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, start) = match (args, kwargs) {
        ([over], []) => (*over, t.int(0)),
        ([over, start], []) => (*over, *start),
        ([over], [(name, start)]) if &**name == "start" => (*over, *start),
        _ => return wrong(t, "sum"),
    };
    if let (Some(name), Some(0)) = (counted_in_graph(t, over), t.const_int(start)) {
        return call_polyfill(t, name, &[over], &[]);
    }
    if matches!(t.const_int(start), Some(0)) {
        if let Some(total) = consumers::of_generator(t, Consumer::Sum, over, start)? {
            return Ok(total);
        }
    }
    let iterator = iterate::get_iter(t, over)?;
    if is_text(t, start) {
        return if let Kind::Const = t.kind(start) {
            sum_of_numbers(t, Vec::new(), start)
        } else {
            t.stop(BreakKind::RaisesException, "sum() of texts")
        };
    }
    let mut total = start;
    let mut compensation = Compensation::default();
    compensation.has_lost(t, start);
    // Numbers are added by the real function, all those at the beginning at once: floats are
    // compensated since 3.12.
    let mut numbers = matches!(t.kind(start), Kind::Const).then(Vec::new);
    iterate::drain(t, iterator, |t, item| {
        t.realize(item);
        if let (Some(numbers), true) = (&mut numbers, is_number(t, item)) {
            numbers.push(item);
            return Ok(());
        }
        if let Some(numbers) = numbers.take() {
            for number in &numbers {
                compensation.has_lost(t, *number);
            }
            total = sum_of_numbers(t, numbers, total)?;
        }
        if compensation.has_lost(t, item) {
            return t.unsupported("sum() of floats that differ between calls");
        }
        total = operators::binary(t, crate::bytecode::BinOp::Add, false, total, item)?;
        Ok(())
    })?;
    match numbers {
        Some(numbers) => sum_of_numbers(t, numbers, total),
        None => Ok(total),
    }
}

/// The polyfill that adds what so many rounds of the graph yield.
fn counted_in_graph(t: &mut Tracer<'_>, over: VarId) -> Option<&'static str> {
    let kind = t.kind(over);
    if matches!(kind, Kind::NumberRange(..)) {
        return Some("sum_of_numbers");
    }
    matches!(kind, Kind::Rows(_)).then_some("sum_of_tensors")
}

/// What `sum()` keeps beside a sum of floats in some versions: the digits that adding them has
/// lost.
#[derive(Default)]
struct Compensation {
    floats: usize,
    /// Something else than a number was added: nothing is kept any more.
    is_over: bool,
}

impl Compensation {
    /// This is added; whether it is a number that is added after two floats, and so to what those
    /// have lost.
    fn has_lost(&mut self, t: &mut Tracer<'_>, item: VarId) -> bool {
        let keeps = OpTable::get(t.py).is_ok_and(|table| table.dialect.sum_keeps_lost_digits());
        if self.is_over || !keeps {
            return false;
        }
        let class = t.type_of(item);
        let is = |whether: fn(&Bound<'_, PyType>) -> bool| class.as_ref().is_some_and(whether);
        let float = is(|class| class.is(class.py().get_type::<PyFloat>()));
        self.is_over = !float && !is(|class| class.is_subclass_of::<PyInt>().unwrap_or(true));
        let lost = self.floats >= 2 && !self.is_over;
        self.floats += usize::from(float);
        lost
    }
}

/// Whether this is a constant number: the sum of those does not raise.
fn is_number(t: &mut Tracer<'_>, value: VarId) -> bool {
    matches!(t.kind(value), Kind::Const)
        && t.value(value).is_some_and(|value| {
            value.is_exact_instance_of::<PyInt>()
                || value.is_exact_instance_of::<PyFloat>()
                || value.is_exact_instance_of::<PyBool>()
        })
}

fn sum_of_numbers(t: &mut Tracer<'_>, numbers: Vec<VarId>, start: VarId) -> Step<VarId> {
    let function = t.builtin("sum")?;
    let numbers = t.add(Kind::List(numbers));
    fold::call_object(t, &function, &[numbers, start], &[])
}

pub(crate) fn extreme(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
    name: &str,
    op: crate::bytecode::CmpOp,
) -> Step<VarId> {
    let mut key = None;
    let mut default = None;
    for (keyword, value) in kwargs {
        match &**keyword {
            "key" => key = (!t.is_none(*value)).then_some(*value),
            "default" => default = Some(*value),
            _ => return wrong(t, name),
        }
    }
    let items = match args {
        [over] => t
            .kind(*over)
            .plain_items()
            .map(<[VarId]>::to_vec)
            .unwrap_or_default(),
        _ => args.to_vec(),
    };
    if let (None, None) = (key, default) {
        if let Some(number) = program_numbers::extreme(t, op, &items)? {
            return Ok(number);
        }
        if let [over] = *args {
            if let Some(number) = consumers::extreme_of_iterator(t, op, over)? {
                return Ok(number);
            }
        }
    }
    let mut best: Option<(VarId, VarId)> = None;
    let mut ask = |t: &mut Tracer<'_>, item: VarId| {
        let by = match key {
            Some(key) => call(t, key, &[item], &[])?,
            None => item,
        };
        let better = match best {
            None => true,
            Some((known, _)) => {
                let verdict = comparisons::compare(t, op, by, known)?;
                truth::truth(t, verdict)?
            }
        };
        if better {
            best = Some((by, item));
        }
        Ok(())
    };
    match args {
        [over] => iterate::for_each(t, *over, ask)?,
        [_, _, ..] if default.is_none() => {
            for item in args {
                ask(t, *item)?;
            }
        }
        _ => return wrong(t, name),
    }
    match (best, default) {
        (Some((_, item)), _) => Ok(item),
        (None, Some(default)) => Ok(default),
        _ => exceptions::throw(t, "ValueError"),
    }
}

pub(crate) fn reduce(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([function, over, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "reduce");
    };
    let mut total = match rest {
        [] => None,
        [initial] => Some(*initial),
        _ => return wrong(t, "reduce"),
    };
    iterate::for_each(t, *over, |t, item| {
        total = Some(match total {
            None => item,
            Some(total) => call(t, *function, &[total, item], &[])?,
        });
        Ok(())
    })?;
    match total {
        Some(total) => Ok(total),
        None => wrong(t, "reduce"),
    }
}
