//! Translating everything: a debugging mode that sends every Python frame through the whole engine,
//! tensors or not.
//!
//! Its purpose is to run programs that know nothing of tensors, CPython's own tests first, and to
//! compare. The frames come through the same hook as the callees of native code.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCode;

use crate::frame::{self, FrameView, Listening, Modules, NUMPY, OWN_PACKAGE, PADDLE};
use crate::obj::{self, Obj};
use crate::sync::lock;

use super::callable::CalleeFunction;
use super::callees::{self, Found};
use crate::backend::is_translating;

use super::function::{Shared, Translated};
use super::pipeline;

/// This thread's frames are translated until it is stopped or dropped.
pub struct ForcedTranslation {
    listening: Listening,
    shared: Arc<Shared>,
    refused: u64,
}

impl ForcedTranslation {
    /// Starts it. `shared` must be marked as forced.
    ///
    /// # Errors
    /// Where the hook cannot be used.
    pub fn start(py: Python<'_>, shared: Arc<Shared>) -> PyResult<Self> {
        let listening = frame::listen(py, callees::handle)?;
        callees::push_root(shared.clone());
        Ok(Self {
            listening,
            shared,
            refused: frame::refused_frames(),
        })
    }

    /// Ends it, on the thread that started it.
    pub fn stop(&self) {
        if self.listening.stop() {
            callees::remove_root(&self.shared);
        }
    }

    /// What became of the frames: translated ones, and the others by the reason.
    pub fn frames(&self) -> Vec<(String, u64)> {
        let frames = lock(&self.shared.frames);
        let mut frames: Vec<_> = frames
            .iter()
            .map(|(what, count)| (what.clone(), *count))
            .collect();
        let refused = frame::refused_frames().saturating_sub(self.refused);
        frames.push((
            "a generator, coroutine, class body or module".to_owned(),
            refused,
        ));
        frames
    }

    /// The counters.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for ForcedTranslation {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The callable that stands for this frame; `None` for frames that run as they are.
pub(super) fn find(
    py: Python<'_>,
    view: &FrameView<'_>,
    code: &Bound<'_, PyCode>,
    shared: &Arc<Shared>,
) -> PyResult<Option<Found>> {
    if is_translating() || is_excluded(py, code)? {
        return Ok(None);
    }
    if pipeline::watcher(&obj::names_of_code(code)?.extract::<Vec<String>>()?).is_some() {
        shared.count("a function that sees objects or frames of a translation");
        return Ok(Some(Found::LeaveAlone));
    }
    let Some(function) = view.function(py) else {
        shared.count("no function object");
        return Ok(None);
    };
    // A function made by another one may be gone after this call: keeping it would keep alive what
    // its closure holds, which programs can see.
    let name = obj::name_of_code(code)?;
    let translated = || Translated::callee(&function, shared.clone()).map(Arc::new);
    if name.contains("<locals>") || name.contains("<lambda>") {
        let mut seen = lock(&shared.seen);
        let count = seen.entry(code.as_ptr() as usize).or_default();
        *count += 1;
        return match *count <= MAX_TRANSLATIONS {
            true => {
                drop(seen);
                translated().map(|made| Some(Found::Translate(made)))
            }
            false => {
                shared.count("a local function that was translated often");
                Ok(None)
            }
        };
    }
    let address = function.as_ptr() as usize;
    let known = lock(&shared.callees).get(&address).cloned();
    if let Some(known) = known {
        let found = known.bind(py).cast::<CalleeFunction>()?.get().inner();
        let same = found.function.bind(py).is(&function) && found.is_current();
        if !same {
            shared.count("a function whose code was replaced");
        }
        return Ok(same.then(|| Found::Translate(found.clone())));
    }
    let translated = translated()?;
    let callable = Bound::new(py, CalleeFunction::new(translated.clone()))?.into_any();
    let before = lock(&shared.callees).insert(address, Obj::from(&callable));
    drop(before);
    Ok(Some(Found::Translate(translated)))
}

/// Translations of functions of one code object that are not kept.
const MAX_TRANSLATIONS: usize = 40;

static EXCLUDED: PyOnceLock<Vec<String>> = PyOnceLock::new();

/// Frames of the engine, of Paddle, and of what runs the tests.
fn is_excluded(py: Python<'_>, code: &Bound<'_, PyCode>) -> PyResult<bool> {
    let file = obj::file_of_code(code)?;
    let excluded = EXCLUDED.get_or_try_init(py, || {
        [PADDLE, OWN_PACKAGE, "unittest", NUMPY]
            .iter()
            .map(|module| {
                let file: String = py.module(*module)?.getattr("__file__")?.extract()?;
                Ok::<_, PyErr>(file.trim_end_matches("__init__.py").to_owned())
            })
            .collect::<PyResult<Vec<String>>>()
    })?;
    Ok(excluded.iter().any(|place| file.starts_with(place)))
}
