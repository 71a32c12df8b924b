//! [`GraphBackend`], [`TraceSession`] and [`CompiledGraph`].

use std::any::Any;
use std::sync::Arc;

use dyn_clone::DynClone;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

use crate::BackendError;
use crate::bytecode::{CmpOp, SourceLoc};
use crate::graph::{Arg, Arrivals, Callee, StatementIr, SymbolId, TensorMeta};
use crate::obj::Obj;

/// An opaque index of a value inside one [`TraceSession`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueHandle(pub usize);

/// What a call returns, as far as it can be known without running it.
#[derive(Debug)]
pub enum InferredOutput {
    /// A tensor that this call makes. A handle that is there twice is the same tensor.
    Tensor(TensorMeta, ValueHandle),
    /// The very tensor that already has this symbol (the call returned its argument).
    Existing(SymbolId),
    /// A Python value that does not depend on tensor data.
    Const(Obj),
    /// A list.
    List(Vec<InferredOutput>),
    /// A tuple.
    Tuple(Vec<InferredOutput>),
    /// A tuple subclass.
    NamedTuple(Obj, Vec<InferredOutput>),
    /// A dict with constant keys.
    Dict(Vec<(Obj, InferredOutput)>),
}

/// A tensor that a callee used without being handed it: a parameter or buffer of a layer.
#[derive(Debug)]
pub struct Captured {
    /// The eager tensor.
    pub value: Obj,
    /// Its metadata.
    pub meta: TensorMeta,
}

/// The answer to [`TraceSession::call`].
#[derive(Debug)]
pub struct CallResult {
    /// The result.
    pub output: InferredOutput,
    /// External tensors met for the first time in this session.
    pub captured: Vec<Captured>,
    /// Whether the call copied what other calls of it make a view of; see
    /// [`Statement::copies`](crate::graph::Statement).
    pub copies: bool,
    /// Whether the call draws random numbers; see [`Statement::draws`](crate::graph::Statement).
    pub draws: bool,
    /// See [`Statement::computes_dims`](crate::graph::Statement).
    pub computes_dims: bool,
}

/// What a call took for granted of an open dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedDims {
    /// What a comparison answers.
    Known {
        /// The dim: of a symbol, at a position.
        left: (SymbolId, usize),
        /// The comparison.
        op: CmpOp,
        /// What it is compared with.
        right: ComparedWith,
        /// The answer.
        holds: bool,
    },
    /// Something of a dim of a tensor that the call has made itself, or of what was computed with a
    /// dim.
    Unknown,
}

/// The other side of [`ComparedDims::Known`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedWith {
    /// An open dim: of a symbol, at a position.
    Dim(SymbolId, usize),
    /// A number.
    Number(i64),
}

/// The trace of one graph. Metadata inference and, for backends that build programs, building.
///
/// A session is used by one thread under the GIL and never runs user code.
pub trait TraceSession: Send + Sync {
    /// Declares an external tensor under `symbol`.
    fn add_input(
        &mut self,
        py: Python<'_>,
        symbol: SymbolId,
        tensor: &Obj,
        meta: &TensorMeta,
    ) -> Result<(), BackendError>;

    /// A tensor that has metadata only, to trace a nested graph with.
    fn placeholder(
        &mut self,
        _py: Python<'_>,
        _meta: &TensorMeta,
    ) -> Result<ValueHandle, BackendError> {
        Err(BackendError::Refused(
            "this backend does not take nested graphs".into(),
        ))
    }

    /// Says whether gradients flow to an input, which no call has used.
    fn set_stop_gradient(
        &mut self,
        _py: Python<'_>,
        _symbol: SymbolId,
        _stops: bool,
    ) -> Result<(), BackendError> {
        Err(BackendError::Refused(
            "this backend does not set stop_gradient of what exists".into(),
        ))
    }

    /// Grad mode for the calls that follow: with it off, results stop gradients.
    fn set_grad_enabled(&mut self, enabled: bool);

    /// Traces one call. `sir` knows the layers among the symbols.
    fn call(
        &mut self,
        py: Python<'_>,
        sir: &StatementIr,
        callee: &Callee,
        args: &[Arg],
        kwargs: &[(Arc<str>, Arg)],
        loc: &SourceLoc,
    ) -> Result<CallResult, BackendError>;

    /// What the last call took for granted of open dims, because its Python code or an operation
    /// asks for it.
    fn take_compared(&mut self) -> Vec<ComparedDims> {
        Vec::new()
    }

    /// The tensors that the last call writes besides making its result: running statistics. Asked
    /// when all that it captured has symbols.
    ///
    /// # Errors
    /// When the trace cannot say.
    fn updated(&self, _py: Python<'_>) -> Result<Vec<SymbolId>, BackendError> {
        Ok(Vec::new())
    }

    /// What was made for the call that returned `symbol`, to be compared with `==`: everything but
    /// the dims of tensors. `None`: unknown.
    fn made(&self, _py: Python<'_>, _symbol: SymbolId) -> PyResult<Option<Py<PyAny>>> {
        Ok(None)
    }

    /// Whether the operations traced so far are known to take what `symbol` stands for at most
    /// once.
    fn is_used_once(&self, _py: Python<'_>, _symbol: SymbolId) -> PyResult<bool> {
        Ok(false)
    }

    /// What comes to each tensor of `sir` on the way back from its outputs, in eager mode's order.
    /// `None`: the session does not know.
    ///
    /// # Errors
    /// When Python cannot look at what was traced.
    fn arrivals(&self, _py: Python<'_>, _sir: &StatementIr) -> PyResult<Option<Arrivals>> {
        Ok(None)
    }

    /// The same in the order in which the program of this trace adds it.
    ///
    /// # Errors
    /// When Python cannot look at what was traced.
    fn sums(&self, _py: Python<'_>, _sir: &StatementIr) -> PyResult<Option<Arrivals>> {
        Ok(None)
    }

    /// Whether the gradients that the last call of [`Callee::makes_gradients`] made went back
    /// through what made `symbol`: a backward that frees the graph has freed that, too.
    ///
    /// # Errors
    /// When Python cannot look at what was traced.
    fn is_gone_through(&self, _py: Python<'_>, _symbol: SymbolId) -> PyResult<bool> {
        Ok(false)
    }

    /// Gives a captured tensor its symbol.
    fn bind_captured(&mut self, symbol: SymbolId, tensor: &Obj) -> Result<(), BackendError>;

    /// Gives a result its symbol.
    fn bind_output(&mut self, symbol: SymbolId, value: ValueHandle) -> Result<(), BackendError>;

    /// The current position.
    fn mark(&self) -> usize;

    /// How many operations a graph of `statements` calls runs, where the session knows better: a
    /// layer is one statement.
    fn operations(&self, statements: usize) -> usize {
        statements
    }

    /// What the calls of the graph cost in eager mode, in operations of one plain call each: Python
    /// code around an operation counts, where the session knows it.
    fn eager_cost(&self, _py: Python<'_>, sir: &StatementIr) -> usize {
        self.operations(sir.statements.len())
    }

    /// Lets go of the tensors that it was given: nothing is traced any more, and the graph may be
    /// compiled much later. `trains`: what a program does to leaves is done now.
    ///
    /// # Errors
    /// Whatever Python raises.
    fn let_go(&mut self, _py: Python<'_>, _trains: bool) -> PyResult<()> {
        Ok(())
    }

    /// Removes everything traced since `mark`; symbols from `first_dead` on are gone.
    fn rollback(&mut self, py: Python<'_>, mark: usize, first_dead: SymbolId);

    /// For a backend to take its own session back in [`GraphBackend::compile`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A graph to compile.
pub struct CompileRequest {
    /// The graph; its `inputs` hold tensors (and layers, which a program does not take).
    pub sir: Arc<StatementIr>,
    /// The trace it was captured with.
    pub session: Box<dyn TraceSession>,
    /// The tensors of `sir.inputs` (layers left out), as seen at translation time.
    pub example_inputs: Vec<Obj>,
    /// Whether gradients may be asked for: grad mode was on at the call.
    pub grad_enabled: bool,
    /// Graphs of fewer operations do not get here: they run call by call. The same is well for
    /// parts that a backend takes a graph apart into.
    pub least: usize,
}

/// A tensor argument of an exported function.
pub struct ExportInput {
    /// Its name in the program.
    pub name: String,
    /// The tensor seen at translation time.
    pub tensor: Obj,
    /// Dims that stay open.
    pub dynamic: Vec<usize>,
}

/// A graph to export: other tensors than `inputs` are parameters, buffers and constants.
pub struct ExportRequest {
    /// The graph; its outputs are the tensors of the function's result, in order.
    pub sir: StatementIr,
    /// The trace it was captured with.
    pub session: Box<dyn TraceSession>,
    /// The arguments.
    pub inputs: Vec<ExportInput>,
}

/// Something that runs a graph.
pub trait CompiledGraph: Send + Sync {
    /// Runs it. `inputs` are the tensors of `sir.inputs` (layers left out), in
    /// order; the answer holds one owned tensor per entry of `sir.outputs`.
    ///
    /// # Errors
    /// Whatever Python exception running the graph raises.
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>>;

    /// Readable text of the program, for `explain`.
    fn program_text(&self, py: Python<'_>) -> PyResult<String>;

    /// What the backend has to say about this graph, line by line, for `explain`.
    fn report(&self) -> Vec<String> {
        Vec::new()
    }

    /// Why the graph was not compiled and runs call by call; counted as a fallback.
    fn fell_back(&self) -> Option<&str> {
        None
    }

    /// The name of the backend that made it.
    fn backend_name(&self) -> &str;

    /// Visits owned Python objects for the cycle collector.
    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>));

    /// The same program for a graph that is alike: see [`StatementIr::is_alike`]. `None`: that has
    /// to be compiled.
    ///
    /// # Errors
    /// When Python cannot make what goes with it.
    fn for_alike(
        &self,
        _py: Python<'_>,
        _sir: &Arc<StatementIr>,
    ) -> Result<Option<Box<dyn CompiledGraph>>, BackendError> {
        Ok(None)
    }
}

/// A graph compiler. One value is one configuration: each translated function owns a clone.
pub trait GraphBackend: DynClone + Send + Sync {
    /// The name users pass as `backend=`.
    fn name(&self) -> &str;

    /// Takes the user's `options=`.
    ///
    /// # Errors
    /// `ValueError` or `TypeError` that names an unknown or ill-typed option.
    fn configure(&mut self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()>;

    /// Whether dims and integers that differ between calls may become symbolic. `asked` is the
    /// user's `dynamic=`; called once, after [`configure`](Self::configure).
    fn dims_may_vary(&mut self, asked: Option<bool>) -> bool {
        asked.unwrap_or(true)
    }

    /// Whether a call of a graph goes through autograd as in eager mode: statements that are
    /// `alone` run by themselves, on real tensors, and gradients of other results flow through what
    /// they make. Where it does not, views that leave a graph are made behind it.
    fn takes_graphs_apart(&self) -> bool {
        false
    }

    /// Whether the gradients of a train step may be part of its graph, which then runs without
    /// autograd. Numbers are those of training: eager mode's.
    fn takes_gradients(&self) -> bool {
        false
    }

    /// Whether this callee must not be captured (CDBL), and why.
    fn refuses(&self, _py: Python<'_>, _callee: &Callee) -> Option<String> {
        None
    }

    /// Opens a trace session: by default, one of the default backend.
    ///
    /// # Errors
    /// When the backend cannot trace now; the frame then runs natively.
    fn begin(&self, py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
        super::default_session(py)
    }

    /// Compiles what was traced.
    ///
    /// # Errors
    /// When the graph cannot be compiled; the frame then runs natively.
    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError>;

    /// Turns what was traced into a program that can be saved.
    ///
    /// # Errors
    /// When this backend, or this graph, cannot be exported.
    fn export(&self, _py: Python<'_>, _request: ExportRequest) -> Result<Obj, BackendError> {
        Err(BackendError::Refused(format!(
            "the backend {:?} does not export",
            self.name()
        )))
    }

    /// Fewest statements for which compiling pays, twice as many where gradients flow; smaller
    /// graphs run call by call.
    fn min_graph_size(&self) -> usize {
        0
    }

    /// The call of a graph from which on compiling it pays; those before run call by call.
    fn compile_at_call(&self) -> usize {
        1
    }
}

dyn_clone::clone_trait_object!(GraphBackend);
