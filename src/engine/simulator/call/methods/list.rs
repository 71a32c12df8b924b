//! Methods of lists.

use std::rc::Rc;

use crate::reason::{BreakId, BreakKind};
use crate::variables::{Kind, VarId};

use crate::simulator::{Kwargs, Step, Stop, Tracer};
use crate::simulator::{comparisons, exceptions, iterate};

use super::{sequence, sort};

fn change_list(t: &mut Tracer<'_>, list: VarId, change: impl FnOnce(&mut Vec<VarId>)) -> VarId {
    t.vars.mutate(list, |var| {
        if let Kind::List(items) = &mut var.kind {
            change(items);
        }
    });
    t.none()
}

pub(in crate::simulator) fn list(
    t: &mut Tracer<'_>,
    list: VarId,
    items: Vec<VarId>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    match (name, args) {
        ("extend", [values]) => {
            if iterate::is_lazy(t, *values) {
                let iterator = match iterate::for_list(t, *values)? {
                    Some(iterator) => iterator,
                    None => iterate::get_iter(t, *values)?,
                };
                iterate::drain(t, iterator, |t, value| {
                    change_list(t, list, |items| items.push(value));
                    Ok(())
                })?;
                return Ok(t.none());
            }
            let values = iterate::collect(t, *values)?;
            Ok(change_list(t, list, |items| items.extend(values)))
        }
        ("insert", [at, value]) => {
            let Some(at) = t.const_int(*at) else {
                return t.stop(
                    BreakId::ContainerMethod,
                    "insert() at a position that is not constant",
                );
            };
            let len = items.len() as i64;
            let at = if at < 0 {
                (at + len).max(0)
            } else {
                at.min(len)
            } as usize;
            Ok(change_list(t, list, |items| items.insert(at, *value)))
        }
        ("pop", []) | ("pop", [_]) => {
            let at = match args {
                [at] => t.const_int(*at),
                _ => Some(-1),
            };
            let Some(at) = at else {
                return t.stop(
                    BreakId::ContainerMethod,
                    "pop() at a position that is not constant",
                );
            };
            let at = if at < 0 { at + items.len() as i64 } else { at };
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < items.len()) else {
                return exceptions::throw(t, "IndexError");
            };
            t.release(list, items[at])?;
            change_list(t, list, |items| {
                items.remove(at);
            });
            Ok(items[at])
        }
        ("remove", [value]) => {
            for (at, item) in items.iter().enumerate() {
                if comparisons::equal_values(t, *item, *value)? {
                    t.release(list, *item)?;
                    return Ok(change_list(t, list, |items| {
                        items.remove(at);
                    }));
                }
            }
            exceptions::throw(t, "ValueError")
        }
        ("clear", []) => {
            for item in items {
                t.release(list, item)?;
            }
            Ok(change_list(t, list, Vec::clear))
        }
        ("reverse", []) => Ok(change_list(t, list, |items| items.reverse())),
        ("copy", []) => {
            let copy = t.add(Kind::List(items));
            Ok(t.inherit_class(copy, list))
        }
        ("sort", []) => {
            // Code that runs meanwhile sees an empty list, and may not change it.
            change_list(t, list, Vec::clear);
            let empty = Rc::clone(t.vars.get(list));
            let sorted = match sort(t, items, kwargs) {
                Err(Stop::Raise(_)) => {
                    return t.stop(BreakKind::RaisesException, "an exception inside of sort()");
                }
                sorted => sorted?,
            };
            if !Rc::ptr_eq(&empty, t.vars.get(list)) {
                return t.stop(
                    BreakKind::RaisesException,
                    "a list that is used while it is sorted",
                );
            }
            Ok(change_list(t, list, |items| *items = sorted))
        }
        _ => sequence(t, &items, name, args),
    }
}
