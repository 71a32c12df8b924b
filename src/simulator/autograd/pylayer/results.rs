//! What a captured function answers with.

use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use super::{refuse, refuse_of};
use crate::{Step, Tracer};

/// What `forward` answers with: a tensor, or a tuple or list of tensors.
pub(crate) enum Shape {
    One(SymbolId),
    Tuple(Vec<SymbolId>),
    List(Vec<SymbolId>),
}

impl Shape {
    pub(crate) fn of(t: &mut Tracer<'_>, of: &str, result: VarId) -> Step<Self> {
        let symbols = results(t, of, result)?;
        Ok(if let Kind::Tuple(..) = t.kind(result) {
            Self::Tuple(symbols)
        } else if let Kind::List(_) = t.kind(result) {
            Self::List(symbols)
        } else {
            Self::One(symbols[0])
        })
    }

    pub(crate) fn symbols(&self) -> &[SymbolId] {
        match self {
            Self::One(symbol) => std::slice::from_ref(symbol),
            Self::Tuple(symbols) | Self::List(symbols) => symbols,
        }
    }

    pub(crate) fn build(&self, t: &mut Tracer<'_>, made: &[VarId]) -> VarId {
        match self {
            Self::One(_) => made[0],
            Self::Tuple(_) => t.add(Kind::Tuple(made.to_vec(), None)),
            Self::List(_) => t.add(Kind::List(made.to_vec())),
        }
    }
}

fn results(t: &mut Tracer<'_>, of: &str, result: VarId) -> Step<Vec<SymbolId>> {
    t.realize(result);
    if let Kind::Tensor(tensor) = t.kind(result) {
        return Ok(vec![tensor.symbol]);
    }
    let items = t.kind(result).plain_items().map(<[VarId]>::to_vec);
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return refuse_of(t, of, "the function returns something else than tensors");
    };
    let mut symbols = Vec::with_capacity(items.len());
    for item in items {
        t.realize(item);
        let symbol = t.kind(item).tensor().map(|tensor| tensor.symbol);
        let Some(symbol) = symbol.filter(|symbol| !symbols.contains(symbol)) else {
            return refuse_of(
                t,
                of,
                "the function returns something else than different tensors",
            );
        };
        symbols.push(symbol);
    }
    Ok(symbols)
}

/// An item of what `forward` answers with.
enum Item {
    /// A tensor, by its number among them.
    Tensor(usize),
    /// Another value, which is handed on as it is.
    Constant(Obj),
}

/// What `forward` of a custom operation answers with: a tensor, or a tuple or list of tensors and
/// constants.
pub(super) struct Returned {
    /// The tensors.
    pub(super) symbols: Vec<SymbolId>,
    /// The variables they are of.
    pub(super) tensors: Vec<VarId>,
    items: Vec<Item>,
    kind: Container,
}

enum Container {
    None,
    Tuple,
    List,
}

impl Returned {
    pub(super) fn of(t: &mut Tracer<'_>, result: VarId) -> Step<Self> {
        t.realize(result);
        let (kind, ids) = if let Kind::Tensor(_) = t.kind(result) {
            (Container::None, vec![result])
        } else if let Kind::Tuple(ids, None) = t.kind(result) {
            (Container::Tuple, ids.clone())
        } else if let Kind::List(ids) = t.kind(result) {
            (Container::List, ids.clone())
        } else {
            return refuse(t, "forward returns something else than tensors");
        };
        let (mut symbols, mut tensors) = (Vec::new(), Vec::new());
        let mut items = Vec::with_capacity(ids.len());
        for id in ids {
            t.realize(id);
            if let Kind::Tensor(tensor) = t.kind(id) {
                let symbol = tensor.symbol;
                if symbols.contains(&symbol) {
                    return refuse(t, "forward returns a tensor twice");
                }
                items.push(Item::Tensor(symbols.len()));
                symbols.push(symbol);
                tensors.push(id);
                continue;
            }
            let Some(value) = t.const_value(id) else {
                return refuse(
                    t,
                    "forward returns something else than tensors and constants",
                );
            };
            items.push(Item::Constant(Obj::from(value)));
        }
        if symbols.is_empty() {
            return refuse(t, "forward returns no tensor");
        }
        Ok(Self {
            symbols,
            tensors,
            items,
            kind,
        })
    }

    /// The same with other tensors.
    pub(super) fn build(&self, t: &mut Tracer<'_>, made: &[VarId]) -> VarId {
        let items = self.items.iter().map(|item| match item {
            Item::Tensor(at) => made[*at],
            Item::Constant(value) => {
                let value = value.bind(t.py).clone();
                t.constant(&value)
            }
        });
        let items: Vec<VarId> = items.collect();
        match self.kind {
            Container::None => items[0],
            Container::Tuple => t.add(Kind::Tuple(items, None)),
            Container::List => t.add(Kind::List(items)),
        }
    }
}
