//! Code objects as typed instructions, and back.
//!
//! [`Code::from_py`] parses once; after that nothing tests opcode numbers or Python versions. Each
//! [`Instruction`] keeps its raw opcode and argument beside the typed [`Instr`], so that assembling
//! what was not edited gives back what was read.

mod builder;
mod code;
mod coverage;
pub mod flow;
mod held;
mod instr;
mod layout;
mod liveness;
mod optable;
mod resume;
mod source_loc;
mod stack;
pub mod stack_effect;
mod tables;
mod version;

pub use builder::CodeBuilder;
pub use code::{BytecodeError, Code, ExceptionEntry, Instruction, Loc, LocalKind, LocalSlot};
pub use coverage::{coverage, unimplemented};
pub use instr::{BinOp, CmpOp, Instr};
pub use liveness::live_locals;
pub use optable::OpTable;
pub use resume::{Origin, ResumeSpec, build_resume, name_of_local};
pub use source_loc::{Columns, SourceLoc};
pub use stack::StackDepths;
pub use version::Dialect;
