//! Compares a trace with open dims with one in which they are known: what Paddle infers and
//! computes with the -1 that stands for an open dim may be wrong.

mod calls;

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use crate::backend::TraceSession;
use crate::graph::{Arg, Callee, DType, Region, Statement, StatementIr, SymbolId};
use crate::ops::{ASTYPE, FULL, FULL_LIKE};
use crate::reason::{Break, BreakKind};

use calls::{
    are_both_zeros, checks_place, has_no_rows, is_named, is_of_module, is_same_call,
    is_same_operator, of_rows, reshapes,
};

/// What is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// A translation for calls.
    Called,
    /// The same, where loops over known dims were captured like those over open ones.
    CalledLoops,
    /// An export: nobody guards the dims, so that branches and loops on them are in the graph.
    Exported,
    /// The same, where loops over known dims were captured like those over open ones.
    ExportedLoops,
}

/// Checks what Paddle inferred for open dims: `open` is traced with some, `known` with the dims of
/// this call.
///
/// Some of Paddle's rules compute with the -1 that stands for an open dim, and answer with a number
/// that is none.
///
/// And Paddle's functions compute with it in Python: `kl_div` divides by the batch, `trapezoid`
/// leaves out the last of so many. Then what they make of a call differs: another operation, or
/// another attribute.
///
/// # Errors
/// For the first operation that has another known dim than it has in this call, and for the first
/// call that became something else.
pub(super) fn check_dims(
    py: Python<'_>,
    checked: Checked,
    (open, made): (&StatementIr, &dyn TraceSession),
    (known, expected): (&StatementIr, &dyn TraceSession),
) -> Result<(), Break> {
    let mut check = CheckDims {
        py,
        known,
        at: 0,
        sessions: (made, expected),
        exports: matches!(checked, Checked::Exported | Checked::ExportedLoops),
        loops: matches!(checked, Checked::CalledLoops | Checked::ExportedLoops),
    };
    // In front of a break, more may have been captured where the dims are known.
    check
        .block(open, FxHashSet::default(), false)
        .map_err(|it| {
            let (it, why) = match it {
                Differs::Shape(it) => (it, "another shape is inferred with open dims"),
                Differs::Call(it) => (it, "other operations are captured with open dims"),
                Differs::Made(it) => (it, "something else is computed with open dims"),
                Differs::Side(it) => (
                    it,
                    "what is computed with open dims on a side that this size does not lead to",
                ),
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
    /// On a side of a branch that is not taken where the dims are known.
    Side(&'a Statement),
}

struct CheckDims<'a, 'py> {
    py: Python<'py>,
    known: &'a StatementIr,
    /// The next statement of it.
    at: usize,
    /// Those of both graphs.
    sessions: (&'a dyn TraceSession, &'a dyn TraceSession),
    /// Whether nobody guards the dims, so that branches and loops on them are in the graph.
    exports: bool,
    /// Whether loops over known dims are loops: they count with numbers that are constants else.
    loops: bool,
}

impl<'a> CheckDims<'a, '_> {
    /// `helpers` are numbers: statements that make numbers of dims are not there when the dims are
    /// known.
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
            let known = self.known;
            let matches = |other: &Statement| match of_helper {
                // A constant that a number of dims is computed with is not the user's `full()` of
                // that line.
                false if is_number(py, open, it) && !has_dims_of(open, it, known, other) => false,
                false => {
                    let zeros = || {
                        are_both_zeros(py, it, other)
                            && !is_number(py, known, other)
                            && has_rank_of(open, it, known, other)
                    };
                    is_same_call(py, it, other) || self.loops && zeros()
                }
                // Another one of the same line has other dims.
                true => {
                    is_round && is_same_operator(it, other) && has_dims_of(open, it, known, other)
                }
            };
            // A list may become rows elsewhere where the dims are known.
            let is_other = |other: &Statement| of_rows(py, other).is_some() && !matches(other);
            while known.statements.get(self.at).is_some_and(is_other) {
                self.at += 1;
            }
            if self.loops {
                let rest = known.statements.iter().skip(self.at);
                let mut found = rest.take_while(|it| matches(it) || makes_numbers(known, it));
                self.at += found.position(&matches).unwrap_or(0);
            }
            let mut expected = known.statements.get(self.at);
            // Where the dims are known, a number made of them is a constant, and a bool next to a
            // tensor of floats a tensor as large as that.
            let is_constant =
                |other| is_number(py, known, other) || is_named(py, other, &[FULL_LIKE]);
            if expected.is_some_and(|other| !matches(other) && is_constant(other)) {
                if let Some(next) = known.statements.get(self.at + 1).filter(|it| matches(it)) {
                    self.at += 1;
                    expected = Some(next);
                }
            }
            let expected = expected.filter(|other| matches(other));
            if let Some(other) = expected {
                let is_unseen = has_no_rows(py, it) || self.loops && are_both_zeros(py, it, other);
                if !has_dims_of(open, it, self.known, other) && !is_unseen {
                    return Err(Differs::Shape(it));
                }
                let is_asked = !of_helper && !is_round && of_rows(py, it).is_none();
                if is_asked && !self.is_made_alike(it, other) {
                    return Err(Differs::Made(it));
                }
                self.at += 1;
            } else if of_helper
                || is_named(py, it, &["shape"])
                || is_of_module(py, it, "paddle_sot_rs._graph.arrays")
                || is_number(py, open, it)
                || is_of_numbers(open, it, &helpers)
            {
                it.output.for_each_symbol(&mut |made| {
                    helpers.insert(made);
                });
            } else if of_rows(py, it).is_some() {
                // Where the dims are known it is a list.
                add_numbers(open, it, &mut helpers);
            } else if self.is_dividend(open, it) {
                // Where the dim is known the division makes floats of whole numbers itself.
            } else if let Some(sides) = sides(it) {
                self.one_of(sides)?;
                add_numbers(open, it, &mut helpers);
            } else if let Some(body) = body(it) {
                self.rounds(body).map_err(|why| match why {
                    // Not a statement of this block.
                    Differs::Shape(_) => Differs::Shape(it),
                    Differs::Call(_) => Differs::Call(it),
                    Differs::Made(_) => Differs::Made(it),
                    Differs::Side(it) => Differs::Side(it),
                })?;
                add_numbers(open, it, &mut helpers);
            } else if !reshapes(py, it) && !checks_place(py, it) {
                // A reshape to the shape that the tensor has is left out where that is known, and a
                // place that is known is not checked.
                return Err(Differs::Call(it));
            }
        }
        Ok(())
    }

    /// Whether a statement makes floats of a tensor of whole numbers for a division by a dim, which
    /// follows.
    fn is_dividend(&self, open: &StatementIr, it: &Statement) -> bool {
        let named = |it: &Statement, names: &[&str]| match &it.callee {
            Callee::Method(name) => names.contains(&&**name),
            Callee::Api(_) | Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => false,
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
        whole && divides && named(it, &[ASTYPE])
    }

    /// Whether both calls became the same operations, and both copy or neither. Where one is given
    /// numbers that the graph makes of dims, it says itself what it does with them.
    fn is_made_alike(&self, open: &Statement, known: &Statement) -> bool {
        // Who changes nothing in place does not see it: what that does is a statement, too. Of an
        // export nobody else has a view.
        if open.copies != known.copies && !self.exports {
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

    /// A branch on open dims; where the dims are known, one of its sides stands in its place: the
    /// one that more of the statements are from.
    fn one_of<'b>(&mut self, sides: [&'b StatementIr; 2]) -> Result<(), Differs<'b>> {
        let start = self.at;
        let (mut end, mut refused) = (None, None);
        for side in sides {
            self.at = start;
            match self.block(side, numbers_given(side), true) {
                Ok(()) => end = end.max(Some(self.at)),
                Err(why) => {
                    // Nobody knows what this side does where dims are known.
                    if let Some(it) = first_with_dims(side) {
                        return Err(Differs::Side(it));
                    }
                    refused = refused.or(Some(why));
                }
            }
        }
        match (end, refused) {
            (Some(end), _) => {
                self.at = end;
                Ok(())
            }
            (None, Some(why)) => Err(why),
            (None, None) => Ok(()),
        }
    }

    /// A loop over an open dim; where the dim is known its rounds stand one after the other.
    fn rounds<'b>(&mut self, body: &'b StatementIr) -> Result<(), Differs<'b>> {
        let numbers = numbers_given(body);
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
                // A loop without a round.
                Err(Differs::Call(_)) if self.exports => {
                    if let Some(it) = first_with_dims(body) {
                        return Err(Differs::Side(it));
                    }
                    self.at = start;
                    break;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

/// What a nested graph is given that may be a number: its symbols are its own.
fn numbers_given(sir: &StatementIr) -> FxHashSet<SymbolId> {
    let given = sir.inputs.iter().copied();
    given.filter(|id| may_be_number(sir, *id)).collect()
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
            Region::If { .. } | Region::Recompute { .. } | Region::PyLayer { .. } => None,
        },
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => None,
    }
}

/// The first statement, also in nested graphs, in which Paddle has computed with open dims.
fn first_with_dims(sir: &StatementIr) -> Option<&Statement> {
    sir.statements.iter().find(|it| match &it.callee {
        Callee::Sir(region) => {
            let mut blocks = region.blocks().into_iter();
            blocks.any(|(_, block)| first_with_dims(block).is_some())
        }
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => {
            it.computes_dims
        }
    })
}

/// Adds the numbers among the results of a statement.
fn add_numbers(sir: &StatementIr, it: &Statement, numbers: &mut FxHashSet<SymbolId>) {
    it.output.for_each_symbol(&mut |made| {
        if may_be_number(sir, made) {
            numbers.insert(made);
        }
    });
}

/// The sides of a branch.
fn sides(it: &Statement) -> Option<[&StatementIr; 2]> {
    match &it.callee {
        Callee::Sir(region) => match &**region {
            Region::If { then, otherwise } => Some([&**then, &**otherwise]),
            Region::While { .. } | Region::Recompute { .. } | Region::PyLayer { .. } => None,
        },
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => None,
    }
}

/// Whether a call makes numbers, or checks something, of numbers made of dims.
fn is_of_numbers(sir: &StatementIr, it: &Statement, helpers: &FxHashSet<SymbolId>) -> bool {
    let (mut any, mut all) = (false, true);
    it.for_each_argument(&mut |id| {
        any = true;
        all &= helpers.contains(&id);
    });
    let mut numbers = !matches!(it.callee, Callee::Sir(_) | Callee::Layer(_));
    it.output
        .for_each_symbol(&mut |made| numbers &= may_be_number(sir, made));
    any && all && numbers
}

/// Whether a call makes nothing but numbers.
fn makes_numbers(sir: &StatementIr, it: &Statement) -> bool {
    let mut numbers = !matches!(it.callee, Callee::Sir(_) | Callee::Layer(_));
    let mut any = false;
    it.output.for_each_symbol(&mut |made| {
        any = true;
        numbers &= may_be_number(sir, made);
    });
    any && numbers
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
    let made = it.output.first_symbol().and_then(|made| sir.meta(made));
    shape && made.is_some_and(|meta| meta.shape.is_empty()) && is_named(py, it, &[FULL])
}

/// Whether both make one tensor, of as many dims.
fn has_rank_of(open: &StatementIr, it: &Statement, known: &StatementIr, other: &Statement) -> bool {
    let rank = |sir: &StatementIr, it: &Statement| {
        let made = it.output.as_symbol()?;
        Some(sir.meta(made)?.shape.len())
    };
    let found = rank(open, it);
    found.is_some() && found == rank(known, other)
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
