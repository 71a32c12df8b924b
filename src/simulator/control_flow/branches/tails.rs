//! Ways that leave what no operation chooses between: a tensor and `None`, lists of other
//! lengths, a number and a tensor.
//!
//! What follows is simulated on either way then, up to where the frame or the round of a captured
//! loop ends. There only what leaves the frame has to be alike.

use crate::graph::SymbolId;
use crate::variables::{Kind, VarId};

use crate::dispatch::Flow;
use crate::frame_state::FrameState;
use crate::phi::Piece;
use crate::region::{End, Way};
use crate::{Step, Stop, Tracer};

/// Most such branches inside of one another: each doubles what follows.
const MOST: usize = 4;

/// A way to capture control flow of a frame.
type Capture<'a, 'py> = &'a mut dyn FnMut(&mut Tracer<'py>, &mut FrameState) -> Step<Flow>;

/// Most attempts of a translation with flags beside tensors.
const MOST_FLAGGED: usize = 32;

/// What `near` captures, or `far` where that leaves values that are not alike, or `near` with flags
/// beside tensors that may be `None`.
pub fn near_or_far<'py>(
    t: &mut Tracer<'py>,
    frame: &mut FrameState,
    near: Capture<'_, 'py>,
    far: Option<Capture<'_, 'py>>,
) -> Step<Flow> {
    let mark = t.mark();
    let steps = (frame.clone(), t.frames.locations.clone());
    t.flow.unlike = false;
    let answer = near(t, frame);
    let unlike = std::mem::take(&mut t.flow.unlike);
    if !unlike || !matches!(answer, Err(Stop::Break(_))) {
        return answer;
    }
    if let Some(far) = far.filter(|_| t.flow.tails < MOST) {
        (*frame, t.frames.locations) = steps.clone();
        t.rollback(mark);
        t.flow.tails += 1;
        let further = far(t, frame);
        t.flow.tails -= 1;
        t.flow.unlike = false;
        if !matches!(further, Err(Stop::Break(_))) {
            return further;
        }
    }
    if t.flow.maybes || t.flow.tails > 0 || t.flow.flagged == MOST_FLAGGED {
        return answer;
    }
    (*frame, t.frames.locations) = steps;
    t.rollback(mark);
    t.flow.flagged += 1;
    t.flow.maybes = true;
    let flagged = near(t, frame);
    t.flow.maybes = false;
    t.flow.unlike = false;
    match flagged {
        // The first reason names what the user wrote.
        Err(Stop::Break(_)) => answer,
        flagged => flagged,
    }
}

/// The tensor of the graph that a value is.
fn deciding(t: &Tracer<'_>, value: VarId) -> Option<SymbolId> {
    t.vars.kind(value).of_graph()
}

/// From here on a condition is known: the graph fails where it is not so.
pub(super) fn checked(t: &mut Tracer<'_>, value: VarId, holds: bool) {
    let symbol = deciding(t, value);
    t.flow.decided.extend(symbol.map(|symbol| (symbol, holds)));
}

/// What a way through the code answers where `value` holds on it, or does not.
pub fn knowing<'py, T>(
    t: &mut Tracer<'py>,
    value: VarId,
    holds: bool,
    follow: impl FnOnce(&mut Tracer<'py>) -> T,
) -> T {
    let known = t.flow.decided.len();
    let symbol = deciding(t, value);
    t.flow.decided.extend(symbol.map(|symbol| (symbol, holds)));
    let answer = follow(t);
    t.flow.decided.truncate(known);
    answer
}

/// Whether a condition holds on this way, where the way was taken for it.
pub fn decided(t: &Tracer<'_>, value: VarId) -> Option<bool> {
    decided_symbol(t, deciding(t, value)?)
}

/// The same of a number of the graph.
pub fn decided_symbol(t: &Tracer<'_>, symbol: SymbolId) -> Option<bool> {
    let mut known = t.flow.decided.iter();
    known.find(|(it, _)| *it == symbol).map(|(_, holds)| *holds)
}

/// Whether nobody sees the lists and dicts of the frame behind two ways: it is the outermost one
/// and returns tensors, numbers or constants, and nothing else outlives it.
pub fn hides_containers(t: &Tracer<'_>, ways: [&Way; 2]) -> bool {
    let alone = t.frames.simulated.len() == 1
        && t.frames.running.is_empty()
        && t.exceptions.raised.is_empty()
        && t.left_behind.is_empty()
        && !t.changes_what_exists();
    let is_new = |(id, _): &(VarId, Piece)| t.vars.get(*id).source.is_none();
    let plain = |way: &&Way| {
        let leaves = way.end == End::Return && is_plain(t, &way.value);
        leaves && way.cells.is_empty() && way.changed.iter().all(is_new)
    };
    alone && ways.iter().all(plain)
}

/// Whether it holds nothing that changes.
fn is_plain(t: &Tracer<'_>, piece: &Piece) -> bool {
    match piece {
        Piece::Tensor(..) | Piece::Number(_) | Piece::Const(_) => true,
        Piece::Same(id) => matches!(
            t.vars.kind(*id),
            Kind::Tensor(_) | Kind::SymNumber(_) | Kind::Const
        ),
        Piece::Tuple(items, _) | Piece::List(items, _) => items.iter().all(|it| is_plain(t, it)),
        Piece::Dict(items) => items.iter().all(|(.., item)| is_plain(t, item)),
        Piece::Maybe(parts) => is_plain(t, &parts.0) && is_plain(t, &parts.1),
        Piece::Unbound | Piece::Real(..) | Piece::Other(_) => false,
    }
}
