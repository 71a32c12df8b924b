//! [`Tiered`]: a graph that runs call by call until it is called again, and becomes a program then.
//!
//! What is called once costs no more than its trace: functions whose sizes change are translated
//! anew with open dims, and never run a program of the first size.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::backend::{
    self, BackendError, CompileRequest, CompiledGraph, GraphBackend, TraceSession, is_translating,
};
use crate::graph::StatementIr;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind, Clock, Phase, SourceLoc, Stats, timed};
use crate::sync::lock;

use crate::translate::choice::Configured;

use super::{Made, Shared, Translated, in_turn};

thread_local! {
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Says whether graphs that this thread translates become programs at once, and answers with what
/// was said before: who looks at a program does not call twice.
pub fn compile_at_once(at_once: bool) -> bool {
    AT_ONCE.replace(at_once)
}

/// Whether this thread looks at what it translates.
pub(super) fn compiles_at_once() -> bool {
    AT_ONCE.get()
}

/// Notes a graph that runs call by call since its backend gave it up.
pub(in crate::translate) fn note_not_compiled(stats: &mut Stats, of: &SourceLoc, why: String) {
    let mut reason = Break::new(BreakKind::GraphNotCompiled, why);
    reason.loc = of.clone();
    stats.note_fallback(of, &reason, 1);
}

/// Whether a graph waits until it is called again.
pub(in crate::translate) fn waits(chosen: &Configured) -> bool {
    chosen.compile_at_call > 1 && !compiles_at_once()
}

/// Such a graph.
pub(in crate::translate) struct Tiered {
    sir: Arc<StatementIr>,
    /// The graph, call by call.
    by_calls: Box<dyn CompiledGraph>,
    calls: AtomicUsize,
    /// `None` behind it: it does not compile, and runs call by call for good.
    program: OnceLock<Option<Box<dyn CompiledGraph>>>,
    /// What was traced; `None` where compiling it was interrupted.
    session: Mutex<Option<Box<dyn TraceSession>>>,
    grad_enabled: bool,
    least: usize,
    chosen: Arc<Configured>,
    /// What `explain` shows.
    pub(in crate::translate) made: Arc<OnceLock<Made>>,
    /// Whose statistics count what it does, and where it is.
    shared: Weak<Shared>,
    location: SourceLoc,
}

impl Tiered {
    /// `eager` runs it call by call.
    pub(in crate::translate) fn new(
        py: Python<'_>,
        of: &Translated,
        chosen: &Arc<Configured>,
        (eager, request): (&dyn GraphBackend, CompileRequest),
    ) -> Result<Self, BackendError> {
        let CompileRequest {
            sir,
            mut session,
            example_inputs,
            grad_enabled,
            least,
        } = request;
        // Nothing that the call was given stays alive for it.
        session.let_go(py, grad_enabled)?;
        let by_calls = CompileRequest {
            sir: Arc::clone(&sir),
            session: eager.begin(py)?,
            example_inputs,
            grad_enabled,
            least,
        };
        Ok(Self {
            sir,
            by_calls: eager.compile(py, by_calls)?,
            calls: AtomicUsize::new(0),
            program: OnceLock::new(),
            session: Mutex::new(Some(session)),
            grad_enabled,
            least,
            chosen: Arc::clone(chosen),
            made: Arc::default(),
            shared: Arc::downgrade(&of.shared),
            location: of.location().clone(),
        })
    }

    /// The program, once it is called often enough; `None` while it runs call by call.
    fn program(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<&dyn CompiledGraph>> {
        if let Some(program) = self.program.get() {
            return Ok(program.as_deref());
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        // A translation that runs it is not kept waiting.
        if call < self.chosen.compile_at_call || is_translating() {
            return Ok(None);
        }
        in_turn(py, || self.compile(py, inputs))?;
        Ok(self.program.get().and_then(Option::as_deref))
    }

    /// Makes the program, with the tensors of a call for examples.
    fn compile(&self, py: Python<'_>, inputs: &[Bound<'_, PyAny>]) -> PyResult<()> {
        // Another thread may have made it meanwhile.
        if self.program.get().is_some() {
            return Ok(());
        }
        let clock = Clock::new(&self.location);
        let backend = &*self.chosen.backend;
        let example_inputs: Vec<Obj> = inputs.iter().map(|it| Obj::from(it.clone())).collect();
        let traced = match lock(&self.session).take() {
            Some(session) => Ok(session),
            None => backend::retrace(py, backend, &self.sir, &example_inputs),
        };
        let made = traced.and_then(|session| {
            let request = CompileRequest {
                sir: Arc::clone(&self.sir),
                session,
                example_inputs,
                grad_enabled: self.grad_enabled,
                least: self.least,
            };
            timed(Phase::Backend, || backend.compile(py, request))
        });
        let (program, failure) = match made {
            Ok(program) => {
                let failure = program.fell_back().map(str::to_owned);
                (Some(program), failure)
            }
            Err(err) => (None, Some(err.reason(py)?)),
        };
        if let Some(program) = &program {
            // It is made once.
            let _ = self.made.set(Made::of(py, &**program)?);
        }
        let _ = self.program.set(program);
        if let Some(shared) = self.shared.upgrade() {
            let mut stats = lock(&shared.stats);
            stats.seconds.add(&clock.seconds());
            if let Some(why) = failure {
                note_not_compiled(&mut stats, &self.location, why);
            }
        }
        Ok(())
    }
}

impl CompiledGraph for Tiered {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        match self.program(py, inputs)? {
            Some(program) => program.call(py, inputs),
            None => self.by_calls.call(py, inputs),
        }
    }

    fn program_text(&self, _py: Python<'_>) -> PyResult<String> {
        Ok("call by call so far: it becomes a program when it is called again".to_owned())
    }

    fn backend_name(&self) -> &str {
        self.chosen.backend.name()
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.by_calls.traverse(visit);
        if let Some(Some(program)) = self.program.get() {
            program.traverse(visit);
        }
    }
}
