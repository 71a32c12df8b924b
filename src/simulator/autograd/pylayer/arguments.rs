//! What goes into a custom operation, and the gradients that come back for it.

use crate::graph::SymbolId;
use crate::variables::{Kind, VarId};

use super::{refuse, refuse_of};
use crate::{Kwargs, Step, Tracer};

/// An argument with tensors: one, or a list or tuple with tensors in it. `backward` answers with
/// one item for each.
pub(super) enum Slot {
    One(SymbolId),
    Many(Vec<SymbolId>),
}

impl Slot {
    fn first(&self) -> SymbolId {
        match self {
            Self::One(symbol) => *symbol,
            Self::Many(symbols) => symbols[0],
        }
    }

    fn symbols(&self) -> &[SymbolId] {
        match self {
            Self::One(symbol) => std::slice::from_ref(symbol),
            Self::Many(symbols) => symbols,
        }
    }
}

/// The slots of a call, as `PyLayer.apply` finds them: containers in containers and dicts are none.
pub(super) fn slots(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Vec<Slot> {
    let mut slots = Vec::new();
    let named = kwargs.iter().map(|(_, value)| *value);
    for id in args.iter().copied().chain(named) {
        t.realize(id);
        if let Kind::Tensor(tensor) = t.kind(id) {
            slots.push(Slot::One(tensor.symbol));
            continue;
        }
        let items = t.kind(id).items().map(<[VarId]>::to_vec);
        let mut symbols = Vec::new();
        for item in items.into_iter().flatten() {
            t.realize(item);
            if let Kind::Tensor(tensor) = t.kind(item) {
                symbols.push(tensor.symbol);
            }
        }
        if !symbols.is_empty() {
            slots.push(Slot::Many(symbols));
        }
    }
    slots
}

/// The tensors of the slots; one that is given twice is there twice.
pub(super) fn symbols(slots: &[Slot]) -> Vec<SymbolId> {
    let symbols = slots.iter().flat_map(Slot::symbols);
    symbols.copied().collect()
}

/// The gradient of each tensor of the slots, as far as `backward` gives one. Stops where eager mode
/// raises.
pub(super) fn gradients(
    t: &mut Tracer<'_>,
    answer: VarId,
    slots: &[Slot],
) -> Step<Vec<Option<SymbolId>>> {
    t.realize(answer);
    let items = if let Kind::Tuple(items, _) = t.kind(answer).clone() {
        items
    } else {
        vec![answer]
    };
    if items.len() > slots.len() {
        return refuse(
            t,
            "backward returns more gradients than forward takes tensors",
        );
    }
    let mut found = Vec::new();
    for (at, slot) in slots.iter().enumerate() {
        let wants = t.graph.sir.has_gradient(slot.first());
        match items.get(at) {
            None if wants => {
                return refuse(
                    t,
                    "backward returns fewer gradients than forward takes tensors",
                );
            }
            None => found.extend(slot.symbols().iter().map(|_| None)),
            Some(item) => {
                t.realize(*item);
                if !wants && !t.is_none(*item) {
                    return refuse(
                        t,
                        "backward returns a gradient for a tensor that stops gradients",
                    );
                }
                match slot {
                    Slot::One(_) => found.push(gradient(t, *item)?),
                    Slot::Many(symbols) if !wants => found.extend(symbols.iter().map(|_| None)),
                    Slot::Many(symbols) => many(t, *item, symbols, &mut found)?,
                }
            }
        }
    }
    Ok(found)
}

fn gradient(t: &mut Tracer<'_>, item: VarId) -> Step<Option<SymbolId>> {
    t.realize(item);
    if let Kind::Tensor(tensor) = t.kind(item) {
        return Ok(Some(tensor.symbol));
    }
    match t.is_none(item) {
        true => Ok(None),
        false => refuse(t, "backward returns something else than tensors and None"),
    }
}

fn many(
    t: &mut Tracer<'_>,
    item: VarId,
    symbols: &[SymbolId],
    found: &mut Vec<Option<SymbolId>>,
) -> Step<()> {
    let items = t.kind(item).items().map(<[VarId]>::to_vec);
    let Some(items) = items.filter(|items| items.len() == symbols.len()) else {
        return refuse(
            t,
            "backward returns something else than a gradient for each tensor of a list",
        );
    };
    for (item, symbol) in items.into_iter().zip(symbols) {
        let given = gradient(t, item)?;
        // Eager mode leaves those of tensors that stop gradients aside.
        found.push(given.filter(|_| t.graph.sir.has_gradient(*symbol)));
    }
    Ok(())
}

/// The tensors among the arguments of `of`, which takes no containers of tensors, and none twice.
pub(crate) fn inputs(
    t: &mut Tracer<'_>,
    of: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Vec<SymbolId>> {
    let mut inputs = Vec::new();
    let named = kwargs.iter().map(|(_, value)| *value);
    for id in args.iter().copied().chain(named) {
        t.realize(id);
        if let Kind::Tensor(tensor) = t.kind(id) {
            let symbol = tensor.symbol;
            if inputs.contains(&symbol) {
                return refuse_of(t, of, "the same tensor is given twice");
            }
            inputs.push(symbol);
            continue;
        }
        let items = t.kind(id).items().map(<[VarId]>::to_vec);
        for item in items.into_iter().flatten() {
            t.realize(item);
            if matches!(t.kind(item), Kind::Tensor(_)) {
                return refuse_of(t, of, "a list or tuple of tensors as argument");
            }
        }
    }
    Ok(inputs)
}
