//! Native readers: tensors, dictionaries and global state without Python-level calls.

mod global_state;
mod object;
mod tensor;

pub use global_state::GlobalState;
pub use object::{
    cell_contents, const_equal, dict_item, dict_keys_are, function_field, instance_dict, is_weakly_referenced, key_object, length, list_item, to_bound,
    member, method_part, tuple_item, type_attr, type_of, WeakOrStrong,
};
pub use tensor::{matches as tensor_matches, reader_name};
