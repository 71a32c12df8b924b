//! [`FunctionGraph`]: the graph under construction, with exact roll-back.

use pyo3::prelude::*;
use std::sync::Arc;

use crate::backend::{BackendError, ComparedDims, InferredOutput, TraceSession, ValueHandle};
use crate::obj::Obj;
use crate::reason::{Phase, SourceLoc, timed};
use crate::tracker::TrackerRef;

use super::renewed::Renewed;

use rustc_hash::FxHashMap;

use crate::graph::{
    Arg, Callee, LayerRef, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta,
};

/// Where an input symbol's real object comes from at run time.
#[derive(Clone, Debug)]
pub struct GraphInput {
    /// The symbol.
    pub symbol: SymbolId,
    /// The tensor or layer seen at translation time.
    pub value: Obj,
    /// How to load it in a later call.
    pub tracker: TrackerRef,
}

/// What is taken out of a [`FunctionGraph`].
pub type Cut = paddle_sot_ir::Cut<GraphInput>;

/// A position to roll back to.
#[derive(Clone, Copy, Debug)]
pub struct GraphMark {
    statements: usize,
    symbols: usize,
    inputs: usize,
    session: usize,
    closed: Option<Closed>,
    in_front: (usize, usize),
    seeded: bool,
}

/// A graph that takes no more calls.
#[derive(Clone, Copy, Debug)]
struct Closed {
    why: &'static str,
    /// How many symbols there were.
    symbols: usize,
}

impl GraphMark {
    /// How many statements there were.
    pub(crate) fn statements(&self) -> usize {
        self.statements
    }
}

/// Statements recorded so far, together with the backend's trace of them.
pub struct FunctionGraph {
    /// The graph; `inputs` and `outputs` are filled in by the code generator.
    pub sir: StatementIr,
    /// External tensors and layers, in order of first use.
    pub inputs: Vec<GraphInput>,
    session: Box<dyn TraceSession>,
    grad_enabled: bool,
    /// Why it takes no more calls.
    closed: Option<Closed>,
    /// Whether a call was refused because it is closed.
    was_asked: bool,
    /// What is done in front of it.
    pub in_front: InFront,
    /// Why it draws no more random numbers, if it does not.
    seeded: Option<String>,
    /// What parameters have become.
    pub renewed: Renewed,
}

/// What is done in front of a graph, on what exists.
#[derive(Debug, Default)]
pub struct InFront {
    /// Inputs whose `stop_gradient` is set, in this order.
    pub flags: Vec<(SymbolId, bool)>,
    /// Functions that set the random state, and the number that each is given. The last one counts.
    pub seeds: Vec<(Obj, Obj)>,
}

impl FunctionGraph {
    /// An empty graph over a fresh trace session.
    pub fn new(name: String, session: Box<dyn TraceSession>) -> Self {
        Self {
            sir: StatementIr {
                name,
                ..StatementIr::default()
            },
            inputs: Vec::new(),
            session,
            grad_enabled: true,
            closed: None,
            was_asked: false,
            in_front: InFront::default(),
            seeded: None,
            renewed: Renewed::default(),
        }
    }

    /// Takes no more calls, up to a roll-back: they would come before what is done behind the
    /// graph.
    pub(crate) fn close(&mut self, why: &'static str) {
        let symbols = self.sir.symbols.len();
        self.closed.get_or_insert(Closed { why, symbols });
    }

    /// Takes calls again: what had closed it is part of it.
    pub(crate) fn reopen(&mut self) {
        self.closed = None;
    }

    /// Whether it takes no more calls.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Whether a symbol came when the graph was closed.
    pub(crate) fn came_later(&self, symbol: SymbolId) -> bool {
        let is_later = |closed: Closed| symbol.0 as usize >= closed.symbols;
        self.closed.is_some_and(is_later)
    }

    /// Whether a call was refused because the graph was closed, in whatever was tried.
    pub fn was_asked_when_closed(&self) -> bool {
        self.was_asked
    }

    fn new_symbol(&mut self, kind: SymbolKind) -> SymbolId {
        let id = SymbolId(self.sir.symbols.len() as u32);
        self.sir.symbols.push(kind);
        id
    }

    /// The symbol of an external tensor: the known one, or a new input.
    ///
    /// `meta` is the metadata to trace with: dims of `-1` are dynamic.
    pub(crate) fn tensor_input(
        &mut self,
        py: Python<'_>,
        value: Obj,
        meta: TensorMeta,
        tracker: TrackerRef,
    ) -> Result<SymbolId, BackendError> {
        if let Some(known) = self.inputs.iter().find(|input| input.value.is(&value)) {
            return Ok(self.renewed.current(known.symbol));
        }
        let symbol = self.new_symbol(SymbolKind::Tensor(meta.clone()));
        if let Err(err) = self.session.add_input(py, symbol, &value, &meta) {
            self.sir.symbols.pop();
            return Err(err);
        }
        self.inputs.push(GraphInput {
            symbol,
            value,
            tracker,
        });
        Ok(symbol)
    }

    /// Whether a symbol is an external tensor or layer.
    pub(crate) fn is_input(&self, symbol: SymbolId) -> bool {
        self.inputs.iter().any(|input| input.symbol == symbol)
    }

    /// The symbol of an external layer.
    pub fn layer_input(&mut self, py: Python<'_>, value: Obj, tracker: TrackerRef) -> SymbolId {
        if let Some(known) = self.inputs.iter().find(|input| input.value.is(&value)) {
            return known.symbol;
        }
        let symbol = self.new_symbol(SymbolKind::Layer(LayerRef::new(value.bind(py))));
        self.inputs.push(GraphInput {
            symbol,
            value,
            tracker,
        });
        symbol
    }

    /// The backend's trace.
    pub fn session(&self) -> &dyn TraceSession {
        &*self.session
    }

    /// Records a call. On error nothing is recorded.
    ///
    /// Tensors that the callee reached by itself (parameters and buffers of a layer) are handed to
    /// `locate`, which answers with their tracker, or refuses the call by answering `None`.
    pub(crate) fn call(
        &mut self,
        py: Python<'_>,
        callee: Callee,
        args: Vec<Arg>,
        kwargs: Vec<(Arc<str>, Arg)>,
        loc: SourceLoc,
        locate: &mut dyn FnMut(&Obj) -> Option<TrackerRef>,
    ) -> Result<Arg, BackendError> {
        match self.closed {
            Some(closed) => Err(self.refusal(closed)),
            None => self.record(py, callee, args, kwargs, loc, locate),
        }
    }

    /// Records a call although the graph is closed, where it does nothing but make its result: it
    /// neither draws nor writes, and takes nothing that is not among its arguments.
    pub(crate) fn call_when_closed(
        &mut self,
        py: Python<'_>,
        callee: Callee,
        args: Vec<Arg>,
        kwargs: Vec<(Arc<str>, Arg)>,
        loc: SourceLoc,
    ) -> Result<Arg, BackendError> {
        let mark = self.mark();
        let output = self.record(py, callee, args, kwargs, loc, &mut |_| None)?;
        let last = self.sir.statements.last();
        let is_plain = last.is_none_or(|it| !it.draws && it.updates.is_empty());
        match self.closed {
            Some(closed) if !is_plain => {
                self.rollback(py, mark);
                Err(self.refusal(closed))
            }
            _ => Ok(output),
        }
    }

    /// Sets `stop_gradient` of an input in front of the graph; false where the graph has used it.
    pub(crate) fn set_stop_gradient(
        &mut self,
        py: Python<'_>,
        symbol: SymbolId,
        stops: bool,
    ) -> Result<bool, BackendError> {
        let mut used = false;
        for statement in &self.sir.statements {
            // A layer that is called as a whole may hold it.
            used |= matches!(statement.callee, Callee::Layer(_) | Callee::Sir(_));
            used |= statement.updates.contains(&symbol);
            statement.for_each_argument(&mut |id| used |= id == symbol);
        }
        if !used {
            self.flag(py, symbol, stops)?;
            self.in_front.flags.push((symbol, stops));
        }
        Ok(!used)
    }

    fn flag(&mut self, py: Python<'_>, symbol: SymbolId, stops: bool) -> Result<(), BackendError> {
        self.session.set_stop_gradient(py, symbol, stops)?;
        if let Some(SymbolKind::Tensor(meta)) = self.sir.symbols.get_mut(symbol.0 as usize) {
            meta.stop_gradient = stops;
        }
        Ok(())
    }

    /// Whether it has drawn random numbers, as far as anyone knows.
    pub(crate) fn has_drawn(&self) -> bool {
        let mut statements = self.sir.statements.iter();
        statements.any(|it| it.draws || matches!(it.callee, Callee::Sir(_)))
    }

    /// Draws no more random numbers, up to a roll-back: the random state is set behind it.
    pub(crate) fn draw_no_more(&mut self, why: String) {
        self.seeded.get_or_insert(why);
    }

    fn refusal(&mut self, closed: Closed) -> BackendError {
        self.was_asked = true;
        BackendError::Refused(closed.why.into())
    }

    fn record(
        &mut self,
        py: Python<'_>,
        callee: Callee,
        args: Vec<Arg>,
        kwargs: Vec<(Arc<str>, Arg)>,
        loc: SourceLoc,
        locate: &mut dyn FnMut(&Obj) -> Option<TrackerRef>,
    ) -> Result<Arg, BackendError> {
        let mark = self.mark();
        let made = self.try_call(py, callee, args, kwargs, loc, locate);
        if made.is_err() {
            self.rollback(py, mark);
        }
        made
    }

    fn try_call(
        &mut self,
        py: Python<'_>,
        callee: Callee,
        args: Vec<Arg>,
        kwargs: Vec<(Arc<str>, Arg)>,
        loc: SourceLoc,
        locate: &mut dyn FnMut(&Obj) -> Option<TrackerRef>,
    ) -> Result<Arg, BackendError> {
        let inferred = timed(Phase::Infer, || {
            let session = &mut self.session;
            session.call(py, &self.sir, &callee, &args, &kwargs, &loc)
        })?;
        if let (Some(why), true) = (&self.seeded, inferred.draws) {
            return Err(BackendError::Refused(why.clone()));
        }
        for tensor in inferred.captured {
            let Some(tracker) = locate(&tensor.value) else {
                return Err(BackendError::Refused(
                    "the call uses a tensor that is neither an argument nor a parameter of its layer".into(),
                ));
            };
            let symbol = self.new_symbol(SymbolKind::Tensor(tensor.meta));
            self.session.bind_captured(symbol, &tensor.value)?;
            self.inputs.push(GraphInput {
                symbol,
                value: tensor.value,
                tracker,
            });
        }
        let output = self.define(inferred.output, &mut FxHashMap::default())?;
        let mut updates = self.session.updated(py)?;
        if let Callee::Sir(region) = &callee {
            updates.extend(region.updates(&args));
        }
        self.sir.statements.push(Statement {
            callee,
            args,
            kwargs,
            output: output.clone(),
            grad_enabled: self.grad_enabled,
            copies: inferred.copies,
            draws: inferred.draws,
            computes_dims: inferred.computes_dims,
            alone: false,
            updates,
            loc,
        });
        Ok(output)
    }

    /// The symbols of what a call returned: a tensor that is there twice has one.
    fn define(
        &mut self,
        output: InferredOutput,
        known: &mut FxHashMap<ValueHandle, SymbolId>,
    ) -> Result<Arg, BackendError> {
        let mut many = |this: &mut Self, items: Vec<InferredOutput>| {
            items
                .into_iter()
                .map(|item| this.define(item, known))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(match output {
            InferredOutput::Tensor(meta, handle) => {
                if let Some(symbol) = known.get(&handle) {
                    return Ok(Arg::Symbol(*symbol));
                }
                let symbol = self.new_symbol(SymbolKind::Tensor(meta));
                self.session.bind_output(symbol, handle)?;
                known.insert(handle, symbol);
                Arg::Symbol(symbol)
            }
            InferredOutput::Existing(symbol) => Arg::Symbol(symbol),
            InferredOutput::Const(value) => Arg::Const(value),
            InferredOutput::List(items) => Arg::List(many(self, items)?),
            InferredOutput::Tuple(items) => Arg::Tuple(many(self, items)?),
            InferredOutput::NamedTuple(class, items) => Arg::NamedTuple(class, many(self, items)?),
            InferredOutput::Dict(items) => Arg::Dict(
                items
                    .into_iter()
                    .map(|(key, item)| Ok((key, self.define(item, known)?)))
                    .collect::<Result<Vec<_>, BackendError>>()?,
            ),
        })
    }

    /// Whether the last call made a copy where other calls of it make a view.
    pub(crate) fn has_copied(&self) -> bool {
        self.sir.statements.last().is_some_and(|last| last.copies)
    }

    /// What the last call writes besides making its result.
    pub(crate) fn updated(&self) -> &[SymbolId] {
        let last = self.sir.statements.last();
        last.map_or(&[], |last| &last.updates)
    }

    /// What the last call took for granted of open dims.
    pub(crate) fn take_compared(&mut self) -> Vec<ComparedDims> {
        self.session.take_compared()
    }

    /// Gradients flow through the calls from this one on, where whoever runs them has gradients on.
    pub(crate) fn enable_gradients(&mut self, from: usize) {
        for statement in &mut self.sir.statements[from..] {
            statement.grad_enabled = true;
        }
    }

    /// Grad mode for the calls that follow.
    pub(crate) fn set_grad_enabled(&mut self, enabled: bool) {
        self.grad_enabled = enabled;
        self.session.set_grad_enabled(enabled);
    }

    /// The metadata of a tensor symbol.
    pub(crate) fn meta(&self, id: SymbolId) -> Option<&TensorMeta> {
        self.sir.meta(id)
    }

    /// The current position.
    pub(crate) fn mark(&self) -> GraphMark {
        GraphMark {
            statements: self.sir.statements.len(),
            symbols: self.sir.symbols.len(),
            inputs: self.inputs.len(),
            session: self.session.mark(),
            closed: self.closed,
            in_front: (self.in_front.flags.len(), self.in_front.seeds.len()),
            seeded: self.seeded.is_some(),
        }
    }

    /// Forgets everything recorded since `mark`.
    pub(crate) fn rollback(&mut self, py: Python<'_>, mark: GraphMark) {
        while self.in_front.flags.len() > mark.in_front.0 {
            let Some((symbol, stops)) = self.in_front.flags.pop() else {
                break;
            };
            if (symbol.0 as usize) < mark.symbols {
                // Only a flag that differs is set.
                let undone = self.flag(py, symbol, !stops);
                undone.unwrap_or_else(|err| log::warn!(target: "paddle_sot_rs.backend", "{err}"));
            }
        }
        self.in_front.seeds.truncate(mark.in_front.1);
        if !mark.seeded {
            self.seeded = None;
        }
        self.session
            .rollback(py, mark.session, SymbolId(mark.symbols as u32));
        self.sir.statements.truncate(mark.statements);
        self.sir.symbols.truncate(mark.symbols);
        self.renewed.rollback(SymbolId(mark.symbols as u32));
        self.inputs.truncate(mark.inputs);
        self.closed = mark.closed;
    }

    /// A tensor that has metadata only: a variable of a loop, a gradient. It stands for an input of
    /// the nested graph that what follows becomes.
    pub(crate) fn placeholder(
        &mut self,
        py: Python<'_>,
        meta: TensorMeta,
    ) -> Result<SymbolId, BackendError> {
        let symbol = self.new_symbol(SymbolKind::Tensor(meta.clone()));
        let handle = self.session.placeholder(py, &meta)?;
        self.session.bind_output(symbol, handle)?;
        Ok(symbol)
    }

    /// Takes everything since `mark` out of the graph.
    pub(crate) fn cut(&mut self, py: Python<'_>, mark: GraphMark) -> Cut {
        let symbols = self.sir.symbols.clone();
        let statements = self.sir.statements.split_off(mark.statements);
        let inputs = self.inputs.split_off(mark.inputs);
        self.rollback(py, mark);
        Cut {
            statements,
            symbols,
            inputs,
            first: mark.symbols as u32,
            adopted: FxHashMap::default(),
        }
    }

    /// Makes external tensors and layers that what was cut out met inputs of this graph.
    pub(crate) fn adopt(&mut self, py: Python<'_>, cut: &mut Cut) -> Result<(), BackendError> {
        for input in &cut.inputs {
            let (value, tracker) = (input.value.clone(), input.tracker.clone());
            let outer = match &cut.symbols[input.symbol.0 as usize] {
                SymbolKind::Tensor(meta) => self.tensor_input(py, value, meta.clone(), tracker)?,
                SymbolKind::Layer(_) => self.layer_input(py, value, tracker),
            };
            cut.adopted.insert(input.symbol, outer);
        }
        Ok(())
    }

    /// Takes the graph apart for compilation.
    pub fn into_parts(self) -> (StatementIr, Vec<GraphInput>, Box<dyn TraceSession>) {
        (self.sir, self.inputs, self.session)
    }
}
