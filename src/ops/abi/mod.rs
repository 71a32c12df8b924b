//! Borrow-only reads of Paddle's tensors, of arrays and of what Paddle keeps for a thread.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "a Ptr is alive: who has one has it of an object that somebody keeps for as long"
)]

mod arrays;
mod edges;
mod finalizers;
mod flags;
mod global_state;
mod gradient_hooks;
mod guards;
mod history;
mod inplace_version;
mod library;
mod numbers;
mod optimizer_updates;
mod own_version;
mod plain_optimizer;
mod prepared_step;
mod scope_tensors;
mod self_tests;
mod shared_ptr;
mod stop_gradient;
mod storage;
mod tensor;
mod unchanged_objects;

use pyo3::prelude::*;

use paddle_sot_cpython::native::{self, Ptr, Value};

pub use arrays::{array_matches, is_array};
pub use edges::{can_move_edges, detached, move_edges, node_of, share_tensor, stand_in};
pub use finalizers::{Ends, is_quiet};
pub use flags::{may_cast, records_gradients};
pub use global_state::{GlobalState, set_grad_enabled, tracer, without_gradients};
pub use gradient_hooks::{has_own_hook, is_unhooked, know_own_hook};
pub use guards::{ArrayGuard, TensorGuard, open_dims};
pub use history::{can_spend, gone_through, spend};
pub use inplace_version::{has_fresh_version, inplace_version};
pub use numbers::{is_cpu_place, sampled};
pub use optimizer_updates::{
    Updates, are_in_any_order, clear_gradients, updates as optimizer_updates,
};
pub use own_version::with_own_version;
pub use plain_optimizer::{is_plain_optimizer, is_text_or_texts};
pub use prepared_step::{
    Before, PreparedRun, StepInputs, are_apart_from_gradients, note_cleared, prepare_step,
    prepared_step, step_inputs,
};
pub use scope_tensors::{ScopeTensors, can_move_tensors};
pub use self_tests::layout_faults;
pub use stop_gradient::let_gradients_through;
pub use storage::{are_apart, are_updated_apart, is_apart_from_all};
pub use tensor::{
    Tensors, is_contiguous, is_dense, lies_contiguous, matches as tensor_matches, reader_name,
    reads_natively,
};

/// A number, or a dim of a tensor or array, from outside.
pub fn value(py: Python<'_>, object: Ptr<'_>, dim: Option<usize>) -> Option<Value> {
    match dim {
        None => native::number(object),
        Some(dim) if arrays::is_array(py, object) => {
            arrays::array_dim(py, object, dim).map(Value::Int)
        }
        Some(dim) => tensor::dim(py, object, dim).map(Value::Int),
    }
}
