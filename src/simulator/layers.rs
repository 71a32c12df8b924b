//! Calling `paddle.nn.Layer` instances.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// `layer(*args, **kwargs)`: hooks, then `forward`; Paddle's own layers become `call_layer`.
pub fn call(t: &mut Tracer<'_>, layer: VarId, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let _ = (layer, args, kwargs);
    t.unsupported("layers::call is not simulated")
}
