//! Kinds of breaks: what the engine does about them. What users read is in `table.rs`.

use std::fmt;

use crate::backend::BackendError;
use crate::bytecode::{BytecodeError, SourceLoc};

use pyo3::prelude::*;

use super::BreakId;

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
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        /// What kind of construct broke the graph.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum BreakKind { $($(#[$doc])* $name,)* }

        impl BreakKind {
            /// The class this kind belongs to.
            pub fn code(self) -> BreakCode {
                match self { $(Self::$name => BreakCode::$code,)* }
            }

            /// Every kind, in catalogue order.
            pub const ALL: &'static [BreakKind] = &[$(Self::$name,)*];
        }

        impl From<BreakKind> for BreakId {
            /// The reason of a kind where no closer one is known: it has the name of the kind.
            fn from(kind: BreakKind) -> Self {
                match kind { $(BreakKind::$name => Self::$name,)* }
            }
        }
    };
}

break_kinds! {
    /// `if`, `while`, `assert`, `and`, `or`, `not` on a tensor.
    TensorBranch => Ddcf;
    /// A tensor's value is needed in Python: `.numpy()`, `.item()`, `float(x)`, `print(x)`.
    TensorValue => Unsps;
    /// A tensor is changed in place in a way that cannot be made functional.
    InplaceTensor => Unsps;
    /// A callable the simulator does not know.
    UnsupportedCall => Unsps;
    /// An operation on a kind of object the simulator does not know.
    UnsupportedOperation => Unsps;
    /// Only the interpreter can make what is made here (a view of something that changed, an
    /// exception with its traceback), and it leaves the graph.
    MadeNatively => Unsps;
    /// An attribute whose lookup may run code that the simulator cannot follow.
    UnsupportedAttribute => Unsps;
    /// Paddle's static inference refused the call.
    InferenceFailed => Unsps;
    /// A Python exception is certain to be raised here.
    RaisesException => Unsps;
    /// A step of an optimizer, or what scales or clips gradients for one: one native call.
    GradientStep => Unsps;
    /// A call in which processes wait for each other.
    Collective => Unsps;
    /// Recursion deeper than the simulator follows.
    InlineDepth => Unsps;
    /// `graph_break()` was called.
    UserBreak => Unsps;
    /// A function marked with `disable`.
    Disabled => Unsps;
    /// A callable on the backend's or the user's black list.
    BlackListed => Cdbl;
    /// An opcode without a simulation.
    Opcode => Unimp;
    /// A construct (block, handler, generator) that cannot be resumed inside.
    Construct => Unimp;
    /// An error inside the engine; the frame runs natively.
    Internal => Unimp;
    /// The backend gave a sub-graph up; it runs call by call.
    GraphNotCompiled => Unimp;
    /// A compiled graph raised an exception; the interpreter, which ran the function then, did not.
    GraphFailed => Unimp;
    /// The recompile limit was reached.
    RecompileLimit => Unimp;
    /// The pieces of a function are too small for the breaks between them; it runs as it is.
    CutsCostMore => Unimp;
    /// The user is tracing or profiling.
    Tracing => Unimp;
    /// A tensor that several processes hold parts of, among the arguments.
    ShardedTensor => Unimp;
    /// Hooks see each tensor that autograd saves.
    HookedSaves => Unimp;
}

/// A reason why the simulation stopped: the error type of every simulation step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id} {}: {message} ({loc})", kind.code())]
pub struct Break {
    /// What the user can look up.
    pub id: BreakId,
    /// The kind, which says what becomes of it.
    pub kind: BreakKind,
    /// What exactly was met.
    pub message: String,
    /// Innermost user location; filled in by the executor when left at its default.
    pub loc: SourceLoc,
}

impl Break {
    /// A break for this reason, without a location yet.
    pub fn new(id: impl Into<BreakId>, message: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            id,
            kind: id.kind(),
            message: message.into(),
            loc: SourceLoc::default(),
        }
    }

    /// With the line it is about, what to do about it, and where to read more.
    pub fn advice(&self, py: Python<'_>) -> String {
        let advice = self.id.info().advice;
        let shown = super::excerpt::of(py, &self.loc);
        format!(
            "{self}{shown}\n    hint: {advice}\n    see {}",
            self.id.link()
        )
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

impl From<BytecodeError> for Break {
    fn from(err: BytecodeError) -> Self {
        Break::internal(err.to_string())
    }
}

impl From<BackendError> for Break {
    fn from(err: BackendError) -> Self {
        let id = match err {
            BackendError::Refused(_) => BreakId::UnsupportedOperation,
            BackendError::BlackListed(_)
            | BackendError::Raised(_)
            | BackendError::Compile(_)
            | BackendError::DeadSymbol(_) => BreakId::CompileFailed,
        };
        Break::new(id, err.to_string())
    }
}
