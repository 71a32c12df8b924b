//! What each instruction does: one arm per instruction. Anything longer than a few lines is a
//! function named after the rule, in a file beside this one or in that of a family.

mod calls;
mod containers;
pub(crate) mod control;
mod expressions;
mod imports;
mod intrinsics;
mod scopes;

use crate::bytecode::{Dialect, Instr, OpTable, unimplemented};
use crate::control_flow::maybe;
use crate::methods::names::{APPEND, EXTEND, UPDATE};
use crate::reason::BreakKind;
use crate::variables::{CellVar, Kind};

use super::builtins::consumers;
use super::frame_state::{Exit, FrameState};
use super::operators::{self, UnaryOp};
use super::{Step, Stop, Tracer};
use super::{attributes, exceptions, format, iterate, matching, namespaces, subscript, truth};
use calls::{
    call_ex, call_stack, constant_names, keyword_names, make_function, push_callee,
    set_function_attribute,
};
use containers::{build_dict, build_set, dict_merge, pop_slice, put_into, unpack, unpack_ex};
use control::{
    before_with, check_group_match, for_iter, iter_of_loop, jump_if, prepare_reraise, push_handled,
    send, to_bool,
};
use expressions::{compare, contains, is_same, pop_operands, super_attribute, unary, unary_not};
use imports::{import_from, import_name};
use intrinsics::{intrinsic, intrinsic_2};
use scopes::{
    cell_of, delete_deref, load_build_class, load_fast, load_from_dict_or_deref,
    load_from_dict_or_globals, load_global, store_deref, store_fast, write_global,
};

pub use scopes::cell_get;

/// Where control goes.
pub enum Flow {
    /// The next instruction.
    Next,
    /// This instruction.
    Jump(usize),
    /// Out of the frame.
    Exit(Exit),
}

/// Simulates the instruction at `at`.
pub fn step(t: &mut Tracer<'_>, f: &mut FrameState, at: usize) -> Step<Flow> {
    let code = f.code.clone();
    match &code.instructions[at].instr {
        Instr::Nop | Instr::Resume | Instr::Precall => {}
        Instr::PopTop => {
            let value = f.pop(t)?;
            if !f.stack.contains(&value) && !f.locals.contains(&Some(value)) {
                t.let_go(value)?;
            }
        }
        Instr::PushNull => {
            let null = t.null();
            f.push(null);
        }
        Instr::Copy { depth } => {
            let value = f.peek(t, *depth as usize)?;
            f.push(value);
        }
        Instr::Swap { depth } => f.swap(t, *depth as usize)?,
        // --- locals, cells, globals ---
        Instr::LoadConst { index } => {
            let value = code.consts[*index as usize].bind(t.py).clone();
            let value = t.constant(&value);
            f.push(value);
        }
        Instr::LoadFast { local, clear } => load_fast(t, f, *local as usize, *clear)?,
        Instr::StoreFast { local } => {
            let value = f.pop(t)?;
            store_fast(t, f, *local, value)?;
        }
        Instr::LoadFastLoadFast { first, second } => {
            load_fast(t, f, *first as usize, false)?;
            load_fast(t, f, *second as usize, false)?;
        }
        Instr::StoreFastLoadFast { store, load } => {
            let value = f.pop(t)?;
            store_fast(t, f, *store, value)?;
            load_fast(t, f, *load as usize, false)?;
        }
        Instr::StoreFastStoreFast { first, second } => {
            let value = f.pop(t)?;
            store_fast(t, f, *first, value)?;
            let value = f.pop(t)?;
            store_fast(t, f, *second, value)?;
        }
        Instr::DeleteFast { local } => match f.locals[*local as usize].take() {
            // A function that resumes pushes it first.
            Some(value) if f.stack.contains(&value) => {}
            Some(value) => t.let_go(value)?,
            None => {
                return scopes::unbound(t, f, *local as usize, "deletion of an unbound local");
            }
        },
        Instr::MakeCell { local } => {
            let content = f.locals[*local as usize].map_or(CellVar::Empty, CellVar::Full);
            f.locals[*local as usize] = Some(t.add(Kind::Cell(content)));
        }
        Instr::CopyFreeVars { count } => {
            let first = f.locals.len() - *count as usize;
            for (slot, cell) in f.locals[first..].iter_mut().zip(&f.closure) {
                *slot = Some(*cell);
            }
        }
        Instr::LoadClosure { local } => load_fast(t, f, *local as usize, false)?,
        Instr::LoadDeref { local } => {
            let cell = cell_of(t, f, *local)?;
            let value = cell_get(t, cell)?;
            f.push(value);
        }
        Instr::StoreDeref { local } => {
            let value = f.pop(t)?;
            store_deref(t, f, *local, value)?;
        }
        Instr::DeleteDeref { local } => delete_deref(t, f, *local)?,
        Instr::LoadGlobal { name, push_null } => {
            let value = load_global(t, f, &f.name(*name))?;
            push_callee(t, f, value, *push_null);
        }
        Instr::StoreGlobal { name } => {
            let value = f.pop(t)?;
            write_global(t, f, f.name(*name), Some(value))?;
        }
        Instr::DeleteGlobal { name } => {
            let name = f.name(*name);
            load_global(t, f, &name)?;
            write_global(t, f, name, None)?;
        }
        Instr::LoadFromDictOrGlobals { name } => load_from_dict_or_globals(t, f, &f.name(*name))?,
        Instr::LoadFromDictOrDeref { local } => load_from_dict_or_deref(t, f, *local)?,
        Instr::LoadAssertionError => {
            let error = t.builtin("AssertionError")?;
            let error = t.constant(&error);
            f.push(error);
        }
        // --- operators ---
        Instr::UnaryPositive => unary(t, f, UnaryOp::Positive)?,
        Instr::UnaryNegative => unary(t, f, UnaryOp::Negative)?,
        Instr::UnaryInvert => unary(t, f, UnaryOp::Invert)?,
        Instr::UnaryNot => unary_not(t, f)?,
        Instr::ToBool => {
            let value = f.pop(t)?;
            let value = to_bool(t, value)?;
            f.push(value);
        }
        Instr::BinaryOp { op, inplace } => {
            let (left, right) = pop_operands(t, f)?;
            let value = operators::binary(t, *op, *inplace, left, right)?;
            f.push(value);
        }
        Instr::CompareOp { op, to_bool } => compare(t, f, *op, *to_bool)?,
        Instr::IsOp { invert } => is_same(t, f, *invert)?,
        Instr::ContainsOp { invert } => contains(t, f, *invert)?,
        // --- subscription and attributes ---
        Instr::BinarySubscr => {
            let key = f.pop(t)?;
            let container = f.pop(t)?;
            let value = subscript::get(t, container, key)?;
            f.push(value);
        }
        Instr::StoreSubscr => {
            let key = f.pop(t)?;
            let container = f.pop(t)?;
            let value = f.pop(t)?;
            subscript::set(t, container, key, value)?;
        }
        Instr::DeleteSubscr => {
            let key = f.pop(t)?;
            let container = f.pop(t)?;
            subscript::delete(t, container, key)?;
        }
        Instr::BinarySlice => {
            let slice = pop_slice(t, f)?;
            let container = f.pop(t)?;
            let value = subscript::get(t, container, slice)?;
            f.push(value);
        }
        Instr::StoreSlice => {
            let slice = pop_slice(t, f)?;
            let container = f.pop(t)?;
            let value = f.pop(t)?;
            subscript::set(t, container, slice, value)?;
        }
        Instr::LoadAttr { name, method } => {
            let name = f.name(*name);
            let object = f.pop(t)?;
            t.reads_namespace = &*name == "__dict__" && namespaces::is_read(&f.code, f.pc);
            let value = attributes::get(t, object, &name)?;
            push_callee(t, f, value, *method);
        }
        Instr::LoadSuperAttr { name, method } => {
            let name = f.name(*name);
            // `super()` finds both by itself; what else has its name is called as it is written.
            let is_written = code.instructions[at].arg & 2 != 0;
            let value = super_attribute(t, f, &name, is_written)?;
            push_callee(t, f, value, *method);
        }
        Instr::StoreAttr { name } => {
            let name = f.name(*name);
            let object = f.pop(t)?;
            let value = f.pop(t)?;
            attributes::set(t, object, &name, value)?;
        }
        Instr::DeleteAttr { name } => {
            let name = f.name(*name);
            let object = f.pop(t)?;
            attributes::delete(t, object, &name)?;
        }
        // --- building ---
        Instr::BuildTuple { count } => {
            let items = f.pop_n(t, *count as usize)?;
            let value = t.add(Kind::Tuple(items, None));
            f.push(value);
        }
        Instr::BuildList { count } => {
            let items = f.pop_n(t, *count as usize)?;
            let value = t.add(Kind::List(items));
            f.push(value);
        }
        Instr::BuildSet { count } => build_set(t, f, *count as usize)?,
        Instr::BuildMap { count } => {
            let items = f.pop_n(t, 2 * *count as usize)?;
            let dict = build_dict(t, items.chunks(2).map(|pair| (pair[0], pair[1])))?;
            f.push(dict);
        }
        Instr::BuildConstKeyMap { count } => {
            let keys = f.pop(t)?;
            let values = f.pop_n(t, *count as usize)?;
            let keys = iterate::collect(t, keys)?;
            let dict = build_dict(t, keys.into_iter().zip(values))?;
            f.push(dict);
        }
        Instr::BuildString { count } => {
            let parts = f.pop_n(t, *count as usize)?;
            let value = format::build_string(t, &parts)?;
            f.push(value);
        }
        Instr::BuildSlice { count } => {
            let step = if *count == 3 { f.pop(t)? } else { t.none() };
            let stop = f.pop(t)?;
            let start = f.pop(t)?;
            let value = t.add(Kind::Slice([start, stop, step]));
            f.push(value);
        }
        Instr::ListAppend { depth } => put_into(t, f, *depth, APPEND)?,
        Instr::SetAdd { depth } => put_into(t, f, *depth, "add")?,
        Instr::MapAdd { depth } => {
            let value = f.pop(t)?;
            let key = f.pop(t)?;
            let dict = f.peek(t, *depth as usize)?;
            subscript::set(t, dict, key, value)?;
        }
        Instr::ListExtend { depth } => put_into(t, f, *depth, EXTEND)?,
        Instr::SetUpdate { depth } => put_into(t, f, *depth, UPDATE)?,
        Instr::DictUpdate { depth } => {
            // Unlike the method, it takes no pairs.
            let value = f.peek(t, 1)?;
            if t.merged(value).is_none() {
                return t.unsupported("** of something that is not a dict");
            }
            put_into(t, f, *depth, UPDATE)?;
        }
        Instr::DictMerge { depth } => {
            let value = f.pop(t)?;
            let dict = f.peek(t, *depth as usize)?;
            dict_merge(t, dict, value)?;
        }
        Instr::ListToTuple => {
            let list = f.pop(t)?;
            let items = iterate::collect(t, list)?;
            let value = t.add(Kind::Tuple(items, None));
            f.push(value);
        }
        Instr::FormatValue {
            conversion,
            has_spec,
        } => {
            let spec = if *has_spec { Some(f.pop(t)?) } else { None };
            let value = f.pop(t)?;
            let value = format::format_value(t, value, *conversion, spec)?;
            f.push(value);
        }
        Instr::ConvertValue { conversion } => {
            let value = f.pop(t)?;
            let value = format::format_value(t, value, *conversion, None)?;
            f.push(value);
        }
        Instr::FormatSimple => {
            let value = f.pop(t)?;
            let value = format::format_value(t, value, 0, None)?;
            f.push(value);
        }
        Instr::FormatWithSpec => {
            let spec = f.pop(t)?;
            let value = f.pop(t)?;
            let value = format::format_value(t, value, 0, Some(spec))?;
            f.push(value);
        }
        // --- unpacking and iteration ---
        Instr::UnpackSequence { count } => {
            let value = f.pop(t)?;
            let items = unpack(t, value, *count as usize)?;
            f.stack.extend(items.into_iter().rev());
        }
        Instr::UnpackEx { before, after } => unpack_ex(t, f, *before as usize, *after as usize)?,
        Instr::GetIter => {
            let value = f.pop(t)?;
            let next = code.instructions.get(at + 1).map(|it| &it.instr);
            let iterator = match next {
                Some(Instr::ForIter { .. }) => iter_of_loop(t, value)?,
                _ => iterate::get_iter(t, value)?,
            };
            f.push(iterator);
        }
        Instr::GetLen => {
            let value = f.peek(t, 1)?;
            let len = truth::len(t, value)?;
            let len = t.int(len);
            f.push(len);
        }
        Instr::ForIter { target } => return for_iter(t, f, at, *target),
        Instr::ReturnGenerator => {
            // The frame is already separate; the instruction leaves a value that POP_TOP removes.
            let none = t.none();
            f.push(none);
        }
        Instr::YieldValue => {
            let value = f.pop(t)?;
            if !consumers::take(t, f, value)? {
                return Ok(Flow::Exit(Exit::Yield(value)));
            }
            let none = t.none();
            f.push(none);
        }
        Instr::EndSend => {
            let value = f.pop(t)?;
            f.pop(t)?;
            f.push(value);
        }
        Instr::GetYieldFromIter => {
            let value = f.pop(t)?;
            let iterator = iterate::get_iter(t, value)?;
            f.push(iterator);
        }
        Instr::Send { target } => return send(t, f, *target),
        // --- calls ---
        Instr::KwNames { index } => {
            let names = code.consts[*index as usize].bind(t.py).clone();
            f.kw_names = keyword_names(t, &names)?;
        }
        Instr::Call { argc } => {
            let names = std::mem::take(&mut f.kw_names);
            call_stack(t, f, *argc as usize, names)?;
        }
        Instr::CallKw { argc } => {
            let names = f.pop(t)?;
            let names = constant_names(t, names)?;
            call_stack(t, f, *argc as usize, names)?;
        }
        Instr::CallFunctionEx { kwargs } => call_ex(t, f, *kwargs)?,
        Instr::CallIntrinsic1 { id } => return intrinsic(t, f, *id),
        Instr::CallIntrinsic2 { id } => intrinsic_2(t, f, *id)?,
        Instr::MakeFunction { flags } => make_function(t, f, *flags)?,
        Instr::SetFunctionAttribute { flag } => set_function_attribute(t, f, *flag)?,
        // --- control flow ---
        Instr::Jump { target } => return Ok(Flow::Jump(*target)),
        Instr::PopJumpIfTrue { target } => return jump_if(t, f, at, *target, true, true),
        Instr::PopJumpIfFalse { target } => return jump_if(t, f, at, *target, false, true),
        Instr::PopJumpIfNone { target } => {
            let value = f.pop(t)?;
            let value = maybe::decided(t, value);
            if let Some(holds) = maybe::is_there(t, value) {
                return control::captured_jump(t, f, at, holds, *target, false, true);
            }
            if t.is_none(value) {
                return Ok(Flow::Jump(*target));
            }
        }
        Instr::PopJumpIfNotNone { target } => {
            let value = f.pop(t)?;
            let value = maybe::decided(t, value);
            if let Some(holds) = maybe::is_there(t, value) {
                return control::captured_jump(t, f, at, holds, *target, true, true);
            }
            if !t.is_none(value) {
                return Ok(Flow::Jump(*target));
            }
        }
        Instr::JumpIfTrueOrPop { target } => return jump_if(t, f, at, *target, true, false),
        Instr::JumpIfFalseOrPop { target } => return jump_if(t, f, at, *target, false, false),
        Instr::ReturnValue => {
            let value = f.pop(t)?;
            return Ok(Flow::Exit(Exit::Return(value)));
        }
        Instr::ReturnConst { index } => {
            let value = code.consts[*index as usize].bind(t.py).clone();
            let value = t.constant(&value);
            return Ok(Flow::Exit(Exit::Return(value)));
        }
        // --- with and try ---
        Instr::BeforeWith => before_with(t, f)?,
        Instr::WithExceptStart => {
            let (exit, exception) = (f.peek(t, 4)?, f.peek(t, 1)?);
            let answer = exceptions::leaves_with(t, exit, exception)?;
            f.push(answer);
        }
        Instr::PushExcInfo => push_handled(t, f)?,
        Instr::PopExcept => {
            f.pop(t)?;
            f.handling.pop();
        }
        Instr::CheckExcMatch => {
            let class = f.pop(t)?;
            let exception = f.peek(t, 1)?;
            exceptions::check_clause(t, "except", class, |_, _| Ok(true))?;
            let matches = exceptions::matches(t, exception, class)?;
            let value = t.bool(matches);
            f.push(value);
        }
        Instr::CheckEgMatch => check_group_match(t, f)?,
        Instr::PrepReraiseStar => prepare_reraise(t, f)?,
        Instr::CleanupThrow => {
            let exception = f.pop(t)?;
            f.pop_n(t, 2)?;
            let value = exceptions::stop_value(t, exception)?;
            let none = t.none();
            f.push(none);
            f.push(value);
        }
        Instr::Reraise => {
            let exception = f.pop(t)?;
            return Err(Stop::Raise(exception));
        }
        Instr::RaiseVarargs { argc } => {
            let args = f.pop_n(t, *argc as usize)?;
            let exception = exceptions::raise(t, &f.handling, &args)?;
            return Err(Stop::Raise(exception));
        }
        // --- imports and patterns ---
        Instr::ImportName { name } => import_name(t, f, &f.name(*name))?,
        Instr::ImportFrom { name } => import_from(t, f, &f.name(*name))?,
        Instr::MatchMapping => {
            let value = f.peek(t, 1)?;
            let answer = matching::is_mapping(t, value)?;
            let answer = t.bool(answer);
            f.push(answer);
        }
        Instr::MatchSequence => {
            let value = f.peek(t, 1)?;
            let answer = matching::is_sequence(t, value)?;
            let answer = t.bool(answer);
            f.push(answer);
        }
        Instr::EndFor => {
            // FOR_ITER jumps past it; a resumed loop may end on it.
            for _ in 0..dialect(t)?.end_for_pops() {
                f.pop(t)?;
            }
        }
        Instr::LoadBuildClass => load_build_class(t, f)?,
        Instr::MatchKeys => {
            let (subject, keys) = (f.peek(t, 2)?, f.peek(t, 1)?);
            let values = matching::keys(t, subject, keys)?;
            f.push(values);
        }
        Instr::MatchClass { count } => {
            let names = f.pop(t)?;
            let class = f.pop(t)?;
            let subject = f.pop(t)?;
            let values = matching::class(t, subject, class, *count as usize, names)?;
            f.push(values);
        }
        other @ Instr::Other { .. } => {
            let reason = unimplemented(other).unwrap_or_default();
            return t.stop(BreakKind::Opcode, format!("{other:?}: {reason}"));
        }
    }
    Ok(Flow::Next)
}

fn dialect(t: &Tracer<'_>) -> Step<&'static dyn Dialect> {
    Ok(OpTable::get(t.py)?.dialect)
}
