//! Where frames come from, and how a replacement runs.
//!
//! A [`FrameSource`] is one call that is about to start. Its [`FrameView`] shows the bound
//! arguments; a [`FrameHandler`] answers with a [`FrameDecision`]; [`FrameSource::run`] carries it
//! out. [`CallSite`] is a call made through one of our own callables, [`Pep523Frame`] a frame the
//! interpreter hands to its evaluation hook while a [`Pep523Scope`] is open on this thread.

mod arguments;
mod call_site;
mod code_state;
mod collections_paused;
mod listening;
mod modules;
mod pass_frame;
mod pep523;
mod replacement;
mod runtime;
mod signals;
mod tracing;
mod view;
#[cfg(Py_3_12)]
mod words;

#[cfg(not(Py_3_12))]
#[path = "v311.rs"]
mod version;
#[cfg(all(Py_3_12, not(Py_3_13)))]
#[path = "v312.rs"]
mod version;
#[cfg(all(Py_3_13, not(Py_3_14)))]
#[path = "v313.rs"]
mod version;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use smallvec::SmallVec;

pub use arguments::{ArgBinder, BoundLocals};
pub use call_site::CallSite;
pub use code_state::{CodeState, Policy};
pub use collections_paused::{NoCollections, end_pause};
pub use listening::{
    Listening, Pep523Scope, is_hooked_by_others, is_installed, listen, set_handler,
};
pub use modules::{BUILTINS, COLLECTIONS, Modules, NUMPY, OPERATOR, OWN_PACKAGE, PADDLE, TYPES};
pub use pass_frame::{PassFrame, call_giving};
pub use pep523::{Pep523Frame, grant_c_recursion, grant_nesting, refused_frames};
pub use signals::{HeldSignals, free_signals, is_of_a_handler};
pub use tracing::user_is_tracing;
pub use view::FrameView;

/// What to evaluate instead of a frame, and whether its callees are looked at.
#[derive(Debug)]
pub struct CustomCode {
    /// The code to run with the frame's arguments; `None` is the frame as it is.
    pub code: Option<Py<PyCode>>,
    /// Whether frames called from this one are left alone.
    pub disable_eval_frame: bool,
}

impl CustomCode {
    /// The frame as it is; callees are looked at.
    pub const LOOK_AT_CALLEES: Self = Self {
        code: None,
        disable_eval_frame: false,
    };
    /// The frame as it is; callees are not looked at.
    pub const LEAVE_ALONE: Self = Self {
        code: None,
        disable_eval_frame: true,
    };
}

/// A handler's answer.
#[derive(Debug)]
pub enum FrameDecision {
    /// One of the four rows of the table in the design.
    Run(CustomCode),
    /// Call this with these arguments instead of evaluating the frame.
    Replace {
        /// What to call.
        function: Py<PyAny>,
        /// Its positional arguments.
        args: SmallVec<[Py<PyAny>; 8]>,
        /// Whether frames called from it are looked at.
        callees: bool,
    },
    /// Run this instead of evaluating the frame.
    Instead(Box<dyn Instead>),
    /// The call raises.
    Raise(PyErr),
}

/// What runs in the place of a frame.
pub trait Instead: std::fmt::Debug {
    /// Runs it; `None` when nothing has happened and the frame itself must be evaluated.
    ///
    /// `release` makes the frame drop its arguments: afterwards they live as long as what runs
    /// keeps them, and the answer must not be `None`.
    fn run(self: Box<Self>, py: Python<'_>, release: &dyn Fn()) -> Option<PyResult<Py<PyAny>>>;
}

/// Decides about one frame. It runs with the hook inactive on its thread.
pub type FrameHandler = fn(Python<'_>, &FrameView<'_>) -> FrameDecision;

/// One call that is about to start.
pub trait FrameSource {
    /// The call as its handler sees it.
    fn view(&self) -> FrameView<'_>;

    /// Carries a decision out. What it does may not be asked for twice.
    ///
    /// # Errors
    /// What the code that runs raises.
    fn run(&self, py: Python<'_>, decision: FrameDecision) -> PyResult<Py<PyAny>>;
}
