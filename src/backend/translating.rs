//! Whether this thread translates: a backend may ask others only then.

use std::cell::Cell;

thread_local! {
    static TRANSLATING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is translating.
pub fn is_translating() -> bool {
    TRANSLATING.get()
}

/// Says whether this thread is translating.
pub fn set_translating(on: bool) {
    TRANSLATING.set(on);
}
