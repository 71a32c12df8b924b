//! Instructions that build containers, and that take them apart.

use crate::frame_state::FrameState;
use crate::reason::BreakKind;
use crate::variables::{DictVar, Kind, SetVar, VarId};
use crate::{Step, Tracer, iterate, keys, methods, subscript};

pub(super) fn build_dict(
    t: &mut Tracer<'_>,
    items: impl Iterator<Item = (VarId, VarId)>,
) -> Step<VarId> {
    let mut dict = DictVar::default();
    for (key, value) in items {
        let simulated = keys::key_of(t, key)?;
        match dict.items.get_mut(&simulated) {
            Some(slot) => slot.1 = value,
            None => {
                dict.items.insert(simulated, (key, value));
            }
        }
    }
    Ok(t.add(Kind::Dict(dict)))
}

pub(super) fn build_set(t: &mut Tracer<'_>, f: &mut FrameState, count: usize) -> Step<()> {
    let items = f.pop_n(t, count)?;
    let set = t.add(Kind::Set(SetVar::default()));
    for item in items {
        methods::call(t, set, "add", &[item], &[])?;
    }
    f.push(set);
    Ok(())
}

pub(super) fn dict_merge(t: &mut Tracer<'_>, dict: VarId, value: VarId) -> Step<()> {
    let merged = t.merged(value).map(|merged| t.kind(merged).clone());
    let Some(Kind::Dict(other)) = merged else {
        return t.unsupported("** of something that is not a dict");
    };
    for (key, (key_var, value)) in other.items {
        let Kind::Dict(known) = t.kind(dict) else {
            return t.unsupported("DICT_MERGE into something else");
        };
        if known.items.contains_key(&key) {
            return t.stop(BreakKind::RaisesException, "a keyword is given twice");
        }
        subscript::set(t, dict, key_var, value)?;
    }
    Ok(())
}

pub(super) fn unpack(t: &mut Tracer<'_>, value: VarId, count: usize) -> Step<Vec<VarId>> {
    let items = iterate::collect_some(t, value, count + 1)?;
    if items.len() != count {
        return t.stop(
            BreakKind::RaisesException,
            format!("other than {count} values to unpack"),
        );
    }
    Ok(items)
}

pub(super) fn unpack_ex(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    before: usize,
    after: usize,
) -> Step<()> {
    let value = f.pop(t)?;
    let (items, mut middle) = if iterate::is_lazy(t, value) {
        // The first ones are taken one by one, the others as `list()` takes them.
        let iterator = iterate::get_iter(t, value)?;
        let items = iterate::take(t, iterator, before)?;
        let middle = match items.len() < before {
            true => Vec::new(),
            false => iterate::collect_for_list(t, iterator)?,
        };
        (items, middle)
    } else {
        let mut items = iterate::collect(t, value)?;
        let middle = items.split_off(before.min(items.len()));
        (items, middle)
    };
    if items.len() < before || middle.len() < after {
        return t.stop(BreakKind::RaisesException, "not enough values to unpack");
    }
    let tail = middle.split_off(middle.len() - after);
    let middle = t.add(Kind::List(middle));
    f.stack.extend(tail.into_iter().rev());
    f.push(middle);
    f.stack.extend(items.into_iter().rev());
    Ok(())
}

/// Calls the method that puts the topmost value into a container further down.
pub(super) fn put_into(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    depth: u32,
    method: &str,
) -> Step<()> {
    let value = f.pop(t)?;
    let container = f.peek(t, depth as usize)?;
    // A comprehension that goes on behind a break does not ask how far it has come.
    if !methods::appends(t, container, method, &[value], &[]) {
        methods::call(t, container, method, &[value], &[])?;
    }
    Ok(())
}

pub(super) fn pop_slice(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<VarId> {
    let stop = f.pop(t)?;
    let start = f.pop(t)?;
    let step = t.none();
    Ok(t.add(Kind::Slice([start, stop, step])))
}
