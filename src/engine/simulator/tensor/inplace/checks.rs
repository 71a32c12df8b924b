//! What the form in place of an operation takes, in eager mode: less than the operation itself.

use crate::ops::{Fact, knows};
use crate::variables::VarId;

use crate::simulator::{Kwargs, Tracer, arguments, tensors};

/// Whether the form in place may fail, or give something else, where the operation does not.
pub(super) fn takes_less(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    let Some(dtype) = tensors::meta_of(t, tensor).map(|meta| meta.dtype) else {
        return true;
    };
    if knows(form, Fact::InPlaceBoundedByFloat) && !dtype.is_floating() {
        let named = kwargs.iter().find(|(name, _)| &**name == "max");
        let most = args.get(1).or(named.map(|(_, most)| most)).copied();
        if most.is_none_or(|most| t.is_none(most)) {
            return true;
        }
    }
    let (one_dtype, of_tensors) = (
        knows(form, Fact::InPlaceOneDType),
        knows(form, Fact::InPlaceOfTensors),
    );
    if !one_dtype && !of_tensors {
        return false;
    }
    let given = arguments::parts_of_call(t, args, kwargs);
    given.into_iter().any(|arg| match tensors::meta_of(t, arg) {
        Some(meta) => one_dtype && meta.dtype != dtype,
        None => of_tensors && !t.is_none(arg),
    })
}
