//! Regions: parts of the program that become nested graphs of one operation. A way through the code
//! is simulated, cut out of the trace and described; what control flow leaves behind is put into
//! the frame.

use std::rc::Rc;
use std::sync::Arc;

use crate::bytecode::{Code, live_locals};
use crate::graph::{Arg, Callee, Region, Statement, SymbolId, SymbolKind};
use crate::tracer::function_graph::Cut;
use crate::variables::{CellVar, Kind, TensorVar, VarId, Variable};

use crate::control_flow::attributes;
use crate::frame_state::{Exit, FrameState};
use crate::loops;
use crate::opcode_executor;
use crate::phi::{self, Joined, Piece, refuse};
use crate::tracer::TraceMark;
use crate::{Step, Tracer};
use crate::{carried_aliases, grown_lists};

/// How a way through the code ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In front of this instruction.
    At(usize),
    /// The frame returns.
    Return,
    /// The captured loop comes to its test.
    Next,
}

/// A way through the code, cut out of the trace.
pub struct Way {
    /// How it ends.
    pub end: End,
    /// The result, or the condition of the next round.
    pub value: Piece,
    /// Locals that may still be read; others are left out.
    pub locals: Vec<(usize, Piece)>,
    /// The value stack.
    pub stack: Vec<Piece>,
    /// Cells that were there before, with their new contents.
    pub cells: Vec<(VarId, Piece)>,
    /// Lists, dicts and tensors of the frame that were there before and changed, with what they are
    /// now.
    pub changed: Vec<(VarId, Piece)>,
    /// Views from before of tensors that changed: eager mode changes them too.
    pub stale_views: Vec<VarId>,
    /// Tensors of it that may share storage with others.
    pub aliases: Vec<(SymbolId, SymbolId)>,
    /// Its statements.
    pub cut: Cut,
}

/// Simulates until `stop` (or the end of the captured loop's round, or a return).
pub fn run_to(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    stop: Option<usize>,
) -> Step<(End, Option<VarId>)> {
    let handling = frame.handling.len();
    loop {
        if Some(frame.pc) == stop {
            return Ok((End::At(frame.pc), None));
        }
        if let Some(condition) = loops::round_ends(t, frame)? {
            return Ok((End::Next, Some(condition)));
        }
        let exit = opcode_executor::advance(t, frame)?;
        if frame.handling.len() != handling {
            return refuse(t, "an exception is handled inside");
        }
        match exit {
            None => {}
            Some(Exit::Return(value)) => return leave(t, frame, value),
            Some(Exit::Next(condition)) => return Ok((End::Next, Some(condition))),
            Some(Exit::Yield(_)) => return refuse(t, "a generator yields inside"),
        }
    }
}

/// The frame returns `value`: inside of a captured loop that ends the round, and the loop.
pub(crate) fn leave(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    value: VarId,
) -> Step<(End, Option<VarId>)> {
    let Some(region) = frame.region.clone() else {
        return Ok((End::Return, Some(value)));
    };
    region.returns.take(t, frame, value)?;
    Ok((End::Next, Some(t.bool(false))))
}

/// Whether since `mark` something happened that outlives what was simulated, but for tensors that
/// were computed.
pub fn acts(t: &Tracer<'_>, mark: &TraceMark) -> bool {
    let changed = t.changed(mark);
    changed.is_none_or(|changed| changed.iter().any(|(id, _)| t.vars.get(*id).mutated))
}

/// Describes what happened since `mark` and takes it out of the trace.
pub fn way(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    mark: TraceMark,
    end: End,
    value: Option<VarId>,
    live: &[usize],
    owned: &[VarId],
) -> Step<Way> {
    let Some(changed) = t.changed(&mark) else {
        return refuse(t, "a side effect outlives it");
    };
    let (mut cells, mut contents, mut stale_views) = (Vec::new(), Vec::new(), Vec::new());
    // A list under two names is one list.
    let mut seen = Vec::new();
    for (id, old) in changed {
        let now: Rc<Variable> = t.vars.get(id).clone();
        // Others may see what the frame did not make.
        let own = now.mutated && now.source.is_none() && now.value.is_none();
        match (&old.kind, &now.kind) {
            (Kind::Cell(_), Kind::Cell(CellVar::Full(content))) if now.mutated => {
                let content = *content;
                cells.push((id, phi::piece(t, Some(content), &mark, &mut seen)));
            }
            (Kind::List(_), Kind::List(_)) | (Kind::Dict(_), Kind::Dict(_)) if own => {
                contents.push((id, phi::content(t, id, &mark, &mut seen)));
            }
            (Kind::Rows(old), Kind::Rows(new)) if old.symbol == new.symbol || !now.mutated => {}
            (Kind::Rows(_), Kind::Rows(new)) if own => {
                contents.push((id, Piece::Tensor(new.symbol, None)));
            }
            (Kind::List(_), Kind::Rows(rows)) if own => {
                // Here it is rows from the beginning.
                grown_lists::note_rows(t, id, *rows);
                return refuse(t, "a list grows inside");
            }
            (Kind::Tensor(old), Kind::Tensor(new)) if own && old.view.is_none() => {
                contents.push((id, Piece::Tensor(new.symbol, None)));
            }
            (Kind::Tensor(old), Kind::Opaque) if old.view.is_some() => stale_views.push(id),
            (Kind::Object(_) | Kind::Lazy, Kind::Object(_))
            | (Kind::Layer(_) | Kind::Lazy, Kind::Layer(_))
                if now.mutated =>
            {
                let kinds = (&old.kind, &now.kind);
                match attributes::written(t, kinds, &mark, &mut seen) {
                    Some(written) => contents.push((id, written)),
                    None => return refuse_change(t, id, &now.kind),
                }
            }
            // The iterator of a loop that ends in here.
            _ if owned.contains(&id) && !frame.stack.contains(&id) => {}
            // What it is became known.
            (Kind::Lazy | Kind::Cell(CellVar::Unread), _) if !now.mutated => {}
            _ => return refuse_change(t, id, &now.kind),
        }
    }
    let value = phi::piece(t, value, &mark, &mut seen);
    let (mut locals, mut stack) = (Vec::new(), Vec::new());
    if end != End::Return {
        for &slot in live {
            locals.push((slot, phi::piece(t, frame.locals[slot], &mark, &mut seen)));
        }
        for id in &frame.stack {
            stack.push(phi::piece(t, Some(*id), &mark, &mut seen));
        }
    }
    let aliases = carried_aliases::within(t, &mark);
    let cut = t.cut(mark);
    refuse_selected_rows(t, &cut)?;
    Ok(Way {
        aliases,
        end,
        value,
        locals,
        stack,
        cells,
        changed: contents,
        stale_views,
        cut,
    })
}

fn refuse_change<T>(t: &mut Tracer<'_>, id: VarId, kind: &Kind) -> Step<T> {
    let what = crate::call::describe(t, id, kind);
    refuse(t, format!("{what} is changed inside"))
}

/// Stops where the gradient of a call inside is selected rows: that of an operation with nested
/// graphs is dense.
pub fn refuse_selected_rows(t: &Tracer<'_>, cut: &Cut) -> Step<()> {
    let selects = |it: &Statement| it.may_select_rows(t.py, &cut.symbols);
    if t.goes_backward() && cut.statements.iter().any(selects) {
        return refuse(t, "a sparse gradient (selected rows) inside");
    }
    Ok(())
}

/// Puts a tensor of the graph into the place of a tensor of the frame, or of rows of a list.
pub fn change_tensor(t: &mut Tracer<'_>, id: VarId, symbol: SymbolId) {
    t.vars.mutate(id, |var| {
        if let Kind::Tensor(tensor) = &mut var.kind {
            tensor.symbol = symbol;
        } else if let Kind::Rows(rows) = &mut var.kind {
            rows.symbol = symbol;
        }
    });
}

/// Puts another item into a list or dict of the frame, which has as many items as before, or into a
/// cell, or makes an attribute another one.
pub fn change_item(t: &mut Tracer<'_>, id: VarId, at: usize, item: VarId) {
    t.vars.mutate(id, |var| {
        let known = if let Kind::List(items) = &mut var.kind {
            items.get_mut(at)
        } else if let Kind::Dict(dict) = &mut var.kind {
            dict.items.get_index_mut(at).map(|(_, (_, value))| value)
        } else if let Kind::Cell(cell) = &mut var.kind {
            *cell = CellVar::Full(item);
            None
        } else {
            attributes::change(&mut var.kind, at, item);
            None
        };
        if let Some(known) = known {
            *known = item;
        }
    });
}

/// The item of a list, a dict or a cell at this position.
pub fn item(t: &mut Tracer<'_>, id: VarId, at: usize) -> Option<VarId> {
    let kind = t.kind(id);
    if let Kind::List(items) = kind {
        items.get(at).copied()
    } else if let Kind::Dict(dict) = kind {
        dict.items.get_index(at).map(|(_, (_, value))| *value)
    } else if let Kind::Cell(CellVar::Full(content)) = kind {
        Some(*content)
    } else {
        attributes::at(kind, at)
    }
}

/// Iterators that only the value stack holds, and those they advance.
pub(crate) fn loop_iterators(t: &mut Tracer<'_>, frame: &FrameState) -> Vec<VarId> {
    let mut open: Vec<VarId> = frame
        .stack
        .iter()
        .copied()
        .filter(|id| !frame.locals.contains(&Some(*id)))
        .collect();
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        if let (Kind::Iter(state), None) = (t.kind(id).clone(), t.source(id)) {
            found.push(id);
            open.extend(state.inner());
        }
    }
    found
}

/// Slots that may be read at `at`, or in the rest of a captured loop.
pub fn live_at(code: &Code, at: Option<usize>, frame: &FrameState) -> Vec<usize> {
    let mut live = at.map_or_else(Vec::new, |at| live_locals(code, at));
    if let Some(region) = &frame.region {
        live.extend(&region.live);
    }
    live.sort_unstable();
    live.dedup();
    live
}

/// Symbols of the graph with their kinds.
pub fn with_kinds(t: &Tracer<'_>, symbols: Vec<SymbolId>) -> Vec<(SymbolId, SymbolKind)> {
    symbols
        .into_iter()
        .map(|symbol| (symbol, t.graph.sir.kind(symbol).clone()))
        .collect()
}

/// Adds the statement; the answer is its results.
pub fn emit(
    t: &mut Tracer<'_>,
    region: Region,
    leading: Vec<SymbolId>,
    free: &[(SymbolId, SymbolKind)],
) -> Step<Vec<SymbolId>> {
    let args = leading
        .into_iter()
        .chain(free.iter().map(|(symbol, _)| *symbol))
        .map(Arg::Symbol)
        .collect();
    let loc = t.loc();
    t.graph.set_grad_enabled(t.grad.enabled);
    let callee = Callee::Sir(Arc::new(region));
    let output = t
        .graph
        .call(t.py, callee, args, Vec::new(), loc, &mut |_| None)?;
    let Arg::Tuple(items) = output else {
        return refuse(t, "an operation inside has no result");
    };
    let symbols: Option<Vec<SymbolId>> = items.iter().map(Arg::as_symbol).collect();
    match symbols {
        Some(symbols) => Ok(symbols),
        None => refuse(t, "the operation has a result that is not a tensor"),
    }
}

/// Puts joined values into the frame.
pub fn apply(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    made: &[SymbolId],
    locals: &[(usize, Joined)],
    stack: &[Joined],
    cells: &[(VarId, Joined)],
) {
    for (slot, joined) in locals {
        frame.locals[*slot] = phi::variable(t, joined, made);
    }
    frame.stack = stack
        .iter()
        .filter_map(|joined| phi::variable(t, joined, made))
        .collect();
    for (id, joined) in cells {
        if let Some(content) = phi::variable(t, joined, made) {
            t.vars
                .mutate(*id, |var| var.kind = Kind::Cell(CellVar::Full(content)));
        }
    }
}

/// A tensor variable of a symbol.
pub fn tensor(t: &mut Tracer<'_>, symbol: SymbolId) -> VarId {
    t.add(Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }))
}
