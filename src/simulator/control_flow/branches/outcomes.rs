//! What the statements of a block do besides giving results: a block whose results nobody uses
//! may not be left out then.

use crate::graph::{Arg, Callee, Statement, StatementIr, SymbolId};

/// What statements do besides giving results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    Nothing,
    /// They print, or check.
    Speaks,
    /// They may draw random numbers, change what layers know, or fail: shapes with open dims may
    /// not fit.
    Changes,
}

/// Whether it takes several tensors, of which one has an open dim.
fn may_not_fit(statement: &Statement, is_open: &dyn Fn(SymbolId) -> bool) -> bool {
    let (mut taken, mut open) = (0, false);
    statement.for_each_argument(&mut |id| {
        taken += 1;
        open |= is_open(id);
    });
    taken > 1 && open
}

/// The most that any of the statements does.
pub fn act(statements: &[Statement], is_open: &dyn Fn(SymbolId) -> bool) -> Does {
    let one = |statement: &Statement| match &statement.callee {
        Callee::Layer(_) => Does::Changes,
        Callee::Sir(region) => {
            let inside = |block: &StatementIr| {
                let is_open = |id| block.meta(id).is_some_and(|meta| !meta.is_static());
                act(&block.statements, &is_open)
            };
            let blocks = region.blocks().into_iter();
            let inside = blocks.map(|(_, block)| inside(block)).max();
            inside.unwrap_or(Does::Nothing)
        }
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) => {
            if changes(std::slice::from_ref(statement)) {
                Does::Changes
            } else if matches!(statement.output, Arg::Const(_)) {
                Does::Speaks
            } else if may_not_fit(statement, is_open) {
                Does::Changes
            } else {
                Does::Nothing
            }
        }
    };
    let all = statements.iter().map(one);
    all.max().unwrap_or(Does::Nothing)
}

/// Whether one of the statements may draw random numbers, or change what tensors or layers hold.
pub fn changes(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match &statement.callee {
        Callee::Layer(_) => true,
        Callee::Sir(region) => {
            let mut blocks = region.blocks().into_iter();
            blocks.any(|(_, block)| changes(&block.statements))
        }
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) => {
            statement.draws || !statement.updates.is_empty()
        }
    })
}
