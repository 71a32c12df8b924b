//! Long graphs in pieces: those that share nothing that carries a gradient, else those that hand on
//! what they share, else small ones that use it once, else one program.

use std::sync::Arc;

use log::Level;
use paddle_sot_backend::graph::Part;
use paddle_sot_backend::{BackendError, CompileRequest, CompiledGraph};
use pyo3::prelude::*;

use crate::eager_fallback::EagerFallback;
use crate::ordered_sums::makers;
use crate::parts::{Compiler, Parts, Role, TOO_LONG, compile_one};

/// Graphs and parts of more operations that cannot be cut up run call by call: Paddle's time for
/// one program grows with the square of its length.
pub const HOPELESS: usize = 3000;

/// One program, or the pieces of a long graph.
///
/// # Errors
/// Whatever compiling the one program raises.
pub fn compile_pieces(
    py: Python<'_>,
    mut request: CompileRequest,
    compiler: &Compiler<'_>,
    role: &Role,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let sir = Arc::clone(&request.sir);
    let operations = request.session.operations(sir.statements.len());
    let (examples, trains) = (&request.example_inputs, request.grad_enabled);
    let Some(mut cutter) = sir.cutter(py, operations, examples, trains) else {
        return whole(py, request, operations, compiler);
    };
    if cutter.asks_order() {
        cutter.arrivals = request.session.arrivals(py, &sir)?;
    }
    let compiled = |request: &CompileRequest, pieces: Vec<Part>, level: Level| {
        let why = (compiler, TOO_LONG);
        match Parts::compile(py, request, pieces, why, role) {
            Ok(parts) => Ok(Some(Box::new(parts))),
            Err(err) if err.is_interrupt(py) => Err(err),
            Err(err) => {
                log::log!(target: "paddle_sot_rs.backend", level, "a graph of {operations} operations does not run in these pieces: they do not compile: {err}");
                Ok(None)
            }
        }
    };
    let mut pieces = cutter.pieces(py);
    if pieces.is_none() || cutter.leaves_long_pieces() {
        if let Some(chained) = cutter.chained(py, &makers(py, &request)?)? {
            request.sir = Arc::new(chained.sir);
            if let Some(parts) = compiled(&request, chained.parts, Level::Info)? {
                return Ok(parts);
            }
            request.sir = Arc::clone(&sir);
        }
        pieces = pieces.or_else(|| cutter.small_pieces(py));
    }
    if let Some(pieces) = pieces {
        if let Some(parts) = compiled(&request, pieces, Level::Warn)? {
            return Ok(parts);
        }
    }
    whole(py, request, operations, compiler)
}

/// One program, or call by call where that would take Paddle too long.
fn whole(
    py: Python<'_>,
    request: CompileRequest,
    operations: usize,
    compiler: &Compiler<'_>,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    if operations > HOPELESS {
        let why = format!(
            "{operations} operations that cannot be cut into pieces: one program would take Paddle minutes"
        );
        return EagerFallback::run(py, request, why, "eager");
    }
    compile_one(py, request, compiler, (Role::default(), &[]))
}
