//! Results that are views, made behind the program instead of in it.

use pyo3::prelude::*;

use super::StatementIr;
use super::partition::Order;
use super::split::{Part, Plan};
use super::views::only_operand;

impl StatementIr {
    /// The graph without the statements that make the outputs at these positions, and without the
    /// views that those are of; then these statements, which run call by call. `None` where one
    /// does more than compute, or gradients are made of them.
    pub fn views_behind(&self, py: Python<'_>, outputs: &[usize]) -> Option<Vec<Part>> {
        if self.makes_gradients(py) {
            return None;
        }
        let producer = self.producers();
        let order = self.order(py)?;
        let mut alone = vec![false; self.statements.len()];
        let viewed = |number: usize| {
            let statement = &self.statements[number];
            only_operand(statement).filter(|_| self.shares(py, statement))
        };
        for at in outputs {
            let mut number = producer[self.outputs.get(*at)?.0 as usize]?;
            loop {
                if order[number] == Order::Acts {
                    return None;
                }
                alone[number] = true;
                let above = viewed(number).and_then(|id| producer[id.0 as usize]);
                match above.filter(|from| *from < number && viewed(*from).is_some()) {
                    Some(from) => number = from,
                    None => break,
                }
            }
        }
        let is_rest = alone.contains(&false);
        let of: Vec<usize> = alone.iter().map(|it| usize::from(*it && is_rest)).collect();
        let plan = Plan {
            producer: &producer,
            of: &of,
            alone: &alone,
            // What the program computes from them it computes from views of its own.
            is_view: &|at| alone[at],
            taken: None,
        };
        self.cut_up(py, &plan)
    }
}
