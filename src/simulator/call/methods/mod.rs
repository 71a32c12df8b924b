//! Methods of builtin kinds.

mod dict;
mod list;
pub mod names;
pub mod row;
mod sequence;
mod set;
mod sort;
mod special;
mod tuple;

use pyo3::prelude::*;

use crate::methods::names::{APPEND, EXTEND};
use crate::reason::BreakId;
use crate::variables::{Kind, VarId};

use crate::variables::protocol;
use crate::{Kwargs, Step, Tracer};
use crate::{exceptions, fold, iterate, namespaces};

use row::{Inherited, MethodCall, MethodRow, find};

pub(crate) use special::{ITERATOR, SPECIAL};

pub(crate) use dict::{DICT, ORDERED_DICT, VIEW, VIEW_AS_SET};
pub(crate) use list::LIST;
pub(crate) use set::{SET, SET_CHANGES};
pub use sort::sort;
pub(crate) use tuple::{NAMED_TUPLE, TUPLE};

/// Simulated methods, by class.
pub(crate) const BY_CLASS: &[(&str, &[&[MethodRow]])] = &[
    ("list", &[LIST]),
    ("tuple", &[TUPLE]),
    ("dict", &[DICT]),
    ("set", &[SET, SET_CHANGES]),
    ("frozenset", &[SET]),
];

/// What a method of one of these tables does with an instance of a subclass.
pub(crate) fn inherited(tables: [&'static [MethodRow]; 2], name: &str) -> Inherited {
    find(&tables, name).map_or(Inherited::AsksOthers, |row| row.inherited)
}

/// Whether a method of this name, and no operation, changes a list, a dict or a set.
pub(crate) fn changes(name: &str) -> bool {
    let mut rows = [LIST, DICT, SET_CHANGES].into_iter().flatten();
    rows.any(|row| row.changes && row.name == name && !name.starts_with("__"))
}

pub use crate::variables::protocol::has_method as exists;

/// Does `append` and `extend` on a list that nothing has looked into; the answer is whether it did.
pub fn appends(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    if !kwargs.is_empty() || !t.is_unread_list(receiver) {
        return false;
    }
    match (name, args) {
        (APPEND, [_]) => t.append(receiver, args),
        (EXTEND, [more]) if *more != receiver => {
            if let Kind::List(items) | Kind::Tuple(items, _) = t.kind(*more).clone() {
                t.append(receiver, &items)
            } else {
                false
            }
        }
        _ => false,
    }
}

/// `receiver.name(*args, **kwargs)`
pub fn call(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let row = find(protocol::method_rows(t, receiver), name);
    let takes_names = row.is_some_and(|row| row.named)
        || matches!(t.kind(receiver), Kind::Const) && !name.starts_with("__");
    if !kwargs.is_empty() && !takes_names {
        let message = format!("method {name} with keyword arguments");
        return t.stop(BreakId::ContainerMethod, message);
    }
    let call = MethodCall {
        receiver,
        args,
        kwargs,
    };
    let special = find(&[SPECIAL], name);
    if let Some(special) = special.filter(|row| row.takes(args.len())) {
        return special.run(t, call);
    }
    if let Some(value) = namespaces::call(t, receiver, name, args)? {
        return Ok(value);
    }
    match row {
        Some(row) => row.run(t, call),
        None => protocol::method(t, receiver, name, args, kwargs),
    }
}

/// Methods of `str`, `int`, ... are pure.
pub(crate) fn constant(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let Some(value) = t.value(receiver) else {
        return t.stop(
            BreakId::ContainerMethod,
            "a method of a name that has no value here",
        );
    };
    let method = value.getattr(name)?;
    if name == "join" && args.len() == 1 {
        let items = iterate::collect_fast(t, args[0])?;
        let items = t.add(Kind::List(items));
        return fold::call_object(t, &method, &[items], kwargs);
    }
    let args = exceptions::as_texts(t, &value, name, args)?;
    fold::call_object(t, &method, &args, kwargs)
}
