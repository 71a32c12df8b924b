//! How libstdc++ lays out its shared pointers.

use std::ffi::c_void;
use std::sync::atomic::AtomicI32;

/// `std::shared_ptr`: the object and what counts its owners.
#[repr(C)]
pub(super) struct Shared {
    pub object: *mut c_void,
    pub owners: *const Owners,
}

/// The beginning of `_Sp_counted_base`.
#[repr(C)]
pub(super) struct Owners {
    class: *const c_void,
    pub uses: AtomicI32,
}
