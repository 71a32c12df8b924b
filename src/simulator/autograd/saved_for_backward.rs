//! What operations keep of what they are given, and of what they make, for their gradients: a
//! change in place of that is one that eager mode refuses to go backwards through.

use pyo3::prelude::*;

use crate::graph::{Callee, DType, Region, Statement, StatementIr, SymbolId, SymbolKind};
use crate::ops::{Fact, knows};
use crate::tracer::function_graph::Cut;

use crate::Tracer;

/// Statements, with what their symbols are.
#[derive(Clone, Copy)]
pub struct Statements<'a> {
    all: &'a [Statement],
    symbols: &'a [SymbolKind],
}

impl<'a> Statements<'a> {
    /// Those of the graph so far.
    pub fn of_graph(t: &'a Tracer<'_>) -> Self {
        Self::of(&t.graph.sir)
    }

    /// Those of a way through the code.
    pub fn of_cut(cut: &'a Cut) -> Self {
        Self {
            all: &cut.statements,
            symbols: &cut.symbols,
        }
    }

    fn of(sir: &'a StatementIr) -> Self {
        Self {
            all: &sir.statements,
            symbols: &sir.symbols,
        }
    }

    /// Whether one of them keeps this value for the gradient of something else.
    pub fn keep(self, t: &Tracer<'_>, symbol: SymbolId) -> bool {
        self.all.iter().any(|statement| {
            self.flows(statement)
                && (self.keeps(t, statement, symbol) || keeps_inside(t, statement, symbol))
        })
    }

    /// Whether the one that made this value does not keep it for its own gradient.
    pub fn make_and_forget(self, t: &Tracer<'_>, symbol: SymbolId) -> bool {
        let maker = self.all.iter().rfind(|it| place(it, symbol).is_some());
        let name = |maker| Some((maker, self.called(t, maker)?));
        maker.and_then(name).is_some_and(|(maker, name)| {
            let mut tensors = 0;
            maker.for_each_argument(&mut |_| tensors += 1);
            knows(&name, Fact::ForgetsResult)
                || tensors == 1 && knows(&name, Fact::ForgetsBesideNumber)
        })
    }

    /// Whether gradients flow to something that a statement makes.
    fn flows(self, statement: &Statement) -> bool {
        let mut flows = false;
        statement.output.for_each_symbol(&mut |made| {
            flows |= match self.symbols.get(made.0 as usize) {
                Some(SymbolKind::Tensor(meta)) => !meta.stop_gradient,
                _ => true,
            };
        });
        flows
    }

    /// Whether an operation keeps this value, one of its arguments, for its gradient.
    fn keeps(self, t: &Tracer<'_>, statement: &Statement, symbol: SymbolId) -> bool {
        let (mut found, mut tensors) = (false, 0);
        statement.for_each_argument(&mut |used| {
            found |= used == symbol;
            tensors += 1;
        });
        let says_where = || {
            let mut places = Vec::new();
            for arg in statement.args.iter().skip(1) {
                arg.for_each_symbol(&mut |used| places.push(used));
            }
            let is_mask = matches!(self.symbols.get(symbol.0 as usize), Some(SymbolKind::Tensor(meta)) if meta.dtype == DType::Bool);
            places.contains(&symbol) && !is_mask
        };
        let forgets = |name: String| {
            knows(&name, Fact::ForgetsArguments)
                && !(knows(&name, Fact::SavesPlaces) && says_where())
                || tensors == 1 && knows(&name, Fact::ForgetsBesideNumber)
        };
        found && !self.called(t, statement).is_some_and(forgets)
    }

    /// The name of what a statement calls.
    fn called(self, t: &Tracer<'_>, statement: &Statement) -> Option<String> {
        match &statement.callee {
            Callee::Method(name) => Some(name.to_string()),
            Callee::Api(function) => name_of(function.bind(t.py)),
            Callee::Layer(layer) => match self.symbols.get(layer.0 as usize)? {
                SymbolKind::Layer(layer) => name_of(layer.bind(t.py).get_type().as_any()),
                SymbolKind::Tensor(_) => None,
            },
            Callee::Attribute(_) | Callee::Sir(_) => None,
        }
    }
}

/// Where a value stands among the results of a statement.
fn place(statement: &Statement, symbol: SymbolId) -> Option<usize> {
    let (mut at, mut found) = (0, None);
    statement.output.for_each_symbol(&mut |made| {
        if made == symbol {
            found = found.or(Some(at));
        }
        at += 1;
    });
    found
}

/// Whether this value is a result of captured control flow, which keeps it in there.
fn keeps_inside(t: &Tracer<'_>, statement: &Statement, symbol: SymbolId) -> bool {
    let Callee::Sir(region) = &statement.callee else {
        return false;
    };
    // The first output of a round is the next condition.
    let before = match **region {
        Region::While { .. } => 1,
        Region::If { .. } | Region::Recompute { .. } => 0,
        Region::PyLayer { .. } => return false,
    };
    let Some(at) = place(statement, symbol) else {
        return false;
    };
    region.blocks().iter().any(|(_, block)| {
        let output = block.outputs.get(before + at);
        output.is_some_and(|output| Statements::of(block).keep(t, *output))
    })
}

fn name_of(object: &Bound<'_, PyAny>) -> Option<String> {
    object.getattr("__name__").ok()?.extract().ok()
}
