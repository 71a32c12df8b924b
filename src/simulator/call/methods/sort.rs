//! The order that a sort makes.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::bytecode::{CmpOp, OpTable};
use crate::frame::Modules;
use crate::reason::{BreakId, BreakKind};
use crate::tracker::number::Type;
use crate::variables::{Kind, VarId};

use crate::tracer::is_plain_constant;
use crate::{Kwargs, Step, Tracer};
use crate::{comparisons, dynamic_scalar, fold, item, program_numbers, truth};

/// Most numbers of the graph that are sorted: each takes a comparison with each other.
const MOST_NUMBERS: usize = 12;

/// Whole numbers of which the program computes some, the smallest first: equal ones are the same to
/// everybody. `None` where they are none of these.
fn numbers_in_order(t: &mut Tracer<'_>, items: &[VarId]) -> Step<Option<Vec<VarId>>> {
    let mut computed = false;
    for item in items {
        if program_numbers::numbers_class(t, *item) != Some(Type::Int) {
            return Ok(None);
        }
        computed |= program_numbers::is_of_graph(t, *item);
    }
    if !computed || items.len() > MOST_NUMBERS {
        return Ok(None);
    }
    let mut sorted = items.to_vec();
    for end in (1..sorted.len()).rev() {
        for at in 0..end {
            let pair = [sorted[at], sorted[at + 1]];
            let ordered = if let [Some(a), Some(b)] = pair.map(|it| t.const_int(it)) {
                Some(if a <= b { pair } else { [pair[1], pair[0]] })
            } else {
                let less = program_numbers::extreme(t, CmpOp::Lt, &pair)?;
                less.zip(program_numbers::extreme(t, CmpOp::Gt, &pair)?)
                    .map(|(less, more)| [less, more])
            };
            let Some([less, more]) = ordered else {
                return Ok(None);
            };
            (sorted[at], sorted[at + 1]) = (less, more);
        }
    }
    Ok(Some(sorted))
}

/// The same by keys that are whole numbers, too: equal ones stay in their order.
fn numbers_by_keys(
    t: &mut Tracer<'_>,
    pairs: &[(VarId, VarId)],
    reverse: bool,
) -> Step<Option<Vec<VarId>>> {
    let mut computed = false;
    for (key, item) in pairs {
        for number in [*key, *item] {
            if program_numbers::numbers_class(t, number) != Some(Type::Int) {
                return Ok(None);
            }
        }
        computed |= program_numbers::is_of_graph(t, *key);
    }
    if !computed || pairs.len() > MOST_NUMBERS {
        return Ok(None);
    }
    let mut sorted: Vec<[VarId; 2]> = pairs.iter().map(|(key, item)| [*key, *item]).collect();
    let op = if reverse { CmpOp::Lt } else { CmpOp::Gt };
    for end in (1..sorted.len()).rev() {
        for at in 0..end {
            let (first, second) = (sorted[at], sorted[at + 1]);
            let answer = comparisons::compare(t, op, first[0], second[0])?;
            let Some(goes_behind) = item::symbol(t, answer) else {
                if truth::truth(t, answer)? {
                    sorted.swap(at, at + 1);
                }
                continue;
            };
            for part in 0..2 {
                let (a, b) = (first[part], second[part]);
                sorted[at][part] = program_numbers::chosen(t, goes_behind, b, a)?;
                sorted[at + 1][part] = program_numbers::chosen(t, goes_behind, a, b)?;
            }
        }
    }
    Ok(Some(sorted.into_iter().map(|[_, item]| item).collect()))
}

/// A stable sort with `key=` and `reverse=`.
pub fn sort(t: &mut Tracer<'_>, items: Vec<VarId>, kwargs: &Kwargs) -> Step<Vec<VarId>> {
    let mut reverse = false;
    let mut key = None;
    for (name, value) in kwargs {
        match &**name {
            "key" if t.is_none(*value) => {}
            "key" => key = Some(*value),
            "reverse" => reverse = is_reversed(t, *value)?,
            _ => return t.stop(BreakKind::RaisesException, "sort() got an unknown keyword"),
        }
    }
    if key.is_none() {
        if let Some(mut sorted) = numbers_in_order(t, &items)? {
            if reverse {
                sorted.reverse();
            }
            return Ok(sorted);
        }
    }
    let mut pairs = Vec::with_capacity(items.len());
    for item in items {
        let by = match key {
            Some(key) => crate::call::call(t, key, &[item], &[])?,
            None => item,
        };
        pairs.push((by, item));
    }
    if let Some(sorted) = numbers_by_keys(t, &pairs, reverse)? {
        return Ok(sorted);
    }
    if let Some(order) = order_of_constants(t, &pairs, reverse)? {
        return Ok(order.into_iter().map(|at| pairs[at].1).collect());
    }
    if pairs.iter().all(|(key, _)| compares_itself(t, *key)) {
        let keys: Vec<VarId> = pairs.iter().map(|(key, _)| *key).collect();
        let order = order_of_objects(t, &keys, reverse)?;
        return Ok(order.into_iter().map(|at| pairs[at].1).collect());
    }
    if reverse {
        pairs.reverse();
    }
    if pairs.len() > 2 {
        for (key, _) in &pairs {
            check_order(t, *key)?;
        }
    }
    // Stable, and every comparison may be simulated code that stops.
    let mut sorted: Vec<(VarId, VarId)> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let (mut from, mut to) = (0, sorted.len());
        while from < to {
            let middle = (from + to) / 2;
            let less = comparisons::compare(t, CmpOp::Lt, pair.0, sorted[middle].0)?;
            match truth::truth(t, less)? {
                true => to = middle,
                false => from = middle + 1,
            }
        }
        sorted.insert(from, pair);
    }
    if reverse {
        sorted.reverse();
    }
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

fn compares_itself(t: &mut Tracer<'_>, key: VarId) -> bool {
    matches!(t.kind(key), Kind::Object(_) | Kind::StandIn(_))
}

/// Most objects whose order is asked for: CPython sorts anew for each comparison.
const MOST_OBJECTS: usize = 100;

/// Where CPython puts these. Their comparisons are code of the user's, made once each and in its
/// order.
fn order_of_objects(t: &mut Tracer<'_>, keys: &[VarId], reverse: bool) -> Step<Vec<usize>> {
    if keys.len() > MOST_OBJECTS {
        let why = "a sort of so many objects that compare themselves";
        return t.stop(BreakId::ContainerMethod, why);
    }
    let sort =
        t.py.module("paddle_sot_rs._graph.sorting")?
            .getattr("sort")?;
    let answers = PyList::empty(t.py);
    loop {
        let asked = sort.call1((keys.len(), &answers, reverse))?;
        let (places, known): (Vec<usize>, bool) = asked.extract()?;
        match (known, &places[..]) {
            (false, [a, b]) => {
                let less = comparisons::is_less(t, keys[*a], keys[*b])?;
                answers.append(less)?;
            }
            _ => return Ok(places),
        }
    }
}

/// What `reverse=` says: its truth, but where the version makes a C integer of it.
fn is_reversed(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    let is_integer = OpTable::get(t.py).is_ok_and(|table| table.dialect.sort_reverse_is_integer());
    let is_known = |t: &mut Tracer<'_>| {
        let constant = t.const_value(value);
        constant.is_some_and(|value| is_plain_constant(&value) && value.extract::<i32>().is_ok())
    };
    match is_integer && !is_known(t) {
        true => t.stop(
            BreakId::ContainerMethod,
            "sort(reverse=) of something that Python 3.11 converts to a number",
        ),
        false => truth::truth(t, value),
    }
}

/// Stops where a key may be neither less nor greater than another one: where that comes is
/// CPython's affair.
fn check_order(t: &mut Tracer<'_>, key: VarId) -> Step<()> {
    if let Some(items) = t.kind(key).items().map(<[VarId]>::to_vec) {
        let each = |t: &mut Tracer<'_>| {
            let mut items = items.into_iter();
            items.try_for_each(|item| check_order(t, item))
        };
        return match fold::deeper(t, each) {
            Some(checked) => checked,
            None => t.stop(
                BreakId::ContainerMethod,
                "a sort of containers that are in too many others",
            ),
        };
    }
    let kind = t.kind(key);
    let why = if let Kind::Set(_) = kind {
        "a sort of sets"
    } else if kind.object().is_some() || matches!(kind, Kind::StandIn(_)) {
        // Among others: which method CPython calls depends on all of them.
        "a sort of objects that compare themselves"
    } else if let Kind::Float(_) = kind {
        match dynamic_scalar::compare(t, CmpOp::Eq, key, key)? {
            Some(true) => return Ok(()),
            _ => "a sort of what may be nan",
        }
    } else if comparisons::is_nan(t, key) {
        "a sort of nan"
    } else {
        return Ok(());
    };
    t.stop(BreakId::ContainerMethod, why)
}

/// Where CPython puts keys that are constants: what is neither less nor greater (`nan`) comes where
/// its algorithm leaves it.
fn order_of_constants(
    t: &mut Tracer<'_>,
    pairs: &[(VarId, VarId)],
    reverse: bool,
) -> Step<Option<Vec<usize>>> {
    let keys = PyList::empty(t.py);
    for (key, _) in pairs {
        match fold::to_object(t, *key) {
            Some(object) if is_made_of_constants(t, *key) => keys.append(object)?,
            _ => return Ok(None),
        }
    }
    let positions = PyList::new(t.py, 0..pairs.len())?;
    let by = PyDict::new(t.py);
    by.set_item("key", keys.getattr("__getitem__")?)?;
    by.set_item("reverse", reverse)?;
    match positions.call_method("sort", (), Some(&by)) {
        Ok(_) => Ok(Some(positions.extract()?)),
        // A list that is sorted in place is left half-way.
        Err(_) => t.stop(BreakKind::RaisesException, "a sort that raises"),
    }
}

fn is_made_of_constants(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Tuple(items, None) = t.kind(id).clone() {
        return items.into_iter().all(|item| is_made_of_constants(t, item));
    }
    t.const_value(id)
        .is_some_and(|value| is_plain_constant(&value))
}
