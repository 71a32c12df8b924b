//! Steps of what `itertools` makes, item by item as CPython's (`Modules/itertoolsmodule.c`).

use crate::bytecode::BinOp;
use crate::reason::BreakKind;
use crate::variables::{IterVar, Kind, Tool, VarId};

use crate::{Step, Stop, Tracer, call, exceptions, iterate, operators, truth};

/// Calls what an iterator calls for its next item: a `StopIteration` of it would end whoever
/// iterates.
pub fn call_for_next(t: &mut Tracer<'_>, function: VarId, args: &[VarId]) -> Step<VarId> {
    match call::call(t, function, args, &[]) {
        Err(Stop::Raise(exception)) => {
            if exceptions::is_a(t, exception, "StopIteration")? {
                let message = "a StopIteration of a function that an iterator calls";
                return t.stop(BreakKind::RaisesException, message);
            }
            Err(Stop::Raise(exception))
        }
        answer => answer,
    }
}

fn set(t: &mut Tracer<'_>, iterator: VarId, tool: Tool) {
    t.vars
        .mutate(iterator, |var| var.kind = Kind::Iter(IterVar::Tool(tool)));
}

/// `next(from)` for a tool that is over where that raises: `ended`.
fn next_or_end(
    t: &mut Tracer<'_>,
    iterator: VarId,
    from: VarId,
    ended: impl FnOnce() -> Tool,
) -> Step<Option<VarId>> {
    let answer = iterate::next(t, from);
    if matches!(answer, Err(Stop::Raise(_))) {
        set(t, iterator, ended());
    }
    answer
}

fn row(t: &mut Tracer<'_>, items: Vec<VarId>) -> VarId {
    t.add(Kind::Tuple(items, None))
}

/// `next(iterator)`; `None` at the end.
pub fn next(t: &mut Tracer<'_>, iterator: VarId, tool: Tool) -> Step<Option<VarId>> {
    match tool {
        Tool::Chain {
            mut active,
            mut source,
        } => loop {
            let (at_hand, following) = match (active, source) {
                (Some(at_hand), following) => (at_hand, following),
                (None, None) => return Ok(None),
                (None, Some(following)) => {
                    // At the end, and where the next is no iterable, nothing follows any more.
                    source = None;
                    set(t, iterator, Tool::Chain { active, source });
                    let Some(iterable) = iterate::next(t, following)? else {
                        return Ok(None);
                    };
                    (iterate::get_iter(t, iterable)?, Some(following))
                }
            };
            (active, source) = (Some(at_hand), following);
            set(t, iterator, Tool::Chain { active, source });
            if let Some(item) = iterate::next(t, at_hand)? {
                return Ok(Some(item));
            }
            active = None;
            set(t, iterator, Tool::Chain { active, source });
        },
        Tool::Rows {
            name,
            pools,
            length,
            rows,
            index,
        } => {
            let Some(items) = rows.get(index).cloned() else {
                return Ok(None);
            };
            let index = index + 1;
            set(
                t,
                iterator,
                Tool::Rows {
                    name,
                    pools,
                    length,
                    rows,
                    index,
                },
            );
            Ok(Some(row(t, items)))
        }
        Tool::Islice {
            inner,
            mut taken,
            mut next,
            stop,
            step,
        } => {
            let Some(from) = inner else { return Ok(None) };
            let state = |inner, taken, next| Tool::Islice {
                inner,
                taken,
                next,
                stop,
                step,
            };
            loop {
                let wanted = taken == next;
                if wanted && stop.is_some_and(|stop| taken >= stop) {
                    break;
                }
                let ended = || state(None, taken, next);
                let Some(item) = next_or_end(t, iterator, from, ended)? else {
                    break;
                };
                taken += 1;
                if wanted {
                    next = next.saturating_add(step);
                    next = stop.map_or(next, |stop| next.min(stop));
                    set(t, iterator, state(inner, taken, next));
                    return Ok(Some(item));
                }
                set(t, iterator, state(inner, taken, next));
            }
            set(t, iterator, state(None, taken, next));
            Ok(None)
        }
        Tool::Count { next, step } => {
            let Some(following) = next.checked_add(step) else {
                return t.unsupported("count() beyond 63 bits");
            };
            let state = Tool::Count {
                next: following,
                step,
            };
            set(t, iterator, state);
            Ok(Some(t.int(next)))
        }
        Tool::Repeat { item, left } => match left {
            Some(0) => Ok(None),
            left => {
                let left = left.map(|left| left - 1);
                set(t, iterator, Tool::Repeat { item, left });
                Ok(Some(item))
            }
        },
        Tool::Cycle {
            inner,
            mut saved,
            index,
        } => {
            let first = match inner {
                Some(from) => iterate::next(t, from)?,
                None => None,
            };
            let item = first.or_else(|| saved.get(index).copied());
            saved.extend(first);
            let (inner, index) = match first {
                Some(_) => (inner, index),
                None => (None, (index + 1) % saved.len().max(1)),
            };
            set(
                t,
                iterator,
                Tool::Cycle {
                    inner,
                    saved,
                    index,
                },
            );
            Ok(item)
        }
        Tool::Starmap { function, inner } => {
            let Some(given) = iterate::next(t, inner)? else {
                return Ok(None);
            };
            let args = iterate::collect_for_list(t, given)?;
            call_for_next(t, function, &args).map(Some)
        }
        Tool::TakeWhile {
            function,
            inner,
            over,
        } => {
            if over {
                return Ok(None);
            }
            let Some(item) = iterate::next(t, inner)? else {
                return Ok(None);
            };
            let verdict = call_for_next(t, function, &[item])?;
            if truth::truth(t, verdict)? {
                return Ok(Some(item));
            }
            let over = true;
            set(
                t,
                iterator,
                Tool::TakeWhile {
                    function,
                    inner,
                    over,
                },
            );
            Ok(None)
        }
        Tool::DropWhile {
            function,
            inner,
            begun,
        } => loop {
            let Some(item) = iterate::next(t, inner)? else {
                return Ok(None);
            };
            if begun {
                return Ok(Some(item));
            }
            let verdict = call_for_next(t, function, &[item])?;
            if !truth::truth(t, verdict)? {
                let begun = true;
                set(
                    t,
                    iterator,
                    Tool::DropWhile {
                        function,
                        inner,
                        begun,
                    },
                );
                return Ok(Some(item));
            }
        },
        Tool::FilterFalse { function, inner } => iterate::next_where(t, function, inner, false),
        Tool::Compress { data, selectors } => loop {
            let Some(item) = iterate::next(t, data)? else {
                return Ok(None);
            };
            let Some(selector) = iterate::next(t, selectors)? else {
                return Ok(None);
            };
            if truth::truth(t, selector)? {
                return Ok(Some(item));
            }
        },
        Tool::Accumulate {
            inner,
            function,
            total,
            initial,
        } => {
            let item = match initial {
                Some(initial) => initial,
                None => match iterate::next(t, inner)? {
                    Some(item) => item,
                    None => return Ok(None),
                },
            };
            let total = match (total, function) {
                (None, _) => item,
                (Some(total), Some(function)) => call_for_next(t, function, &[total, item])?,
                (Some(total), None) => operators::binary(t, BinOp::Add, false, total, item)?,
            };
            set(
                t,
                iterator,
                Tool::Accumulate {
                    inner,
                    function,
                    total: Some(total),
                    initial: None,
                },
            );
            Ok(Some(total))
        }
        Tool::Pairwise { inner, old } => {
            let Some(from) = inner else { return Ok(None) };
            let ended = || Tool::Pairwise {
                inner: None,
                old: None,
            };
            let first = match old {
                Some(old) => old,
                None => {
                    let Some(first) = next_or_end(t, iterator, from, ended)? else {
                        set(t, iterator, ended());
                        return Ok(None);
                    };
                    let old = Some(first);
                    set(t, iterator, Tool::Pairwise { inner, old });
                    first
                }
            };
            let Some(second) = next_or_end(t, iterator, from, ended)? else {
                set(t, iterator, ended());
                return Ok(None);
            };
            let old = Some(second);
            set(t, iterator, Tool::Pairwise { inner, old });
            Ok(Some(row(t, vec![first, second])))
        }
        Tool::ZipLongest { mut inner, fill } => {
            let mut items = Vec::with_capacity(inner.len());
            if inner.iter().all(Option::is_none) {
                return Ok(None);
            }
            for at in 0..inner.len() {
                let item = match inner[at] {
                    None => None,
                    Some(from) => {
                        let inner = vec![None; inner.len()];
                        next_or_end(t, iterator, from, || Tool::ZipLongest { inner, fill })?
                    }
                };
                if item.is_none() && inner[at].take().is_some() {
                    let inner_now = inner.clone();
                    set(
                        t,
                        iterator,
                        Tool::ZipLongest {
                            inner: inner_now,
                            fill,
                        },
                    );
                    if inner.iter().all(Option::is_none) {
                        return Ok(None);
                    }
                }
                items.push(item.unwrap_or(fill));
            }
            Ok(Some(row(t, items)))
        }
        Tool::Batched { inner, size } => {
            let Some(from) = inner else { return Ok(None) };
            let mut items = Vec::new();
            while (items.len() as i64) < size {
                let ended = || Tool::Batched { inner: None, size };
                match next_or_end(t, iterator, from, ended)? {
                    Some(item) => items.push(item),
                    None => break,
                }
            }
            if items.is_empty() {
                set(t, iterator, Tool::Batched { inner: None, size });
                return Ok(None);
            }
            Ok(Some(row(t, items)))
        }
    }
}
