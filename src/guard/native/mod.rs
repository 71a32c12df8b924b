//! Native readers: tensors, dictionaries and global state without Python-level calls.

mod arrays;
mod classes;
mod constants;
mod containers;
mod edges;
mod finalizers;
mod flags;
mod functions;
mod gc_pause;
mod global_state;
mod gradient_hooks;
mod hash_table;
mod inplace_version;
mod numbers;
mod object;
mod references;
mod shared_ptr;
mod tensor;
mod thread_state;
mod version;

use pyo3::ffi;
use pyo3::prelude::*;

use super::number::Value;

pub(crate) use version::{
    dict_version, managed_dict, order_of, order_version, owned_dict, try_versions, type_version,
    version_follows, Order,
};

pub(crate) use arrays::{array_matches, is_array};
pub(crate) use classes::{
    acts_like, has_own_lookup, is_abstract, is_made_like, is_mutable, is_named, mro, order_is,
    type_attr, Registered,
};
pub(crate) use constants::const_equal;
pub(crate) use containers::{
    deque_item, dict_item, dict_keys_are, elements_are, is_class_of_proxies, key_object,
    know_deques, length, list_is, list_item, max_len, proxied, set_holds, shown_by_proxy,
    tuple_item,
};
pub use edges::{can_move_edges, move_edges, stand_in};
pub(crate) use finalizers::{is_quiet, Ends};
pub use flags::records_gradients;
pub(crate) use functions::{function_field, is_called_as_usual, method_part};
pub(crate) use gc_pause::NoCollection;
pub use global_state::GlobalState;
pub(crate) use gradient_hooks::is_unhooked;
pub use gradient_hooks::{has_own_hook, know_own_hook};
pub(crate) use hash_table::HashedKey;
pub use inplace_version::{has_fresh_version, inplace_version};
pub use numbers::{is_cpu_place, sampled};
pub(crate) use object::{
    cell_contents, instance_dict, is_object_member, member, to_bound, type_of,
};
pub(crate) use references::{references, weak_reference, WeakOrStrong};
pub(crate) use thread_state::{context_value, handled_exception, value_in_context};

/// A number, or a dim of a tensor or array, from outside.
pub(crate) fn value(
    py: Python<'_>,
    object: *mut ffi::PyObject,
    dim: Option<usize>,
) -> Option<Value> {
    match dim {
        None => constants::number(object),
        Some(dim) if arrays::is_array(py, object) => {
            arrays::array_dim(py, object, dim).map(Value::Int)
        }
        Some(dim) => tensor::dim(py, object, dim).map(Value::Int),
    }
}

pub use tensor::reader_name;
pub(crate) use tensor::{is_contiguous, matches as tensor_matches, Tensors};
pub use version::versions_name;
