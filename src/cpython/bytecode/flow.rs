//! The shape of a code object's control flow: successors, joins and loops. Exception edges are left
//! out.

use std::collections::BTreeMap;

use petgraph::algo::dominators;
use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{Code, Instr, Instruction};

/// The instructions that may run after `at`.
pub fn successors(code: &Code, at: usize) -> SmallVec<[usize; 2]> {
    let instr = &code.instructions[at].instr;
    let mut next = SmallVec::new();
    if instr.falls_through() && at + 1 < code.instructions.len() {
        next.push(at + 1);
    }
    next.extend(instr.target());
    next
}

/// Whether each instruction may run at or after `at`, through jumps and exception handlers.
pub fn reachable(code: &Code, at: usize) -> Vec<bool> {
    let mut found = vec![false; code.instructions.len()];
    let mut places = vec![at];
    while let Some(at) = places.pop() {
        if at < found.len() && !std::mem::replace(&mut found[at], true) {
            places.extend(successors(code, at));
            places.extend(code.handler(at).map(|entry| entry.target));
        }
    }
    found
}

/// Where control really goes when it goes to `at`: unconditional jumps and no-ops lead on.
pub fn leads_to(code: &Code, mut at: usize) -> usize {
    for _ in 0..code.instructions.len() {
        let instr = &code.instructions[at].instr;
        if let Instr::Jump { target } = instr {
            at = *target;
        } else if matches!(instr, Instr::Nop) {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// Longest end of a function that is compared with others.
const END: usize = 8;

/// One place for all ends of the function that do the same: the compiler makes copies of small
/// ones.
pub fn place(code: &Code, at: usize) -> usize {
    let at = leads_to(code, at);
    let Some(end) = end_from(code, at) else {
        return at;
    };
    (0..at)
        .find(|other| {
            let found = end_from(code, *other).unwrap_or_default();
            found.len() == end.len() && found.iter().zip(end).all(|(a, b)| a.instr == b.instr)
        })
        .unwrap_or(at)
}

/// The instructions from `at` to a `return`, when all there is to do is to load what is returned.
fn end_from(code: &Code, at: usize) -> Option<&[Instruction]> {
    let rest = &code.instructions[at..];
    let loads = |instr: &Instr| {
        matches!(
            instr,
            Instr::LoadFast { clear: false, .. }
                | Instr::LoadFastLoadFast { .. }
                | Instr::LoadConst { .. }
                | Instr::BuildTuple { .. }
        )
    };
    let count = rest.iter().take(END).position(|it| !loads(&it.instr))?;
    let last = &rest[count].instr;
    matches!(last, Instr::ReturnValue | Instr::ReturnConst { .. }).then(|| &rest[..=count])
}

/// The first instruction that every way from `at` to a `return` passes, if there is one.
///
/// Ways that end in an exception do not count.
pub fn join(code: &Code, at: usize) -> Option<usize> {
    let exit = code.instructions.len();
    let number = |place: usize| u32::try_from(place).ok();
    // Backwards: the closest dominator from the exit is the closest place that all ways pass.
    let mut edges = Vec::with_capacity(exit + 1);
    for (index, instruction) in code.instructions.iter().enumerate() {
        let returns = matches!(
            instruction.instr,
            Instr::ReturnValue | Instr::ReturnConst { .. }
        );
        let next = match returns {
            true => SmallVec::from_slice(&[exit]),
            false => successors(code, index),
        };
        for next in next {
            edges.push((number(next)?, number(index)?));
        }
    }
    let backward = DiGraph::<(), ()>::from_edges(edges);
    let exit = NodeIndex::from(number(exit)?);
    backward.node_weight(exit)?;
    let found = dominators::simple_fast(&backward, exit);
    let found = found.immediate_dominator(NodeIndex::from(number(at)?))?;
    (found != exit).then(|| found.index())
}

/// A loop of the source.
#[derive(Debug)]
pub struct Loop {
    /// Where its backward jumps lead to.
    pub header: usize,
    /// Its instructions.
    pub body: FxHashSet<usize>,
}

/// The loops, smaller ones first.
pub fn loops(code: &Code) -> Vec<Loop> {
    let count = code.instructions.len();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); count];
    // By header: where its backward jumps go to, and where they come from. `continue` may jump to a
    // no-op in front.
    let mut jumps: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for index in 0..count {
        for next in successors(code, index) {
            before[next].push(index);
            if next <= index {
                let (targets, sources) = jumps.entry(leads_to(code, next)).or_default();
                targets.push(next);
                sources.push(index);
            }
        }
    }
    let mut found: Vec<Loop> = jumps
        .into_iter()
        .map(|(header, (targets, mut open))| {
            let mut body = FxHashSet::from_iter(targets);
            body.insert(header);
            while let Some(node) = open.pop() {
                if body.insert(node) {
                    open.extend(&before[node]);
                }
            }
            Loop { header, body }
        })
        .collect();
    found.sort_by_key(|found| found.body.len());
    // The test of `while` is copied to the end of the body, and `continue` jumps to the original:
    // one loop, not two.
    let is_copy = |inner: &Loop, outer: &Loop| {
        let tests = |at: &usize| {
            let next = successors(code, *at);
            let [a, b] = next[..] else { return None };
            let (a, b) = (leads_to(code, a), leads_to(code, b));
            match (a == inner.header, b == inner.header) {
                (true, false) => Some(b),
                (false, true) => Some(a),
                _ => None,
            }
        };
        let exits: Vec<usize> = inner.body.iter().filter_map(&tests).collect();
        inner.body.is_subset(&outer.body)
            && inner.header != outer.header
            && outer
                .body
                .difference(&inner.body)
                .filter_map(tests)
                .any(|exit| !outer.body.contains(&exit) && exits.contains(&exit))
    };
    let copies: Vec<bool> = found
        .iter()
        .map(|inner| found.iter().any(|outer| is_copy(inner, outer)))
        .collect();
    let mut copies = copies.into_iter();
    found.retain(|_| !copies.next().unwrap_or(false));
    found
}
