//! Slices.

use pyo3::prelude::*;
use pyo3::types::{PySlice, PyType};

use crate::graph::Arg;
use crate::reason::Break;
use crate::{Step, Tracer, arguments, fold};

use crate::variables::answers::{Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{VarId, Variable};

/// The class of slices, as `builtins` has it.
pub const SLICE: &str = "slice";

/// The attributes of slices and ranges.
pub const PARTS: [&str; 3] = ["start", "stop", "step"];

/// `slice(start, stop, step)`
pub struct Slice(pub [VarId; 3]);

impl Protocol for Slice {
    const NAME: &'static str = "Slice";

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        Some(t.py.get_type::<PySlice>())
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.values(&self.0)?;
        to.code().op("BUILD_SLICE", 3)?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, _: VarId, name: &str) -> Step<Option<VarId>> {
        match PARTS.iter().position(|part| *part == name) {
            Some(at) => Ok(Some(self.0[at])),
            None => t.unsupported(format!("attribute {name} of a slice")),
        }
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, _: VarId) -> Option<Bound<'py, PyAny>> {
        let parts = fold::to_objects(t, &self.0)?;
        let slice = t.py.get_type::<PySlice>();
        slice.call1((&parts[0], &parts[1], &parts[2])).ok()
    }

    fn argument(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Arg> {
        let [start, stop, step] = self.0;
        Ok(Arg::Slice(Box::new([
            arguments::to_arg(t, start)?,
            arguments::to_arg(t, stop)?,
            arguments::to_arg(t, step)?,
        ])))
    }
}
