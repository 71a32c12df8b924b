//! Instructions that rebuild a variable. Each variable is rebuilt once and kept in a local, so that
//! two names for one object stay two names for one object.

use std::sync::Arc;

use indexmap::IndexSet;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::{Code, CodeBuilder};
use crate::frame::Modules;
use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::simulator::MAX_NESTING;
use crate::simulator::{Shared, Tracer, carried_aliases};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Emit, IterVar, Kind, Rebuild, TensorVar, VarId};

static HELPERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A helper function of the generated code.
pub fn helper(py: Python<'_>, name: &str) -> Result<Obj, Break> {
    let module = HELPERS.get_or_try_init(py, || {
        py.own("paddle_sot_rs._codegen.helpers").map(Bound::unbind)
    })?;
    Ok(Obj::from(module.bind(py).getattr(name)?))
}

/// What generated code asks of the guard program and of the graph.
#[derive(Default)]
pub struct Demand {
    /// Trackers whose values are passed.
    pub slots: IndexSet<TrackerRef>,
    /// Symbols the graph must output.
    pub outputs: IndexSet<SymbolId>,
    /// Tensors that are rebuilt.
    pub tensors: IndexSet<VarId>,
    /// All that is made.
    pub made: FxHashSet<VarId>,
}

impl Demand {
    /// The position of a tracker among the slots.
    pub fn slot(&mut self, tracker: &TrackerRef) -> usize {
        self.slots.insert_full(tracker.clone()).0
    }

    /// The slot of a tensor that is an input of the graph: what comes out again is the object that
    /// went in.
    pub fn input(&mut self, t: &Tracer<'_>, symbol: SymbolId) -> Option<usize> {
        let input = t.graph.inputs.iter().find(|input| input.symbol == symbol)?;
        Some(self.slot(&input.tracker))
    }

    /// The position of a symbol among the outputs.
    pub fn output(&mut self, symbol: SymbolId) -> usize {
        self.outputs.insert_full(symbol).0
    }
}

/// Emits code against slots and outputs that are numbered as they are asked for: they are locals
/// named in a prologue once all are known.
pub struct Emitter<'a, 'py> {
    /// The trace.
    pub t: &'a mut Tracer<'py>,
    /// What was asked for.
    pub demand: Demand,
    /// The code.
    pub code: CodeBuilder,
    slots: FxHashMap<usize, u32>,
    outputs: FxHashMap<usize, u32>,
    built: FxHashMap<VarId, u32>,
    building: FxHashSet<VarId>,
    /// Whether the side effects are behind us.
    pub(super) replayed: bool,
    /// What is made after the side effects.
    pub(super) waiting: Vec<VarId>,
    /// Lists of views that were made anew.
    pub(super) lists: FxHashMap<VarId, u32>,
    shared: &'a Shared,
}

/// Where generated code keeps a value.
#[derive(Clone, Copy)]
pub enum Home {
    /// In the list of slots.
    Slot(usize),
    /// In a local variable.
    Local(u32),
}

impl<'a, 'py> Emitter<'a, 'py> {
    /// An emitter for code that looks like `like` in tracebacks. Its parameters are a list, the
    /// slots, and a tuple, the outputs.
    pub fn new(t: &'a mut Tracer<'py>, like: &Code, shared: &'a Shared) -> Result<Self, Break> {
        let code = CodeBuilder::new(t.py, like, vec![Arc::from(".slots"), Arc::from(".outputs")])?;
        Ok(Self {
            t,
            demand: Demand::default(),
            code,
            slots: FxHashMap::default(),
            outputs: FxHashMap::default(),
            built: FxHashMap::default(),
            building: FxHashSet::default(),
            replayed: false,
            waiting: Vec::new(),
            lists: FxHashMap::default(),
            shared,
        })
    }

    fn item_of(&mut self, tuple: u32, index: usize) -> Emit {
        self.code.load(tuple)?;
        let index = pyo3::types::PyInt::new(self.t.py, index).into_any();
        self.code.load_const(&Obj::from(index))?;
        self.code.subscript()?;
        Ok(())
    }

    pub(super) fn cached(&mut self, tuple: u32, index: usize) -> Emit {
        let table = if tuple == 0 {
            &self.slots
        } else {
            &self.outputs
        };
        if let Some(local) = table.get(&index) {
            return Ok(self.code.load(*local)?);
        }
        self.item_of(tuple, index)?;
        Ok(())
    }

    /// Pushes the value at a tracker.
    pub fn source(&mut self, source: &TrackerRef) -> Emit {
        if let Tracker::Const(value) = &**source {
            return Ok(self.code.load_const(value)?);
        }
        let index = self.demand.slot(source);
        self.cached(0, index)
    }

    /// Code objects intern strings that look like names, which may put another object in the place
    /// of one that the program computed: those are kept out of sight.
    fn plain_constant(&mut self, value: &Obj) -> Emit {
        let object = value.bind(self.t.py);
        let Ok(text) = object.cast_exact::<PyString>() else {
            return Ok(self.code.load_const(value)?);
        };
        let interned = PyString::intern(self.t.py, &text.to_string_lossy());
        if interned.is(text) {
            return Ok(self.code.load_const(value)?);
        }
        Ok(self.code.load_held(value)?)
    }

    /// Calls a helper with what `arguments` pushes.
    pub fn call_helper(
        &mut self,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        let function = helper(self.t.py, name)?;
        self.code.begin_call(&function)?;
        arguments(self)?;
        Ok(self.code.call(argc)?)
    }

    /// Drops everything but `kept`: what no later instruction of the frame can see must not live on
    /// while the native instruction runs.
    pub fn drop_all_but(&mut self, kept: &FxHashSet<VarId>) -> Emit {
        let mut slots = FxHashSet::default();
        for id in kept {
            if let Some(Home::Slot(slot)) = self.home(*id) {
                slots.insert(slot);
            }
        }
        for index in (0..self.demand.slots.len()).filter(|index| !slots.contains(index)) {
            self.vacate(Home::Slot(index))?;
        }
        let mut dropped: Vec<(VarId, u32)> = Vec::new();
        self.built.retain(|id, local| {
            let keep = kept.contains(id);
            if !keep {
                dropped.push((*id, *local));
            }
            keep
        });
        dropped.extend(self.lists.drain());
        dropped.sort_unstable();
        for (_, local) in dropped {
            self.vacate(Home::Local(local))?;
        }
        Ok(())
    }

    /// Where a variable is, once it has been made; constants are nowhere.
    pub fn home(&mut self, id: VarId) -> Option<Home> {
        if let Some(local) = self.built.get(&id) {
            return Some(Home::Local(*local));
        }
        let source = self.t.vars.get(id).source.clone()?;
        let is_constant = matches!(*source, Tracker::Const(_));
        (!is_constant).then(|| Home::Slot(self.demand.slot(&source)))
    }

    /// Nothing is there any more.
    pub fn vacate(&mut self, home: Home) -> Emit {
        let none = self.t.py.None().into_bound(self.t.py);
        self.constant(&none)?;
        match home {
            Home::Slot(index) => {
                self.code.load(0)?;
                self.int(index as i64)?;
                self.code.op("STORE_SUBSCR", 0)?;
            }
            Home::Local(local) => self.code.store(local)?,
        }
        Ok(())
    }

    /// Rebuilds a variable into its local, leaving nothing on the stack.
    pub fn prepare(&mut self, id: VarId) -> Emit {
        if matches!(self.t.vars.kind(id), Kind::Null) {
            return Ok(());
        }
        if self.must_wait(id) {
            self.waiting.push(id);
            return Ok(());
        }
        self.value(id)?;
        self.code.op("POP_TOP", 0)?;
        Ok(())
    }

    /// Pushes a variable.
    pub fn value(&mut self, id: VarId) -> Emit {
        if let Some(local) = self.built.get(&id) {
            return Ok(self.code.load(*local)?);
        }
        if let Some(at) = self.t.raised_at(id) {
            let why = "an exception that was raised, or what else only the interpreter makes";
            return Err(self.t.left_to_interpreter(at, why));
        }
        let var = self.t.vars.get(id).clone();
        if let Some(source) = &var.source {
            return self.source(source);
        }
        if let Some(owner) = var.owner {
            return self.value(owner);
        }
        if matches!(var.kind, Kind::Tensor(_)) && self.t.at_break.hands_on {
            // What follows may change it, and with it what it may be.
            if let Some(at) = carried_aliases::made_at(self.t, id) {
                let why = "a tensor that captured control flow may have left as it was";
                return Err(self.t.left_to_interpreter(at, why));
            }
        }
        if let (Kind::Const, Some(value)) = (&var.kind, &var.value) {
            return self.plain_constant(value);
        }
        if matches!(var.kind, Kind::Null) {
            self.code.op("PUSH_NULL", 0)?;
            return Ok(());
        }
        if self.building.len() > MAX_NESTING {
            return Err(Break::new(
                BreakKind::Construct,
                "containers in containers that are too deep",
            ));
        }
        if !self.building.insert(id) {
            return Err(Break::new(
                BreakKind::Construct,
                "a container that holds itself",
            ));
        }
        let kept = var.reconstruct(self, id)?;
        self.building.remove(&id);
        if !kept {
            self.keep(id)?;
        }
        Ok(())
    }

    /// Keeps the top of the stack as the value of `id`.
    pub(super) fn keep(&mut self, id: VarId) -> Emit {
        let local = self.code.local(&format!(".value_{}", id.0));
        self.code.op("COPY", 1)?;
        self.code.store(local)?;
        self.built.insert(id, local);
        self.demand.made.insert(id);
        Ok(())
    }

    /// Pushes an input or output of the graph.
    pub(super) fn symbol(&mut self, symbol: SymbolId) -> Emit {
        if let Some((number, dtype)) = self.made_number(symbol) {
            return self.number_as_tensor(&number, dtype);
        }
        match self.demand.input(self.t, symbol) {
            Some(slot) => self.cached(0, slot),
            None => {
                let index = self.demand.output(symbol);
                self.cached(1, index)
            }
        }
    }
}

impl<'py> Rebuild<'py> for Emitter<'_, 'py> {
    fn tracer(&mut self) -> &mut Tracer<'py> {
        self.t
    }

    fn code(&mut self) -> &mut CodeBuilder {
        &mut self.code
    }

    fn value(&mut self, id: VarId) -> Emit {
        self.value(id)
    }

    fn keep(&mut self, id: VarId) -> Emit {
        self.keep(id)
    }

    fn symbol(&mut self, symbol: SymbolId) -> Emit {
        self.symbol(symbol)
    }

    fn tensor(&mut self, id: VarId, tensor: &TensorVar) -> Emit {
        self.demand.tensors.insert(id);
        match &tensor.view {
            Some(view) if self.shared.is_made_anew(self.t, id) => self.view(view),
            _ => self.symbol(tensor.symbol),
        }
    }

    fn must_wait(&self, id: VarId) -> bool {
        self.must_wait(id)
    }

    fn iterator(&mut self, state: &IterVar) -> Emit {
        self.iterator(state)
    }

    fn call_helper(
        &mut self,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        self.call_helper(name, argc, arguments)
    }
}
