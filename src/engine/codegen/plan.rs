//! The plan for one translation.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashSet;

use crate::bytecode::stack_effect;
use crate::bytecode::{Code, Instr, Origin, ResumeSpec};
use crate::frame::Modules;
use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::reason::{Break, BreakId, BreakKind};
use crate::simulator::{BreakPoint, InnerFrame, Outcome, Shared, Tracer};
use crate::tracker::TrackerRef;
use crate::variables::{ContextVar, IterVar, Kind, Rebuild, VarId};

use super::output_tree::{self, OutTree};
use super::reconstruct::{Demand, Emitter, Home};
use super::{continuation, effects, live_locals};

/// Makes (or finds) the callable of a resume function, of the frame itself or of an inlined one; with it the
/// position, in code units, that the instruction of the given index has in its code.
pub type ResumeFactory<'a> =
    dyn FnMut(Option<&InnerFrame>, ResumeSpec, usize) -> Result<(Obj, usize), Break> + 'a;

/// How a hit runs.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Run the graph and build the result in Rust.
    Direct(OutTree),
    /// Run the graph, then call this function with (slots, outputs).
    Code(Obj),
    /// As `Code`, but the function answers with `(resume function, arguments)` to go on with. It does not
    /// call the resume function itself: a loop that breaks in every round would nest as deep as it has
    /// rounds, and tracebacks would show this frame twice.
    Resume(Obj),
}

/// A plan, and what it needs.
pub struct Emission {
    /// The plan.
    pub plan: Plan,
    /// Trackers whose values it is given.
    pub slots: Vec<TrackerRef>,
    /// Symbols the graph must output.
    pub outputs: Vec<SymbolId>,
    /// Results of statements that run by themselves: see `Statement::alone`.
    pub alone: FxHashSet<SymbolId>,
    /// Variables of the frame that it makes.
    pub made: FxHashSet<VarId>,
}

/// Makes the plan for the outcome of a simulation.
///
/// # Errors
/// A [`Break`] when some live value cannot be rebuilt: the frame then runs natively.
pub fn generate(
    t: &mut Tracer<'_>,
    code: &Code,
    origin: &Origin,
    globals: &Obj,
    outcome: &Outcome,
    resume: &mut ResumeFactory<'_>,
) -> Result<Emission, Break> {
    check_contexts(t, outcome)?;
    check_generators(t)?;
    let grad = grad_below(t, outcome);
    let quiet = grad == t.entry_grad && !effects::any(t);
    if let (Outcome::Return(value), true) = (outcome, quiet) {
        let mut demand = Demand::default();
        let tree = output_tree::tree(t, &mut demand, *value, &mut Vec::new(), 0);
        let mut shared = Shared::default();
        if let (Some(tree), false) = (tree, shared.learn(t, &demand.tensors)) {
            return Ok(finish(Plan::Direct(tree), demand, shared));
        }
    }
    // Which tensors share storage with others is known when all that leave are known.
    let mut shared = Shared::default();
    loop {
        let mark = t.mark();
        let (plan, demand) = attempt(t, code, origin, globals, outcome, resume, &shared)?;
        if !shared.learn(t, &demand.tensors) {
            return Ok(finish(plan, demand, shared));
        }
        t.rollback(mark);
    }
}

fn attempt(
    t: &mut Tracer<'_>,
    code: &Code,
    origin: &Origin,
    globals: &Obj,
    outcome: &Outcome,
    resume: &mut ResumeFactory<'_>,
    shared: &Shared,
) -> Result<(Plan, Demand), Break> {
    let grad = grad_below(t, outcome);
    let py = t.py;
    let mut e = Emitter::new(t, code, shared)?;
    match outcome {
        Outcome::Return(value) => {
            e.prepare(*value)?;
            effects::emit(&mut e)?;
            let entered = e.t.entry_grad;
            set_grad(&mut e, entered, grad)?;
            e.late()?;
            e.value(*value)?;
            e.code.op("RETURN_VALUE", 0)?;
        }
        Outcome::Break(at) => break_here(&mut e, code, origin, globals, at, resume)?,
    }
    let made = e.code.code.to_py(py)?;
    let function = function(py, made.as_any(), globals)?;
    let plan = match outcome {
        Outcome::Return(_) => Plan::Code(function),
        Outcome::Break(_) => Plan::Resume(function),
    };
    Ok((plan, e.demand))
}

fn finish(plan: Plan, demand: Demand, shared: Shared) -> Emission {
    Emission {
        plan,
        slots: demand.slots.into_iter().collect(),
        outputs: demand.outputs.into_iter().collect(),
        alone: shared.by_calls(),
        made: demand.made,
    }
}

/// A function object; cells for free variables are placeholders, which resume code overwrites.
pub fn function(py: Python<'_>, code: &Bound<'_, PyAny>, globals: &Obj) -> PyResult<Obj> {
    let types = py.module("types")?;
    let cell = types.getattr("CellType")?;
    let count = code.getattr("co_freevars")?.len()?;
    let cells = (0..count)
        .map(|_| cell.call0())
        .collect::<PyResult<Vec<_>>>()?;
    let kwargs = PyDict::new(py);
    if count > 0 {
        kwargs.set_item("closure", PyTuple::new(py, cells)?)?;
    }
    Ok(Obj::from(
        types
            .getattr("FunctionType")?
            .call((code, globals.bind(py)), Some(&kwargs))?,
    ))
}

fn break_here(
    e: &mut Emitter<'_, '_>,
    code: &Code,
    origin: &Origin,
    globals: &Obj,
    at: &BreakPoint,
    resume: &mut ResumeFactory<'_>,
) -> Result<(), Break> {
    let stacks = at.stacks();
    let stack = continuation::stack(e.t, code, at, resume)?;
    let last = &code.instructions[at.end - 1];
    let method_load = matches!(
        last.instr,
        Instr::LoadAttr { method: true, .. } | Instr::LoadSuperAttr { method: true, .. }
    );
    let (pops, pushes) = match last.instr {
        Instr::LoadAttr { method: true, .. } => (1, 1),
        _ => effect_of(&last.instr)?,
    };
    let Some(split) = stack.len().checked_sub(pops) else {
        return Err(Break::internal(
            "the stack is too short for the instruction that breaks",
        ));
    };
    let (rest, operands) = stack.split_at(split);
    check_super(e.t, &last.instr, operands)?;

    let handler = code.handler(at.start).copied();
    let mut arms = Vec::new();
    if last.instr.falls_through() {
        arms.push(Arm::new(
            e.t,
            origin,
            globals,
            &at.locals,
            (rest, &stack),
            at.end,
        )?);
    }
    let dialect = e.code.dialect();
    if let Some(target) = last.instr.target() {
        let skip = if matches!(last.instr, Instr::ForIter { .. }) {
            dialect.skipped_at_loop_end().len()
        } else {
            0
        };
        arms.push(Arm::new(
            e.t,
            origin,
            globals,
            &at.locals,
            (rest, &stack),
            target + skip,
        )?);
    }
    // The handler's stack is a part of the stack in front of the instruction, operands included.
    let handler = match handler {
        Some(entry) => match stack.get(..entry.depth as usize) {
            Some(below) => Some((
                entry,
                Arm::new(
                    e.t,
                    origin,
                    globals,
                    &at.locals,
                    (below, &stack),
                    entry.target,
                )?,
            )),
            None => return Err(Break::internal("the stack is too short for the handler")),
        },
        None => None,
    };
    for arm in arms.iter().chain(handler.iter().map(|(_, arm)| arm)) {
        for id in arm.rest.iter().chain(arm.live.iter().map(|(_, id)| id)) {
            e.prepare(*id)?;
        }
    }
    for id in operands {
        e.prepare(*id)?;
    }
    effects::emit(e)?;
    let grad = grad_under(e.t, &stacks);
    set_grad(e, e.t.entry_grad, grad)?;
    e.late()?;
    enter_contexts(e, &stacks, grad)?;

    e.code.loc = last.loc;
    let below = fill_below(e, &last.instr, rest)?;
    e.values(operands)?;
    let kept = arms.iter().chain(handler.iter().map(|(_, arm)| arm));
    let kept = kept.flat_map(|arm| arm.rest.iter().chain(arm.live.iter().map(|(_, id)| id)));
    let kept = kept.copied().collect();
    e.drop_all_but(&kept)?;
    let unwound = match handler {
        Some(_) => Vec::new(),
        None => unwound(e, &arms, rest),
    };
    let start = e.code.here();
    if (handler.is_some() || !unwound.is_empty()) && dialect.unwinds_in_front_of_calls() {
        e.code.op("NOP", 0)?;
    }
    copy_group(e, code, at)?;
    let end = e.code.here();
    let jump = last.instr.target().map(|_| end - 1);
    let mut arms = arms.into_iter();
    if last.instr.falls_through() {
        if let Some(arm) = arms.next() {
            let nulls: &[bool] = match (method_load, dialect.is_null_first()) {
                (false, _) => &[],
                (true, false) => &[false, true],
                (true, true) => &[true, false],
            };
            let made = if nulls.is_empty() {
                vec![false; pushes]
            } else {
                nulls.to_vec()
            };
            if below > 0 {
                e.code.op("SWAP", below + 1)?;
                for _ in 0..below {
                    e.code.op("POP_TOP", 0)?;
                }
            }
            arm.emit(e, &made, 0, resume)?;
        }
    }
    if let (Some(jump), Some(arm)) = (jump, arms.next()) {
        e.code.jump_here(jump)?;
        if matches!(last.instr, Instr::ForIter { .. }) {
            for name in dialect.skipped_at_loop_end() {
                e.code.op(name, 0)?;
            }
        }
        arm.emit(
            e,
            &vec![false; stack_effect::jump_pushes(&last.instr)],
            0,
            resume,
        )?;
    }
    if let Some((entry, arm)) = handler {
        e.code.handler_here(start, end, entry.lasti);
        if entry.lasti {
            // [lasti, exception]: the position is replaced by the one in the resume code.
            e.code.op("SWAP", 2)?;
            e.code.op("POP_TOP", 0)?;
        }
        arm.emit(
            e,
            if entry.lasti {
                &[false, false]
            } else {
                &[false]
            },
            original(origin, at.start)? + 1,
            resume,
        )?;
    }
    if !unwound.is_empty() {
        e.code.handler_here(start, end, true);
        for home in unwound {
            e.vacate(home)?;
        }
        // With the position: the traceback shows the instruction that raised.
        e.code.op("RERAISE", 1)?;
    }
    Ok(())
}

/// Where the generated code keeps items of the stack whose dying a program can tell. An exception that leaves the frame
/// ends them; what the generated code holds lives as long as the traceback. The last one dies first.
fn unwound(e: &mut Emitter<'_, '_>, arms: &[Arm], rest: &[VarId]) -> Vec<Home> {
    let is_local = |id| {
        arms.iter()
            .any(|arm| arm.live.iter().any(|(_, live)| *live == id))
    };
    let mut homes = Vec::new();
    for id in rest.iter().rev() {
        let dies =
            matches!(e.t.vars.kind(*id), Kind::Iter(_)) || live_locals::is_seen_dying(e.t, *id);
        if dies && !is_local(*id) {
            homes.extend(e.home(*id));
        }
    }
    homes
}

/// Puts what `DICT_MERGE` reads for the message of its error, the function that is called, where it looks for it: below
/// its operands. The answer is how many items that takes.
fn fill_below(e: &mut Emitter<'_, '_>, instr: &Instr, rest: &[VarId]) -> Result<u32, Break> {
    let Instr::DictMerge { depth } = instr else {
        return Ok(0);
    };
    // In front of the positional arguments, and of the receiver or NULL where that comes later.
    let below = e.code.dialect().dict_merge_function();
    let function = rest.len().checked_sub(below).and_then(|at| rest.get(at));
    let (1, Some(function)) = (depth, function) else {
        return Err(Break::internal(
            "keyword arguments that are merged elsewhere than in a call",
        ));
    };
    e.values(&[*function])?;
    for _ in 1..below {
        let none = e.t.py.None();
        e.constant(none.bind(e.t.py))?;
    }
    Ok(below as u32)
}

/// Another `super` than the built-in one may look at the frame that calls it.
fn check_super(t: &Tracer<'_>, instr: &Instr, operands: &[VarId]) -> Result<(), Break> {
    let (Instr::LoadSuperAttr { .. }, [function, ..]) = (instr, operands) else {
        return Ok(());
    };
    let own = t.py.original("builtins", "super")?;
    match t.value(*function) {
        Some(function) if function.is(&own) => Ok(()),
        _ => Err(Break::new(
            BreakKind::Construct,
            "another super than the built-in one",
        )),
    }
}

fn effect_of(instr: &Instr) -> Result<(usize, usize), Break> {
    stack_effect::effect(instr)
        .ok_or_else(|| Break::new(BreakKind::Construct, format!("a break at {instr:?}")))
}

/// Refuses frames that entered a context manager by hand: only `with` tells what to enter again, and in
/// which order.
fn check_contexts(t: &Tracer<'_>, outcome: &Outcome) -> Result<(), Break> {
    let stack = match outcome {
        Outcome::Break(at) => at.stacks(),
        Outcome::Return(_) => Vec::new(),
    };
    for id in (0..t.vars.len() as u32).map(VarId) {
        let kind = t.vars.kind(id);
        let entered = matches!(
            kind,
            Kind::Context(
                ContextVar::GradMode {
                    restore: Some(_),
                    ..
                } | ContextVar::AutoCast { entered: true, .. }
            )
        );
        let leaves = |exit: &VarId| matches!(t.vars.kind(*exit), Kind::ContextMethod { context, exit: true } if *context == id);
        if entered && !stack.iter().any(leaves) {
            return Err(Break::new(
                BreakId::EnteredContext,
                "a context manager that was entered by hand",
            ));
        }
    }
    Ok(())
}

/// A generator that is dropped before its end runs its `finally` blocks then.
fn check_generators(t: &mut Tracer<'_>) -> Result<(), Break> {
    for id in (0..t.vars.len() as u32).map(VarId) {
        let Kind::Iter(IterVar::Generator { frame, made_at }) = *t.vars.kind(id) else {
            continue;
        };
        let frame = t.frame(frame);
        let (code, at) = (&frame.code, frame.pc.wrapping_sub(1));
        // From 3.12 on all of a generator is under a handler that turns StopIteration into RuntimeError, and what
        // it delegates to, which is another generator here, under one that looks for the value of a StopIteration.
        let mut handler = code.handler(at);
        while let Some(entry) = handler {
            match code.instructions.get(entry.target).map(|it| &it.instr) {
                Some(Instr::CleanupThrow) => handler = code.handler(entry.target),
                Some(Instr::CallIntrinsic1 { id: 3 }) => handler = None,
                _ => break,
            }
        }
        let guarded = handler.is_some();
        if frame.pc > 0 && guarded {
            let why = "a generator is left inside of a try or with block";
            return Err(t.left_to_interpreter(made_at, why));
        }
    }
    Ok(())
}

/// Grad mode at the end, without the context managers that are entered again.
fn grad_below(t: &Tracer<'_>, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Return(_) => t.grad_enabled,
        Outcome::Break(at) => grad_under(t, &at.stacks()),
    }
}

fn grad_under(t: &Tracer<'_>, stack: &[VarId]) -> bool {
    let outermost = stack.iter().find_map(|id| {
        if let Kind::ContextMethod {
            context,
            exit: true,
        } = *t.vars.kind(*id)
        {
            if let Kind::Context(ContextVar::GradMode { restore, .. }) = t.vars.kind(context) {
                *restore
            } else {
                None
            }
        } else {
            None
        }
    });
    outermost.unwrap_or(t.grad_enabled)
}

/// Sets the grad mode, which is `now`.
fn set_grad(e: &mut Emitter<'_, '_>, now: bool, grad: bool) -> Result<(), Break> {
    if grad != now {
        let mode = pyo3::types::PyBool::new(e.t.py, grad).to_owned().into_any();
        e.call_helper("set_grad", 1, |e| e.constant(&mode))?;
        e.code.op("POP_TOP", 0)?;
    }
    Ok(())
}

/// Really enters the context managers that the simulator had entered, outermost first, each under the grad mode
/// that it found. `grad` is the mode below them.
fn enter_contexts(e: &mut Emitter<'_, '_>, stack: &[VarId], mut grad: bool) -> Result<(), Break> {
    for id in stack {
        let Kind::ContextMethod {
            context,
            exit: true,
        } = *e.t.vars.kind(*id)
        else {
            continue;
        };
        if let Kind::Context(ContextVar::GradMode {
            enabled,
            restore: Some(found),
            ..
        }) = *e.t.vars.kind(context)
        {
            set_grad(e, grad, found)?;
            grad = enabled;
        }
        e.call_helper("enter", 1, |e| e.value(context))?;
        e.code.op("POP_TOP", 0)?;
    }
    set_grad(e, grad, e.t.grad_enabled)
}

fn copy_group(e: &mut Emitter<'_, '_>, code: &Code, at: &BreakPoint) -> Result<(), Break> {
    for index in at.start..at.end {
        let mut copy = code.instructions[index].clone();
        match &copy.instr {
            Instr::KwNames { index } => copy.arg = e.code.constant(&code.consts[*index as usize]),
            Instr::StoreAttr { name }
            | Instr::DeleteAttr { name }
            | Instr::ImportName { name }
            | Instr::LoadFromDictOrGlobals { name }
            | Instr::ImportFrom { name } => {
                copy.arg = e.code.name(&code.names[*name as usize]);
            }
            Instr::LoadAttr { name, .. } => {
                let name = code.names[*name as usize].clone();
                e.code.load_attr(&name)?;
                continue;
            }
            // The attribute alone, as for other methods; `super(class, receiver)`, which looks at no frame.
            Instr::LoadSuperAttr { name, .. } => {
                let name = e.code.name(&code.names[*name as usize]);
                copy.arg = name << 2 | 2;
                copy.instr = Instr::LoadSuperAttr {
                    name,
                    method: false,
                };
            }
            // What the argument counts is not on the stack here.
            Instr::Reraise => copy.arg = 0,
            _ => {}
        }
        e.code.raw(copy);
    }
    Ok(())
}

/// The instruction of the original code that went to `position`.
fn original(origin: &Origin, position: usize) -> Result<usize, Break> {
    let missing = || Break::internal("an instruction that the original code does not have");
    origin.index(position).ok_or_else(missing)
}

/// One way on after the native instruction.
pub(super) struct Arm {
    at: usize,
    rest: Vec<VarId>,
    live: Vec<(usize, VarId)>,
}

impl Arm {
    /// At an instruction of the frame's code, with these locals and what is on the stack: then, and
    /// in front of the instruction that breaks.
    pub(super) fn new(
        t: &Tracer<'_>,
        origin: &Origin,
        globals: &Obj,
        locals: &[Option<VarId>],
        (rest, stack): (&[VarId], &[VarId]),
        at: usize,
    ) -> Result<Self, Break> {
        let code = &origin.code;
        let at = original(origin, at)?;
        let value = |slot: usize| *locals.get(origin.slots[slot] as usize)?;
        let slots = live_locals::slots(t, code, globals, at, &value, rest, stack);
        let live = slots
            .into_iter()
            .filter_map(|slot| Some((slot, value(slot)?)))
            .collect();
        Ok(Self {
            at,
            rest: rest.to_vec(),
            live,
        })
    }

    /// The resume function to go on with when the native instruction has pushed `made`, NULLs and others.
    /// `native` says that it begins with an instruction that the interpreter runs.
    pub(super) fn spec(&self, t: &Tracer<'_>, made: &[bool], native: bool) -> ResumeSpec {
        let is_null = |id: &VarId| matches!(t.vars.kind(*id), Kind::Null);
        ResumeSpec {
            at: self.at,
            nulls: self
                .rest
                .iter()
                .map(is_null)
                .chain(made.iter().copied())
                .collect(),
            live: self.live.iter().map(|(slot, _)| *slot).collect(),
            native,
        }
    }

    /// Its arguments without what the native instruction has pushed.
    pub(super) fn arguments(&self, t: &Tracer<'_>) -> Vec<VarId> {
        let is_value = |id: &VarId| !matches!(t.vars.kind(*id), Kind::Null);
        let stack = self.rest.iter().copied().filter(is_value);
        self.live.iter().map(|(_, id)| *id).chain(stack).collect()
    }

    /// Emits the call of the resume function. On the stack are the results of the native
    /// instruction; `made` says which of the items it pushed are NULL (those are not there).
    fn emit(
        self,
        e: &mut Emitter<'_, '_>,
        made: &[bool],
        raised_at: usize,
        resume: &mut ResumeFactory<'_>,
    ) -> Result<(), Break> {
        let lasti = raised_at.checked_sub(1);
        let spec = self.spec(e.t, made, false);
        let (callable, position) = resume(None, spec, lasti.unwrap_or(0))?;
        let mut results = Vec::new();
        let on_stack = made.iter().filter(|null| !**null).count();
        let replaced = usize::from(lasti.is_some() && made.len() == 2);
        for index in 0..on_stack - replaced {
            let local = e.code.local(&format!(".result_{index}_{}", e.code.here()));
            e.code.store(local)?;
            results.push(local);
        }
        results.reverse();
        e.code.load_const(&callable)?;
        let arguments = self.arguments(e.t);
        e.values(&arguments)?;
        let mut argc = arguments.len();
        if replaced == 1 {
            let position = pyo3::types::PyInt::new(e.t.py, position).into_any();
            e.constant(&position)?;
            argc += 1;
        }
        for local in &results {
            e.code.load(*local)?;
            argc += 1;
        }
        e.code.op("BUILD_TUPLE", argc as u32)?;
        if lasti.is_some() {
            // The traceback keeps this frame: what it holds would die with the exception, or never if it holds that.
            for local in results {
                e.code.op("DELETE_FAST", local)?;
            }
            e.drop_all_but(&FxHashSet::default())?;
        }
        e.code.op("BUILD_TUPLE", 2)?;
        e.code.op("RETURN_VALUE", 0)?;
        Ok(())
    }
}
