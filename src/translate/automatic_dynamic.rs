//! What differs between calls: learnt from the guards of one translation after the other.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::TraceSession;
use crate::graph::{Arg, Callee, DType, Region, Statement, StatementIr, SymbolId};
use crate::guard::{GuardKind, GuardSet};
use crate::obj::{self, Obj};
use crate::ops::RESHAPES;
use crate::reason::{Break, BreakKind};
use crate::tracker::{Place, Tracker, TrackerRef};

use super::declared_dynamic::Declared;
use super::function::{lock, Translated};

/// What differs between calls.
#[derive(Default)]
pub(super) struct Varies {
    pub(super) dims: FxHashMap<TrackerRef, Vec<usize>>,
    pub(super) numbers: FxHashMap<TrackerRef, Obj>,
    /// Containers that differ too often to be looked into.
    pub(super) closed: FxHashSet<TrackerRef>,
    /// Whether guards are kept: what is exported has none.
    pub(super) guarded: bool,
}

/// Numbers that are tried one by one where not all of them together can stay open.
pub(super) const FEW: usize = 4;

/// Values of one number that are translated one by one where Python needs them; behind them the graph breaks there.
const MOST_VALUES: usize = 16;

/// The same for what differs from round to round of a loop.
const MOST_ROUNDS: usize = 4;

/// What earlier translations say of a number.
pub enum Seen {
    /// The first value.
    First(Obj),
    /// Python needs the value.
    Needed,
}

/// Numbers of a translation that differ from those of earlier ones.
#[derive(Default)]
pub(super) struct Learnt {
    /// Those that nothing was found to need.
    pub(super) open: Vec<(TrackerRef, Obj)>,
    /// Those whose values alone took many translations.
    pub(super) costly: Vec<(TrackerRef, Obj)>,
    /// Containers whose contents alone took many translations.
    pub(super) containers: Vec<TrackerRef>,
}

/// Compares what guards rely on with what earlier translations do.
pub(super) fn numbers(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    guards: &GuardSet,
) -> Learnt {
    let is_needed = |seen: &Seen| matches!(seen, Seen::Needed);
    let most = if of.loops() { MOST_ROUNDS } else { MOST_VALUES };
    let many = of.entries().len() >= most;
    let missed = match many || lock(&of.numbers).values().any(is_needed) {
        true => of.missed(py, bound),
        false => Vec::new(),
    };
    let mut known = lock(&of.numbers);
    let mut learnt = Learnt::default();
    let is_costly = |place: &Place| missed.iter().filter(|missed| *missed == place).count() >= most;
    for (_, tracker, value) in values(py, guards) {
        let place = Place::of(tracker);
        let seen = known
            .entry(place)
            .or_insert_with(|| Seen::First(value.clone()));
        let found = match seen {
            Seen::First(first) => {
                let is_other = !first.bind(py).eq(value.bind(py)).unwrap_or(true);
                is_other.then_some(&mut learnt.open)
            }
            Seen::Needed => is_costly(&place).then_some(&mut learnt.costly),
        };
        if let Some(found) = found {
            found.push((tracker.clone(), value.clone()));
        }
    }
    for (_, tracker) in containers(guards) {
        let place = Place::of(tracker);
        if is_costly(&place) && !learnt.containers.contains(tracker) {
            learnt.containers.push(tracker.clone());
        }
    }
    learnt
}

/// The containers whose lengths, keys or elements guards rely on, with the positions of those.
pub(super) fn containers(guards: &GuardSet) -> impl Iterator<Item = (usize, &TrackerRef)> {
    let guards = guards.iter().enumerate();
    guards.filter_map(|(at, guard)| {
        let container = match &guard.kind {
            GuardKind::Len(_)
            | GuardKind::DictKeys(_)
            | GuardKind::Elements(_)
            | GuardKind::Holds(..) => Some(&guard.tracker),
            GuardKind::SameAs(other) => holder(&guard.tracker).or_else(|| holder(other)),
            _ => None,
        };
        container.map(|container| (at, container))
    })
}

/// The list, tuple or dict that something is an item of.
fn holder(item: &TrackerRef) -> Option<&TrackerRef> {
    match &**item {
        Tracker::ListItem(holder, _) | Tracker::TupleItem(holder, _) => Some(holder),
        // Of a module or an object these are variables and attributes.
        Tracker::DictItem(holder, _) => {
            let is_namespace = matches!(**holder, Tracker::Const(_) | Tracker::InstanceDict(_));
            (!is_namespace).then_some(holder)
        }
        _ => None,
    }
}

/// The numbers and texts that guards rely on, with the positions of those.
pub(super) fn values<'a>(
    py: Python<'a>,
    guards: &'a GuardSet,
) -> impl Iterator<Item = (usize, &'a TrackerRef, &'a Obj)> + 'a {
    let can_be_open = move |value: &Obj| {
        let value = value.bind(py);
        value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyFloat>()
            || value.is_exact_instance_of::<PyString>()
    };
    let guards = guards.iter().enumerate();
    guards.filter_map(move |(at, guard)| match &guard.kind {
        GuardKind::ConstEq(value) if can_be_open(value) => Some((at, &guard.tracker, value)),
        _ => None,
    })
}

/// Dims that differ from those of earlier translations or were declared dynamic, by tracker.
pub(super) fn dims(
    of: &Translated,
    guards: &GuardSet,
    declared: &Declared,
    learns: bool,
) -> FxHashMap<TrackerRef, Vec<usize>> {
    let mut known = lock(&of.dims);
    let mut dynamic = FxHashMap::default();
    for guard in guards.iter() {
        let dims = match &guard.kind {
            GuardKind::Tensor(tensor) => &tensor.dims,
            GuardKind::Array(array) => &array.dims,
            _ => continue,
        };
        let seen = known
            .entry(Place::of(&guard.tracker))
            .or_insert_with(|| dims.to_vec());
        if seen.len() != dims.len() {
            *seen = dims.to_vec();
        }
        let is_static = |dim| declared.is_static(&guard.tracker, dim);
        for (dim, (seen, now)) in seen.iter_mut().zip(dims).enumerate() {
            // 0 and 1 broadcast and are special everywhere: they stay static.
            let special = matches!(now, Some(0 | 1));
            if learns && *seen != *now && !special && !is_static(dim) {
                *seen = None;
            }
        }
        for &dim in declared.dynamic.get(&guard.tracker).into_iter().flatten() {
            if let Some(seen) = seen.get_mut(dim) {
                *seen = None;
            }
        }
        let open: Vec<usize> = (0..seen.len())
            .filter(|at| seen[*at].is_none() && !matches!(dims[*at], Some(0 | 1)))
            .collect();
        if !open.is_empty() {
            dynamic.insert(guard.tracker.clone(), open);
        }
    }
    dynamic
}

/// Checks what Paddle inferred for open dims: `open` is traced with some, `known` with the dims of this call.
///
/// Some of Paddle's rules compute with the -1 that stands for an open dim, and answer with a number that is none.
///
/// And Paddle's functions compute with it in Python: `kl_div` divides by the batch, `trapezoid` leaves out the last of so many.
/// Then what they make of a call differs: another operation, or another attribute.
///
/// # Errors
/// For the first operation that has another known dim than it has in this call, and for the first call that became something else.
pub(super) fn check_dims(
    py: Python<'_>,
    (open, made): (&StatementIr, &dyn TraceSession),
    (known, expected): (&StatementIr, &dyn TraceSession),
) -> Result<(), Break> {
    let mut check = CheckDims {
        py,
        known,
        at: 0,
        sessions: (made, expected),
    };
    // In front of a break, more may have been captured where the dims are known.
    check
        .block(open, FxHashSet::default(), false)
        .map_err(|it| {
            let (it, why) = match it {
                Differs::Shape(it) => (it, "another shape is inferred with open dims"),
                Differs::Call(it) => (it, "other operations are captured with open dims"),
                Differs::Made(it) => (it, "something else is computed with open dims"),
            };
            let names = it.callee.api_names(py).join(", ");
            let mut reason = Break::new(BreakKind::InferenceFailed, format!("{why}: {names}"));
            reason.loc = it.loc.clone();
            reason
        })
}

/// Where two traces differ.
enum Differs<'a> {
    Shape(&'a Statement),
    Call(&'a Statement),
    Made(&'a Statement),
}

struct CheckDims<'a, 'py> {
    py: Python<'py>,
    known: &'a StatementIr,
    /// The next statement of it.
    at: usize,
    /// Those of both graphs.
    sessions: (&'a dyn TraceSession, &'a dyn TraceSession),
}

impl<'a> CheckDims<'a, '_> {
    /// `helpers` are numbers: statements that make numbers of dims are not there when the dims are known.
    fn block<'b>(
        &mut self,
        open: &'b StatementIr,
        mut helpers: FxHashSet<SymbolId>,
        is_round: bool,
    ) -> Result<(), Differs<'b>> {
        let py = self.py;
        for it in &open.statements {
            let of_helper = matches!(it.callee, Callee::Method(_))
                && matches!(it.args.first(), Some(Arg::Symbol(first)) if helpers.contains(first));
            let expected = self.known.statements.get(self.at);
            let expected = expected.filter(|other| match of_helper {
                // A constant that a number of dims is computed with is not the user's `full()` of that line.
                false if is_number(py, open, it) && !has_dims_of(open, it, self.known, other) => {
                    false
                }
                false => is_same_call(py, it, other),
                true => is_round && is_same_operator(it, other),
            });
            if let Some(other) = expected {
                if !has_dims_of(open, it, self.known, other) {
                    return Err(Differs::Shape(it));
                }
                if !of_helper && !is_round && !self.is_made_alike(it, other) {
                    return Err(Differs::Made(it));
                }
                self.at += 1;
            } else if self.is_dividend(open, it) {
                // Where the dim is known the division makes floats of whole numbers itself.
            } else if of_helper || is_named(py, it, &["shape"]) || is_number(py, open, it) {
                it.output.for_each_symbol(&mut |made| {
                    helpers.insert(made);
                });
            } else if let Some(body) = body(it) {
                self.rounds(body).map_err(|why| match why {
                    // Not a statement of this block.
                    Differs::Shape(_) => Differs::Shape(it),
                    Differs::Call(_) => Differs::Call(it),
                    Differs::Made(_) => Differs::Made(it),
                })?;
            } else if !is_named(py, it, RESHAPES) && !checks_place(py, it) {
                // A reshape to the shape that the tensor has is left out where that is known, and a
                // place that is known is not checked.
                return Err(Differs::Call(it));
            }
        }
        Ok(())
    }

    /// Whether a statement makes floats of a tensor of whole numbers for a division by a dim, which follows.
    fn is_dividend(&self, open: &StatementIr, it: &Statement) -> bool {
        let named = |it: &Statement, names: &[&str]| match &it.callee {
            Callee::Method(name) => names.contains(&&**name),
            _ => false,
        };
        let (Some(next), Some(Arg::Symbol(tensor))) =
            (self.known.statements.get(self.at), it.args.first())
        else {
            return false;
        };
        let whole = open
            .meta(*tensor)
            .is_some_and(|meta| !meta.dtype.is_differentiable());
        let divides = named(next, &["__truediv__", "__rtruediv__"]) && next.loc == it.loc;
        whole && divides && named(it, &["astype"])
    }

    /// Whether both calls became the same operations, and both copy or neither. Where one is given numbers that the graph
    /// makes of dims, it says itself what it does with them.
    fn is_made_alike(&self, open: &Statement, known: &Statement) -> bool {
        if open.copies != known.copies {
            return false;
        }
        if !are_alike(self.py, arguments(open), arguments(known)) {
            return true;
        }
        let (Some(ours), Some(theirs)) = (open.output.first_symbol(), known.output.first_symbol())
        else {
            return true;
        };
        let made =
            |session: &dyn TraceSession, symbol| session.made(self.py, symbol).ok().flatten();
        match (made(self.sessions.0, ours), made(self.sessions.1, theirs)) {
            (Some(ours), Some(theirs)) => ours.bind(self.py).eq(theirs).unwrap_or(false),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// A loop over an open dim; where the dim is known its rounds stand one after the other.
    fn rounds<'b>(&mut self, body: &'b StatementIr) -> Result<(), Differs<'b>> {
        let numbers = body.inputs.iter().copied();
        let numbers: FxHashSet<_> = numbers.filter(|id| may_be_number(body, *id)).collect();
        for round in 0.. {
            let start = self.at;
            match self.block(body, numbers.clone(), true) {
                Ok(()) if self.at == start => break,
                Ok(()) => {}
                // The rounds are over: what follows the loop is checked by itself.
                Err(Differs::Call(_)) if round > 0 => {
                    self.at = start;
                    break;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

fn arguments(it: &Statement) -> Vec<&Arg> {
    let named = it.kwargs.iter().map(|(_, arg)| arg);
    it.args.iter().chain(named).collect()
}

/// Whether these arguments are of the same kinds, and the same constants.
fn are_alike(py: Python<'_>, open: Vec<&Arg>, known: Vec<&Arg>) -> bool {
    let alike = |(open, known): (&Arg, &Arg)| match (open, known) {
        (Arg::Symbol(_), Arg::Symbol(_)) => true,
        (Arg::Const(open), Arg::Const(known)) => {
            open.is(known) || open.bind(py).eq(known.bind(py)).unwrap_or(false)
        }
        (Arg::List(open), Arg::List(known)) | (Arg::Tuple(open), Arg::Tuple(known)) => {
            are_alike(py, open.iter().collect(), known.iter().collect())
        }
        (Arg::Slice(open), Arg::Slice(known)) => {
            are_alike(py, open.iter().collect(), known.iter().collect())
        }
        _ => false,
    };
    open.len() == known.len() && open.into_iter().zip(known).all(alike)
}

fn body(it: &Statement) -> Option<&StatementIr> {
    match &it.callee {
        Callee::Sir(region) => match &**region {
            Region::While { body, .. } => Some(body),
            _ => None,
        },
        _ => None,
    }
}

fn may_be_number(sir: &StatementIr, id: SymbolId) -> bool {
    sir.meta(id).is_some_and(|meta| {
        let is_number = matches!(meta.dtype, DType::Int64 | DType::Float64 | DType::Bool);
        meta.shape.is_empty() && is_number
    })
}

/// Whether a statement makes a constant number.
fn is_number(py: Python<'_>, sir: &StatementIr, it: &Statement) -> bool {
    let shape = matches!(it.args.first(), Some(Arg::List(dims)) if dims.is_empty());
    let made = matches!(it.output, Arg::Symbol(made) if may_be_number(sir, made));
    shape && made && is_named(py, it, &["full"])
}

/// Whether two statements are one operator, with the number on either side.
fn is_same_operator(a: &Statement, b: &Statement) -> bool {
    let (Callee::Method(left), Callee::Method(right)) = (&a.callee, &b.callee) else {
        return false;
    };
    let stem = |name: &str| {
        let stem = name.trim_matches('_').trim_start_matches('r').to_owned();
        ["add", "sub", "mul", "truediv"]
            .contains(&&*stem)
            .then_some(stem)
    };
    a.loc == b.loc && stem(left).is_some() && stem(left) == stem(right)
}

fn is_named(py: Python<'_>, it: &Statement, names: &[&str]) -> bool {
    let known = it.callee.api_names(py);
    known.iter().any(|name| names.contains(&name.as_str()))
}

/// Whether a statement checks that there is such a place: see `index_range.rs`.
fn checks_place(py: Python<'_>, it: &Statement) -> bool {
    match &it.callee {
        Callee::Api(function) => {
            obj::name_of(function.bind(py)).is_some_and(|name| name == "check_place")
        }
        _ => false,
    }
}

fn is_same_call(py: Python<'_>, open: &Statement, known: &Statement) -> bool {
    let callee = match (&open.callee, &known.callee) {
        (Callee::Api(a), Callee::Api(b)) => a.is(b),
        (Callee::Method(a), Callee::Method(b)) | (Callee::Attribute(a), Callee::Attribute(b)) => {
            a == b
        }
        (Callee::Layer(_), Callee::Layer(_)) | (Callee::Sir(_), Callee::Sir(_)) => true,
        // See `numbers::scaled`.
        (Callee::Api(_), Callee::Method(name)) => {
            matches!(&**name, "__mul__" | "__rmul__") && is_named(py, open, &["scale"])
        }
        _ => false,
    };
    callee && open.loc == known.loc
}

fn has_dims_of(open: &StatementIr, it: &Statement, known: &StatementIr, other: &Statement) -> bool {
    let shapes = |sir: &StatementIr, it: &Statement| {
        let mut found = Vec::new();
        it.output
            .for_each_symbol(&mut |made| found.push(sir.meta(made).map(|meta| meta.shape.clone())));
        found
    };
    let (open, known) = (shapes(open, it), shapes(known, other));
    open.len() == known.len()
        && open.iter().zip(&known).all(|pair| match pair {
            (Some(open), Some(known)) => {
                let agrees = |(open, known): (&i64, &i64)| *open < 0 || open == known;
                open.len() == known.len() && open.iter().zip(known).all(agrees)
            }
            (open, known) => open.is_none() && known.is_none(),
        })
}
