//! Argument binding and per-code state of the frame sources.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paddle_sot::frame::{
    ArgBinder, CallSite, CodeState, CustomCode, FrameDecision, FrameSource, Modules, Policy,
};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};
use rstest::rstest;

/// Defines `f` from its parameter list; calling it answers with `locals()`.
fn define<'py>(py: Python<'py>, parameters: &str) -> Bound<'py, PyAny> {
    let namespace = PyDict::new(py);
    let source = format!("def f({parameters}):\n    return locals()\n");
    let run = py.module("builtins").unwrap().getattr("exec").unwrap();
    run.call1((source, &namespace)).unwrap();
    namespace.get_item("f").unwrap().unwrap()
}

/// The arguments of a call written as Python source.
fn arguments<'py>(py: Python<'py>, call: &str) -> (Bound<'py, PyTuple>, Bound<'py, PyDict>) {
    let take = py
        .eval(c"lambda *args, **kwargs: (args, kwargs)", None, None)
        .unwrap();
    let namespace = PyDict::new(py);
    namespace.set_item("take", take).unwrap();
    let source = std::ffi::CString::new(format!("take({call})")).unwrap();
    py.eval(&source, None, Some(&namespace))
        .unwrap()
        .extract()
        .unwrap()
}

fn pointers(values: &Bound<'_, PyTuple>) -> Vec<*mut PyObject> {
    values.iter().map(|value| value.as_ptr()).collect()
}

fn vector<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> (Vec<*mut PyObject>, Bound<'py, PyTuple>) {
    let mut values = pointers(args);
    values.extend(kwargs.values().iter().map(|value| value.as_ptr()));
    (values, kwargs.keys().to_tuple())
}

fn by_name<'py>(
    py: Python<'py>,
    binder: &ArgBinder,
    slots: &[*mut PyObject],
) -> Bound<'py, PyDict> {
    let names = binder.code().bind(py).getattr("co_varnames").unwrap();
    let found = PyDict::new(py);
    for (index, value) in slots.iter().enumerate() {
        // SAFETY: the binder holds a reference to each of its slots.
        let value = unsafe { Bound::from_borrowed_ptr(py, *value) };
        found
            .set_item(names.get_item(index).unwrap(), value)
            .unwrap();
    }
    found
}

#[rstest]
fn binding_equals_what_cpython_does(
    #[values(
        "",
        "a",
        "a, b",
        "a, b=2",
        "a, /, b",
        "a, b=2, /, c=3",
        "*, a",
        "*, a, b=2",
        "a, *rest",
        "a, *rest, b",
        "**more",
        "a, /, **more",
        "a, b=2, *rest, c, d=4, **more",
        "*rest, **more"
    )]
    parameters: &str,
    #[values(
        "",
        "1",
        "1, 2",
        "1, 2, 3, 4",
        "a=1",
        "1, a=2",
        "1, b=5",
        "b=5, a=1",
        "1, c=2",
        "1, 2, 3, c=7, x=8",
        "1, **{'not a name': 2}",
        "a=1, b=2, c=3, d=4",
        "c=1",
        "1, d=3, c=4"
    )]
    call: &str,
) {
    Python::attach(|py| {
        let function = define(py, parameters);
        let (args, kwargs) = arguments(py, call);
        let binder = ArgBinder::new(py, &function).unwrap();
        let expected = function.call(&args, Some(&kwargs));
        let (values, names) = vector(&args, &kwargs);
        let ways = [
            binder.bind(py, &pointers(&args), Some(&kwargs)),
            binder.bind_vector(py, &values, Some(&names)),
        ];
        for bound in ways {
            match (&expected, bound) {
                (Ok(expected), Some(bound)) => {
                    assert!(by_name(py, &binder, bound.as_slice()).eq(expected).unwrap());
                }
                (Err(_), None) => {}
                (expected, bound) => panic!("{expected:?}, bound: {}", bound.is_some()),
            }
        }
    });
}

#[test]
fn defaults_are_those_of_the_time_of_the_call() {
    Python::attach(|py| {
        let function = define(py, "a, b=2, *, c=3");
        let binder = ArgBinder::new(py, &function).unwrap();
        function.setattr("__defaults__", (7, 8)).unwrap();
        let keywords = PyDict::new(py);
        keywords.set_item("c", 9).unwrap();
        function.setattr("__kwdefaults__", keywords).unwrap();
        let bound = binder.bind(py, &[], None).unwrap();
        let found = by_name(py, &binder, bound.as_slice()).to_string();
        assert_eq!(found, "{'a': 7, 'b': 8, 'c': 9}");
    });
}

#[test]
fn a_function_with_new_code_is_not_bound() {
    Python::attach(|py| {
        let (function, other) = (define(py, "a"), define(py, "b"));
        let binder = ArgBinder::new(py, &function).unwrap();
        function
            .setattr("__code__", other.getattr("__code__").unwrap())
            .unwrap();
        assert!(!binder.is_current());
        let (args, _) = arguments(py, "1");
        assert!(binder.bind(py, &pointers(&args), None).is_none());
    });
}

#[test]
fn a_call_site_runs_the_rows_of_the_table() {
    Python::attach(|py| {
        let (function, other) = (define(py, "a, *rest"), define(py, "b, *others"));
        let binder = ArgBinder::new(py, &function).unwrap();
        let (args, _) = arguments(py, "1, 2");
        let values = pointers(&args);
        let code: Bound<'_, PyCode> = other.getattr("__code__").unwrap().cast_into().unwrap();
        for disable_eval_frame in [true, false] {
            for (code, expected) in [
                (None, "{'a': 1, 'rest': (2,)}"),
                (Some(code.clone().unbind()), "{'b': 1, 'others': (2,)}"),
            ] {
                let site = CallSite::new(py, &binder, &values, None).unwrap();
                let custom = CustomCode {
                    code,
                    disable_eval_frame,
                };
                let result = site.run(py, FrameDecision::Run(custom)).unwrap();
                assert_eq!(result.bind(py).to_string(), expected);
            }
        }
    });
}

struct NotesDrop(Arc<AtomicUsize>);

impl Drop for NotesDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn state_of_code_dies_with_the_code() {
    let drops = Arc::new(AtomicUsize::new(0));
    Python::attach(|py| {
        let function = define(py, "a");
        let code: Bound<'_, PyCode> = function.getattr("__code__").unwrap().cast_into().unwrap();
        assert!(CodeState::find(&code).unwrap().is_none());
        let state = CodeState::of(&code).unwrap();
        assert_eq!(
            (state.frame(), state.callees()),
            (Policy::Default, Policy::Default)
        );
        state.set_policies(Policy::Skip, Policy::RunOnly);
        assert!(state.engine(|| NotesDrop(drops.clone())).is_some());
        assert!(state.engine(|| 1_u32).is_none());
        let again = CodeState::find(&code).unwrap().unwrap();
        assert_eq!(
            (again.frame(), again.callees()),
            (Policy::Skip, Policy::RunOnly)
        );
        assert_eq!(drops.load(Ordering::Relaxed), 0);
    });
    // The function and its namespace are a cycle.
    Python::attach(|py| {
        py.module("gc")
            .unwrap()
            .call_method0("collect")
            .unwrap()
            .unbind()
    });
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}
