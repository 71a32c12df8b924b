//! What a captured function answers with.

use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use super::{refuse, refuse_of};
use crate::simulator::{Step, Tracer};

/// What `forward` answers with: a tensor, or a tuple or list of tensors.
pub(in crate::simulator) enum Shape {
    One(SymbolId),
    Tuple(Vec<SymbolId>),
    List(Vec<SymbolId>),
}

impl Shape {
    pub(in crate::simulator) fn of(t: &mut Tracer<'_>, of: &str, result: VarId) -> Step<Self> {
        let symbols = results(t, of, result)?;
        Ok(match t.kind(result) {
            Kind::Tuple(..) => Self::Tuple(symbols),
            Kind::List(_) => Self::List(symbols),
            _ => Self::One(symbols[0]),
        })
    }

    pub(in crate::simulator) fn symbols(&self) -> &[SymbolId] {
        match self {
            Self::One(symbol) => std::slice::from_ref(symbol),
            Self::Tuple(symbols) | Self::List(symbols) => symbols,
        }
    }

    pub(in crate::simulator) fn build(&self, t: &mut Tracer<'_>, made: &[VarId]) -> VarId {
        match self {
            Self::One(_) => made[0],
            Self::Tuple(_) => t.add(Kind::Tuple(made.to_vec(), None)),
            Self::List(_) => t.add(Kind::List(made.to_vec())),
        }
    }
}

fn results(t: &mut Tracer<'_>, of: &str, result: VarId) -> Step<Vec<SymbolId>> {
    t.realize(result);
    let items = match t.kind(result).clone() {
        Kind::Tensor(tensor) => return Ok(vec![tensor.symbol]),
        Kind::Tuple(items, None) | Kind::List(items) if !items.is_empty() => items,
        _ => return refuse_of(t, of, "the function returns something else than tensors"),
    };
    let mut symbols = Vec::with_capacity(items.len());
    for item in items {
        t.realize(item);
        match t.kind(item) {
            Kind::Tensor(tensor) if !symbols.contains(&tensor.symbol) => {
                symbols.push(tensor.symbol)
            }
            _ => {
                return refuse_of(
                    t,
                    of,
                    "the function returns something else than different tensors",
                )
            }
        }
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
        let (kind, ids) = match t.kind(result).clone() {
            Kind::Tensor(_) => (Container::None, vec![result]),
            Kind::Tuple(ids, None) => (Container::Tuple, ids),
            Kind::List(ids) => (Container::List, ids),
            _ => return refuse(t, "forward returns something else than tensors"),
        };
        let (mut symbols, mut tensors) = (Vec::new(), Vec::new());
        let mut items = Vec::with_capacity(ids.len());
        for id in ids {
            t.realize(id);
            match t.kind(id).clone() {
                Kind::Tensor(tensor) if symbols.contains(&tensor.symbol) => {
                    return refuse(t, "forward returns a tensor twice")
                }
                Kind::Tensor(tensor) => {
                    items.push(Item::Tensor(symbols.len()));
                    symbols.push(tensor.symbol);
                    tensors.push(id);
                }
                _ => match t.const_value(id) {
                    Some(value) => items.push(Item::Constant(Obj::from(value))),
                    None => {
                        return refuse(
                            t,
                            "forward returns something else than tensors and constants",
                        )
                    }
                },
            }
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
