//! Byte-code simulation.
//!
//! `opcode_executor` runs one frame's instructions and asks the families below. Each family is a
//! file (or a folder, where it takes several) whose public functions take the [`Tracer`] and
//! variables and answer with a [`Step`].
//!
//! A crate of its own below code generation and the cache: those are compiled beside its machine
//! code. What they ask is re-exported here; all else is private, so that the compiler says what
//! nobody uses.

mod autograd;
mod builtins;
mod call;
mod collect_breaks;
mod control_flow;
mod coverage;
mod dispatch;
mod frame_state;
mod opcode_executor;
mod scalars;
mod semantics;
mod tensor;
mod tracer;
pub mod variables;

// What the crate above asks families and the trace.
pub use attributes::{instance_dict, lookup as lookup_attribute};
pub use autograd::{deferred, replay_reads};
pub use call::{arguments, contexts, fold::MAX_NESTING, inline::builtins_of, looks_at_frames};
pub use collect_breaks::Survey;
pub use control_flow::loops::LoopPlaces;
pub use coverage::builtin_coverage;
pub use dynamic_scalar::tensor_of;
pub use escaping_aliases::Shared;
pub use frame_state::FrameState;
pub use inlined_frame::InnerFrame;
pub use opcode_executor::{BreakPoint, OpcodeExecutor, Outcome, Simulation, Simulator};
pub use semantics::{containers::deques, frame_introspection, iterate::is_unchanged};
pub use tensor::{arrays, carried_aliases};
pub use tensor_scalar::program_numbers::assumptions;
pub use tracer::{
    Detours, Differing, Kwargs, Step, Stop, TraceMark, TraceOptions, Tracer, function_graph,
};

// Names by which families call each other.
use autograd::{partial_gradients, pylayer, recompute, saved_for_backward};
use call::{fold, inline, inlined_frame, methods, process_state};
use control_flow::{
    branches, captured_flow, conditions, loop_return, loops, phi, region, tuple_carry,
};
use dispatch::cell_get;
use scalars::{dynamic_scalar, item, numpy_scalars, scalar_arguments, tensor_scalar};
use semantics::{
    attributes, classes, comparisons, containers, exceptions, format, generators, given_iterators,
    groups, iterate, itertools, keys, list_texts, matching, namespaces, objects, operators,
    printing, provenance, repr_guards, sets, text_keys, texts, truth,
};
use tensor::{
    alias_analysis, api, device, differences, escaping_aliases, grown_lists, inplace, layer_call,
    layers, made_arrays, rows, shape_rules, subclasses, subscript, tensors,
};
use tensor_scalar::{graph_arrays, number_functions, powers, program_numbers};

use paddle_sot_backend as backend;
use paddle_sot_cpython::{bytecode, c_stack, frame, native, obj};
use paddle_sot_guard::{self as guard, tracker};
use paddle_sot_ir as graph;
use paddle_sot_ops::{self as ops, abi, paddle};
use paddle_sot_reason as reason;
