//! Results that are views, made behind the program instead of in it.

use pyo3::prelude::*;

use super::cut_up::{Part, Plan};
use super::views::only_operand;
use super::StatementIr;

impl StatementIr {
    /// The graph without the statements that make the outputs at these positions, and without the views that those are
    /// of; then these statements, which run call by call. `None` where one does more than compute.
    pub fn views_behind(&self, py: Python<'_>, outputs: &[usize]) -> Option<Vec<Part>> {
        let producer = self.producers();
        let acts = self.acting(py)?;
        let mut alone = vec![false; self.statements.len()];
        let viewed = |number: usize| {
            let statement = &self.statements[number];
            only_operand(statement).filter(|_| self.shares(py, statement))
        };
        for at in outputs {
            let mut number = producer[self.outputs.get(*at)?.0 as usize]?;
            loop {
                if acts[number] {
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
        if alone.iter().all(|it| *it) {
            let plan = Plan {
                producer: &producer,
                of: &vec![0; alone.len()],
                again: &[vec![false; alone.len()]],
                alone: &alone,
            };
            return self.cut_up(py, &plan);
        }
        let of: Vec<usize> = alone.iter().map(|it| usize::from(*it)).collect();
        // What the program computes from them it computes from views of its own.
        let in_program = self.made_again(&producer, &|at| alone[at], &of, 0);
        let plan = Plan {
            producer: &producer,
            of: &of,
            alone: &alone,
            again: &[in_program, vec![false; of.len()]],
        };
        self.cut_up(py, &plan)
    }
}
