//! Native readers: tensors, dictionaries and global state without Python-level calls.

mod edges;
mod flags;
mod global_state;
mod inplace_version;
mod object;
mod shared_ptr;
mod tensor;
mod version;

use pyo3::ffi;
use pyo3::prelude::*;

use super::number::Value;

pub(crate) use version::{
    dict_version, managed_dict, order_of, order_version, owned_dict, type_version, version_follows,
    Order,
};

pub use edges::{can_move_edges, move_edges, stand_in};
pub use flags::records_gradients;
pub use global_state::GlobalState;
pub use inplace_version::{has_fresh_version, inplace_version};
pub(crate) use object::{
    array_matches, cell_contents, const_equal, dict_item, dict_keys_are, elements_are,
    function_field, has_own_lookup, has_plain_constructor, instance_dict, is_array,
    is_called_as_usual, is_mutable, is_named, is_tracked, key_object, length, list_is, list_item,
    member, method_part, mro, order_is, references, set_holds, to_bound, tuple_item, type_attr,
    type_of, Registered, WeakOrStrong,
};
/// A number, or a dim of a tensor or array, from outside.
pub(crate) fn value(
    py: Python<'_>,
    object: *mut ffi::PyObject,
    dim: Option<usize>,
) -> Option<Value> {
    match dim {
        None => object::number(object),
        Some(dim) if object::is_array(py, object) => {
            object::array_dim(py, object, dim).map(Value::Int)
        }
        Some(dim) => tensor::dim(py, object, dim).map(Value::Int),
    }
}

pub use tensor::reader_name;
pub(crate) use tensor::{is_contiguous, matches as tensor_matches, Tensors};
pub use version::versions_name;
