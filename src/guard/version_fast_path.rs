//! Skipping the part of a guard program that cannot have changed.
//!
//! Below an argument (never the argument itself), everything reached through instance dictionaries
//! stays what it was while those dictionaries keep their version and the types theirs. Such loads
//! and checks run once; from then on comparing the versions, parents first, stands for them. Tensor
//! metadata, lists, cells and the state of opaque layers change without a version, and are always
//! looked at.

use pyo3::ffi;
use pyo3::prelude::*;

use super::checks::{Check, Load, Step, in_slot};
use super::compile::GuardInputs;
use crate::native::{self, Ptr};

/// What lies at an address that was recorded.
fn at<'a>(address: usize) -> Ptr<'a> {
    // SAFETY: parents are compared first, and what they hold while they are as recorded is alive.
    unsafe { Ptr::new(address as *mut ffi::PyObject) }
}

/// Which steps the gate covers.
#[derive(Default)]
pub struct GatePlan {
    /// Every step.
    pub all: Vec<usize>,
    /// Steps that run even when the gate is open.
    pub always: Vec<usize>,
    /// (local index, slot) of the arguments the covered steps start from.
    roots: Vec<(usize, usize)>,
    /// (owner slot, dict slot) of covered instance dictionaries, parents first.
    instance_dicts: Vec<(usize, usize)>,
    /// Slots of dicts whose items are covered, parents first.
    dicts: Vec<usize>,
    /// (dict slot, step) of covered items.
    items: Vec<(usize, usize)>,
    /// Slots of dicts the order of whose keys is covered.
    ordered: Vec<usize>,
    /// Slots of types whose attributes are covered.
    types: Vec<usize>,
    /// By slot: whether its value stays what it was while the gate is open.
    pub steady: Vec<bool>,
}

impl GatePlan {
    /// Finds the covered steps. `bases`: by slot, which one it is read from; `kept`: slots that are
    /// looked at otherwise.
    pub fn of<'a>(
        steps: &[Step],
        bases: &[Option<usize>],
        kept: impl Iterator<Item = &'a usize>,
    ) -> Self {
        let mut plan = Self::default();
        let loads = bases.len();
        let counts = Self::counts(steps, bases, kept);
        // A load is covered when its value follows from covered dictionaries.
        let mut covered = vec![false; loads];
        let mut fixed = vec![false; loads];
        for (at, step) in steps.iter().enumerate() {
            plan.all.push(at);
            let skip = match step {
                Step::Load(slot, _) if !counts[*slot] => false,
                Step::Load(slot, load) => {
                    plan.cover(*slot, load, &mut covered, &mut fixed);
                    if let (true, Load::DictItem(dict, _)) = (covered[*slot], load) {
                        plan.items.push((*dict, at));
                    }
                    covered[*slot] || fixed[*slot]
                }
                Step::Check { slot, check, .. } => {
                    let follows = match check {
                        Check::Present | Check::Absent | Check::Is(_) | Check::ConstEq(_) => true,
                        Check::TypeIs(class) => !class.is_left_by_instances(),
                        Check::Order(_) if fixed[*slot] => {
                            if !plan.types.contains(slot) {
                                plan.types.push(*slot);
                            }
                            true
                        }
                        Check::DictKeys(_) if covered[*slot] => {
                            plan.covers_dict(*slot);
                            if !plan.ordered.contains(slot) {
                                plan.ordered.push(*slot);
                            }
                            true
                        }
                        Check::Len(_)
                        | Check::Filled(_)
                        | Check::MaxLen(_)
                        | Check::Holds(..)
                        | Check::Elements(_)
                        | Check::DictKeys(_)
                        | Check::Tensor(_)
                        | Check::Contiguous
                        | Check::Apart(_)
                        | Check::ApartFromAll(_)
                        | Check::Unhooked
                        | Check::PlainOptimizer
                        | Check::Array(_)
                        | Check::SameAs(_)
                        | Check::OtherThan(_)
                        | Check::Order(_)
                        | Check::Registered(_)
                        | Check::Named(..)
                        | Check::Outcome(_)
                        | Check::Quiet
                        | Check::Layer(_)
                        | Check::Never => false,
                    };
                    follows && (covered[*slot] || fixed[*slot])
                }
            };
            if !skip {
                plan.always.push(at);
            }
        }
        plan.steady = covered
            .into_iter()
            .zip(fixed)
            .map(|(covered, fixed)| covered || fixed)
            .collect();
        plan
    }

    /// By slot: whether more is asked of it than how its value goes. A dictionary that is written
    /// alone has another version at each call: it would keep the gate shut.
    fn counts<'a>(
        steps: &[Step],
        bases: &[Option<usize>],
        kept: impl Iterator<Item = &'a usize>,
    ) -> Vec<bool> {
        let mut counts = vec![false; bases.len()];
        for slot in kept {
            counts[*slot] = true;
        }
        for step in steps {
            let Step::Check { slot, check, .. } = step else {
                continue;
            };
            counts[*slot] |= !matches!(check, Check::Quiet);
            match check {
                Check::SameAs(other)
                | Check::OtherThan(other)
                | Check::Apart(other)
                | Check::ApartFromAll(other) => counts[*other] = true,
                Check::Outcome(outcome) => {
                    outcome.map(&mut |place| counts[*place] = true);
                }
                Check::Present
                | Check::Absent
                | Check::TypeIs(_)
                | Check::Is(_)
                | Check::ConstEq(_)
                | Check::Len(_)
                | Check::Filled(_)
                | Check::MaxLen(_)
                | Check::Holds(..)
                | Check::Elements(_)
                | Check::DictKeys(_)
                | Check::Tensor(_)
                | Check::Contiguous
                | Check::Unhooked
                | Check::PlainOptimizer
                | Check::Array(_)
                | Check::Order(_)
                | Check::Registered(_)
                | Check::Named(..)
                | Check::Quiet
                | Check::Layer(_)
                | Check::Never => {}
            }
        }
        // What is read from another slot comes behind it.
        for (slot, base) in bases.iter().enumerate().rev() {
            if let (true, Some(base)) = (counts[slot], base) {
                counts[*base] = true;
            }
        }
        counts
    }

    fn covers_dict(&mut self, slot: usize) {
        if !self.dicts.contains(&slot) {
            self.dicts.push(slot);
        }
    }

    fn cover(&mut self, slot: usize, load: &Load, covered: &mut [bool], fixed: &mut [bool]) {
        match load {
            // An argument is not kept alive by anything: another object may lie at its address.
            // Only its dictionary tells, by a version that no other dictionary ever has.
            Load::Local(index) => self.roots.push((*index, slot)),
            Load::Const(native::WeakOrStrong::Strong(_)) => fixed[slot] = true,
            Load::InstanceDict(owner)
                if covered[*owner] || self.roots.iter().any(|(_, root)| root == owner) =>
            {
                // Even where no item of it is read: it is compared with others, or handed on.
                self.instance_dicts.push((*owner, slot));
                self.covers_dict(slot);
                covered[slot] = true;
            }
            Load::DictItem(dict, _) if covered[*dict] => {
                self.covers_dict(*dict);
                covered[slot] = true;
            }
            Load::TypeOf(object) if covered[*object] => covered[slot] = true,
            Load::TypeAttr(class, _) if covered[*class] || fixed[*class] => {
                if !self.types.contains(class) {
                    self.types.push(*class);
                }
                covered[slot] = true;
            }
            Load::TupleItem(tuple, _) if covered[*tuple] => covered[slot] = true,
            Load::FreeCell(_)
            | Load::Const(_)
            | Load::Handled
            | Load::CellContents(_)
            | Load::Proxied(_)
            | Load::ContextValue(_)
            | Load::TypeOf(_)
            | Load::InstanceDict(_)
            | Load::DictItem(..)
            | Load::Nothing
            | Load::ListItem(..)
            | Load::DequeItem(..)
            | Load::Upcoming(..)
            | Load::TupleItem(..)
            | Load::TypeAttr(..)
            | Load::Member(..)
            | Load::Function(..)
            | Load::MethodPart(..) => {}
        }
    }
}

/// A covered dictionary.
struct Recorded {
    dict: usize,
    version: u64,
    /// How many of the places are its own.
    places: usize,
}

// SAFETY: the places are only read with the GIL held, behind a look at the versions.
unsafe impl Send for Gate {}

/// The versions seen at the last full check that held.
#[derive(Default)]
pub struct Gate {
    ready: bool,
    roots: Vec<(usize, usize)>,
    instance_dicts: Vec<(usize, usize)>,
    dicts: Vec<Recorded>,
    /// Places in the tables of those dictionaries, and the values that lie there.
    places: Vec<(*const *mut ffi::PyObject, usize)>,
    /// Of ordered dictionaries, which move keys without a new version.
    orders: Vec<(usize, u64)>,
    types: Vec<(usize, u32)>,
    /// All slots; those of covered loads stay valid while the gate is open.
    pub slots: Vec<usize>,
}

impl Gate {
    /// Forgets what was recorded.
    pub fn close(&mut self) {
        self.ready = false;
    }

    /// Whether nothing covered has changed. Parents are compared first: while a parent's content is
    /// the recorded one, what it holds is alive.
    pub fn holds(&self, inputs: GuardInputs<'_>) -> bool {
        self.ready
            && self.roots.iter().all(|(index, root)| {
                inputs
                    .locals
                    .get(*index)
                    .is_some_and(|local| local.address() == *root)
            })
            && self
                .types
                .iter()
                .all(|(class, version)| native::type_version(at(*class)) == *version)
            && self.walk()
            && self
                .orders
                .iter()
                .all(|(dict, version)| native::order_version(*dict) == *version)
    }

    fn walk(&self) -> bool {
        // Both lists are in the order of discovery, which is parents first; an instance dictionary
        // is compared before the first item is read from it.
        let mut owners = self.instance_dicts.iter().peekable();
        let mut places = self.places.iter();
        for recorded in &self.dicts {
            let of_it = |(_, dict): &&(usize, usize)| *dict == recorded.dict;
            while let Some((owner, expected)) = owners.next_if(of_it) {
                if native::managed_dict(at(*owner)) != *expected {
                    return false;
                }
            }
            if native::dict_version(recorded.dict) != recorded.version {
                return false;
            }
            let mut own = places.by_ref().take(recorded.places);
            // SAFETY: the dictionary is alive, and while it has this version its table is the same.
            if !own.all(|(place, value)| unsafe { place.read() } as usize == *value) {
                return false;
            }
        }
        owners.peek().is_none()
    }

    /// Records the state after a full check that held.
    pub fn record(
        &mut self,
        py: Python<'_>,
        plan: &GatePlan,
        steps: &[Step],
        inputs: GuardInputs<'_>,
        slots: &[usize],
    ) {
        self.ready = false;
        let follows = |slot: &usize| slots[*slot] != 0 && native::version_follows(py, slots[*slot]);
        if !plan.dicts.iter().all(follows) {
            return;
        }
        self.roots = plan
            .roots
            .iter()
            .map(|(index, _)| (*index, inputs.locals[*index].address()))
            .collect();
        self.dicts.clear();
        self.places.clear();
        for slot in &plan.dicts {
            let before = self.places.len();
            for (_, step) in plan.items.iter().filter(|(dict, _)| dict == slot) {
                if !self.record_item(&steps[*step], slots) {
                    return;
                }
            }
            self.dicts.push(Recorded {
                dict: slots[*slot],
                version: native::dict_version(slots[*slot]),
                places: self.places.len() - before,
            });
        }
        self.orders.clear();
        for slot in &plan.ordered {
            match native::order_of(py, slots[*slot]) {
                native::Order::Version(version) => self.orders.push((slots[*slot], version)),
                native::Order::OfDict => {}
                native::Order::Unknown => return,
            }
        }
        // In the order of the dictionaries.
        let mut owners: Vec<(usize, usize)> = Vec::new();
        for slot in &plan.dicts {
            if let Some((owner, _)) = plan.instance_dicts.iter().find(|(_, dict)| dict == slot) {
                if native::managed_dict(in_slot(slots, *owner)) != slots[*slot] {
                    return;
                }
                owners.push((slots[*owner], slots[*slot]));
            }
        }
        self.instance_dicts = owners;
        self.types = plan
            .types
            .iter()
            .map(|slot| (slots[*slot], native::type_version(in_slot(slots, *slot))))
            .collect();
        self.ready = self
            .types
            .iter()
            .all(|(class, version)| *class != 0 && *version != 0);
    }

    /// Records where an item lies. Whether it is still what was found: checks may have run Python.
    fn record_item(&mut self, step: &Step, slots: &[usize]) -> bool {
        let Step::Load(slot, Load::DictItem(dict, key)) = step else {
            return false;
        };
        let dict = in_slot(slots, *dict);
        if native::dict_item(dict, key) != Some(in_slot(slots, *slot)) {
            return false;
        }
        // SAFETY: `version_follows` has found it to be a dictionary.
        match unsafe { native::place_in_dict(dict.as_ptr(), key) } {
            None => false,
            Some(place) => {
                if !place.is_null() {
                    self.places.push((place, slots[*slot]));
                }
                true
            }
        }
    }
}
