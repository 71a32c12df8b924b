//! A loop of which is known what differs from round to round becomes a statement of the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::graph::{BlockOutput, Region, SymbolId};
use crate::loop_return::Returns;
use crate::phi::{self, Joined, refuse};
use crate::tuple_carry::Trees;
use crate::variables::Kind;
use crate::{Step, Tracer, carried_aliases, printing, region, tensor_scalar};

use super::{Behind, Captured, Carried, Part};

impl Captured<'_> {
    /// Without a round, a variable is what it was; and a round may hand on another variable, or
    /// something from outside.
    fn note_aliases(
        &self,
        t: &mut Tracer<'_>,
        carried: &BTreeMap<usize, Carried>,
        leading: &[SymbolId],
        way: &region::Way,
        outputs: &[BlockOutput],
        made: &[SymbolId],
    ) {
        let mut found: Vec<Vec<SymbolId>> = carried.values().map(|it| vec![it.first]).collect();
        let pairs = &way.aliases;
        for _ in 0..=found.len() {
            for (at, output) in outputs.iter().enumerate() {
                let mut more: Vec<SymbolId> =
                    carried_aliases::of(&way.cut, pairs, *output).collect();
                for (other, placeholder) in leading.iter().enumerate() {
                    let inner =
                        |symbol| matches!(output, BlockOutput::Inner(made) if *made == symbol);
                    let view = pairs
                        .iter()
                        .any(|(made, of)| inner(*made) && of == placeholder);
                    if inner(*placeholder) || view {
                        more.extend(&found[other]);
                    }
                }
                more.retain(|of| !found[at].contains(of));
                found[at].extend(more);
            }
        }
        for (at, (result, of)) in made.iter().zip(found).enumerate() {
            of.into_iter()
                .for_each(|of| carried_aliases::note(t, *result, of));
            // One tensor under two names.
            let twice = outputs[..at].iter().position(|other| *other == outputs[at]);
            if let Some(other) = twice {
                carried_aliases::note(t, *result, made[other]);
            }
        }
    }

    /// Adds the statement, with the rounds as they were in the end (`way`).
    pub(super) fn emit(
        &self,
        t: &mut Tracer<'_>,
        condition: SymbolId,
        (carried, parts, trees): (&BTreeMap<usize, Carried>, &[Part], &Trees),
        leading: &[SymbolId],
        mut way: region::Way,
        returns: &Returns,
    ) -> Step<Behind> {
        let differentiable = carried
            .values()
            .any(|variable| !variable.meta.stop_gradient);
        let differentiable = differentiable && t.goes_backward();
        let changes = |variable: &Carried| {
            let first = t.graph.meta(variable.first);
            first.is_none_or(|first| first.shape != variable.meta.shape)
        };
        let changes_shape = carried.values().any(changes);
        if differentiable && changes_shape {
            return refuse(
                t,
                "gradients go through the loop, and a variable changes its shape",
            );
        }
        let mut outputs: Vec<BlockOutput> = Vec::with_capacity(carried.len() + 1);
        let value = way.value.clone();
        match phi::symbol(t, &mut way.cut, &value)? {
            Some((output, ..)) => outputs.push(output),
            None => return refuse(t, "the condition of the next round is not a tensor"),
        }
        let mut locals = Vec::with_capacity(way.locals.len());
        let mut changed = Vec::new();
        let mut leaves = BTreeMap::new();
        let pieces = std::mem::take(&mut way.locals);
        for (slot, piece) in &pieces {
            let part = parts.iter().find(|part| part.slot == *slot);
            let Some(variable) = carried.get(slot) else {
                if part.is_some() || trees.leaf(*slot).is_some() {
                    continue;
                }
                locals.push((
                    *slot,
                    match self.inside.locals.get(*slot).copied().flatten() {
                        Some(id) => Joined::Keep(id),
                        None => Joined::Unbound,
                    },
                ));
                continue;
            };
            let Some((output, ..)) = phi::symbol(t, &mut way.cut, piece)? else {
                return refuse(t, "a variable of the loop is not a tensor");
            };
            let at = outputs.len() - 1;
            outputs.push(output);
            if *slot == self.inside.code.localsplus.len() || returns.slots().contains(slot) {
                continue;
            }
            let joined = match variable.number {
                true => Joined::Number(at),
                false => Joined::Output(at),
            };
            match part {
                Some(part) => changed.push((*part, joined)),
                None if trees.leaf(*slot).is_some() => {
                    leaves.insert(*slot, joined);
                }
                None => locals.push((*slot, joined)),
            }
        }
        for (slot, joined) in trees.joined(&leaves) {
            match parts.iter().find(|part| part.slot == slot) {
                Some(part) => changed.push((*part, joined)),
                None => locals.push((slot, joined)),
            }
        }
        if carried.values().any(|variable| variable.unbound) {
            let comes_in = t.add(Kind::SymNumber(condition));
            tensor_scalar::statement(t, "check", &[comes_in])?;
        }
        if changes_shape {
            printing::refuse_rounds_that_empty(t, &way.cut.statements)?;
        }
        printing::refuse_checks_of_rounds(t, &way.cut.statements)?;
        let mut free = Vec::new();
        way.cut.free(&outputs, &mut free);
        let free = region::with_kinds(t, free);
        let name = format!("{}_body", t.graph.sir.name);
        let body = way.cut.block(name, leading, &free, &outputs);
        let region = Region::While {
            body: Arc::new(body),
            carried: carried.len(),
            differentiable,
        };
        let first = std::iter::once(condition)
            .chain(carried.values().map(|variable| variable.first))
            .collect();
        let made = region::emit(t, region, first, &free)?;
        self.note_aliases(t, carried, leading, &way, &outputs[1..], &made);
        // What a list holds may be what a variable is.
        for (part, joined) in &changed {
            if let (Kind::Rows(_), Joined::Output(at)) = (t.kind(part.of), joined) {
                let others = made.iter().filter(|it| **it != made[*at]);
                others.for_each(|it| carried_aliases::note(t, *it, made[*at]));
            }
        }
        let hidden = made.len() - returns.slots().len();
        let returned = returns.answer.as_ref().map(|answer| {
            let leaves = made[hidden + 1..].to_vec();
            (made[hidden], leaves, answer.clone())
        });
        Ok(Behind {
            made,
            locals,
            parts: changed,
            returned,
        })
    }
}
