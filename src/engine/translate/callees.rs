//! Frames that are called while a part of a function runs natively.
//!
//! A call that breaks the graph is made by the interpreter. While it runs, the evaluation hook
//! shows the frames below it, and those that compute with tensors are translated as functions of
//! their own, under the options and counters of the function that was asked for.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCode, PyTuple};

use crate::frame::{
    CodeState, CustomCode, FrameDecision, FrameView, Modules, NUMPY, OWN_PACKAGE, PADDLE,
    Pep523Scope, Policy,
};
use crate::obj::{self, Obj};
use crate::sync::lock;

use super::callable::{CalleeFrame, CalleeFunction};
use super::forced;
use super::function::{Shared, Translated};

thread_local! {
    static ROOTS: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// Most functions that are translated on behalf of one other.
const MAX_CALLEES: usize = 256;

/// Functions of one code object that are: who makes more of them makes them in each call.
const MAX_OF_ONE_CODE: usize = 4;

/// This thread's calls are looked at until it is dropped.
pub struct Listener {
    _scope: Pep523Scope,
}

impl Listener {
    /// Starts to look; `None` where the hook cannot be used.
    pub fn start(py: Python<'_>, shared: &Arc<Shared>) -> Option<Self> {
        let scope = Pep523Scope::with_handler(py, handle)?;
        ROOTS.with_borrow_mut(|roots| roots.push(shared.clone()));
        Some(Self { _scope: scope })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        ROOTS.with_borrow_mut(Vec::pop);
    }
}

/// Makes `shared` the one that frames of this thread are translated for.
pub(super) fn push_root(shared: Arc<Shared>) {
    ROOTS.with_borrow_mut(|roots| roots.push(shared));
}

/// Takes it back.
pub(super) fn remove_root(shared: &Arc<Shared>) {
    ROOTS.with_borrow_mut(|roots| {
        if let Some(at) = roots.iter().rposition(|known| Arc::ptr_eq(known, shared)) {
            roots.remove(at);
        }
    });
}

pub(super) fn handle(py: Python<'_>, view: &FrameView<'_>) -> FrameDecision {
    let as_it_is = FrameDecision::Run(CustomCode::LOOK_AT_CALLEES);
    match find(py, view) {
        Ok(Some(Found::Translate(function))) => {
            FrameDecision::Instead(Box::new(CalleeFrame::new(py, function, view)))
        }
        Ok(Some(Found::LeaveAlone)) => FrameDecision::Run(CustomCode::LEAVE_ALONE),
        Ok(None) => as_it_is,
        Err(err) => {
            log::debug!(target: "paddle_sot_rs.graph_breaks", "a callee is not looked at: {err}");
            as_it_is
        }
    }
}

/// What is to be done with a frame.
pub(super) enum Found {
    /// Run this in its place.
    Translate(Arc<Translated>),
    /// Evaluate it, and do not look at what it calls.
    LeaveAlone,
}

fn find(py: Python<'_>, view: &FrameView<'_>) -> PyResult<Option<Found>> {
    let Some(shared) = ROOTS.with_borrow(|roots| roots.last().cloned()) else {
        return Ok(None);
    };
    let code = view.code(py);
    if shared.forced {
        return forced::find(py, view, &code, &shared);
    }
    if !is_users(py, &code)? {
        CodeState::of(&code)?.set_policies(Policy::Skip, Policy::Default);
        return Ok(None);
    }
    let Some(function) = view.function(py) else {
        return Ok(None);
    };
    let address = function.as_ptr() as usize;
    let disabled = &shared.options.trace.disabled;
    if disabled.contains(&address) || disabled.contains(&(code.as_ptr() as usize)) {
        return Ok(Some(Found::LeaveAlone));
    }
    let known = lock(&shared.callees).get(&address).cloned();
    if let Some(known) = known {
        let translated = known.bind(py).cast::<CalleeFunction>()?.get().inner();
        let same = translated.function.bind(py).is(&function);
        let of_other_code = translated.of_other_code(py)?;
        let translated = of_other_code.as_ref().unwrap_or(translated);
        let wanted = same && !translated.is_left_alone();
        return Ok(wanted.then(|| Found::Translate(translated.clone())));
    }
    let is_made_anew = {
        let callees: Vec<Obj> = lock(&shared.callees).values().cloned().collect();
        if callees.len() >= MAX_CALLEES {
            return Ok(None);
        }
        let same_code = callees.iter().filter(|known| {
            let known = known.bind(py).cast::<CalleeFunction>();
            known.is_ok_and(|known| known.get().inner().is_of(&code))
        });
        same_code.take(MAX_OF_ONE_CODE).count() == MAX_OF_ONE_CODE
    };
    if is_made_anew {
        return Ok(None);
    }
    let translated = Arc::new(Translated::callee(&function, shared.clone())?);
    let callable = Bound::new(py, CalleeFunction::new(translated.clone()))?.into_any();
    let before = lock(&shared.callees).insert(address, Obj::from(&callable));
    drop(before);
    Ok(Some(Found::Translate(translated)))
}

/// Whether frames of this code may be worth a translation: not those of Python, of Paddle's
/// machinery and of ours, nor functions made over and over (those with a closure).
fn is_users(py: Python<'_>, code: &Bound<'_, PyCode>) -> PyResult<bool> {
    let file = obj::file_of_code(code)?;
    let free = code.getattr("co_freevars")?.cast_into::<PyTuple>()?;
    let closes_over_class_only = match free.len() {
        0 => true,
        1 => free.get_item(0)?.eq("__class__")?,
        _ => false,
    };
    if !closes_over_class_only || file.starts_with('<') {
        return Ok(false);
    }
    Ok(is_translated(py, &file))
}

/// Whether functions of this file are translated, rather than left to run natively.
pub(super) fn is_translated(py: Python<'_>, file: &str) -> bool {
    let worth =
        |(prefix, wanted): &(String, bool)| file.starts_with(prefix.as_str()).then_some(*wanted);
    places(py).is_ok_and(|places| places.iter().find_map(worth).unwrap_or(true))
}

static PLACES: PyOnceLock<Vec<(String, bool)>> = PyOnceLock::new();

/// Directories, the first that fits decides: whether frames of files below are looked at.
fn places(py: Python<'_>) -> PyResult<&'static Vec<(String, bool)>> {
    PLACES.get_or_try_init(py, || {
        let directory = |module: &str| -> PyResult<String> {
            let file: String = py.module(module)?.getattr("__file__")?.extract()?;
            Ok(file.trim_end_matches("__init__.py").to_owned())
        };
        let paddle = directory(PADDLE)?;
        let mut places = vec![
            (format!("{paddle}vision/models/"), true),
            (format!("{paddle}nn/layer/container.py"), true),
            (format!("{paddle}nn/layer/transformer.py"), true),
            (paddle, false),
            (directory(OWN_PACKAGE)?, false),
            (directory(NUMPY)?, false),
        ];
        let paths = py.module("sysconfig")?.call_method0("get_paths")?;
        for key in ["purelib", "platlib"] {
            places.push((paths.get_item(key)?.extract()?, true));
        }
        for key in ["stdlib", "platstdlib"] {
            places.push((paths.get_item(key)?.extract()?, false));
        }
        Ok(places)
    })
}
