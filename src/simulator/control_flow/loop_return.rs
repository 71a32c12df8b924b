//! `return` inside of a captured loop: the round ends, the loop goes on no more, and what is
//! returned is carried out of it like a variable, next to whether anything was returned. Behind the
//! loop a branch on that returns it.

use std::cell::RefCell;

use smallvec::SmallVec;

use crate::frame::Modules;
use crate::graph::{Arg, Callee, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::ops::FULL;
use crate::ops::FULL_LIKE;
use crate::tracker::TrackerRef;
use crate::variables::{DictVar, Form, Key, Kind, NumberVar, TensorVar, VarId};

use crate::frame_state::FrameState;
use crate::phi::{self, refuse, same, same_class};
use crate::tensor_scalar;
use crate::{Step, Tracer, item};

use pyo3::prelude::*;
use pyo3::types::PyString;

/// What the returns of a loop give: what is the same for all of them, and leaves that the loop
/// carries.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Something that was there before the loop.
    Keep(VarId),
    /// A real object, and where it was found.
    Real(Obj, TrackerRef),
    /// A constant.
    Const(Obj),
    /// A tensor, or a number that is a 0-d tensor of the graph.
    Leaf(Leaf),
    /// A new list, with its class.
    List(Vec<Answer>, Option<Obj>),
    /// A new tuple, with its class.
    Tuple(Vec<Answer>, Option<Obj>),
    /// A new dict.
    Dict(Vec<(Key, Obj, Answer)>),
}

/// A tensor that a loop returns.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its metadata.
    pub meta: TensorMeta,
    /// Whether Python sees it as a number.
    pub number: bool,
}

/// How the round of a captured loop began, and what its returns give.
#[derive(Clone, Debug, Default)]
pub struct Returns {
    /// Slot of whether the function returned; those of the leaves follow. They are locals without a
    /// name.
    slot: usize,
    /// Variables from here on were made by this round.
    first: usize,
    /// Locals and stack that the round began with: what the rest of the round did to them is never
    /// seen.
    start: RefCell<(Vec<Option<VarId>>, Vec<VarId>)>,
    /// What earlier attempts saw returned.
    pub answer: Option<Answer>,
    /// What this attempt saw, too.
    found: RefCell<Option<Answer>>,
}

impl Returns {
    /// Of a round that begins with the variables of now; `slot` is the first that is free.
    pub fn new(t: &Tracer<'_>, slot: usize, answer: Option<Answer>) -> Self {
        Self {
            slot,
            first: t.vars.len(),
            start: RefCell::default(),
            found: RefCell::new(answer.clone()),
            answer,
        }
    }

    /// The slots in use: of whether it returned, then of the leaves.
    pub fn slots(&self) -> std::ops::Range<usize> {
        match &self.answer {
            Some(answer) => self.slot..self.slot + 1 + answer.leaves().len(),
            None => self.slot..self.slot,
        }
    }

    /// Notes what the round begins with: the locals of `frame`, and this stack.
    pub fn begin(&self, t: &mut Tracer<'_>, frame: &mut FrameState, stack: Vec<VarId>) {
        if self.answer.is_some() {
            // A round only begins while nothing was returned.
            let not_yet = t.bool(false);
            frame.locals[self.slot] = Some(not_yet);
        }
        *self.start.borrow_mut() = (frame.locals.clone(), stack);
    }

    /// What all returns that were simulated give; `None` when that is no more than what was known.
    pub fn news(&self) -> Option<Answer> {
        let found = self.found.borrow();
        match (&*found, &self.answer) {
            (Some(found), Some(known)) if found.is_like(known) => None,
            (found, _) => found.clone(),
        }
    }

    /// The frame returns `value` from inside of the loop: the frame becomes that of the round's
    /// end.
    pub fn take(&self, t: &mut Tracer<'_>, frame: &mut FrameState, value: VarId) -> Step<()> {
        let seen = describe(t, value, self.first, &mut Vec::new())?;
        let before = self.found.borrow_mut().take();
        let joined = match before {
            None => seen,
            Some(before) => join(t, before, seen)?,
        };
        *self.found.borrow_mut() = Some(joined);
        (frame.locals, frame.stack) = self.start.borrow().clone();
        if let Some(answer) = &self.answer {
            let returned = t.bool(true);
            frame.locals[self.slot] = Some(returned);
            let mut values = Vec::new();
            // Where it is another one, there is news, and the round is simulated again.
            if collect(t, answer, value, &mut values) {
                for (at, value) in values.into_iter().enumerate() {
                    frame.locals[self.slot + 1 + at] = Some(value);
                }
            }
        }
        Ok(())
    }
}

impl Answer {
    /// Its leaves, in order.
    pub fn leaves(&self) -> Vec<&Leaf> {
        let mut found = Vec::new();
        self.note(&mut found);
        found
    }

    fn note<'a>(&'a self, found: &mut Vec<&'a Leaf>) {
        match self {
            Self::Keep(_) | Self::Real(..) | Self::Const(_) => {}
            Self::Leaf(leaf) => found.push(leaf),
            Self::List(items, _) | Self::Tuple(items, _) => {
                items.iter().for_each(|item| item.note(found));
            }
            Self::Dict(items) => items.iter().for_each(|(.., item)| item.note(found)),
        }
    }

    /// Whether it has the same parts; constants and containers are known to agree.
    fn is_like(&self, other: &Self) -> bool {
        let many = |a: &[Self], b: &[Self]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b))
        };
        match (self, other) {
            (Self::Keep(a), Self::Keep(b)) => a == b,
            (Self::Const(_), Self::Const(_)) | (Self::Real(..), Self::Real(..)) => true,
            (Self::Leaf(a), Self::Leaf(b)) => {
                a.number == b.number && a.meta.shape == b.meta.shape && a.meta.dtype == b.meta.dtype
            }
            (Self::List(a, _), Self::List(b, _)) | (Self::Tuple(a, _), Self::Tuple(b, _)) => {
                many(a, b)
            }
            (Self::Dict(a), Self::Dict(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.2.is_like(&b.2))
            }
            _ => false,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Keep(_) => "something from in front of the loop".into(),
            Self::Real(value, _) | Self::Const(value) => {
                Python::attach(|py| crate::obj::shown(value.bind(py)))
            }
            Self::Leaf(leaf) if leaf.number => "a number".into(),
            Self::Leaf(leaf) => format!(
                "a tensor of dtype {} and rank {}",
                leaf.meta.dtype.as_str(),
                leaf.meta.shape.len()
            ),
            Self::List(items, _) => format!("a list of {}", items.len()),
            Self::Tuple(items, _) => format!("a tuple of {}", items.len()),
            Self::Dict(items) => format!("a dict of {}", items.len()),
        }
    }

    /// The value behind the loop; `made` are the leaves.
    pub fn build(&self, t: &mut Tracer<'_>, made: &mut impl Iterator<Item = SymbolId>) -> VarId {
        match self {
            Self::Keep(id) => *id,
            Self::Real(value, tracker) => {
                let value = value.bind(t.py).clone();
                t.wrap(&value, tracker.clone())
            }
            Self::Const(value) => {
                let value = value.bind(t.py).clone();
                t.constant(&value)
            }
            Self::Leaf(leaf) => match made.next() {
                Some(symbol) if leaf.number => item::variable(t, symbol),
                Some(symbol) => t.add(Kind::Tensor(TensorVar {
                    symbol,
                    view: None,
                    class: None,
                })),
                None => t.none(),
            },
            Self::List(items, class) => {
                let items = items.iter().map(|item| item.build(t, made)).collect();
                let id = t.add(Kind::List(items));
                t.vars.update(id, |var| var.class.clone_from(class));
                id
            }
            Self::Tuple(items, class) => {
                let items = items.iter().map(|item| item.build(t, made)).collect();
                t.add(Kind::Tuple(items, class.clone()))
            }
            Self::Dict(items) => {
                let mut dict = DictVar::default();
                for (key, name, item) in items {
                    let name = name.bind(t.py).clone();
                    let name = t.constant(&name);
                    let item = item.build(t, made);
                    dict.items.insert(key.clone(), (name, item));
                }
                t.add(Kind::Dict(dict))
            }
        }
    }
}

const DEEP: usize = 32;

/// Describes what is returned; variables from `first` on are of the round.
fn describe(t: &mut Tracer<'_>, id: VarId, first: usize, seen: &mut Vec<VarId>) -> Step<Answer> {
    if (id.0 as usize) < first {
        return Ok(Answer::Keep(id));
    }
    if let Some((value, tracker)) = phi::real(t, id) {
        return Ok(Answer::Real(value, tracker));
    }
    let form = t.kind(id).form();
    let class = t.vars.get(id).class.clone();
    if let Form::List(_) | Form::Tuple(..) | Form::Dict(_) = form {
        if seen.contains(&id) || seen.len() > DEEP {
            return refuse(t, "a loop returns a container that is found twice in it");
        }
        seen.push(id);
    }
    let mut many = |t: &mut Tracer<'_>, items: &[VarId]| -> Step<Vec<Answer>> {
        items
            .iter()
            .map(|item| describe(t, *item, first, seen))
            .collect()
    };
    Ok(match form {
        Form::List(items) => Answer::List(many(t, &items)?, class),
        Form::Tuple(items, class) => Answer::Tuple(many(t, &items)?, class),
        Form::Dict(dict) if dict.is_plain() => {
            let mut items = Vec::new();
            for (key, (name, value)) in dict.items {
                let Some(name) = t.value(name) else {
                    return refuse(t, "a loop returns a dict with such keys");
                };
                items.push((key, Obj::from(name), describe(t, value, first, seen)?));
            }
            Answer::Dict(items)
        }
        Form::Const => match t.value(id) {
            Some(value) => Answer::Const(Obj::from(value)),
            None => return refuse(t, "a loop returns a constant without a value"),
        },
        Form::Tensor(..) | Form::Number(_) | Form::Dict(_) | Form::Other => match leaf(t, id)? {
            Some(leaf) => Answer::Leaf(leaf),
            None => {
                let kind = t.kind(id).clone();
                let what = crate::call::describe(t, id, &kind);
                return refuse(t, format!("a loop returns {what}"));
            }
        },
    })
}

/// What a tensor or a number is as a leaf.
fn leaf(t: &mut Tracer<'_>, id: VarId) -> Step<Option<Leaf>> {
    t.realize(id);
    let (symbol, number) = match t.kind(id).form() {
        Form::Tensor(symbol, None) => (symbol, false),
        Form::Number(symbol) => (symbol, true),
        Form::Const => {
            let Some(value) = t.value(id) else {
                return Ok(None);
            };
            return constant_leaf(t, &Obj::from(value));
        }
        Form::Tensor(..) | Form::List(_) | Form::Tuple(..) | Form::Dict(_) | Form::Other => {
            return Ok(None);
        }
    };
    let meta = t.graph.meta(symbol).cloned();
    Ok(meta.map(|meta| Leaf { meta, number }))
}

fn constant_leaf(t: &Tracer<'_>, value: &Obj) -> Step<Option<Leaf>> {
    let found = tensor_scalar::number_meta(t, value)?;
    Ok(found.map(|(_, meta)| Leaf { meta, number: true }))
}

/// What two returns have in common.
fn join(t: &mut Tracer<'_>, a: Answer, b: Answer) -> Step<Answer> {
    let many = |t: &mut Tracer<'_>, a: Vec<Answer>, b: Vec<Answer>| -> Step<Vec<Answer>> {
        a.into_iter().zip(b).map(|(a, b)| join(t, a, b)).collect()
    };
    match (a, b) {
        (Answer::Keep(a), Answer::Keep(b)) if a == b => Ok(Answer::Keep(a)),
        (Answer::Real(a, tracker), Answer::Real(b, _)) if a.is(&b) => Ok(Answer::Real(a, tracker)),
        // It was met inside of the loop first, or in front of it.
        (Answer::Keep(id), Answer::Real(b, _)) | (Answer::Real(b, _), Answer::Keep(id))
            if phi::real(t, id).is_some_and(|(a, _)| a.is(&b)) =>
        {
            Ok(Answer::Keep(id))
        }
        (Answer::Const(a), Answer::Const(b)) if same(t, &a, &b)? => Ok(Answer::Const(a)),
        (Answer::List(a, class), Answer::List(b, other))
            if a.len() == b.len() && same_class(&class, &other) =>
        {
            Ok(Answer::List(many(t, a, b)?, class))
        }
        (Answer::Tuple(a, class), Answer::Tuple(b, other))
            if a.len() == b.len() && same_class(&class, &other) =>
        {
            Ok(Answer::Tuple(many(t, a, b)?, class))
        }
        (Answer::Dict(a), Answer::Dict(b)) if phi::same_keys(t, &a, &b)? => {
            let mut items = Vec::with_capacity(a.len());
            for ((key, name, a), (_, _, b)) in a.into_iter().zip(b) {
                items.push((key, name, join(t, a, b)?));
            }
            Ok(Answer::Dict(items))
        }
        (a, b) => {
            let told = format!(
                "a loop returns {} at one place and {} at another",
                a.shown(),
                b.shown()
            );
            let (Some(mut one), Some(other)) = (as_leaf(t, a)?, as_leaf(t, b)?) else {
                return refuse(t, told);
            };
            let (meta, next) = (&mut one.meta, &other.meta);
            if meta.dtype != next.dtype
                || meta.shape.len() != next.shape.len()
                || one.number != other.number
            {
                return refuse(t, told);
            }
            for (dim, next) in meta.shape.iter_mut().zip(&next.shape) {
                if *dim != *next {
                    *dim = -1;
                }
            }
            Ok(Answer::Leaf(one))
        }
    }
}

fn as_leaf(t: &mut Tracer<'_>, answer: Answer) -> Step<Option<Leaf>> {
    match answer {
        Answer::Leaf(leaf) => Ok(Some(leaf)),
        Answer::Keep(id) => leaf(t, id),
        Answer::Const(value) => constant_leaf(t, &value),
        Answer::Real(..) | Answer::List(..) | Answer::Tuple(..) | Answer::Dict(_) => Ok(None),
    }
}

/// The leaves of `value`, when it has the parts of `answer`.
fn collect(t: &mut Tracer<'_>, answer: &Answer, value: VarId, found: &mut Vec<VarId>) -> bool {
    t.realize(value);
    let kind = t.kind(value).clone();
    let mut many = |t: &mut Tracer<'_>, answers: &[Answer], items: &[VarId]| {
        answers.len() == items.len()
            && answers
                .iter()
                .zip(items)
                .all(|(answer, item)| collect(t, answer, *item, found))
    };
    match (answer, kind) {
        // Joining said so.
        (Answer::Keep(_) | Answer::Real(..) | Answer::Const(_), _) => true,
        (
            Answer::Leaf(_),
            Kind::Tensor(_) | Kind::SymNumber(_) | Kind::Float(NumberVar::Graph(_)) | Kind::Const,
        ) => {
            found.push(value);
            true
        }
        (Answer::List(answers, _), Kind::List(items)) => many(t, answers, &items),
        (Answer::Tuple(answers, _), Kind::Tuple(items, _)) => many(t, answers, &items),
        (Answer::Dict(answers), Kind::Dict(dict)) => {
            let items: Vec<VarId> = dict.items.values().map(|(_, item)| *item).collect();
            answers.len() == items.len()
                && answers
                    .iter()
                    .zip(items)
                    .all(|((.., answer), item)| collect(t, answer, item, found))
        }
        _ => false,
    }
}

/// Zeros in front of the loop, in place of what it may return: nobody ever sees them.
pub fn zeros(t: &mut Tracer<'_>, leaf: &Leaf, around: &[Option<VarId>]) -> Step<SymbolId> {
    let paddle = t.py.paddle()?;
    let dtype = Obj::from(PyString::new(t.py, leaf.meta.dtype.as_str()).into_any());
    let zero = t.int(0);
    let zero = match t.value(zero) {
        Some(zero) => Obj::from(zero),
        None => return refuse(t, "zero has no value"),
    };
    // The same operation whether dims are open or known: what was captured either way is compared.
    let (name, args) = match tensor_like(t, leaf, around) {
        Some(like) => (
            FULL_LIKE,
            vec![Arg::Symbol(like), Arg::Const(zero), Arg::Const(dtype)],
        ),
        None => {
            let mut shape = Vec::new();
            for dim in &leaf.meta.shape {
                let dim = t.int(if *dim < 0 { 1 } else { *dim });
                shape.extend(t.value(dim).map(|dim| Arg::Const(Obj::from(dim))));
            }
            (
                FULL,
                vec![Arg::List(shape), Arg::Const(zero), Arg::Const(dtype)],
            )
        }
    };
    let function = Obj::from(paddle.getattr(name)?);
    let loc = t.loc();
    t.graph.set_grad_enabled(t.grad.enabled);
    let made = t.graph.call(
        t.py,
        Callee::Api(function),
        args,
        Vec::new(),
        loc,
        &mut |_| None,
    )?;
    let Arg::Symbol(symbol) = made else {
        return refuse(t, "zeros are not a tensor");
    };
    Ok(symbol)
}

/// A tensor of the frame with the same dims: some may be open.
fn tensor_like(t: &mut Tracer<'_>, leaf: &Leaf, around: &[Option<VarId>]) -> Option<SymbolId> {
    if leaf.meta.shape.is_empty() {
        return None;
    }
    let locals: SmallVec<[VarId; 16]> = around.iter().flatten().copied().collect();
    locals.into_iter().find_map(|id| {
        t.realize(id);
        let Kind::Tensor(tensor) = t.kind(id).clone() else {
            return None;
        };
        let meta = t.graph.meta(tensor.symbol)?;
        (meta.shape == leaf.meta.shape).then_some(tensor.symbol)
    })
}
