//! What each instruction does. One arm per instruction; anything longer than a few lines is a
//! function named after the rule, here or in a family's file.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};

use crate::bytecode::{unimplemented, Instr, OpTable, Version};
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::tracker::{DictKey, Tracker};
use crate::variables::{
    AttrOp, CellVar, DictVar, FunctionVar, IterVar, Kind, NewFunction, SetVar, VarId,
};

use super::call::{call, merge_kwargs, named};
use super::frame::{Exit, FrameState};
use super::generators::{self, Resumed};
use super::operators::{self, UnaryOp};
use super::{
    attributes, contexts, exceptions, fold, format, groups, iterate, keys, matching, methods,
    namespaces, regions, subscript,
};
use super::{Step, Stop, Tracer};

/// Where control goes.
pub enum Flow {
    /// The next instruction.
    Next,
    /// This instruction.
    Jump(usize),
    /// Out of the frame.
    Exit(Exit),
}

impl FrameState {
    pub(super) fn push(&mut self, value: VarId) {
        self.stack.push(value);
    }

    pub(super) fn pop(&mut self, t: &Tracer<'_>) -> Step<VarId> {
        match self.stack.pop() {
            Some(value) => Ok(value),
            None => t.stop(BreakKind::Internal, "the simulated stack is empty"),
        }
    }

    pub(super) fn pop_n(&mut self, t: &Tracer<'_>, n: usize) -> Step<Vec<VarId>> {
        match self.stack.len().checked_sub(n) {
            Some(at) => Ok(self.stack.split_off(at)),
            None => t.stop(BreakKind::Internal, "the simulated stack is too short"),
        }
    }

    /// The item `depth` places from the top; 1 is the top.
    pub(super) fn peek(&self, t: &Tracer<'_>, depth: usize) -> Step<VarId> {
        match self.stack.len().checked_sub(depth).filter(|_| depth > 0) {
            Some(at) => Ok(self.stack[at]),
            None => t.stop(BreakKind::Internal, "the simulated stack is too short"),
        }
    }

    fn name(&self, index: u32) -> Arc<str> {
        self.code.names[index as usize].clone()
    }
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
        Instr::Swap { depth } => {
            let (top, other) = (
                f.stack.len().wrapping_sub(1),
                f.stack.len().wrapping_sub(*depth as usize),
            );
            if top >= f.stack.len() || other >= f.stack.len() {
                return t.stop(BreakKind::Internal, "the simulated stack is too short");
            }
            f.stack.swap(top, other);
        }
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
            None => return t.stop(BreakKind::RaisesException, "deletion of an unbound local"),
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
            let cell = cell_of(t, f, *local)?;
            if let Some(old) = cell_get_raw(t, cell)? {
                t.let_go(old)?;
            }
            t.vars
                .mutate(cell, |var| var.kind = Kind::Cell(CellVar::Full(value)));
        }
        Instr::DeleteDeref { local } => {
            let cell = cell_of(t, f, *local)?;
            let old = cell_get(t, cell)?;
            t.let_go(old)?;
            t.vars
                .mutate(cell, |var| var.kind = Kind::Cell(CellVar::Empty));
        }
        Instr::LoadGlobal { name, push_null } => {
            let name = f.name(*name);
            let value = load_global(t, f, &name)?;
            if *push_null {
                push_null_and(t, f, value);
            } else {
                f.push(value);
            }
        }
        Instr::StoreGlobal { name } => {
            let value = f.pop(t)?;
            t.global_writes.push((
                f.globals.clone(),
                AttrOp {
                    name: f.name(*name),
                    value: Some(value),
                    registers: false,
                },
            ));
        }
        Instr::DeleteGlobal { name } => {
            let name = f.name(*name);
            load_global(t, f, &name)?;
            t.global_writes.push((
                f.globals.clone(),
                AttrOp {
                    name,
                    value: None,
                    registers: false,
                },
            ));
        }
        Instr::LoadFromDictOrGlobals { name } => {
            let name = f.name(*name);
            let value = match namespace_item(t, f, &name)? {
                Some(value) => value,
                None => load_global(t, f, &name)?,
            };
            f.push(value);
        }
        Instr::LoadFromDictOrDeref { local } => {
            let name = code.localsplus[*local as usize].name.clone();
            let value = match namespace_item(t, f, &name)? {
                Some(value) => value,
                None => {
                    let cell = cell_of(t, f, *local)?;
                    cell_get(t, cell)?
                }
            };
            f.push(value);
        }
        Instr::LoadAssertionError => {
            let error = t.py.import("builtins")?.getattr("AssertionError")?;
            let error = t.constant(&error);
            f.push(error);
        }
        // --- operators ---
        Instr::UnaryPositive => unary(t, f, UnaryOp::Positive)?,
        Instr::UnaryNegative => unary(t, f, UnaryOp::Negative)?,
        Instr::UnaryInvert => unary(t, f, UnaryOp::Invert)?,
        Instr::UnaryNot => {
            let value = f.pop(t)?;
            let value = if regions::is_captured(t, value) {
                regions::negation(t, value)?
            } else {
                let truth = operators::truth(t, value)?;
                t.bool(!truth)
            };
            f.push(value);
        }
        Instr::ToBool => {
            let value = f.pop(t)?;
            let value = to_bool(t, value)?;
            f.push(value);
        }
        Instr::BinaryOp { op, inplace } => {
            let right = f.pop(t)?;
            let left = f.pop(t)?;
            let value = operators::binary(t, *op, *inplace, left, right)?;
            f.push(value);
        }
        Instr::CompareOp { op, to_bool } => {
            let right = f.pop(t)?;
            let left = f.pop(t)?;
            let mut value = operators::compare(t, *op, left, right)?;
            if *to_bool {
                value = self::to_bool(t, value)?;
            }
            f.push(value);
        }
        Instr::IsOp { invert } => {
            let right = f.pop(t)?;
            let left = f.pop(t)?;
            let same = operators::is_same(t, left, right)?;
            let value = t.bool(same != *invert);
            f.push(value);
        }
        Instr::ContainsOp { invert } => {
            let container = f.pop(t)?;
            let item = f.pop(t)?;
            let found = operators::contains(t, container, item)?;
            let value = t.bool(found != *invert);
            f.push(value);
        }
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
            let stop = f.pop(t)?;
            let start = f.pop(t)?;
            let container = f.pop(t)?;
            let step = t.none();
            let slice = t.add(Kind::Slice([start, stop, step]));
            let value = subscript::get(t, container, slice)?;
            f.push(value);
        }
        Instr::StoreSlice => {
            let stop = f.pop(t)?;
            let start = f.pop(t)?;
            let container = f.pop(t)?;
            let value = f.pop(t)?;
            let step = t.none();
            let slice = t.add(Kind::Slice([start, stop, step]));
            subscript::set(t, container, slice, value)?;
        }
        Instr::LoadAttr { name, method } => {
            let name = f.name(*name);
            let object = f.pop(t)?;
            t.reads_namespace = &*name == "__dict__" && namespaces::is_read(&f.code, f.pc);
            let value = attributes::get(t, object, &name)?;
            if *method {
                push_method(t, f, value);
            } else {
                f.push(value);
            }
        }
        Instr::LoadSuperAttr { name, method } => {
            let name = f.name(*name);
            let receiver = f.pop(t)?;
            let class = f.pop(t)?;
            let function = f.pop(t)?;
            let proxy = call(t, function, &[class, receiver], &[])?;
            let value = attributes::get(t, proxy, &name)?;
            if *method {
                push_method(t, f, value);
            } else {
                f.push(value);
            }
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
        Instr::BuildSet { count } => {
            let items = f.pop_n(t, *count as usize)?;
            let set = t.add(Kind::Set(SetVar::default()));
            for item in items {
                methods::call(t, set, "add", &[item], &[])?;
            }
            f.push(set);
        }
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
        Instr::ListAppend { depth } => {
            let value = f.pop(t)?;
            let list = f.peek(t, *depth as usize)?;
            methods::call(t, list, "append", &[value], &[])?;
        }
        Instr::SetAdd { depth } => {
            let value = f.pop(t)?;
            let set = f.peek(t, *depth as usize)?;
            methods::call(t, set, "add", &[value], &[])?;
        }
        Instr::MapAdd { depth } => {
            let value = f.pop(t)?;
            let key = f.pop(t)?;
            let dict = f.peek(t, *depth as usize)?;
            subscript::set(t, dict, key, value)?;
        }
        Instr::ListExtend { depth } => {
            let value = f.pop(t)?;
            let list = f.peek(t, *depth as usize)?;
            methods::call(t, list, "extend", &[value], &[])?;
        }
        Instr::SetUpdate { depth } => {
            let value = f.pop(t)?;
            let set = f.peek(t, *depth as usize)?;
            methods::call(t, set, "update", &[value], &[])?;
        }
        Instr::DictUpdate { depth } => {
            let value = f.pop(t)?;
            let dict = f.peek(t, *depth as usize)?;
            methods::call(t, dict, "update", &[value], &[])?;
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
            let iterator = iterate::get_iter(t, value)?;
            f.push(iterator);
        }
        Instr::GetLen => {
            let value = f.peek(t, 1)?;
            let len = operators::len(t, value)?;
            let len = t.int(len);
            f.push(len);
        }
        Instr::ForIter { target } => {
            let iterator = f.peek(t, 1)?;
            if matches!(t.kind(iterator), Kind::Iter(IterVar::Numbers { .. })) {
                let mut behind = f.clone();
                if let Flow::Jump(target) = for_end(t, &mut behind, *target)? {
                    behind.pc = target;
                }
                return regions::for_numbers(t, f, at, behind);
            }
            match iterate::next(t, iterator)? {
                Some(value) => f.push(value),
                None => return for_end(t, f, *target),
            }
        }
        Instr::ReturnGenerator => {
            // The frame is already separate; the instruction leaves a value that POP_TOP removes.
            let none = t.none();
            f.push(none);
        }
        Instr::YieldValue => {
            let value = f.pop(t)?;
            return Ok(Flow::Exit(Exit::Yield(value)));
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
            let items = iterate::collect(t, names)?;
            let mut names = Vec::with_capacity(items.len());
            for item in items {
                match t.const_str(item) {
                    Some(name) => names.push(name),
                    None => return t.stop(BreakKind::Internal, "keyword names are not constant"),
                }
            }
            call_stack(t, f, *argc as usize, names)?;
        }
        Instr::CallFunctionEx { kwargs } => call_ex(t, f, *kwargs)?,
        Instr::CallIntrinsic1 { id } => return intrinsic(t, f, *id),
        Instr::CallIntrinsic2 { id } => intrinsic_2(t, f, *id)?,
        Instr::MakeFunction { flags } => make_function(t, f, *flags)?,
        Instr::SetFunctionAttribute { flag } => set_function_attribute(t, f, *flag)?,
        // --- control flow ---
        Instr::Jump { target } => return Ok(Flow::Jump(*target)),
        Instr::PopJumpIfTrue { target } => {
            let value = f.pop(t)?;
            if regions::is_captured(t, value) {
                return captured_jump(t, f, at, value, *target, true, true);
            }
            if operators::truth(t, value)? {
                return Ok(Flow::Jump(*target));
            }
        }
        Instr::PopJumpIfFalse { target } => {
            let value = f.pop(t)?;
            if regions::is_captured(t, value) {
                return captured_jump(t, f, at, value, *target, false, true);
            }
            if !operators::truth(t, value)? {
                return Ok(Flow::Jump(*target));
            }
        }
        Instr::PopJumpIfNone { target } => {
            let value = f.pop(t)?;
            if t.is_none(value) {
                return Ok(Flow::Jump(*target));
            }
        }
        Instr::PopJumpIfNotNone { target } => {
            let value = f.pop(t)?;
            if !t.is_none(value) {
                return Ok(Flow::Jump(*target));
            }
        }
        Instr::JumpIfTrueOrPop { target } => {
            let value = f.peek(t, 1)?;
            if regions::is_captured(t, value) {
                return captured_jump(t, f, at, value, *target, true, false);
            }
            if operators::truth(t, value)? {
                return Ok(Flow::Jump(*target));
            }
            f.pop(t)?;
        }
        Instr::JumpIfFalseOrPop { target } => {
            let value = f.peek(t, 1)?;
            if regions::is_captured(t, value) {
                return captured_jump(t, f, at, value, *target, false, false);
            }
            if !operators::truth(t, value)? {
                return Ok(Flow::Jump(*target));
            }
            f.pop(t)?;
        }
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
        Instr::PushExcInfo => {
            let exception = f.pop(t)?;
            let previous = match f.handling.last() {
                Some(previous) => *previous,
                None => t.none(),
            };
            f.push(previous);
            f.push(exception);
            f.handling.push(exception);
        }
        Instr::PopExcept => {
            f.pop(t)?;
            f.handling.pop();
        }
        Instr::CheckExcMatch => {
            let class = f.pop(t)?;
            let exception = f.peek(t, 1)?;
            let matches = exceptions::matches(t, exception, class)?;
            let value = t.bool(matches);
            f.push(value);
        }
        Instr::CheckEgMatch => {
            let class = f.pop(t)?;
            let exception = f.pop(t)?;
            let (matched, rest) = groups::matched(t, exception, class)?;
            // What `raise` raises again, and `sys.exception()` answers with.
            if let (Some(matched), Some(current)) = (matched, f.handling.last_mut()) {
                *current = matched;
            }
            let none = t.none();
            f.push(rest.unwrap_or(none));
            f.push(matched.unwrap_or(none));
        }
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
        Instr::ImportName { name } => {
            let name = f.name(*name);
            let fromlist = f.pop(t)?;
            let level = f.pop(t)?;
            let name = match t.const_int(level) {
                Some(0) => name,
                Some(up) => absolute(t, f, &name, up)?,
                None => return t.unsupported("an import of an unknown level"),
            };
            let module = import_name(t, &name, fromlist)?;
            f.push(module);
        }
        Instr::ImportFrom { name } => {
            let name = f.name(*name);
            let module = f.peek(t, 1)?;
            // Anything else may run code of the module.
            let there = t.value(module).is_some_and(|module| {
                let dict = module.cast::<PyModule>().map(PyModuleMethods::dict);
                dict.is_ok_and(|dict| dict.contains(&*name).unwrap_or(false))
            });
            if !there {
                return t.unsupported(format!("first import of {name}"));
            }
            let value = attributes::get(t, module, &name)?;
            f.push(value);
        }
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
            f.pop(t)?;
            if version(t)? == Version::V312 {
                f.pop(t)?;
            }
        }
        Instr::LoadBuildClass => {
            let name: Arc<str> = Arc::from("__build_class__");
            let builtins = f.builtins.clone();
            match load_from_dict(t, &builtins, &name)? {
                Some(function) => f.push(function),
                None => return t.stop(BreakKind::RaisesException, "no __build_class__"),
            }
        }
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
            let reason = unimplemented(other).unwrap_or("no reason known");
            return t.stop(BreakKind::Opcode, format!("{other:?}: {reason}"));
        }
    }
    Ok(Flow::Next)
}

fn version(t: &Tracer<'_>) -> Step<Version> {
    Ok(OpTable::get(t.py)?.version)
}

fn store_fast(t: &mut Tracer<'_>, f: &mut FrameState, local: u32, value: VarId) -> Step<()> {
    if let Some(old) = f.locals[local as usize].filter(|old| *old != value) {
        t.let_go(old)?;
    }
    // Inlined comprehensions save and restore slots that may be empty.
    let empty = matches!(t.vars.kind(value), Kind::Null);
    f.locals[local as usize] = (!empty).then_some(value);
    Ok(())
}

fn load_fast(t: &mut Tracer<'_>, f: &mut FrameState, local: usize, clear: bool) -> Step<()> {
    match (f.locals[local], clear) {
        (Some(value), _) => f.push(value),
        (None, true) => {
            let null = t.null();
            f.push(null);
        }
        (None, false) => return t.stop(BreakKind::RaisesException, "read of an unbound local"),
    }
    if clear {
        f.locals[local] = None;
    }
    Ok(())
}

fn cell_of(t: &Tracer<'_>, f: &FrameState, local: u32) -> Step<VarId> {
    match f.locals[local as usize] {
        Some(cell) => Ok(cell),
        None => t.stop(BreakKind::Internal, "a cell slot is empty"),
    }
}

/// Reads a cell; an empty one raises.
pub fn cell_get(t: &mut Tracer<'_>, cell: VarId) -> Step<VarId> {
    match cell_get_raw(t, cell)? {
        Some(value) => Ok(value),
        None => t.stop(BreakKind::RaisesException, "read of an empty cell"),
    }
}

/// Reads a cell; `None` when it is empty. A real cell is looked at (and guarded) at its first read.
pub fn cell_get_raw(t: &mut Tracer<'_>, cell: VarId) -> Step<Option<VarId>> {
    match t.kind(cell).clone() {
        Kind::Cell(CellVar::Full(value)) => Ok(Some(value)),
        Kind::Cell(CellVar::Empty) => Ok(None),
        Kind::Cell(CellVar::Unread) => {
            let (Some(object), Some(source)) = (t.value(cell), t.source(cell)) else {
                return t.unsupported("a cell without a source");
            };
            let source = Arc::new(Tracker::CellContents(source));
            match object.getattr("cell_contents") {
                Ok(content) => {
                    let value = t.wrap(&content, source);
                    t.vars
                        .update(cell, |var| var.kind = Kind::Cell(CellVar::Full(value)));
                    Ok(Some(value))
                }
                Err(_) => {
                    t.guards.add(&source, GuardKind::Absent);
                    t.vars
                        .update(cell, |var| var.kind = Kind::Cell(CellVar::Empty));
                    Ok(None)
                }
            }
        }
        _ => t.unsupported("a cell slot holds no cell"),
    }
}

fn load_global(t: &mut Tracer<'_>, f: &FrameState, name: &Arc<str>) -> Step<VarId> {
    let written = t
        .global_writes
        .iter()
        .rev()
        .find(|(dict, op)| dict.is(&f.globals) && op.name == *name);
    match written.map(|(_, op)| op.value) {
        Some(Some(value)) => return Ok(value),
        Some(None) => {}
        None => {
            if let Some(value) = load_from_dict(t, &f.globals, name)? {
                return Ok(value);
            }
        }
    }
    match load_from_dict(t, &f.builtins, name)? {
        Some(value) => Ok(value),
        None => t.stop(
            BreakKind::RaisesException,
            format!("name {name:?} is not defined"),
        ),
    }
}

fn load_from_dict(t: &mut Tracer<'_>, dict: &Obj, name: &Arc<str>) -> Step<Option<VarId>> {
    let source = Arc::new(Tracker::Const(dict.clone()));
    let source = Arc::new(Tracker::DictItem(source, DictKey::Str(name.clone())));
    let Ok(object) = dict.bind(t.py).cast::<PyDict>().cloned() else {
        return t.unsupported("globals that are not a dict");
    };
    match object.get_item(&**name)? {
        Some(value) => Ok(Some(t.wrap(&value, source))),
        None => {
            t.guards.add(&source, GuardKind::Absent);
            Ok(None)
        }
    }
}

fn push_null_and(t: &mut Tracer<'_>, f: &mut FrameState, value: VarId) {
    let null = t.null();
    let before = OpTable::get(t.py).is_ok_and(|table| table.version < Version::V313);
    if before {
        f.push(null);
        f.push(value);
    } else {
        f.push(value);
        f.push(null);
    }
}

/// Methods are pushed bound, with a NULL in the place of the receiver.
fn push_method(t: &mut Tracer<'_>, f: &mut FrameState, value: VarId) {
    push_null_and(t, f, value);
}

fn unary(t: &mut Tracer<'_>, f: &mut FrameState, op: UnaryOp) -> Step<()> {
    let value = f.pop(t)?;
    let value = operators::unary(t, op, value)?;
    f.push(value);
    Ok(())
}

fn build_dict(t: &mut Tracer<'_>, items: impl Iterator<Item = (VarId, VarId)>) -> Step<VarId> {
    let mut dict = DictVar::default();
    for (key, value) in items {
        let simulated = keys::key_of(t, key)?;
        match dict.items.get_mut(&simulated) {
            Some(slot) => slot.1 = value,
            None => {
                dict.items.insert(simulated, (key, value));
            }
        }
    }
    Ok(t.add(Kind::Dict(dict)))
}

fn dict_merge(t: &mut Tracer<'_>, dict: VarId, value: VarId) -> Step<()> {
    let Kind::Dict(other) = t.kind(value).clone() else {
        return t.unsupported("** of something that is not a dict");
    };
    for (key, (key_var, value)) in other.items {
        let Kind::Dict(known) = t.kind(dict) else {
            return t.unsupported("DICT_MERGE into something else");
        };
        if known.items.contains_key(&key) {
            return t.stop(BreakKind::RaisesException, "a keyword is given twice");
        }
        subscript::set(t, dict, key_var, value)?;
    }
    Ok(())
}

fn unpack(t: &mut Tracer<'_>, value: VarId, count: usize) -> Step<Vec<VarId>> {
    let items = iterate::collect(t, value)?;
    if items.len() != count {
        return t.stop(
            BreakKind::RaisesException,
            format!("{} values to unpack into {count}", items.len()),
        );
    }
    Ok(items)
}

fn unpack_ex(t: &mut Tracer<'_>, f: &mut FrameState, before: usize, after: usize) -> Step<()> {
    let value = f.pop(t)?;
    let mut items = iterate::collect(t, value)?;
    if items.len() < before + after {
        return t.stop(BreakKind::RaisesException, "not enough values to unpack");
    }
    let tail = items.split_off(items.len() - after);
    let middle = items.split_off(before);
    let middle = t.add(Kind::List(middle));
    f.stack.extend(tail.into_iter().rev());
    f.push(middle);
    f.stack.extend(items.into_iter().rev());
    Ok(())
}

/// `bool(value)`. The interpreter's jumps want a real bool: what is captured is one when it is rebuilt.
fn to_bool(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    if regions::is_captured(t, value) {
        return regions::truth_value(t, value);
    }
    let truth = operators::truth(t, value)?;
    Ok(t.bool(truth))
}

/// A conditional jump on a tensor. `popped`: the value is gone on both sides, else where it does not jump.
fn captured_jump(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    at: usize,
    value: VarId,
    target: usize,
    jumps_if: bool,
    popped: bool,
) -> Step<Flow> {
    let (mut jumped, mut went_on) = (f.clone(), f.clone());
    jumped.pc = target;
    went_on.pc = at + 1;
    if !popped {
        went_on.pop(t)?;
    }
    let (yes, no) = if jumps_if {
        (jumped, went_on)
    } else {
        (went_on, jumped)
    };
    regions::branch(t, f, at, value, yes, no)
}

/// At the end of a loop the iterator is popped; from 3.12 on the clean-up instructions at the
/// target are skipped (FOR_ITER in `Python/bytecodes.c`).
fn for_end(t: &Tracer<'_>, f: &mut FrameState, target: usize) -> Step<Flow> {
    f.pop(t)?;
    let skipped = match version(t)? {
        Version::V311 => 0,
        Version::V312 => 1,
        Version::V313 => 2,
    };
    Ok(Flow::Jump(target + skipped))
}

fn send(t: &mut Tracer<'_>, f: &mut FrameState, target: usize) -> Step<Flow> {
    let sent = f.pop(t)?;
    let receiver = f.peek(t, 1)?;
    match generators::delegate(t, receiver, sent)? {
        Resumed::Yielded(value) => {
            f.push(value);
            Ok(Flow::Next)
        }
        Resumed::Returned(value) => {
            if version(t)? == Version::V311 {
                f.pop(t)?;
            }
            f.push(value);
            Ok(Flow::Jump(target))
        }
    }
}

fn keyword_names(t: &mut Tracer<'_>, names: &Bound<'_, PyAny>) -> Step<Vec<Arc<str>>> {
    let names = names.cast::<PyTuple>().map_err(PyErr::from)?;
    let mut out = Vec::with_capacity(names.len());
    for name in names.iter() {
        out.push(Arc::from(name.extract::<String>()?));
    }
    let _ = t;
    Ok(out)
}

fn call_stack(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    argc: usize,
    names: Vec<Arc<str>>,
) -> Step<()> {
    let mut args = f.pop_n(t, argc)?;
    let second = f.pop(t)?;
    let first = f.pop(t)?;
    let is_null = |t: &Tracer<'_>, id| matches!(t.vars.kind(id), Kind::Null);
    let (callee, receiver) = if is_null(t, first) {
        (second, None)
    } else if is_null(t, second) {
        (first, None)
    } else {
        (first, Some(second))
    };
    if let Some(receiver) = receiver {
        args.insert(0, receiver);
    }
    let Some(split) = args.len().checked_sub(names.len()) else {
        return t.stop(BreakKind::Internal, "more keyword names than arguments");
    };
    let values = args.split_off(split);
    let kwargs: Vec<_> = names.into_iter().zip(values).collect();
    let value = call_or_super(t, f, callee, &args, &kwargs)?;
    f.push(value);
    Ok(())
}

/// `super()` without arguments looks at the calling frame.
fn call_or_super(
    t: &mut Tracer<'_>,
    f: &FrameState,
    callee: VarId,
    args: &[VarId],
    kwargs: &super::Kwargs,
) -> Step<VarId> {
    let is_super =
        args.is_empty() && kwargs.is_empty() && matches!(t.kind(callee), Kind::Class) && {
            let class = t.py.import("builtins")?.getattr("super")?;
            t.value(callee).is_some_and(|value| value.is(&class))
        };
    if !is_super {
        t.tail = true;
        return call(t, callee, args, kwargs);
    }
    let class_slot = f
        .code
        .localsplus
        .iter()
        .position(|slot| slot.kind.free && &*slot.name == "__class__");
    if f.code.argcount == 0 {
        return t.stop(BreakKind::Construct, "super() without a first argument");
    }
    let (Some(class_slot), Some(mut receiver)) = (class_slot, f.locals.first().copied().flatten())
    else {
        return t.stop(BreakKind::Construct, "super() without a first argument");
    };
    if f.code.localsplus[0].kind.cell {
        match cell_get_raw(t, receiver)? {
            Some(value) => receiver = value,
            None => return t.stop(BreakKind::Construct, "super() without its first argument"),
        }
    }
    let cell = cell_of(t, f, class_slot as u32)?;
    let Some(class) = cell_get_raw(t, cell)? else {
        return t.stop(BreakKind::Construct, "super() without a class");
    };
    // Run by generated code, it would look at that code's frame.
    call(t, callee, &[class, receiver], &[]).map_err(|stop| match stop {
        Stop::Break(reason) => Stop::Break(Box::new(Break {
            kind: BreakKind::Construct,
            ..*reason
        })),
        raise @ Stop::Raise(_) => raise,
    })
}

fn call_ex(t: &mut Tracer<'_>, f: &mut FrameState, has_kwargs: bool) -> Step<()> {
    let mut kwargs = Vec::new();
    if has_kwargs {
        let mapping = f.pop(t)?;
        kwargs = named(t, mapping)?;
    }
    let args = f.pop(t)?;
    let args = iterate::collect_for_list(t, args)?;
    let second = f.pop(t)?;
    let first = f.pop(t)?;
    let callee = if matches!(t.vars.kind(first), Kind::Null) {
        second
    } else {
        first
    };
    let value = call_or_super(t, f, callee, &args, &merge_kwargs(&kwargs, &[]))?;
    f.push(value);
    Ok(())
}

fn intrinsic(t: &mut Tracer<'_>, f: &mut FrameState, id: u32) -> Step<Flow> {
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
        // Type parameters, a generic base class, an alias: what they are made of is evaluated when it is read.
        TYPEVAR..=TYPEALIAS => {
            f.pop(t)?;
            let made = t.made_natively();
            f.push(made);
        }
        _ => return t.stop(BreakKind::Opcode, format!("CALL_INTRINSIC_1 {id}")),
    }
    Ok(Flow::Next)
}

fn intrinsic_2(t: &mut Tracer<'_>, f: &mut FrameState, id: u32) -> Step<()> {
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

fn prepare_reraise(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let list = f.pop(t)?;
    let original = f.pop(t)?;
    let left = groups::left_over(t, original, list)?;
    let left = left.unwrap_or_else(|| t.none());
    f.push(left);
    Ok(())
}

/// `name` in the namespace of a class that is on the stack, for what is evaluated inside of class bodies.
fn namespace_item(t: &mut Tracer<'_>, f: &mut FrameState, name: &str) -> Step<Option<VarId>> {
    let namespace = f.pop(t)?;
    if !matches!(t.kind(namespace), Kind::Dict(_)) {
        return t.unsupported("the namespace of a class that is no dict");
    }
    let key = t.str(name);
    if operators::contains(t, namespace, key)? {
        return subscript::get(t, namespace, key).map(Some);
    }
    Ok(None)
}

fn make_function(t: &mut Tracer<'_>, f: &mut FrameState, flags: u32) -> Step<()> {
    let code = f.pop(t)?;
    let Some(code) = t.const_value(code) else {
        return t.unsupported("MAKE_FUNCTION without a code object");
    };
    let mut new = NewFunction {
        code: Obj::from(code),
        globals: f.globals.clone(),
        defaults: None,
        kwdefaults: None,
        annotations: None,
        closure: Vec::new(),
        attrs: Vec::new(),
    };
    if flags & 8 != 0 {
        let cells = f.pop(t)?;
        new.closure = iterate::collect(t, cells)?;
    }
    if flags & 4 != 0 {
        new.annotations = Some(f.pop(t)?);
    }
    if flags & 2 != 0 {
        new.kwdefaults = Some(f.pop(t)?);
    }
    if flags & 1 != 0 {
        new.defaults = Some(f.pop(t)?);
    }
    let function = t.add(Kind::Function(FunctionVar::New(Box::new(new))));
    f.push(function);
    Ok(())
}

fn set_function_attribute(t: &mut Tracer<'_>, f: &mut FrameState, flag: u32) -> Step<()> {
    let function = f.pop(t)?;
    let value = f.pop(t)?;
    let cells = if flag == 8 {
        iterate::collect(t, value)?
    } else {
        Vec::new()
    };
    t.vars.update(function, |var| {
        if let Kind::Function(FunctionVar::New(new)) = &mut var.kind {
            match flag {
                1 => new.defaults = Some(value),
                2 => new.kwdefaults = Some(value),
                4 => new.annotations = Some(value),
                _ => new.closure = cells,
            }
        }
    });
    f.push(function);
    Ok(())
}

fn before_with(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let manager = f.pop(t)?;
    if matches!(t.kind(manager), Kind::Context(_)) {
        let exit = t.add(Kind::ContextMethod {
            context: manager,
            exit: true,
        });
        f.push(exit);
        let value = contexts::enter(t, manager)?;
        f.push(value);
        return Ok(());
    }
    let exit = attributes::get_special(t, manager, "__exit__")?;
    let enter = attributes::get_special(t, manager, "__enter__")?;
    f.push(exit);
    let value = call(t, enter, &[], &[])?;
    f.push(value);
    Ok(())
}

/// `from package import name` imports the submodule where the package has no such attribute.
fn refuse_submodules(t: &mut Tracer<'_>, module: VarId, fromlist: VarId) -> Step<()> {
    let (Some(names), Some(object)) = (fold::to_object(t, fromlist), t.value(module)) else {
        return Ok(());
    };
    let Ok(names) = names.cast_into::<PyTuple>() else {
        return Ok(());
    };
    let namespace = match object.cast::<pyo3::types::PyModule>() {
        Ok(module) => module.dict(),
        Err(_) => return t.unsupported("an import of something that is not a module"),
    };
    for name in names.iter() {
        if namespace.contains("__path__")? && !namespace.contains(&name)? {
            return t.stop(BreakKind::UnsupportedCall, "an import of a submodule");
        }
    }
    Ok(())
}

/// The whole name of what `from ..name import x` imports from.
fn absolute(t: &mut Tracer<'_>, f: &FrameState, name: &Arc<str>, up: i64) -> Step<Arc<str>> {
    let package = match load_from_dict(t, &f.globals, &Arc::from("__package__"))? {
        Some(package) => t.const_str(package),
        None => None,
    };
    let Some(mut package) = package.as_deref().filter(|package| !package.is_empty()) else {
        return t.unsupported(format!("relative import of {name}"));
    };
    for _ in 1..up {
        match package.rsplit_once('.') {
            Some((parent, _)) => package = parent,
            None => return t.unsupported(format!("relative import of {name}")),
        }
    }
    Ok(if name.is_empty() {
        Arc::from(package)
    } else {
        Arc::from(format!("{package}.{name}"))
    })
}

fn import_name(t: &mut Tracer<'_>, name: &Arc<str>, fromlist: VarId) -> Step<VarId> {
    let modules = Obj::from(t.py.import("sys")?.getattr("modules")?);
    let whole = t.is_none(fromlist);
    let wanted: Arc<str> = if whole {
        Arc::from(name.split('.').next().unwrap_or(name))
    } else {
        name.clone()
    };
    for needed in [name, &wanted] {
        if load_from_dict(t, &modules, needed)?.is_none() {
            return t.stop(
                BreakKind::UnsupportedCall,
                format!("first import of {needed}"),
            );
        }
    }
    match load_from_dict(t, &modules, &wanted)? {
        Some(module) => {
            refuse_submodules(t, module, fromlist)?;
            Ok(module)
        }
        None => t.stop(
            BreakKind::UnsupportedCall,
            format!("first import of {wanted}"),
        ),
    }
}
