//! How the call of a known function or class is found: by one look-up of its identity.
//!
//! A row has a module, names in it, and what is done ([`Action`]). `python.rs` has builtins and the
//! standard library, `paddle.rs` Paddle's functions, `numpy.rs` NumPy's. What is another object
//! each time it is read, and what there is too much of, is found by [`FAMILIES`]. What is neither
//! is inlined, or breaks the graph.

mod numpy;
mod paddle;
mod python;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyCode, PyDict, PyFunction, PyType};
use rustc_hash::FxHashMap;

use crate::frame::Modules;
use crate::graph::Callee;
use crate::obj::{Obj, text_of};
use crate::reason::BreakKind;
use crate::texts::{ASCII, REPR};
use crate::variables::VarId;
use crate::{
    Kwargs, Step, Tracer, api, builtins, exceptions, fold, graph_arrays, made_arrays,
    numpy_scalars, provenance, tensors,
};

use super::{call, in_module, inline, random_state};

/// Simulates a call.
pub(crate) type Handler = fn(&mut Tracer<'_>, &[VarId], &Kwargs) -> Step<VarId>;

/// Makes a context manager for a call of this callable.
pub(crate) type Maker =
    fn(&mut Tracer<'_>, (VarId, &Bound<'_, PyAny>), &[VarId], &Kwargs) -> Step<VarId>;

/// What is done with a call of what a row names.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// This function simulates it.
    Simulate(Handler),
    /// It is called at translation, on copies of its arguments: it is pure, and they are constants.
    Fold,
    /// The function of this name in `_graph/polyfills.py` is followed in its place. What that takes
    /// by keyword alone are free variables of the one in whose place it is.
    Polyfill(&'static str),
    /// It becomes a statement of the graph.
    Statement,
    /// It makes a context manager that the simulator enters itself.
    Context(Maker),
    /// It is an operator of the language, or else `folds`.
    Operator {
        /// It changes nothing, and answers with something new.
        folds: bool,
    },
    /// It is NumPy's, and called at translation where its arguments are known then.
    NumPy {
        /// Arguments may be arrays.
        of_arrays: bool,
        /// It answers numbers with a number.
        of_numbers: bool,
    },
}

/// Module, names in it with blanks between them, and what is done with calls of those.
///
/// `dict.fromkeys` is a method of a class, `f.<locals>.g` any function that `f` makes of the code
/// of its `g`. A name that ends with `*` is of all C functions that begin so.
type Row = (&'static str, &'static str, Action);

/// Finds the call of something that is in no row; `None` where it is of another family.
type Family = for<'py> fn(
    &mut Tracer<'py>,
    (VarId, &Bound<'py, PyAny>),
    &[VarId],
    &Kwargs,
) -> Step<Option<VarId>>;

/// The first that answers.
const FAMILIES: &[Family] = &[
    builtins::call_apply,
    builtins::call_getter,
    builtins::unbound_method,
    random_state::call_seed,
    api::try_call,
];

/// What the rows name, once it was looked for.
#[derive(Default)]
struct Registry {
    /// By address. They are held, so that nothing else has it.
    known: FxHashMap<usize, (Obj, Action)>,
    /// By the class that they are called on: such a method is a new object each time it is read.
    of_classes: FxHashMap<usize, Vec<(String, Obj, Action)>>,
}

impl Registry {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static REGISTRY: PyOnceLock<Registry> = PyOnceLock::new();
        REGISTRY.get_or_try_init(py, || {
            let mut registry = Self::default();
            for (module, names, action) in rows() {
                for name in names.split_whitespace() {
                    for (name, found) in found_by_name(py, module, name) {
                        registry.add(&name, &found, *action)?;
                    }
                }
            }
            for (found, action) in numpy::known(py)? {
                registry.add("", &found, action)?;
            }
            Ok(registry)
        })
    }

    /// The first row of an object counts.
    fn add(&mut self, name: &str, found: &Bound<'_, PyAny>, action: Action) -> PyResult<()> {
        let object = Obj::from(found);
        match owner(found)? {
            Some(owner) => {
                let last = name.rsplit('.').next().unwrap_or(name).to_owned();
                let methods = self.of_classes.entry(owner.as_ptr() as usize);
                methods.or_default().push((last, object, action));
            }
            None => {
                let known = self.known.entry(found.as_ptr() as usize);
                known.or_insert((object, action));
            }
        }
        Ok(())
    }

    fn find(&self, callee: &Bound<'_, PyAny>) -> PyResult<Option<Action>> {
        if let Some((_, action)) = self.known.get(&(callee.as_ptr() as usize)) {
            return Ok(Some(*action));
        }
        if let Ok(function) = callee.cast_exact::<PyFunction>() {
            let code = function.getattr("__code__")?;
            let action = self.known.get(&(code.as_ptr() as usize));
            return Ok(action.map(|(_, action)| *action));
        }
        let Some(owner) = owner(callee)? else {
            return Ok(None);
        };
        let Some(methods) = self.of_classes.get(&(owner.as_ptr() as usize)) else {
            return Ok(None);
        };
        let name = text_of(callee, "__name__");
        let mut methods = methods.iter();
        Ok(methods.find(|(known, ..)| *known == name).map(|row| row.2))
    }
}

fn rows() -> impl Iterator<Item = &'static Row> {
    python::ROWS.iter().chain(paddle::ROWS)
}

/// The class that a method of C code was read off.
fn owner<'py>(callee: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyType>>> {
    if !callee.is_instance_of::<PyCFunction>() {
        return Ok(None);
    }
    Ok(callee.getattr("__self__")?.cast_into::<PyType>().ok())
}

/// What a module came with by these names, and nothing that a program has put in its place.
fn found_by_name<'py>(
    py: Python<'py>,
    module: &str,
    name: &str,
) -> Vec<(String, Bound<'py, PyAny>)> {
    let Ok(home) = py.module(module) else {
        return Vec::new();
    };
    if let Some(start) = name.strip_suffix('*') {
        let names = home.getattr("__dict__").ok();
        let names = names.and_then(|names| names.cast_into::<PyDict>().ok());
        let all = names.iter().flat_map(|names| names.iter());
        return all
            .filter_map(|(name, value)| Some((name.extract::<String>().ok()?, value)))
            .filter(|(name, value)| {
                let is_c = value.is_exact_instance_of::<PyCFunction>();
                is_c && name.starts_with(start) && provenance::is_original(value, module, name)
            })
            .collect();
    }
    let (name, inner) = match name.split_once(".<locals>.") {
        Some((name, inner)) => (name, Some(inner)),
        None => (name, None),
    };
    let mut parts = name.split('.');
    let found = parts.try_fold(home, |found, part| found.getattr(part)).ok();
    let found = found.filter(|found| provenance::is_original(found, module, name));
    let found = found.or_else(|| py.original(module, name).ok());
    let found = match inner {
        Some(inner) => found.and_then(|found| {
            let code = found.getattr("__code__").ok()?;
            let mut inner = inner.split(".<locals>.");
            inner.try_fold(code, |code, name| code_in(&code, name))
        }),
        None => found,
    };
    found
        .map(|found| (name.to_owned(), found))
        .into_iter()
        .collect()
}

/// The code of a function that one of this code makes.
fn code_in<'py>(maker: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyAny>> {
    let consts = maker.getattr("co_consts").ok()?;
    let mut consts = consts.try_iter().ok()?.filter_map(Result::ok);
    consts.find(|code| code.is_exact_instance_of::<PyCode>() && text_of(code, "co_name") == name)
}

impl Action {
    /// `None` where it does not take these arguments.
    fn run<'py>(
        self,
        t: &mut Tracer<'py>,
        (callee, object): (VarId, &Bound<'py, PyAny>),
        args: &[VarId],
        kwargs: &Kwargs,
    ) -> Step<Option<VarId>> {
        match self {
            Self::Context(make) => return make(t, (callee, object), args, kwargs).map(Some),
            Self::NumPy {
                of_arrays,
                of_numbers,
            } => {
                if let Some(made) = graph_arrays::call(t, object, args, kwargs)? {
                    t.guard_identity(callee);
                    return Ok(Some(made));
                }
                let array = match of_arrays {
                    true => made_arrays::call(t, (callee, object), args, kwargs)?,
                    false => None,
                };
                return match array.is_none() && of_numbers && kwargs.is_empty() {
                    true => numpy_scalars::call(t, callee, object, args),
                    false => Ok(array),
                };
            }
            Self::Simulate(_)
            | Self::Fold
            | Self::Polyfill(_)
            | Self::Statement
            | Self::Operator { .. } => {
                t.guard_identity(callee);
            }
        }
        match self {
            Self::Simulate(handler) => handler(t, args, kwargs).map(Some),
            Self::Fold => folded(t, object, args, kwargs).map(Some),
            Self::Polyfill(name) => {
                let polyfill = polyfill(t, name)?;
                let mut kwargs = kwargs.to_vec();
                if object.is_exact_instance_of::<PyFunction>() {
                    let names = polyfill.getattr("__kwdefaults__")?;
                    kwargs.extend(inline::free_variables(t, callee, &names)?);
                }
                let polyfill = t.constant(&polyfill);
                call(t, polyfill, args, &kwargs).map(Some)
            }
            Self::Statement => {
                let function = Callee::Api(Obj::from(object));
                tensors::capture(t, function, None, args, kwargs, &mut |_| None).map(Some)
            }
            Self::Operator { folds } => {
                let name = text_of(object, "__name__");
                match builtins::operator_function(t, &name, args, kwargs)? {
                    None if folds => folded(t, object, args, kwargs).map(Some),
                    answer => Ok(answer),
                }
            }
            Self::Context(_) | Self::NumPy { .. } => Ok(None),
        }
    }
}

fn polyfill<'py>(t: &Tracer<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    t.py.module("paddle_sot_rs._graph.polyfills")?.getattr(name)
}

/// What follows one of two polyfills: an exported program learns nothing, a call does.
fn learns(
    t: &mut Tracer<'_>,
    (learning, frozen): (&str, &str),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let name = match t.options.varies.guards_outcomes {
        true => learning,
        false => frozen,
    };
    call_polyfill(t, name, args, kwargs)
}

/// A call of a function of `_graph/polyfills.py`.
pub(crate) fn call_polyfill(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let polyfill = polyfill(t, name)?;
    let polyfill = t.constant(&polyfill);
    call(t, polyfill, args, kwargs)
}

fn folded<'py>(
    t: &mut Tracer<'py>,
    function: &Bound<'py, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    if let ([value], []) = (args, kwargs) {
        let name = text_of(function, "__name__");
        if let REPR | ASCII = name.as_str() {
            if let Some(text) = exceptions::shown(t, *value, &name)? {
                return Ok(text);
            }
        }
    }
    fold::call_object(t, function, args, kwargs)
}

/// Calls a function, a class or another callable that is known; `None` where it is not.
pub(crate) fn call_known(
    t: &mut Tracer<'_>,
    callee: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(object) = t.value(callee) else {
        return Ok(None);
    };
    if let Some(action) = Registry::get(t.py)?.find(&object)? {
        if let Some(result) = action.run(t, (callee, &object), args, kwargs)? {
            return Ok(Some(result));
        }
    }
    for family in FAMILIES {
        if let Some(result) = family(t, (callee, &object), args, kwargs)? {
            return Ok(Some(result));
        }
    }
    if t.grad.auto_casts > 0 && in_module(t, callee, "paddle.amp") {
        return t.stop(
            BreakKind::UnsupportedCall,
            "a function that reads the state of auto_cast",
        );
    }
    Ok(None)
}

/// Names of builtins that are simulated, and of those that are folded.
pub(crate) fn builtin_names() -> (Vec<&'static str>, Vec<&'static str>) {
    let rows = rows().filter(|row| row.0 == "builtins");
    let (folded, simulated): (Vec<&Row>, Vec<&Row>) =
        rows.partition(|row| matches!(row.2, Action::Fold));
    let names = |rows: Vec<&'static Row>| -> Vec<&'static str> {
        let names = rows.into_iter().flat_map(|row| row.1.split_whitespace());
        names.filter(|name| !name.contains('.')).collect()
    };
    (names(simulated), names(folded))
}
