//! The store of variables, with an undo log.

use std::rc::Rc;

use super::{Kind, Variable};

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

/// All variables of one translation.
#[derive(Default)]
pub struct Arena {
    vars: Vec<Rc<Variable>>,
    log: Vec<(VarId, Rc<Variable>)>,
    mutated: Vec<VarId>,
    mutations: u64,
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
        self.log.push((id, slot.clone()));
        let mut next = Variable::clone(slot);
        let answer = change(&mut next);
        *slot = Rc::new(next);
        answer
    }

    /// Changes an object the way the user's program asked for, and remembers that it was mutated: if
    /// it exists in the real world, the code generator replays the change.
    pub fn mutate<R>(&mut self, id: VarId, change: impl FnOnce(&mut Variable) -> R) -> R {
        self.mutations += 1;
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

    /// Mutated variables, in order of their first mutation.
    pub fn mutated(&self) -> &[VarId] {
        &self.mutated
    }

    /// Counts what [`Arena::mutate`] was called for, roll-backs or not: for code that must notice changes.
    pub fn mutations(&self) -> u64 {
        self.mutations
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
        let mut found: Vec<(VarId, Rc<Variable>)> = Vec::new();
        for (id, old) in &self.log[mark.log..] {
            let known = found.iter().any(|(other, _)| other == id);
            if (id.0 as usize) < mark.len && !known {
                found.push((*id, old.clone()));
            }
        }
        found
    }

    /// Whether an object was changed since `mark` that was there before the frame and is met since `mark` only.
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
            if let Some((id, old)) = self.log.pop() {
                self.vars[id.0 as usize] = old;
            }
        }
        self.vars.truncate(mark.len);
        self.mutated.truncate(mark.mutated);
    }
}
