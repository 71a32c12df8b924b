//! The store of variables, with an undo log.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{Kind, Variable};
use crate::tracker::TrackerRef;

/// Names a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// A position of the undo log.
#[derive(Clone, Copy, Debug)]
pub struct ArenaMark {
    len: usize,
    log: usize,
    mutated: usize,
}

/// What a variable was.
#[derive(Clone)]
enum Undo {
    /// All of it.
    Whole(Rc<Variable>),
    /// A list of this length, and whether it was mutated: a list that grows item by item is not
    /// copied for each.
    Shorter(usize, bool),
}

impl Undo {
    /// The variable that became `now`.
    fn apply(self, now: &mut Rc<Variable>) {
        match self {
            Self::Whole(var) => *now = var,
            Self::Shorter(len, mutated) => {
                let var = Rc::make_mut(now);
                var.mutated = mutated;
                if let Kind::List(items) = &mut var.kind {
                    items.truncate(len);
                }
            }
        }
    }
}

/// All variables of one translation.
#[derive(Default)]
pub struct Arena {
    vars: Vec<Rc<Variable>>,
    log: Vec<(VarId, Undo)>,
    mutated: Vec<VarId>,
    /// What was changed, once for each time.
    changes: Vec<VarId>,
}

impl Arena {
    /// Adds a variable.
    pub fn add(&mut self, var: Variable) -> VarId {
        let id = VarId(self.vars.len() as u32);
        self.vars.push(Rc::new(var));
        id
    }

    /// The variable. Cheap to clone (`Rc`), so that callers can keep it while changing others.
    pub fn get(&self, id: VarId) -> &Rc<Variable> {
        &self.vars[id.0 as usize]
    }

    /// The kind of a variable.
    pub fn kind(&self, id: VarId) -> &Kind {
        &self.get(id).kind
    }

    /// Changes a variable; the old state can be rolled back to.
    ///
    /// This is bookkeeping (realising a lazy value, advancing an iterator the frame owns). A change
    /// that the user's program makes to an object goes through [`Arena::mutate`].
    pub fn update<R>(&mut self, id: VarId, change: impl FnOnce(&mut Variable) -> R) -> R {
        let slot = &mut self.vars[id.0 as usize];
        self.log.push((id, Undo::Whole(slot.clone())));
        let mut next = Variable::clone(slot);
        let answer = change(&mut next);
        *slot = Rc::new(next);
        answer
    }

    /// Changes an object the way the user's program asked for, and remembers that it was mutated:
    /// if it exists in the real world, the code generator replays the change.
    pub fn mutate<R>(&mut self, id: VarId, change: impl FnOnce(&mut Variable) -> R) -> R {
        self.changes.push(id);
        let first = !self.get(id).mutated;
        let answer = self.update(id, |var| {
            var.mutated = true;
            change(var)
        });
        if first {
            self.mutated.push(id);
        }
        answer
    }

    /// `list.append(item)` of the user's program.
    pub fn append(&mut self, list: VarId, item: VarId) {
        let var = Rc::get_mut(&mut self.vars[list.0 as usize]);
        if let Some(Variable {
            kind: Kind::List(items),
            mutated,
            ..
        }) = var
        {
            self.log.push((list, Undo::Shorter(items.len(), *mutated)));
            items.push(item);
            self.changes.push(list);
            if !std::mem::replace(mutated, true) {
                self.mutated.push(list);
            }
            return;
        }
        self.mutate(list, |var| {
            if let Kind::List(items) = &mut var.kind {
                items.push(item);
            }
        });
    }

    /// Mutated variables, in order of their first mutation.
    pub fn mutated(&self) -> &[VarId] {
        &self.mutated
    }

    /// Whether the program wrote to a dictionary that exists.
    pub fn has_changed_dicts(&self) -> bool {
        self.mutated.iter().any(|id| {
            let var = self.get(*id);
            var.value.is_some() && matches!(var.kind, Kind::Dict(_))
        })
    }

    /// Counts what [`Arena::mutate`] was called for, roll-backs or not: for code that must notice
    /// changes.
    pub fn mutations(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Whether one of the first `count` variables was changed since there were so many mutations:
    /// the others are newer.
    pub fn has_changed(&self, mutations: u64, count: usize) -> bool {
        let since = self.changes.get(mutations as usize..).unwrap_or_default();
        since.iter().any(|id| (id.0 as usize) < count)
    }

    /// Where the variables of a kind come from.
    pub fn sources(&self, is_wanted: impl Fn(&Kind) -> bool) -> Vec<TrackerRef> {
        let wanted = self
            .vars
            .iter()
            .filter(|variable| is_wanted(&variable.kind));
        wanted
            .filter_map(|variable| variable.source.clone())
            .collect()
    }

    /// The first variable like this.
    pub fn find(&self, is_wanted: impl Fn(&Variable) -> bool) -> Option<VarId> {
        let at = self.vars.iter().position(|variable| is_wanted(variable))?;
        Some(VarId(at as u32))
    }

    /// How many variables there are.
    pub fn len(&self) -> usize {
        self.vars.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }

    /// The current position.
    pub fn mark(&self) -> ArenaMark {
        ArenaMark {
            len: self.vars.len(),
            log: self.log.len(),
            mutated: self.mutated.len(),
        }
    }

    /// Variables older than `mark` that changed since, with what they were then.
    pub fn changed(&self, mark: &ArenaMark) -> Vec<(VarId, Rc<Variable>)> {
        // By variable: its first change, and what it was.
        let mut found: FxHashMap<VarId, (usize, Rc<Variable>)> = FxHashMap::default();
        for (at, (id, undo)) in self.log.iter().enumerate().skip(mark.log).rev() {
            if self.is_older(*id, mark) {
                let known = found.entry(*id);
                let (first, var) = known.or_insert_with(|| (at, self.get(*id).clone()));
                *first = at;
                undo.clone().apply(var);
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, (first, _))| *first);
        found.into_iter().map(|(id, (_, var))| (id, var)).collect()
    }

    /// Whether an object was changed since `mark` that was there before the frame and is met since
    /// `mark` only.
    pub fn changed_real(&self, mark: &ArenaMark) -> bool {
        self.mutated[mark.mutated..].iter().any(|id| {
            let var = self.get(*id);
            !self.is_older(*id, mark) && (var.source.is_some() || var.value.is_some())
        })
    }

    /// Whether a variable is older than `mark`.
    pub fn is_older(&self, id: VarId, mark: &ArenaMark) -> bool {
        (id.0 as usize) < mark.len
    }

    /// Restores every variable to what it was at `mark` and forgets newer ones.
    pub fn rollback(&mut self, mark: ArenaMark) {
        while self.log.len() > mark.log {
            if let Some((id, undo)) = self.log.pop() {
                undo.apply(&mut self.vars[id.0 as usize]);
            }
        }
        self.vars.truncate(mark.len);
        self.mutated.truncate(mark.mutated);
    }
}
