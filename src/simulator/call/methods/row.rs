//! [`MethodRow`]: one method of a builtin kind. A kind says which tables of rows it has.

use crate::reason::BreakId;
use crate::variables::VarId;
use crate::{Kwargs, Step, Tracer};

/// A call of a method.
#[derive(Clone, Copy)]
pub struct MethodCall<'a> {
    /// What it is a method of.
    pub receiver: VarId,
    /// The positional arguments: as many as the row allows.
    pub args: &'a [VarId],
    /// The others: none, unless the row takes them.
    pub kwargs: &'a Kwargs,
}

/// What a method does with an instance of a subclass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// It may ask other methods of the object, which the class may have of its own.
    AsksOthers,
    /// It reads what the object holds, as it does of the class itself.
    Reads,
    /// It changes what the object holds, and asks none of its other methods.
    Writes,
}

/// One method of a builtin kind.
pub struct MethodRow {
    /// Its name.
    pub name: &'static str,
    /// The fewest and the most positional arguments; what takes others is left to the interpreter.
    arity: (usize, usize),
    /// Whether it takes arguments by keyword.
    pub named: bool,
    /// What it does with an instance of a subclass.
    pub inherited: Inherited,
    /// Whether it may change what the object holds.
    pub changes: bool,
    /// Why the graph breaks where it is called with other arguments.
    refused: BreakId,
    action: fn(&mut Tracer<'_>, MethodCall<'_>) -> Step<VarId>,
}

/// Any number of positional arguments.
pub const MANY: usize = usize::MAX;

impl MethodRow {
    /// A method that takes from `fewest` to `most` positional arguments.
    pub(crate) const fn new(
        name: &'static str,
        (fewest, most): (usize, usize),
        action: fn(&mut Tracer<'_>, MethodCall<'_>) -> Step<VarId>,
    ) -> Self {
        Self {
            name,
            arity: (fewest, most),
            named: false,
            inherited: Inherited::AsksOthers,
            changes: false,
            refused: BreakId::ContainerMethod,
            action,
        }
    }

    /// The same method, which takes arguments by keyword, too.
    pub(crate) const fn named(self) -> Self {
        Self {
            named: true,
            ..self
        }
    }

    /// The same method, which reads what an instance of a subclass holds.
    pub(crate) const fn reads(self) -> Self {
        Self {
            inherited: Inherited::Reads,
            ..self
        }
    }

    /// The same method, which changes what an instance of a subclass holds.
    pub(crate) const fn writes(self) -> Self {
        Self {
            inherited: Inherited::Writes,
            ..self.changes()
        }
    }

    /// The same method, which changes what the object holds.
    pub(crate) const fn changes(self) -> Self {
        Self {
            changes: true,
            ..self
        }
    }

    /// The same method, for whose other calls the graph breaks with this reason.
    pub(crate) const fn refused(self, refused: BreakId) -> Self {
        Self { refused, ..self }
    }

    /// Whether it takes so many positional arguments.
    pub(crate) fn takes(&self, args: usize) -> bool {
        (self.arity.0..=self.arity.1).contains(&args)
    }

    /// Simulates it.
    pub(crate) fn run(&self, t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
        if !self.takes(call.args.len()) {
            let message = format!("method {} with these arguments", self.name);
            return t.stop(self.refused, message);
        }
        (self.action)(t, call)
    }
}

/// The row of this name in the tables of a kind.
pub fn find(tables: &[&'static [MethodRow]], name: &str) -> Option<&'static MethodRow> {
    let mut rows = tables.iter().flat_map(|table| table.iter());
    rows.find(|row| row.name == name)
}
