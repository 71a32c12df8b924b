//! Loops in which lists grow: those are rows of a tensor in another attempt.

use crate::graph::{SymbolId, TensorMeta};
use crate::variables::VarId;
use crate::{Step, Stop, Tracer, grown_lists};

use super::{Behind, Captured};

impl Captured<'_> {
    /// Adds the loop to the graph; the answer is its results, and the locals behind it.
    pub(super) fn run(&self, t: &mut Tracer<'_>, condition: SymbolId) -> Step<Behind> {
        let around = std::mem::take(&mut t.flow.grown);
        let answer = self.run_with_rows(t, condition);
        t.flow.grown.extend(around);
        answer
    }

    /// The same: lists that have grown in its rounds are rows of a tensor in another attempt.
    fn run_with_rows(&self, t: &mut Tracer<'_>, condition: SymbolId) -> Step<Behind> {
        let (mark, locations) = (t.mark(), t.frames.locations.clone());
        let mut lists: Vec<(VarId, TensorMeta)> = Vec::new();
        loop {
            let grown: Vec<VarId> = lists.iter().map(|(list, _)| *list).collect();
            let answer = self.settled(t, condition, &grown);
            if self.is_known || !matches!(answer, Err(Stop::Break(_))) {
                return answer;
            }
            let news: Vec<_> = std::mem::take(&mut t.flow.grown);
            let news = news
                .into_iter()
                .filter(|(list, _)| t.is_older(*list, &mark));
            let before = lists.len();
            for (list, meta) in news {
                if lists.iter().all(|(known, _)| *known != list) {
                    lists.push((list, meta));
                }
            }
            if lists.len() == before {
                return answer;
            }
            t.rollback(mark);
            t.frames.locations.clone_from(&locations);
            for (list, meta) in &lists {
                grown_lists::become_rows(t, *list, meta)?;
            }
        }
    }
}
