//! The tools of `itertools`, as rows of the table; how they step is in
//! [`crate::itertools`].

use itertools::Itertools;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::variables::{IterVar, Kind, Tool, VarId};
use crate::{Kwargs, Step, Tracer, iterate};

use super::iteration::filtered;
use super::wrong;

/// Most rows that are made when a tool is called.
const ROWS: usize = 10_000;

/// Arguments in the order of `names`, of which the first `required` have to be there.
fn bind<const N: usize>(
    t: &Tracer<'_>,
    tool: &str,
    names: [&str; N],
    required: usize,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<[Option<VarId>; N]> {
    let mut bound = [None; N];
    let mut fits = args.len() <= N;
    for (slot, value) in bound.iter_mut().zip(args) {
        *slot = Some(*value);
    }
    for (name, value) in kwargs {
        match names.iter().position(|known| *known == &**name) {
            Some(at) if bound[at].is_none() => bound[at] = Some(*value),
            _ => fits = false,
        }
    }
    match fits && bound[..required].iter().all(Option::is_some) {
        true => Ok(bound),
        false => wrong(t, tool),
    }
}

fn add(t: &mut Tracer<'_>, tool: Tool) -> VarId {
    t.add(Kind::Iter(IterVar::Tool(tool)))
}

/// A whole number, or nothing for `None` and an argument that was not given.
fn number(t: &mut Tracer<'_>, tool: &str, value: Option<VarId>) -> Step<Option<i64>> {
    match value {
        Some(value) if !t.is_none(value) => match t.const_int(value) {
            Some(number) => Ok(Some(number)),
            None => wrong(t, tool),
        },
        _ => Ok(None),
    }
}

pub fn chain(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    if !kwargs.is_empty() {
        return wrong(t, "chain");
    }
    let all = t.add(Kind::Tuple(args.to_vec(), None));
    chain_of(t, all)
}

/// `chain.from_iterable`
pub fn chain_of(t: &mut Tracer<'_>, iterables: VarId) -> Step<VarId> {
    let source = Some(iterate::get_iter(t, iterables)?);
    let active = None;
    Ok(add(t, Tool::Chain { active, source }))
}

/// The tools that walk over their arguments when they are called.
fn rows(
    t: &mut Tracer<'_>,
    name: &'static str,
    pools: Vec<Vec<VarId>>,
    length: Option<i64>,
    rows: impl Iterator<Item = Vec<VarId>>,
) -> Step<VarId> {
    let rows: Vec<Vec<VarId>> = rows.take(ROWS + 1).collect();
    if rows.len() > ROWS {
        return t.unsupported(format!("{name}() of more than {ROWS} rows"));
    }
    let pools = pools
        .into_iter()
        .map(|pool| t.add(Kind::Tuple(pool, None)))
        .collect();
    let rows = rows.into();
    Ok(add(
        t,
        Tool::Rows {
            name,
            pools,
            length,
            rows,
            index: 0,
        },
    ))
}

pub fn product(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let repeat = match kwargs {
        [] => 1,
        [(name, repeat)] if &**name == "repeat" => match t.const_int(*repeat) {
            Some(repeat) if (0..64).contains(&repeat) => repeat as usize,
            _ => return wrong(t, "product"),
        },
        _ => return wrong(t, "product"),
    };
    let mut once = Vec::with_capacity(args.len());
    for arg in args {
        once.push(iterate::collect_for_list(t, *arg)?);
    }
    let pools: Vec<Vec<VarId>> = (0..repeat).flat_map(|_| once.iter().cloned()).collect();
    if pools.is_empty() {
        return rows(t, "product", pools, None, std::iter::once(Vec::new()));
    }
    let all = pools.clone().into_iter().multi_cartesian_product();
    rows(t, "product", pools, None, all)
}

pub fn combinations(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    of_one_pool(t, "combinations", args, kwargs)
}

pub fn combinations_with_replacement(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    of_one_pool(t, "combinations_with_replacement", args, kwargs)
}

pub fn permutations(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    of_one_pool(t, "permutations", args, kwargs)
}

fn of_one_pool(
    t: &mut Tracer<'_>,
    name: &'static str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let [over, length] = bind(t, name, ["iterable", "r"], 1, args, kwargs)?;
    let Some(over) = over else {
        return wrong(t, name);
    };
    let pool = iterate::collect_for_list(t, over)?;
    let length = match number(t, name, length)? {
        Some(length) if (0..64).contains(&length) => length as usize,
        None if name == "permutations" => pool.len(),
        _ => return wrong(t, name),
    };
    let (pools, items) = (vec![pool.clone()], pool.into_iter());
    let made = Some(length as i64);
    match name {
        "combinations" => rows(t, name, pools, made, items.combinations(length)),
        "permutations" if length > items.len() => rows(t, name, pools, made, std::iter::empty()),
        "permutations" => rows(t, name, pools, made, items.permutations(length)),
        _ => rows(
            t,
            name,
            pools,
            made,
            items.combinations_with_replacement(length),
        ),
    }
}

pub fn islice(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, bounds) = match (args, kwargs) {
        ([over, stop], []) => (*over, [None, Some(*stop), None]),
        ([over, start, stop], []) => (*over, [Some(*start), Some(*stop), None]),
        ([over, start, stop, step], []) => (*over, [Some(*start), Some(*stop), Some(*step)]),
        _ => return wrong(t, "islice"),
    };
    let mut numbers = [None; 3];
    for (number_, bound) in numbers.iter_mut().zip(bounds) {
        *number_ = number(t, "islice", bound)?;
    }
    let [start, stop, step] = numbers;
    let (next, step) = (start.unwrap_or(0), step.unwrap_or(1));
    if next < 0 || step < 1 || stop.is_some_and(|stop| stop < 0) {
        return wrong(t, "islice");
    }
    let inner = Some(iterate::get_iter(t, over)?);
    Ok(add(
        t,
        Tool::Islice {
            inner,
            taken: 0,
            next,
            stop,
            step,
        },
    ))
}

pub fn count(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let given = bind(t, "count", ["start", "step"], 0, args, kwargs)?;
    let mut numbers = [0, 1];
    for (number, given) in numbers.iter_mut().zip(given) {
        let Some(given) = given else { continue };
        // `count(True)` yields `True` first.
        let is_int = t
            .const_value(given)
            .is_some_and(|value| value.is_exact_instance_of::<PyInt>());
        match t.const_int(given) {
            Some(value) if is_int => *number = value,
            _ => return wrong(t, "count"),
        }
    }
    let [next, step] = numbers;
    Ok(add(t, Tool::Count { next, step }))
}

pub fn repeat(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [item, times] = bind(t, "repeat", ["object", "times"], 1, args, kwargs)?;
    let (Some(item), times) = (item, times) else {
        return wrong(t, "repeat");
    };
    let left = match times {
        None => None,
        Some(times) => match t.const_int(times) {
            Some(times) => Some(times.max(0)),
            None => return wrong(t, "repeat"),
        },
    };
    Ok(add(t, Tool::Repeat { item, left }))
}

pub fn cycle(t: &mut Tracer<'_>, over: VarId) -> Step<VarId> {
    let inner = Some(iterate::get_iter(t, over)?);
    let saved = Vec::new();
    Ok(add(
        t,
        Tool::Cycle {
            inner,
            saved,
            index: 0,
        },
    ))
}

/// `starmap`, `takewhile` and `dropwhile`.
fn with_function(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
    tool: fn(VarId, VarId) -> Tool,
) -> Step<VarId> {
    let ([function, over], []) = (args, kwargs) else {
        return wrong(t, name);
    };
    let inner = iterate::get_iter(t, *over)?;
    Ok(add(t, tool(*function, inner)))
}

pub fn starmap(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    with_function(t, "starmap", args, kwargs, |function, inner| {
        Tool::Starmap { function, inner }
    })
}

pub fn take_while(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    with_function(t, "takewhile", args, kwargs, |function, inner| {
        Tool::TakeWhile {
            function,
            inner,
            over: false,
        }
    })
}

pub fn drop_while(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    with_function(t, "dropwhile", args, kwargs, |function, inner| {
        Tool::DropWhile {
            function,
            inner,
            begun: false,
        }
    })
}

pub fn filter_false(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (function, inner) = filtered(t, "filterfalse", args, kwargs)?;
    Ok(add(t, Tool::FilterFalse { function, inner }))
}

pub fn compress(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let given = bind(t, "compress", ["data", "selectors"], 2, args, kwargs)?;
    let [Some(data), Some(selectors)] = given else {
        return wrong(t, "compress");
    };
    let data = iterate::get_iter(t, data)?;
    let selectors = iterate::get_iter(t, selectors)?;
    Ok(add(t, Tool::Compress { data, selectors }))
}

pub fn accumulate(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let names = ["iterable", "func", "initial"];
    let [Some(over), function, initial] = bind(t, "accumulate", names, 1, args, kwargs)? else {
        return wrong(t, "accumulate");
    };
    if args.len() > 2 {
        return wrong(t, "accumulate");
    }
    let inner = iterate::get_iter(t, over)?;
    let function = function.filter(|function| !t.is_none(*function));
    let initial = initial.filter(|initial| !t.is_none(*initial));
    Ok(add(
        t,
        Tool::Accumulate {
            inner,
            function,
            total: None,
            initial,
        },
    ))
}

pub fn pairwise(t: &mut Tracer<'_>, over: VarId) -> Step<VarId> {
    let inner = Some(iterate::get_iter(t, over)?);
    Ok(add(t, Tool::Pairwise { inner, old: None }))
}

pub fn zip_longest(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let fill = match kwargs {
        [] => t.none(),
        [(name, fill)] if &**name == "fillvalue" => *fill,
        _ => return wrong(t, "zip_longest"),
    };
    let mut inner = Vec::with_capacity(args.len());
    for arg in args {
        inner.push(Some(iterate::get_iter(t, *arg)?));
    }
    Ok(add(t, Tool::ZipLongest { inner, fill }))
}

pub fn batched(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let given = bind(t, "batched", ["iterable", "n"], 2, args, kwargs)?;
    let [Some(over), Some(size)] = given else {
        return wrong(t, "batched");
    };
    let Some(size) = t.const_int(size).filter(|size| *size > 0) else {
        return wrong(t, "batched");
    };
    let inner = Some(iterate::get_iter(t, over)?);
    Ok(add(t, Tool::Batched { inner, size }))
}
