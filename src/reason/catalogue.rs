//! The catalogue of reasons. One row per kind of break; adding one is one line in `break_kinds!`.

use std::fmt;
use std::sync::Arc;

/// The four classes of the design: what made the engine hand code back to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreakCode {
    /// Control flow that depends on the value of a tensor.
    Ddcf,
    /// A call or an operation that cannot be simulated.
    Unsps,
    /// On the black list of the backend or of the user.
    Cdbl,
    /// An opcode or construct without a simulation: the whole frame runs natively.
    Unimp,
}

impl BreakCode {
    /// The code as users see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ddcf => "DDCF",
            Self::Unsps => "UNSPS",
            Self::Cdbl => "CDBL",
            Self::Unimp => "UNIMP",
        }
    }
}

impl fmt::Display for BreakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! break_kinds {
    ($($(#[$doc:meta])* $name:ident => $code:ident, $hint:literal;)*) => {
        /// What kind of construct broke the graph.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum BreakKind { $($(#[$doc])* $name,)* }

        impl BreakKind {
            /// The class this kind belongs to.
            pub fn code(self) -> BreakCode {
                match self { $(Self::$name => BreakCode::$code,)* }
            }

            /// What the user can do about it.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint,)* }
            }

            /// Every kind, in catalogue order.
            pub const ALL: &'static [BreakKind] = &[$(Self::$name,)*];
        }
    };
}

break_kinds! {
    /// `if`, `while`, `assert`, `and`, `or`, `not` on a tensor.
    TensorBranch => Ddcf, "compare shapes or Python values instead, or compute both sides and use paddle.where";
    /// A loop over a tensor whose length is not static.
    TensorLoop => Ddcf, "loop over range(x.shape[0]) with a static shape";
    /// A tensor's value is needed in Python: `.numpy()`, `.item()`, `float(x)`, `print(x)`.
    TensorValue => Unsps, "move the read out of the compiled function, or keep the value as a tensor";
    /// A tensor is changed in place in a way that cannot be made functional.
    InplaceTensor => Unsps, "use the out-of-place form of the operation";
    /// A callable the simulator does not know.
    UnsupportedCall => Unsps, "mark it with allow_in_graph if it is a pure function of tensors";
    /// An operation on a kind of object the simulator does not know.
    UnsupportedOperation => Unsps, "move this operation out of the compiled function";
    /// Only the interpreter can make what is made here (a view of something that changed, an exception with its traceback),
    /// and it leaves the graph.
    MadeNatively => Unsps, "keep what this line makes inside of the graph, or make it outside of the compiled function";
    /// An attribute whose lookup may run code that the simulator cannot follow.
    UnsupportedAttribute => Unsps, "read the attribute before the compiled function is called";
    /// Paddle's static inference refused the call.
    InferenceFailed => Unsps, "the call raises or has no static form; check its arguments in eager mode";
    /// A Python exception is certain to be raised here.
    RaisesException => Unsps, "the exception is raised by running this line in the interpreter";
    /// A callee broke the graph; its call runs in the interpreter.
    InlinedCallBreaks => Unsps, "see the break inside the callee";
    /// A step of an optimizer, or what scales or clips gradients for one: one native call.
    GradientStep => Unsps, "nothing has to be done: it runs as one call of Paddle's, as in eager mode";
    /// A call in which processes wait for each other.
    Collective => Unsps, "nothing has to be done: it runs as one call of Paddle's, as in eager mode";
    /// Recursion deeper than the simulator follows.
    InlineDepth => Unsps, "turn deep recursion into a loop";
    /// `graph_break()` was called.
    UserBreak => Unsps, "remove the call of graph_break()";
    /// A function marked with `disable`.
    Disabled => Unsps, "remove disable() from this function";
    /// A callable on the backend's or the user's black list.
    BlackListed => Cdbl, "remove it from the black list, or choose another backend";
    /// An opcode without a simulation.
    Opcode => Unimp, "rewrite the construct, or disable() the function that holds it";
    /// A construct (block, handler, generator) that cannot be resumed inside.
    Construct => Unimp, "move the unsupported call out of this block";
    /// An error inside the engine; the frame runs natively.
    Internal => Unimp, "please report this";
    /// The backend gave a sub-graph up; it runs call by call.
    GraphNotCompiled => Unimp, "give the backend more time (compile_budget_s), or choose another backend";
    /// A compiled graph raised an exception; the interpreter, which ran the function then, did not.
    GraphFailed => Unimp, "please report this; the eager backend runs the same operations one by one";
    /// The recompile limit was reached.
    RecompileLimit => Unimp, "see stats().recompiles for the guard that keeps failing";
    /// The pieces of a function are too small for the breaks between them; it runs as it is.
    CutsCostMore => Unimp, "nothing has to be done: it runs as in eager mode; fewer breaks make it one graph";
    /// The user is tracing or profiling.
    Tracing => Unimp, "switch off sys.settrace / sys.monitoring to compile";
    /// A tensor that several processes hold parts of, among the arguments.
    ShardedTensor => Unimp, "nothing has to be done: such calls run as in eager mode";
    /// Hooks see each tensor that autograd saves.
    HookedSaves => Unimp, "call the compiled function outside of saved_tensors_hooks()";
}

/// A place in the user's code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SourceLoc {
    /// File name as in `co_filename`.
    pub file: Arc<str>,
    /// Line, 1-based; 0 when unknown.
    pub line: u32,
    /// Qualified name of the function.
    pub function: Arc<str>,
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}

/// A reason why the simulation stopped: the error type of every simulation step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {kind:?}: {message} ({loc})", kind.code())]
pub struct Break {
    /// The kind, which fixes code and hint.
    pub kind: BreakKind,
    /// What exactly was met.
    pub message: String,
    /// Innermost user location; filled in by the executor when left at its default.
    pub loc: SourceLoc,
}

impl Break {
    /// A break of this kind, without a location yet.
    pub fn new(kind: BreakKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            loc: SourceLoc::default(),
        }
    }

    /// Shorthand for an operation the simulator does not follow.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(BreakKind::UnsupportedOperation, message)
    }

    /// Shorthand for a call the simulator does not follow.
    pub fn call(message: impl Into<String>) -> Self {
        Self::new(BreakKind::UnsupportedCall, message)
    }

    /// Shorthand for an error of the engine itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(BreakKind::Internal, message)
    }
}

impl From<pyo3::PyErr> for Break {
    fn from(err: pyo3::PyErr) -> Self {
        Self::internal(format!("unexpected Python error: {err}"))
    }
}
