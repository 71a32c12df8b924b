//! [`GuardCompiler`] and its native implementation: a flat program over slots.

use std::sync::Arc;

use pyo3::prelude::*;
use std::sync::Mutex;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::tracker::{Tracker, TrackerRef};

use super::checks::{Check, Load, Step, all_distinct, holds, in_slot, load};
use super::difference;
use super::held::{Held, steps_that_run_python};
use super::layer_state::LayerSnapshot;
use super::version_fast_path::{Gate, GatePlan};
use super::{GuardFailure, GuardKind, GuardSet};
use crate::abi::GlobalState;
use crate::native::{self, Ptr, WeakOrStrong};

/// What guards are evaluated on: borrowed references that live for the call.
#[derive(Clone, Copy)]
pub struct GuardInputs<'a> {
    /// The frame's fast locals, arguments bound.
    pub locals: &'a [Ptr<'a>],
    /// The running function's closure: a tuple of cells, or null.
    pub closure: Ptr<'a>,
}

/// Values of the requested trackers.
pub type Slots<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// Guards, ready to be evaluated.
pub trait CompiledGuard: Send + Sync {
    /// The values of the requested trackers when all guards hold.
    ///
    /// # Errors
    /// What does not hold.
    fn check<'py>(
        &self,
        py: Python<'py>,
        inputs: GuardInputs<'_>,
    ) -> Result<Slots<'py>, GuardFailure>;

    /// The guards as readable text, in order.
    fn describe(&self) -> Vec<String>;

    /// What the failure of [`CompiledGuard::check`] means.
    fn describe_failure(&self, failure: GuardFailure) -> String {
        failure.describe(&self.describe())
    }

    /// The same for these inputs, with what was there and what is now: `x.shape[0]: 4 -> 5`.
    fn explain_failure(
        &self,
        _py: Python<'_>,
        _inputs: GuardInputs<'_>,
        failure: GuardFailure,
    ) -> String {
        self.describe_failure(failure)
    }

    /// Whether that is only another size than it was: of dims, or of what is compared of them.
    fn is_of_sizes(
        &self,
        _py: Python<'_>,
        _inputs: GuardInputs<'_>,
        _failure: GuardFailure,
    ) -> bool {
        false
    }
}

/// Turns guards into something that can be evaluated.
pub trait GuardCompiler {
    /// Compiles `guards`; `slots` are the trackers whose values are wanted.
    ///
    /// # Errors
    /// When an object cannot be recorded.
    fn compile(
        &self,
        py: Python<'_>,
        guards: &GuardSet,
        slots: &[TrackerRef],
        state: &GlobalState,
    ) -> PyResult<Box<dyn CompiledGuard>>;
}

/// The native guard compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeGuardCompiler;

/// A guard program.
pub struct NativeGuards {
    state: GlobalState,
    steps: Vec<Step>,
    /// By step: whether it may run Python.
    runs_python: Vec<bool>,
    /// Whether one does.
    any_runs_python: bool,
    loads: usize,
    distinct: Vec<usize>,
    /// Those of `distinct` that may change while the gate is open.
    varying: Vec<usize>,
    outputs: Vec<usize>,
    texts: Vec<String>,
    plan: GatePlan,
    gate: Mutex<Gate>,
}

#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    slots: FxHashMap<TrackerRef, usize>,
    /// By slot: the one it is read from, which comes before it.
    bases: Vec<Option<usize>>,
}

impl Builder {
    fn slot(&mut self, py: Python<'_>, tracker: &TrackerRef) -> usize {
        if let Some(slot) = self.slots.get(tracker) {
            return *slot;
        }
        let read_from = tracker.base().map(|base| self.slot(py, base));
        let base = read_from.unwrap_or_default();
        let text = |name: &Arc<str>| pyo3::types::PyString::intern(py, name).into_any().unbind();
        let load = match &**tracker {
            Tracker::Local { index, .. } => Load::Local(*index),
            Tracker::FreeCell { index, .. } => Load::FreeCell(*index),
            Tracker::Const(object) => Load::Const(WeakOrStrong::root(py, object)),
            Tracker::Handled => Load::Handled,
            Tracker::CellContents(_) => Load::CellContents(base),
            Tracker::Proxied(_) => Load::Proxied(base),
            Tracker::ContextValue(_) => Load::ContextValue(base),
            Tracker::TypeOf(_) => Load::TypeOf(base),
            Tracker::InstanceDict(_) => Load::InstanceDict(base),
            Tracker::DictItem(_, key) => {
                let key = native::key_object(py, key).into_bound(py);
                Load::DictItem(base, native::HashedKey::new(key))
            }
            Tracker::DictKeyAt(..) | Tracker::Number(..) | Tracker::Array(..) => Load::Nothing,
            Tracker::ListItem(_, index) => Load::ListItem(base, *index),
            Tracker::DequeItem(_, index) => Load::DequeItem(base, *index),
            Tracker::TupleItem(_, index) => Load::TupleItem(base, *index),
            Tracker::Upcoming(_, ahead) => Load::Upcoming(base, *ahead, Mutex::default()),
            Tracker::TypeAttr(_, name) => Load::TypeAttr(base, text(name)),
            Tracker::Member(_, name) | Tracker::NativeAttr(_, name) => {
                Load::Member(base, text(name))
            }
            Tracker::Function(_, field) => Load::Function(base, field.clone()),
            Tracker::MethodSelf(_) => Load::MethodPart(base, true),
            Tracker::MethodFunc(_) => Load::MethodPart(base, false),
        };
        let slot = self.bases.len();
        self.slots.insert(tracker.clone(), slot);
        self.bases.push(read_from);
        self.steps.push(Step::Load(slot, load));
        slot
    }
}

impl GuardCompiler for NativeGuardCompiler {
    fn compile(
        &self,
        py: Python<'_>,
        guards: &GuardSet,
        slots: &[TrackerRef],
        state: &GlobalState,
    ) -> PyResult<Box<dyn CompiledGuard>> {
        Ok(Box::new(NativeGuards::new(py, guards, slots, state)?))
    }
}

impl NativeGuards {
    /// Compiles guards, as [`GuardCompiler::compile`] does.
    ///
    /// # Errors
    /// When an object cannot be recorded.
    pub fn new(
        py: Python<'_>,
        guards: &GuardSet,
        slots: &[TrackerRef],
        state: &GlobalState,
    ) -> PyResult<Self> {
        native::try_versions(py);
        let mut builder = Builder::default();
        let mut texts = Vec::with_capacity(guards.len());
        // What is looked at otherwise is there.
        let seen: FxHashSet<&TrackerRef> = guards
            .iter()
            .filter(|guard| !matches!(guard.kind, GuardKind::Present | GuardKind::Quiet))
            .map(|guard| &guard.tracker)
            .chain(guards.distinct())
            .chain(slots)
            .collect();
        for (index, guard) in guards.iter().enumerate() {
            texts.push(super::expression::text(py, guard));
            if guard.kind == GuardKind::Present && seen.contains(&guard.tracker) {
                continue;
            }
            let slot = builder.slot(py, &guard.tracker);
            let check = match &guard.kind {
                GuardKind::Present => Check::Present,
                GuardKind::Absent => Check::Absent,
                GuardKind::TypeIs(class) => Check::TypeIs(WeakOrStrong::root(py, class)),
                GuardKind::Is(object) => Check::Is(WeakOrStrong::new(py, object)),
                GuardKind::ConstEq(object) => Check::ConstEq(object.clone()),
                GuardKind::Len(len) => Check::Len(*len),
                GuardKind::Filled(filled) => Check::Filled(*filled),
                GuardKind::MaxLen(most) => Check::MaxLen(*most),
                GuardKind::Holds(key, is) => Check::Holds(WeakOrStrong::root(py, key), *is),
                GuardKind::Elements(elements) => Check::Elements(elements.clone()),
                GuardKind::DictKeys(keys) => {
                    Check::DictKeys(keys.iter().map(|key| native::key_object(py, key)).collect())
                }
                GuardKind::Tensor(tensor) => Check::Tensor(tensor.clone()),
                GuardKind::Contiguous => Check::Contiguous,
                GuardKind::Apart(other) => Check::Apart(builder.slot(py, other)),
                GuardKind::ApartFromAll(other) => Check::ApartFromAll(builder.slot(py, other)),
                GuardKind::Unhooked => Check::Unhooked,
                GuardKind::PlainOptimizer => Check::PlainOptimizer,
                GuardKind::Array(array) => Check::Array(array.clone()),
                GuardKind::Outcome(outcome) => {
                    Check::Outcome(outcome.map(&mut |place| builder.slot(py, place)))
                }
                GuardKind::SameAs(other) => Check::SameAs(builder.slot(py, other)),
                GuardKind::OtherThan(other) => Check::OtherThan(builder.slot(py, other)),
                GuardKind::Order(classes) => Check::Order(
                    classes
                        .iter()
                        .map(|class| WeakOrStrong::root(py, class))
                        .collect(),
                ),
                GuardKind::Registered(class, is) => {
                    Check::Registered(native::Registered::new(py, class, *is))
                }
                GuardKind::Named(name, value) => {
                    let name = pyo3::types::PyString::intern(py, name).into_any();
                    Check::Named(name.unbind(), value.clone())
                }
                GuardKind::Quiet => Check::Quiet,
                GuardKind::LayerState(layer) => match LayerSnapshot::record(layer.bind(py))? {
                    Some(snapshot) => Check::Layer(snapshot),
                    None => Check::Never,
                },
                GuardKind::Never => Check::Never,
            };
            builder.steps.push(Step::Check {
                slot,
                check,
                guard: index,
            });
        }
        let distinct: Vec<usize> = guards
            .distinct()
            .map(|tracker| builder.slot(py, tracker))
            .collect();
        let outputs: Vec<usize> = slots
            .iter()
            .map(|tracker| builder.slot(py, tracker))
            .collect();
        let kept = distinct.iter().chain(&outputs);
        let plan = GatePlan::of(&builder.steps, &builder.bases, kept);
        let runs_python = steps_that_run_python(py, &builder.steps);
        Ok(Self {
            state: state.clone(),
            steps: builder.steps,
            any_runs_python: runs_python.contains(&true),
            runs_python,
            loads: builder.bases.len(),
            varying: distinct
                .iter()
                .copied()
                .filter(|slot| !plan.steady[*slot])
                .collect(),
            distinct,
            outputs,
            texts,
            plan,
            gate: Mutex::default(),
        })
    }

    /// What is at the wanted trackers where all guards hold, whatever the global state is; else
    /// which guard failed.
    pub fn values<'py>(
        &self,
        py: Python<'py>,
        inputs: GuardInputs<'_>,
    ) -> Result<Vec<Option<Bound<'py, PyAny>>>, GuardFailure> {
        let _no_collection = native::NoCollection::new(py);
        let mut slots = vec![0; self.loads];
        let mut held = self.holds_nothing(py);
        self.walk(py, inputs, &self.plan.all, &mut slots, &mut held)?;
        let value = |slot: &usize| match slots[*slot] {
            0 => None,
            _ => Some(native::to_bound(py, in_slot(&slots, *slot))),
        };
        Ok(self.outputs.iter().map(value).collect())
    }
}

impl CompiledGuard for NativeGuards {
    fn check<'py>(
        &self,
        py: Python<'py>,
        inputs: GuardInputs<'_>,
    ) -> Result<Slots<'py>, GuardFailure> {
        if !self.state.matches(py) {
            return Err(GuardFailure::State);
        }
        let _no_collection = native::NoCollection::new(py);
        // Let go of behind the lock: destructors may come here again.
        let mut held;
        // When another thread is here, everything is checked without the gate.
        let Ok(mut gate) = self.gate.try_lock() else {
            let mut slots = vec![0; self.loads];
            held = self.holds_nothing(py);
            self.walk(py, inputs, &self.plan.all, &mut slots, &mut held)?;
            return self.answer(py, &slots, false);
        };
        let open = gate.holds(inputs);
        let mut slots = std::mem::take(&mut gate.slots);
        if !open {
            slots.clear();
            slots.resize(self.loads, 0);
        }
        let steps = if open {
            &self.plan.always
        } else {
            &self.plan.all
        };
        let known: &[bool] = if open { &self.plan.steady } else { &[] };
        held = Held::new(py, self.any_runs_python, known);
        let failed = self.walk(py, inputs, steps, &mut slots, &mut held).err();
        let answer = match failed {
            Some(guard) => Err(guard),
            None => self.answer(py, &slots, open),
        };
        // An open gate asks only those of the distinct objects that vary: it stands for an answer,
        // not for the walk alone.
        match (open, &answer) {
            (true, _) => {}
            (false, Ok(_)) => gate.record(py, &self.plan, &self.steps, inputs, &slots),
            (false, Err(_)) => gate.close(),
        }
        gate.slots = slots;
        answer
    }

    fn describe(&self) -> Vec<String> {
        self.texts.clone()
    }

    fn describe_failure(&self, failure: GuardFailure) -> String {
        failure.describe(&self.texts)
    }

    fn explain_failure(
        &self,
        py: Python<'_>,
        inputs: GuardInputs<'_>,
        failure: GuardFailure,
    ) -> String {
        let text = self.describe_failure(failure);
        let change = self.at_failure(py, inputs, failure, |check, object| {
            difference::of(py, check, object, &text)
        });
        match change.flatten() {
            Some(change) => format!("{change} ({text})"),
            None => text,
        }
    }

    fn is_of_sizes(&self, py: Python<'_>, inputs: GuardInputs<'_>, failure: GuardFailure) -> bool {
        let is = self.at_failure(py, inputs, failure, |check, object| {
            difference::is_of_sizes(py, check, object)
        });
        is.unwrap_or(false)
    }
}

impl NativeGuards {
    /// Looks at a guard that failed, and at the object that it is about.
    fn at_failure<R>(
        &self,
        py: Python<'_>,
        inputs: GuardInputs<'_>,
        failure: GuardFailure,
        look: impl FnOnce(&Check, Ptr<'_>) -> R,
    ) -> Option<R> {
        let GuardFailure::Guard(index) = failure else {
            return None;
        };
        let _no_collection = native::NoCollection::new(py);
        let mut slots = vec![0; self.loads];
        // The same steps as of the check, up to the guard.
        for &at in &self.plan.all {
            match &self.steps[at] {
                Step::Load(target, what) => {
                    slots[*target] = load(py, what, inputs, &slots)?.address();
                }
                Step::Check { slot, check, guard } if *guard == index => {
                    return Some(look(check, in_slot(&slots, *slot)));
                }
                // What is loaded next relies on it.
                Step::Check { slot, check, .. } => {
                    if !holds(py, check, in_slot(&slots, *slot), &slots) {
                        return None;
                    }
                }
            }
        }
        None
    }

    fn walk(
        &self,
        py: Python<'_>,
        inputs: GuardInputs<'_>,
        steps: &[usize],
        slots: &mut [usize],
        held: &mut Held<'_>,
    ) -> Result<(), GuardFailure> {
        for &at in steps {
            match &self.steps[at] {
                Step::Load(target, what) => {
                    let Some(found) = load(py, what, inputs, slots) else {
                        return Err(GuardFailure::Key);
                    };
                    slots[*target] = found.address();
                    held.found(*target);
                }
                Step::Check { slot, check, guard } => {
                    if let Check::Layer(snapshot) = check
                        && snapshot.is_of_known_versions(py)
                    {
                        continue;
                    }
                    if self.runs_python[at] {
                        held.hold(slots);
                    }
                    if !holds(py, check, in_slot(slots, *slot), slots) {
                        return Err(GuardFailure::Guard(*guard));
                    }
                }
            }
        }
        Ok(())
    }

    fn holds_nothing<'py>(&self, py: Python<'py>) -> Held<'py> {
        Held::new(py, self.any_runs_python, &[])
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        slots: &[usize],
        open: bool,
    ) -> Result<Slots<'py>, GuardFailure> {
        // Those that are what they were differ from each other as they did.
        let distinct = if open {
            self.varying.iter().all(|at| {
                let object = slots[*at];
                let same = self
                    .distinct
                    .iter()
                    .filter(|other| slots[**other] == object);
                same.count() == 1
            })
        } else {
            all_distinct(&self.distinct, slots)
        };
        if !distinct {
            return Err(GuardFailure::OneObject);
        }
        let mut outputs = Slots::with_capacity(self.outputs.len());
        for slot in &self.outputs {
            if slots[*slot] == 0 {
                return Err(GuardFailure::Missing);
            }
            outputs.push(native::to_bound(py, in_slot(slots, *slot)));
        }
        Ok(outputs)
    }
}
