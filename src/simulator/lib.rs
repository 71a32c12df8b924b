//! Byte-code simulation.
//!
//! `opcode_executor` runs one frame's instructions and asks the families below. Each family is a
//! file (or a folder, where it takes several) whose public functions take the [`Tracer`] and
//! variables and answer with a [`Step`].

mod autograd;
pub mod builtins;
pub mod call;
pub mod collect_breaks;
mod control_flow;
mod coverage;
mod dispatch;
pub mod frame_state;
pub mod opcode_executor;
mod scalars;
mod semantics;
mod tensor;
pub mod tracer;
pub mod variables;

pub use autograd::{deferred, pylayer, recompute, replay_reads};
use autograd::{partial_gradients, saved_for_backward};
pub use call::{arguments, contexts, fold, inline, methods};
use call::{inlined_frame, process_state};
use control_flow::{branches, captured_flow, loop_return, phi, tuple_carry};
pub use control_flow::{conditions, loops, region};
pub use scalars::{dynamic_scalar, item, numpy_scalars};
use scalars::{scalar_arguments, tensor_scalar};
pub use semantics::{
    attributes, comparisons, containers, exceptions, format, frame_introspection, groups, iterate,
    keys, matching, objects, operators, sets, texts, truth,
};
use semantics::{
    classes, generators, given_iterators, itertools, list_texts, namespaces, printing, provenance,
    repr_guards, text_keys,
};
pub use tensor::{
    alias_analysis, api, arrays, carried_aliases, escaping_aliases, layers, shape_rules, subscript,
    tensors,
};
use tensor::{
    device, differences, grown_lists, inplace, layer_call, made_arrays, rows, subclasses,
};
use tensor_scalar::{graph_arrays, number_functions, powers, program_numbers};

pub use call::looks_at_frames;
pub use coverage::builtin_coverage;
pub use dispatch::cell_get;
pub use escaping_aliases::Shared;
pub use inlined_frame::InnerFrame;
pub use opcode_executor::{BreakPoint, OpcodeExecutor, Outcome, Simulation, Simulator};
pub use tensor_scalar::program_numbers::assumptions;
pub use tracer::{Detours, Differing, Kwargs, Step, Stop, TraceMark, TraceOptions, Tracer};

use paddle_sot_backend as backend;
use paddle_sot_cpython::{bytecode, c_stack, frame, native, obj};
use paddle_sot_guard::{self as guard, tracker};
use paddle_sot_ir as graph;
use paddle_sot_ops::{self as ops, abi, paddle};
use paddle_sot_reason as reason;
