//! What two ways through the code leave behind, as one.
//!
//! A [`Piece`] describes a value after the way it was made on was rolled back. Pieces of two ways
//! become a [`Joined`] value: one that is the same on both, or results of the operation that
//! chooses a way.

mod piece;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::graph::{BlockOutput, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::tracer::function_graph::Cut;
use crate::tracker::TrackerRef;
use crate::variables::{DictVar, Key, Kind, TensorVar, VarId};

use crate::control_flow::maybe;
use crate::loop_return::{self, Leaf};
use crate::{Step, Tracer, item, region, tuple_carry};

pub(crate) use piece::shown;
pub use piece::{Piece, constant_of, content, piece, real, symbol, unchanged};

/// A value after the ways met again.
#[derive(Clone, Debug)]
pub enum Joined {
    /// Nothing is bound, or nothing that is used.
    Unbound,
    /// What was there before.
    Keep(VarId),
    /// A real object, and where it was found.
    Real(Obj, TrackerRef),
    /// A constant.
    Const(Obj),
    /// A result of the operation.
    Output(usize),
    /// A result of the operation that Python sees as a number.
    Number(usize),
    /// A new list, with its class.
    List(Vec<Joined>, Option<Obj>),
    /// A new tuple, with its class.
    Tuple(Vec<Joined>, Option<Obj>),
    /// A new dict.
    Dict(Vec<(Key, Obj, Joined)>),
    /// A tensor where a number holds, and `None` where not: the number and the tensor.
    Maybe(Box<(Joined, Joined)>),
}

/// The results of an operation with two blocks.
pub struct Merge<'a> {
    /// Locals of the frame in front of both ways.
    pub locals: &'a [Option<VarId>],
    /// What was cut out on either way.
    pub cuts: [&'a mut Cut; 2],
    /// What either block returns.
    pub outputs: [Vec<BlockOutput>; 2],
    /// The tensors that the results are on either way, where each is one.
    pub objects: Vec<Option<[VarId; 2]>>,
    /// Tensors that change in place on one of the ways: they can be kept, and nothing else.
    pub changed: Vec<VarId>,
}

impl Merge<'_> {
    /// The value that is `a` on one way and `b` on the other.
    pub fn join(&mut self, t: &mut Tracer<'_>, a: &Piece, b: &Piece, what: &str) -> Step<Joined> {
        match (a, b) {
            (Piece::Unbound, Piece::Unbound) => return Ok(Joined::Unbound),
            (Piece::Same(a), Piece::Same(b)) if a == b => return Ok(Joined::Keep(*a)),
            (Piece::Real(a, tracker), Piece::Real(b, _)) if a.is(b) => {
                return Ok(Joined::Real(a.clone(), tracker.clone()));
            }
            (Piece::Same(id), Piece::Real(b, _)) | (Piece::Real(b, _), Piece::Same(id))
                if real(t, *id).is_some_and(|(a, _)| a.is(b)) =>
            {
                return Ok(Joined::Keep(*id));
            }
            (Piece::Const(a), Piece::Const(b)) if same(t, a, b)? => {
                return Ok(Joined::Const(a.clone()));
            }
            (Piece::List(a, class), Piece::List(b, other))
                if a.len() == b.len() && same_class(class, other) =>
            {
                return Ok(Joined::List(self.many(t, a, b, what)?, class.clone()));
            }
            (Piece::Tuple(a, class), Piece::Tuple(b, other))
                if a.len() == b.len() && same_class(class, other) =>
            {
                return Ok(Joined::Tuple(self.many(t, a, b, what)?, class.clone()));
            }
            (Piece::Dict(a), Piece::Dict(b)) if same_keys(t, a, b)? => {
                let mut items = Vec::with_capacity(a.len());
                for ((key, name, a), (_, _, b)) in a.iter().zip(b) {
                    items.push((key.clone(), name.clone(), self.join(t, a, b, what)?));
                }
                return Ok(Joined::Dict(items));
            }
            _ => {}
        }
        // Tuples do not change: an old one and a new one can meet in a third.
        if let (Some(Piece::Tuple(a, _)), Some(Piece::Tuple(b, _))) =
            (open_tuple(t, a), open_tuple(t, b))
        {
            if a.len() == b.len() {
                return Ok(Joined::Tuple(self.many(t, &a, &b, what)?, None));
            }
        }
        for piece in [a, b] {
            if matches!(piece, Piece::Same(id) if self.changed.contains(id)) {
                return refuse(
                    t,
                    format!("{what} is on one way a tensor that changes in place"),
                );
            }
        }
        let objects = object(a).zip(object(b)).map(|(a, b)| [a, b]);
        let (first, second) = (self.symbol(t, 0, a)?, self.symbol(t, 1, b)?);
        match (first, second) {
            (Some((a, x, true)), Some((b, y, true))) if x.dtype == y.dtype => {
                Ok(Joined::Number(self.output(a, b, None)))
            }
            (Some((a, x, false)), Some((b, y, false))) => {
                if x.dtype != y.dtype || x.shape.len() != y.shape.len() {
                    return unlike(
                        t,
                        format!(
                            "{what} is a tensor of dtype {} and rank {} on one way, of dtype {} and rank {} on the other",
                            x.dtype.as_str(),
                            x.shape.len(),
                            y.dtype.as_str(),
                            y.shape.len()
                        ),
                    );
                }
                keeps_no_gradient(t, &x, what)?;
                keeps_no_gradient(t, &y, what)?;
                Ok(Joined::Output(self.output(a, b, objects)))
            }
            _ => {
                if let Some(joined) = self.maybe(t, a, b, what)? {
                    return Ok(joined);
                }
                let (a, b) = (shown(t, a), shown(t, b));
                unlike(t, format!("{what} is {a} on one way and {b} on the other"))
            }
        }
    }

    /// A tensor on one way and `None` on the other, with a flag that says which.
    fn maybe(
        &mut self,
        t: &mut Tracer<'_>,
        a: &Piece,
        b: &Piece,
        what: &str,
    ) -> Step<Option<Joined>> {
        if !t.flow.maybes {
            return Ok(None);
        }
        let (Some((holds, tensor)), Some((other, second))) =
            (maybe::parts(t, a), maybe::parts(t, b))
        else {
            return Ok(None);
        };
        let of = |way: usize, one: Option<Piece>| one.map(|it| (way, it));
        let Some((way, known)) = of(0, tensor.clone()).or_else(|| of(1, second.clone())) else {
            return Ok(None);
        };
        let Some((_, meta, false)) = self.symbol(t, way, &known)? else {
            return Ok(None);
        };
        let leaf = Leaf {
            meta,
            number: false,
        };
        let zeros = match tensor.is_some() && second.is_some() {
            true => None,
            false => Some(loop_return::zeros(t, &leaf, self.locals)?),
        };
        let nothing = zeros.map(|zeros| Piece::Same(region::tensor(t, zeros)));
        let (Some(first), Some(second)) = (tensor.or(nothing.clone()), second.or(nothing)) else {
            return Ok(None);
        };
        let flag = self.join(t, &holds, &other, what)?;
        // Two constants that differ are a number of the graph.
        if !matches!(flag, Joined::Number(_)) {
            return Ok(None);
        }
        let tensor = self.join(t, &first, &second, what)?;
        Ok(Some(Joined::Maybe(Box::new((flag, tensor)))))
    }

    fn many(
        &mut self,
        t: &mut Tracer<'_>,
        a: &[Piece],
        b: &[Piece],
        what: &str,
    ) -> Step<Vec<Joined>> {
        a.iter()
            .zip(b)
            .map(|(a, b)| self.join(t, a, b, what))
            .collect()
    }

    fn output(&mut self, a: BlockOutput, b: BlockOutput, objects: Option<[VarId; 2]>) -> usize {
        let known = || self.objects.iter().position(|known| *known == objects);
        if let Some(at) = objects.and_then(|_| known()) {
            return at;
        }
        self.outputs[0].push(a);
        self.outputs[1].push(b);
        self.objects.push(objects);
        self.outputs[0].len() - 1
    }

    /// The tensor of a piece, and whether Python sees it as a number.
    fn symbol(
        &mut self,
        t: &mut Tracer<'_>,
        way: usize,
        piece: &Piece,
    ) -> Step<Option<(BlockOutput, TensorMeta, bool)>> {
        symbol(t, self.cuts[way], piece)
    }
}

/// The tensor that a piece is.
fn object(piece: &Piece) -> Option<VarId> {
    match piece {
        Piece::Same(id) => Some(*id),
        Piece::Tensor(_, object) => *object,
        Piece::Unbound
        | Piece::Real(..)
        | Piece::Number(_)
        | Piece::Const(_)
        | Piece::List(..)
        | Piece::Tuple(..)
        | Piece::Dict(_)
        | Piece::Maybe(_)
        | Piece::Other(_) => None,
    }
}

/// A plain tuple that was there before as its items, if either is one; `None` when there is nothing
/// to open.
fn open_tuple(t: &mut Tracer<'_>, piece: &Piece) -> Option<Piece> {
    let (items, class) = tuple_carry::items(t, piece)?;
    class.is_none().then_some(Piece::Tuple(items, None))
}

/// Whether two constants are the same to everybody.
pub fn same(t: &Tracer<'_>, a: &Obj, b: &Obj) -> Step<bool> {
    let (a, b) = (a.bind(t.py), b.bind(t.py));
    // -0.0 and 0.0 print differently.
    let shown = |value: &Bound<'_, PyAny>| -> PyResult<String> { Ok(value.repr()?.to_string()) };
    Ok(a.is(b) || a.get_type().is(b.get_type()) && shown(a)? == shown(b)? && a.eq(b)?)
}

/// Whether two dicts have the same keys in one order: of `1`, `True` and `1.0`, which are equal,
/// each shows its own.
pub fn same_keys<A, B>(t: &Tracer<'_>, a: &[(Key, Obj, A)], b: &[(Key, Obj, B)]) -> Step<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for ((key, name, _), (other, shown, _)) in a.iter().zip(b) {
        if key != other || !same_key(t, name, shown)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two equal keys are the same to everybody.
fn same_key(t: &Tracer<'_>, a: &Obj, b: &Obj) -> Step<bool> {
    let tuple = |key: &Obj| key.bind(t.py).cast_exact::<PyTuple>().ok().cloned();
    let (Some(items), Some(others)) = (tuple(a), tuple(b)) else {
        return same(t, a, b);
    };
    for (item, other) in items.iter().zip(&others) {
        if !same_key(t, &Obj::from(item), &Obj::from(other))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two containers are of one class.
pub fn same_class(a: &Option<Obj>, b: &Option<Obj>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is(b),
        _ => false,
    }
}

/// Stops where gradients are off, and a way hands on a tensor that has them: behind it they flow to
/// that tensor itself, past the operation. Those of a PyLayer flow as it says.
pub fn keeps_no_gradient(t: &Tracer<'_>, meta: &TensorMeta, what: &str) -> Step<()> {
    if t.grad.enabled || meta.stop_gradient || t.grad.custom > 0 {
        return Ok(());
    }
    refuse(
        t,
        format!("{what} may be a tensor that needs a gradient, while gradients are off"),
    )
}

/// Stops: control flow on a tensor that cannot be part of the graph.
pub fn refuse<T>(t: &Tracer<'_>, message: impl Into<String>) -> Step<T> {
    t.stop(
        BreakId::CapturedControlFlow,
        format!(
            "control flow on a tensor cannot be captured: {}",
            message.into()
        ),
    )
}

/// Stops where the graph has no value for what the ways leave: see `branches/tails.rs`.
pub fn unlike<T>(t: &mut Tracer<'_>, message: impl Into<String>) -> Step<T> {
    t.flow.unlike = true;
    refuse(t, message)
}

/// The variable of a joined value.
pub fn variable(t: &mut Tracer<'_>, joined: &Joined, outputs: &[SymbolId]) -> Option<VarId> {
    let many = |t: &mut Tracer<'_>, items: &[Joined]| -> Vec<VarId> {
        items
            .iter()
            .filter_map(|item| variable(t, item, outputs))
            .collect()
    };
    Some(match joined {
        Joined::Unbound => return None,
        Joined::Keep(id) => *id,
        Joined::Real(value, tracker) => {
            let value = value.bind(t.py).clone();
            t.wrap(&value, tracker.clone())
        }
        Joined::Const(value) => {
            let value = value.bind(t.py).clone();
            t.constant(&value)
        }
        Joined::Output(at) => result(t, outputs[*at]),
        Joined::Number(at) => item::variable(t, outputs[*at]),
        Joined::Maybe(parts) => {
            let flag = variable(t, &parts.0, outputs)?;
            let tensor = variable(t, &parts.1, outputs)?;
            maybe::variable(t, flag, tensor)
        }
        Joined::List(items, class) => {
            let items = many(t, items);
            let id = t.add(Kind::List(items));
            t.vars.update(id, |var| var.class.clone_from(class));
            id
        }
        Joined::Tuple(items, class) => {
            let items = many(t, items);
            t.add(Kind::Tuple(items, class.clone()))
        }
        Joined::Dict(items) => {
            let mut dict = DictVar::default();
            for (key, name, item) in items {
                let name = name.bind(t.py).clone();
                let name = t.constant(&name);
                if let Some(item) = variable(t, item, outputs) {
                    dict.items.insert(key.clone(), (name, item));
                }
            }
            t.add(Kind::Dict(dict))
        }
    })
}

/// The tensor that a result is: one, also under several names.
fn result(t: &mut Tracer<'_>, symbol: SymbolId) -> VarId {
    let is_it = |id: &VarId| {
        let kind = t.vars.kind(*id);
        matches!(kind, Kind::Tensor(tensor) if tensor.symbol == symbol && tensor.view.is_none())
    };
    let known = (0..t.vars.len() as u32).rev().map(VarId).find(is_it);
    known.unwrap_or_else(|| {
        t.add(Kind::Tensor(TensorVar {
            symbol,
            view: None,
            class: None,
        }))
    })
}
