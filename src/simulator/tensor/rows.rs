//! Iterators over tensors with an open first dim, and `enumerate` and `zip` of them: captured loops
//! count, and take rows by the number.

use std::rc::Rc;

use crate::graph::{Arg, SymbolId};
use crate::obj::Obj;
use crate::variables::{Item, IterVar, Kind, NumberVar, VarId};

use crate::bytecode::BinOp;
use crate::{Step, Tracer, dynamic_scalar, grown_lists, phi, tensor_scalar, tensors};

/// `len()` of a tensor with an open first dim.
pub fn len(t: &mut Tracer<'_>, tensor: VarId) -> Option<VarId> {
    let Kind::Tensor(var) = t.kind(tensor) else {
        return None;
    };
    let symbol = var.symbol;
    let is_open = t.graph.meta(symbol)?.shape.first() == Some(&-1);
    is_open.then(|| t.add(Kind::Int(NumberVar::Dim(symbol, 0))))
}

/// `iter()` of such a tensor, where loops over it are captured.
pub fn over(t: &mut Tracer<'_>, tensor: VarId) -> Step<Option<IterVar>> {
    if !t.options.capture_control_flow {
        return Ok(None);
    }
    let Some(len) = len(t, tensor) else {
        return Ok(None);
    };
    let stop = dynamic_scalar::in_graph(t, len)?;
    Ok(stop.map(|stop| counting(t, stop, Item::Row(tensor))))
}

fn counting(t: &mut Tracer<'_>, stop: SymbolId, item: Item) -> IterVar {
    IterVar::Numbers {
        next: t.int(0),
        stop: t.add(Kind::SymNumber(stop)),
        step: 1,
        item: Rc::new(item),
    }
}

/// The end of an iterator that counts from 0 and was not advanced, and what it yields.
fn at_beginning(t: &mut Tracer<'_>, iterator: VarId) -> Option<(VarId, Rc<Item>)> {
    let Kind::Iter(IterVar::Numbers {
        next,
        stop,
        step: 1,
        item,
    }) = t.kind(iterator).clone()
    else {
        return None;
    };
    (t.const_int(next) == Some(0)).then_some((stop, item))
}

/// `enumerate(inner, count)`
pub fn counted(t: &mut Tracer<'_>, inner: VarId, count: i64) -> Option<IterVar> {
    let (stop, item) = at_beginning(t, inner)?;
    advance(t, inner);
    Some(IterVar::Numbers {
        next: t.int(0),
        stop,
        step: 1,
        item: Rc::new(Item::Counted(Box::new((*item).clone()), count)),
    })
}

/// Somebody may have an iterator that is part of another: nobody knows how far it is.
pub fn advance(t: &mut Tracer<'_>, iterator: VarId) {
    t.vars
        .mutate(iterator, |var| var.kind = Kind::Iter(IterVar::Advanced));
}

/// `zip(*inner)`
pub fn several(t: &mut Tracer<'_>, inner: &[VarId], strict: bool) -> Step<Option<IterVar>> {
    let is_open = |id: &VarId| matches!(t.vars.kind(*id), Kind::Iter(IterVar::Numbers { .. }));
    let twice = (1..inner.len()).any(|at| inner[..at].contains(&inner[at]));
    if strict || twice || !inner.iter().any(is_open) {
        return Ok(None);
    }
    let (mut items, mut stops) = (Vec::new(), Vec::new());
    for id in inner {
        if let Some((stop, item)) = at_beginning(t, *id) {
            items.push((*item).clone());
            stops.push(stop);
            continue;
        }
        if let Kind::Iter(IterVar::Tensor { over, index: 0 }) = *t.kind(*id) {
            let len = crate::truth::len(t, over)?;
            items.push(Item::Row(over));
            stops.push(t.int(len));
        } else if let Kind::Iter(IterVar::Range {
            next: 0,
            stop,
            step: 1,
        }) = *t.kind(*id)
        {
            items.push(Item::Number);
            stops.push(t.int(stop));
        } else {
            return Ok(None);
        }
    }
    let mut least = None;
    for stop in stops {
        let symbol = if let Kind::SymNumber(symbol) = t.kind(stop) {
            Some(*symbol)
        } else {
            match t.value(stop) {
                Some(value) => tensor_scalar::number(t, &Obj::from(value))?,
                None => None,
            }
        };
        let Some(symbol) = symbol else {
            return Ok(None);
        };
        least = Some(match least {
            None => symbol,
            Some(least) => tensor_scalar::method(t, "minimum", least, vec![Arg::Symbol(symbol)])?,
        });
    }
    inner.iter().for_each(|id| advance(t, *id));
    Ok(least.map(|least| counting(t, least, Item::Several(items))))
}

/// What the iterator yields for a number.
pub fn item(t: &mut Tracer<'_>, item: &Item, number: VarId) -> Step<VarId> {
    match item {
        Item::Number => Ok(number),
        Item::Row(over) => tensors::method(t, *over, "__getitem__", &[number], &[]),
        Item::OfList(rows) => grown_lists::item_of(t, *rows, number),
        Item::Counted(inner, count) => {
            let value = self::item(t, inner, number)?;
            let by = t.int(*count);
            let known = t.const_int(number).map(|it| it.checked_add(*count));
            let number = match known {
                Some(number) => number.map(|number| t.int(number)),
                None if *count == 0 => Some(number),
                None => tensor_scalar::arithmetic(t, BinOp::Add, number, by)?,
            };
            match number {
                Some(number) => Ok(t.add(Kind::Tuple(vec![number, value], None))),
                None => phi::refuse(t, "the number of an enumeration is not one of the graph"),
            }
        }
        Item::Several(items) => {
            let items = items.iter().map(|item| self::item(t, item, number));
            let items = items.collect::<Step<_>>()?;
            Ok(t.add(Kind::Tuple(items, None)))
        }
    }
}
