//! Special methods of subclasses of tensors: Python finds them on the class, in front of Paddle's.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::reason::BreakId;
use crate::variables::{Kind, TensorVar, VarId};

use crate::{Step, Tracer};
use crate::{attributes, classes};

/// Stops where a tensor is of a subclass that has methods of its own by these names. Guards that it
/// has none.
pub fn refuse_own(t: &mut Tracer<'_>, tensor: VarId, names: &[&str]) -> Step<()> {
    let Kind::Tensor(TensorVar {
        class: Some(class), ..
    }) = t.kind(tensor).clone()
    else {
        return Ok(());
    };
    if class.is(&t.paddle.parameter) {
        return Ok(());
    }
    let (own, plain) = (class.bind(t.py).clone(), t.paddle.tensor.bind(t.py).clone());
    let (Ok(own), Ok(plain)) = (own.cast::<PyType>(), plain.cast::<PyType>()) else {
        return t.unsupported("tensors without a class");
    };
    classes::guard_names(t, own, names);
    for name in names {
        let found = attributes::lookup(own, name);
        let is_same = match (&found, attributes::lookup(plain, name)) {
            (Some(found), Some(plain)) => found.is(&plain),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            return t.stop(
                BreakId::TensorObject,
                format!("{name}() of a tensor subclass"),
            );
        }
    }
    Ok(())
}
