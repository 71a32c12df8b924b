//! [`Translated`]: one function (or resume function) that is translated when it is called.

mod cache;
mod code;
mod compile_lock;
mod destructors;
mod experience;
pub(super) mod gains;
mod nesting;
mod recurrence;
mod retrace_count;
mod run;
mod sharded;
mod shared;
mod skip_policy;
pub(super) mod tiered;
mod unasked;

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::bytecode::Origin;
use crate::frame::Modules;
use crate::obj::{self, Obj};
use crate::reason::SourceLoc;
use crate::sync::lock;

use super::arguments::Parameters;
use super::declared_dynamic::DynamicTensors;
use super::record;
use super::totals;

pub(super) use cache::BY_CALLS;
pub use cache::Entry;
pub use compile_lock::{Stance, note_hooked_saves, set_stance, switch_off, take_turns_anew};
pub(super) use compile_lock::{exclusively, in_turn};
use experience::Experience;
pub use gains::Gains;

pub use shared::{CompileOptions, GraphInfo, Made, Shared};
pub(super) use skip_policy::shown;
pub use unasked::UnaskedCall;

/// A function that is translated when it is called.
pub struct Translated {
    /// The Python function.
    pub function: Obj,
    /// Its `self`, when it was a bound method.
    pub receiver: Option<Obj>,
    /// For a resume function: the original code object, and how this one's code relates to it.
    pub origin: Option<(Obj, Arc<Origin>)>,
    /// Shared with resume functions.
    pub shared: Arc<Shared>,
    /// What its translations have taught.
    pub learnt: Experience,
    /// For the rest of an inlined callee: the instruction of the break it goes on from, which was
    /// reported.
    pub reported: Option<usize>,
    /// Whether it is called with bound arguments.
    pub(super) is_callee: bool,
    /// Whether the function had this code first.
    is_first: bool,
    /// For the other code objects that the function has had since.
    others: Mutex<Vec<Arc<Translated>>>,
    /// Checks the arguments of calls that no translation is ready for against the user's input
    /// specification; the answer is a list of (tensor, dynamic dims).
    specification: Option<Obj>,
    pub(super) parameters: Parameters,
    closure: Option<Obj>,
    location: SourceLoc,
    code: Obj,
    entries: Mutex<Arc<Vec<Arc<Entry>>>>,
    /// Calls that run as they are.
    unasked: Mutex<Vec<unasked::Alike>>,
}

impl Translated {
    /// Prepares a Python function (or bound method).
    ///
    /// # Errors
    /// `TypeError` when `callable` is neither.
    pub fn new(callable: &Bound<'_, PyAny>, shared: Arc<Shared>) -> PyResult<Self> {
        let receiver = callable.getattr("__self__").ok();
        let function = if receiver.is_some() {
            callable.getattr("__func__")?
        } else {
            callable.clone()
        };
        let code = function.getattr("__code__")?;
        let closure = function.getattr("__closure__")?;
        Ok(Self {
            parameters: Parameters::of(&function)?,
            location: SourceLoc {
                file: Arc::from(obj::file_of_code(&code)?),
                line: code.getattr("co_firstlineno")?.extract()?,
                function: Arc::from(obj::name_of_code(&code)?),
                ..SourceLoc::default()
            },
            code: Obj::from(&code),
            closure: (!closure.is_none()).then(|| Obj::from(closure)),
            function: Obj::from(function),
            receiver: receiver.map(Obj::from),
            origin: None,
            is_callee: false,
            is_first: true,
            others: Mutex::default(),
            specification: None,
            shared,
            learnt: Experience::default(),
            reported: None,
            entries: Mutex::default(),
            unasked: Mutex::default(),
        })
    }

    /// The same, with a callable that checks arguments against an input specification.
    pub fn with_specification(mut self, specification: Option<Obj>) -> Self {
        self.specification = specification;
        self
    }

    fn observe(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let module = py.module("paddle_sot_rs.specification")?;
        let seen = module.call_method1("observed", (args, kwargs))?;
        let before = lock(&self.learnt.observed).replace(Obj::from(seen));
        drop(before);
        Ok(())
    }

    /// What the last arguments were that it was translated for.
    pub fn last_observed(&self) -> Option<Obj> {
        lock(&self.learnt.observed).clone()
    }

    /// Tensors of this call that the input specification leaves dims of open.
    fn declared(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<DynamicTensors> {
        let Some(specification) = &self.specification else {
            return Ok(DynamicTensors::default());
        };
        let declared = specification.bind(py).call1((args, kwargs))?;
        let declared: Vec<(Bound<'_, PyAny>, Vec<usize>)> = declared.extract()?;
        Ok(declared
            .into_iter()
            .map(|(tensor, dims)| (tensor.as_ptr() as usize, dims))
            .collect())
    }

    /// Whether the input specification says more of each call than guards ask: which sizes dims may
    /// have.
    pub(in crate::translate) fn checks_sizes(&self, py: Python<'_>) -> PyResult<bool> {
        match &self.specification {
            Some(specification) => specification.bind(py).getattr("checks_sizes")?.extract(),
            None => Ok(false),
        }
    }

    /// Prepares a function that a native part calls.
    ///
    /// # Errors
    /// `TypeError` when it is no Python function.
    pub fn callee(function: &Bound<'_, PyAny>, shared: Arc<Shared>) -> PyResult<Self> {
        let mut made = Self::new(function, shared)?;
        made.is_callee = true;
        Ok(made)
    }

    /// Where the function is defined.
    pub fn location(&self) -> &SourceLoc {
        &self.location
    }
}

impl Drop for Translated {
    /// The function users hold ends its resume functions, and leaves its counters to the totals.
    fn drop(&mut self) {
        if self.origin.is_some() || self.is_callee || !self.is_first {
            return;
        }
        totals::retire(&lock(&self.shared.stats));
        // Without an interpreter there is nothing left to free.
        Python::try_attach(|py| record::retire(py, self));
        Python::try_attach(|py| obj::aside(py, || self.reset(py)));
    }
}
