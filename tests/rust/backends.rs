//! The registry of backends: submission, look-up, registration, swap.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard};

use paddle_sot::backend::{
    self, BackendError, BackendRegistration, CompileRequest, CompiledGraph, GraphBackend,
    RegistryError, TraceSession,
};
use paddle_sot::graph::Callee;
use paddle_sot::sync::lock;
use paddle_sot::translate::{BackendChoice, Worth};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rstest::{fixture, rstest};

/// A backend that compiles nothing and remembers one option.
#[derive(Clone, Default)]
struct Fake {
    name: &'static str,
    level: usize,
}

impl GraphBackend for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn configure(&mut self, _py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        self.level = options.as_any().get_item("level")?.extract()?;
        Ok(())
    }

    fn refuses(&self, _py: Python<'_>, _callee: &Callee) -> Option<String> {
        None
    }

    fn begin(&self, _py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
        Err(BackendError::Refused("it traces nothing".into()))
    }

    fn compile(
        &self,
        _py: Python<'_>,
        _request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        Err(BackendError::Compile("it compiles nothing".into()))
    }

    fn min_graph_size(&self) -> usize {
        self.level
    }
}

inventory::submit! {
    BackendRegistration { name: "submitted", make: || Box::new(Fake { name: "submitted", level: 1 }) }
}

inventory::submit! {
    BackendRegistration { name: "another", make: || Box::new(Fake { name: "another", level: 2 }) }
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The table is one per process: tests take turns, and leave it as they found it.
#[fixture]
fn turn() -> MutexGuard<'static, ()> {
    lock(&ONE_AT_A_TIME)
}

fn fake(name: &'static str, level: usize) -> Arc<dyn GraphBackend> {
    Arc::new(Fake { name, level })
}

fn level(name: &str) -> usize {
    backend::get(name).unwrap().backend.min_graph_size()
}

#[rstest]
fn submitted_backends_are_there(_turn: MutexGuard<'static, ()>) {
    assert_eq!(backend::list(), ["another", "submitted"]);
    assert_eq!(
        backend::get("submitted").unwrap().backend.name(),
        "submitted"
    );
    assert_eq!((level("submitted"), level("another")), (1, 2));
    assert_ne!(backend::current("submitted"), backend::current("another"));
}

#[rstest]
#[case::get(|| backend::get("nope").map(drop))]
#[case::swap(|| backend::swap("nope", fake("nope", 0)).map(drop))]
#[case::unregister(|| backend::unregister("nope").map(drop))]
fn an_unknown_name_lists_the_known_ones(
    _turn: MutexGuard<'static, ()>,
    #[case] ask: fn() -> Result<(), RegistryError>,
) {
    let error = ask().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"unknown backend "nope"; the registered backends are "another", "submitted""#
    );
    assert_eq!(backend::current("nope"), None);
    assert_eq!(backend::list(), ["another", "submitted"]);
}

#[rstest]
fn a_name_is_registered_once(_turn: MutexGuard<'static, ()>) {
    backend::register("mine", fake("mine", 5)).unwrap();
    let error = backend::register("mine", fake("mine", 6)).unwrap_err();
    assert_eq!(error, RegistryError::Taken("mine".into()));
    assert_eq!(
        error.to_string(),
        r#"backend "mine" is already registered; use swap_backend to replace it"#
    );
    assert_eq!(level("mine"), 5);
    assert_eq!(backend::list(), ["another", "mine", "submitted"]);
    assert_eq!(backend::unregister("mine").unwrap().min_graph_size(), 5);
    assert_eq!(backend::list(), ["another", "submitted"]);
}

#[rstest]
fn a_swap_bumps_the_generation_of_that_backend_only(_turn: MutexGuard<'static, ()>) {
    let (before, other) = (
        backend::get("submitted").unwrap(),
        backend::current("another"),
    );
    let old = backend::swap("submitted", fake("submitted", 9)).unwrap();
    let after = backend::get("submitted").unwrap();
    assert!(after.generation > before.generation);
    assert_eq!(backend::current("submitted"), Some(after.generation));
    assert_eq!(backend::current("another"), other);
    assert_eq!(
        (after.backend.min_graph_size(), old.min_graph_size()),
        (9, 1)
    );
    backend::swap("submitted", old).unwrap();
    assert_eq!(level("submitted"), 1);
    assert!(backend::current("submitted") > Some(after.generation));
}

#[rstest]
fn who_holds_a_backend_keeps_it_over_a_swap(_turn: MutexGuard<'static, ()>) {
    backend::register("mine", fake("mine", 5)).unwrap();
    let held = backend::get("mine").unwrap();
    backend::swap("mine", fake("mine", 6)).unwrap();
    backend::unregister("mine").unwrap();
    assert_eq!(
        (held.backend.name(), held.backend.min_graph_size()),
        ("mine", 5)
    );
}

#[rstest]
fn a_name_that_was_removed_and_registered_again_has_a_new_generation(
    _turn: MutexGuard<'static, ()>,
) {
    backend::register("mine", fake("mine", 5)).unwrap();
    let first = backend::current("mine");
    backend::unregister("mine").unwrap();
    assert_eq!(backend::current("mine"), None);
    backend::register("mine", fake("mine", 5)).unwrap();
    assert!(backend::current("mine") > first);
    backend::unregister("mine").unwrap();
}

#[rstest]
fn a_configured_clone_leaves_the_registered_backend_alone(_turn: MutexGuard<'static, ()>) {
    let registered = backend::get("submitted").unwrap();
    let mut own = backend::clone_backend(&*registered.backend);
    Python::attach(|py| {
        let options = PyDict::new(py);
        options.set_item("level", 30).unwrap();
        own.configure(py, &options).unwrap();
    });
    assert_eq!((own.min_graph_size(), level("submitted")), (30, 1));
}

#[rstest]
fn registrations_of_many_threads_all_arrive(_turn: MutexGuard<'static, ()>) {
    const NAMES: [&str; 8] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];
    let threads = NAMES.map(|name| {
        std::thread::spawn(move || {
            backend::register(name, fake(name, 0)).unwrap();
            for round in 1..=50 {
                backend::swap(name, fake(name, round)).unwrap();
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let mut generations: Vec<_> = NAMES.map(backend::current).into();
    generations.sort_unstable();
    generations.dedup();
    assert_eq!((generations.len(), generations[0] > Some(0)), (8, true));
    for name in NAMES {
        assert_eq!(backend::unregister(name).unwrap().min_graph_size(), 50);
    }
    assert_eq!(backend::list(), ["another", "submitted"]);
}

fn options(py: Python<'_>, level: usize) -> Bound<'_, PyDict> {
    let options = PyDict::new(py);
    options.set_item("level", level).unwrap();
    options
}

#[rstest]
fn a_choice_follows_swaps_and_keeps_its_options(_turn: MutexGuard<'static, ()>) {
    backend::register("mine", fake("mine", 0)).unwrap();
    Python::attach(|py| {
        let choice =
            BackendChoice::new("mine".into(), &options(py, 7), Worth::default(), None).unwrap();
        let first = choice.current(py).unwrap();
        assert_eq!((first.backend.name(), first.min_graph_size), ("mine", 7));
        assert_eq!(choice.current(py).unwrap().generation, first.generation);
        backend::swap("mine", fake("other", 0)).unwrap();
        let second = choice.current(py).unwrap();
        assert_eq!((second.backend.name(), second.min_graph_size), ("other", 7));
        assert_eq!(Some(second.generation), backend::current("mine"));
        backend::unregister("mine").unwrap();
        assert_eq!(choice.current(py).unwrap().generation, second.generation);
        assert_eq!(first.backend.name(), "mine");
    });
}

fn at_least(min_graph_size: usize) -> Worth {
    Worth {
        min_graph_size: Some(min_graph_size),
        ..Worth::default()
    }
}

#[rstest]
fn the_users_min_graph_size_goes_before_the_backends(_turn: MutexGuard<'static, ()>) {
    Python::attach(|py| {
        let choice =
            BackendChoice::new("submitted".into(), &options(py, 7), at_least(2), None).unwrap();
        assert_eq!(choice.current(py).unwrap().min_graph_size, 2);
    });
}

#[rstest]
#[case::unknown_backend(
    "nope",
    "{'level': 1}",
    "ValueError: backend: unknown backend \"nope\""
)]
#[case::missing_option("submitted", "{}", "KeyError: 'level'")]
#[case::wrong_option("submitted", "{'level': 'x'}", "TypeError: 'str' object")]
fn a_choice_that_cannot_be_made_says_why(
    _turn: MutexGuard<'static, ()>,
    #[case] name: &str,
    #[case] options: &str,
    #[case] expected: &str,
) {
    Python::attach(|py| {
        let options = CString::new(options).unwrap();
        let options = py.eval(&options, None, None).unwrap();
        let made = BackendChoice::new(name.into(), options.cast().unwrap(), Worth::default(), None);
        let error = made.err().unwrap().to_string();
        assert!(error.starts_with(expected), "{error}");
    });
}
