//! What CALL_INTRINSIC_1 and CALL_INTRINSIC_2 stand for.

use crate::frame_state::FrameState;
use crate::operators::UnaryOp;
use crate::reason::BreakKind;
use crate::variables::Kind;
use crate::{Step, Tracer, attributes, exceptions, iterate};

use super::control::prepare_reraise;
use super::{Flow, unary};

pub(super) fn intrinsic(t: &mut Tracer<'_>, f: &mut FrameState, id: u32) -> Step<Flow> {
    // Numbers from CPython's Include/internal/pycore_intrinsics.h.
    const STOPITERATION_ERROR: u32 = 3;
    const UNARY_POSITIVE: u32 = 5;
    const LIST_TO_TUPLE: u32 = 6;
    const TYPEVAR: u32 = 7;
    const TYPEALIAS: u32 = 11;
    match id {
        UNARY_POSITIVE => unary(t, f, UnaryOp::Positive)?,
        LIST_TO_TUPLE => {
            let list = f.pop(t)?;
            let items = iterate::collect(t, list)?;
            let value = t.add(Kind::Tuple(items, None));
            f.push(value);
        }
        STOPITERATION_ERROR => {
            let exception = f.peek(t, 1)?;
            if exceptions::is_a(t, exception, "StopIteration")? {
                return t.stop(
                    BreakKind::RaisesException,
                    "a StopIteration leaves a generator",
                );
            }
        }
        // Type parameters, a generic base class, an alias: what they are made of is evaluated when
        // it is read.
        TYPEVAR..=TYPEALIAS => {
            f.pop(t)?;
            let made = t.made_natively();
            f.push(made);
        }
        _ => return t.stop(BreakKind::Opcode, format!("CALL_INTRINSIC_1 {id}")),
    }
    Ok(Flow::Next)
}

pub(super) fn intrinsic_2(t: &mut Tracer<'_>, f: &mut FrameState, id: u32) -> Step<()> {
    const PREP_RERAISE_STAR: u32 = 1;
    const TYPEVAR_WITH_BOUND: u32 = 2;
    const TYPEVAR_WITH_CONSTRAINTS: u32 = 3;
    const SET_FUNCTION_TYPE_PARAMS: u32 = 4;
    const SET_TYPEPARAM_DEFAULT: u32 = 5;
    match id {
        PREP_RERAISE_STAR => prepare_reraise(t, f),
        TYPEVAR_WITH_BOUND | TYPEVAR_WITH_CONSTRAINTS => {
            f.pop_n(t, 2)?;
            let made = t.made_natively();
            f.push(made);
            Ok(())
        }
        SET_FUNCTION_TYPE_PARAMS => {
            let parameters = f.pop(t)?;
            let function = f.peek(t, 1)?;
            attributes::set(t, function, "__type_params__", parameters)
        }
        SET_TYPEPARAM_DEFAULT => {
            f.pop(t)?;
            let parameter = f.peek(t, 1)?;
            if t.value(parameter).is_some() {
                return t.stop(
                    BreakKind::UnsupportedCall,
                    "a type parameter gets its default",
                );
            }
            // What has not been made cannot be looked at.
            Ok(())
        }
        _ => t.stop(BreakKind::Opcode, format!("CALL_INTRINSIC_2 {id}")),
    }
}
