//! The live table of backends: filled by `inventory`, swapped through `arc-swap`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use itertools::Itertools;

use pyo3::Python;

use crate::{BackendError, GraphBackend, TraceSession};

/// A backend as its crate submits it: `inventory::submit! { BackendRegistration { .. } }`.
pub struct BackendRegistration {
    /// The name users pass.
    pub name: &'static str,
    /// Makes the default configuration.
    pub make: fn() -> Box<dyn GraphBackend>,
}

inventory::collect!(BackendRegistration);

/// A backend and the generation it was registered under.
#[derive(Clone)]
pub struct BackendHandle {
    /// The prototype; clone it to configure it.
    pub backend: Arc<dyn GraphBackend>,
    /// Grows with every registration and swap; cache entries remember it.
    pub generation: u64,
}

/// What can go wrong with a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegistryError {
    /// No backend of that name.
    #[error("unknown backend {name:?}; the registered backends are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The known names, quoted and separated by commas.
        known: String,
    },
    /// The name is taken.
    #[error("backend {0:?} is already registered; use swap_backend to replace it")]
    Taken(String),
}

type Table = BTreeMap<String, BackendHandle>;

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Edits of the table so far.
static EDITS: AtomicU64 = AtomicU64::new(0);

static TABLE: LazyLock<ArcSwap<Table>> = LazyLock::new(|| {
    let table = inventory::iter::<BackendRegistration>()
        .map(|row| (row.name.to_owned(), handle(Arc::from((row.make)()))))
        .collect();
    ArcSwap::from_pointee(table)
});

fn handle(backend: Arc<dyn GraphBackend>) -> BackendHandle {
    BackendHandle {
        backend,
        generation: GENERATION.fetch_add(1, Ordering::Relaxed),
    }
}

fn unknown(name: &str, table: &Table) -> RegistryError {
    let known = table.keys().map(|key| format!("{key:?}")).join(", ");
    RegistryError::Unknown {
        name: name.to_owned(),
        known,
    }
}

/// The backend registered under `name`.
pub fn get(name: &str) -> Result<BackendHandle, RegistryError> {
    let table = TABLE.load();
    table
        .get(name)
        .cloned()
        .ok_or_else(|| unknown(name, &table))
}

/// The generation `name` is at, if it is registered. One atomic load and a map look-up.
pub fn current(name: &str) -> Option<u64> {
    TABLE.load().get(name).map(|handle| handle.generation)
}

/// How often backends were registered, removed or swapped: one read, where [`current`] is a
/// look-up.
pub fn edits() -> u64 {
    EDITS.load(Ordering::Acquire)
}

/// The registered names, sorted.
pub fn list() -> Vec<String> {
    TABLE.load().keys().cloned().collect()
}

/// Edits a copy of the table and publishes it; retried when another thread was faster.
fn update<R>(edit: impl Fn(&mut Table) -> Result<R, RegistryError>) -> Result<R, RegistryError> {
    loop {
        let before = TABLE.load_full();
        let mut table = (*before).clone();
        let answer = edit(&mut table)?;
        let previous = TABLE.compare_and_swap(&before, Arc::new(table));
        if Arc::ptr_eq(&previous, &before) {
            EDITS.fetch_add(1, Ordering::Release);
            return Ok(answer);
        }
    }
}

/// Adds a backend under a free name.
pub fn register(name: &str, backend: Arc<dyn GraphBackend>) -> Result<(), RegistryError> {
    update(|table| {
        if table.contains_key(name) {
            return Err(RegistryError::Taken(name.to_owned()));
        }
        table.insert(name.to_owned(), handle(backend.clone()));
        Ok(())
    })
}

/// Removes a backend.
pub fn unregister(name: &str) -> Result<Arc<dyn GraphBackend>, RegistryError> {
    update(|table| match table.remove(name) {
        Some(handle) => Ok(handle.backend),
        None => Err(unknown(name, table)),
    })
}

/// Replaces a backend; entries compiled by the old one recompile at their next call.
pub fn swap(
    name: &str,
    backend: Arc<dyn GraphBackend>,
) -> Result<Arc<dyn GraphBackend>, RegistryError> {
    update(|table| {
        if !table.contains_key(name) {
            return Err(unknown(name, table));
        }
        Ok(table
            .insert(name.to_owned(), handle(backend.clone()))
            .map_or_else(|| backend.clone(), |old| old.backend))
    })
}

/// The backend whose inference the others use.
pub const DEFAULT: &str = "paddle";

/// A trace session of the default backend.
///
/// # Errors
/// When there is none, as in a plug-in's copy of this crate, or when it cannot trace now.
pub fn default_session(py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
    get(DEFAULT)
        .map_err(|err| BackendError::Compile(err.to_string()))?
        .backend
        .begin(py)
}

/// A backend of the engine, not configured, for another one in the tree to hand graphs on to. A
/// graph that is not the one that was captured needs [`retrace`](super::retrace).
///
/// # Errors
/// When there is none of that name, as in a plug-in's copy of this crate.
pub fn named(name: &str) -> Result<Box<dyn GraphBackend>, RegistryError> {
    Ok(clone_backend(&*get(name)?.backend))
}

/// A configuration of its own for one translated function.
pub fn clone_backend(backend: &(dyn GraphBackend + 'static)) -> Box<dyn GraphBackend> {
    dyn_clone::clone_box(backend)
}
