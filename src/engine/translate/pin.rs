//! One backend for one call: between two graphs of a call the registered backend may be swapped.
//!
//! While a part of a call runs code that was not captured, the backend the call began on is pinned
//! in this thread for the function, its resume functions and its callees.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::choice::Configured;
use super::function::Shared;

thread_local! {
    /// Innermost last: what the functions of a call share, by address, and the backend.
    static PINS: RefCell<Vec<(usize, Arc<Configured>)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a backend pinned until it is dropped, in the order of a stack.
pub(super) struct Pin(PhantomData<*const ()>);

fn address(shared: &Arc<Shared>) -> usize {
    Arc::as_ptr(shared) as usize
}

impl Pin {
    pub(super) fn new(shared: &Arc<Shared>, backend: Arc<Configured>) -> Self {
        PINS.with_borrow_mut(|pins| pins.push((address(shared), backend)));
        Self(PhantomData)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Dropping a backend may run Python code: not while the list is borrowed.
        let pin = PINS.with_borrow_mut(Vec::pop);
        drop(pin);
    }
}

fn find<R>(shared: &Arc<Shared>, of: impl Fn(&Arc<Configured>) -> R) -> Option<R> {
    PINS.with_borrow(|pins| {
        let mut pins = pins.iter().rev();
        pins.find(|(owner, _)| *owner == address(shared))
            .map(|(_, backend)| of(backend))
    })
}

/// The backend that the running call of these functions began on.
pub(super) fn backend(shared: &Arc<Shared>) -> Option<Arc<Configured>> {
    find(shared, Arc::clone)
}

/// Its generation.
pub(super) fn generation(shared: &Arc<Shared>) -> Option<u64> {
    find(shared, |backend| backend.generation)
}
