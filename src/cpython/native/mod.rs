//! Borrow-only reads of CPython's objects, which run no user code.

mod classes;
mod constants;
mod containers;
mod dict_key;
mod functions;
mod gc_pause;
mod hash_table;
mod iterators;
mod number;
mod numpy_scalars;
mod object;
mod references;
mod thread_state;
mod version;

pub use classes::{
    Registered, acts_like, has_own_lookup, is_abstract, is_made_like, is_mutable, is_named, mro,
    order_is, type_attr,
};
pub use constants::{const_equal, number};
pub use containers::{
    deque_item, dict_item, dict_keys_are, elements_are, is_class_of_proxies, key_object,
    know_deques, length, list_is, list_item, max_len, proxied, set_holds, shown_by_proxy,
    tuple_item,
};
pub use dict_key::DictKey;
pub use functions::{FunctionField, function_field, is_called_as_usual, method_part};
pub use gc_pause::NoCollection;
pub use hash_table::{HashedKey, place_in_dict};
pub use iterators::{Upcoming, is_known_iterator, know_iterators, upcoming};
pub use number::{Type, Value};
pub use numpy_scalars::{are_equal, is_scalar, is_scalar_class};
pub use object::{Ptr, cell_contents, instance_dict, is_object_member, member, to_bound, type_of};
pub use references::{WeakOrStrong, is_tracked, is_weakly_referenced, references, weak_reference};
pub use thread_state::{context_value, handled_exception, is_alone, value_in_context};
pub use version::{
    Order, dict_version, managed_dict, order_of, order_version, owned_dict, try_versions,
    type_version, version_follows, versions_name,
};
