//! Tensors that captured control flow hands on: in eager mode one that a side leaves as it was is
//! still the same tensor, the result of a graph is a new one. Where a later change could tell, the
//! interpreter runs the control flow.

use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{BlockOutput, SymbolId};
use crate::tracer::function_graph::Cut;
use crate::variables::{Kind, TensorVar, VarId};

use crate::Tracer;
use crate::alias_analysis;
use crate::captured_flow::Alias;
use crate::tracer::TraceMark;

/// Pairs of tensors made since `mark` and what they may share storage with.
pub(crate) fn within(t: &Tracer<'_>, mark: &TraceMark) -> Vec<(SymbolId, SymbolId)> {
    let mut pairs: Vec<_> = t.flow.aliases.iter().map(|it| (it.result, it.of)).collect();
    for id in (0..t.vars.len() as u32).map(VarId) {
        let Kind::Tensor(tensor) = t.vars.kind(id) else {
            continue;
        };
        if tensor.view.is_none() || t.is_older(id, mark) {
            continue;
        }
        if let Kind::Tensor(root) = t.vars.kind(alias_analysis::root(&t.vars, id)) {
            pairs.push((tensor.symbol, root.symbol));
            let further = t.flow.aliases_of(root.symbol);
            pairs.extend(further.map(|it| (tensor.symbol, it.of)));
        }
    }
    with_further(pairs)
}

/// These pairs, and what a tensor may share storage with by way of another one.
fn with_further(mut pairs: Vec<(SymbolId, SymbolId)>) -> Vec<(SymbolId, SymbolId)> {
    let mut known = FxHashSet::from_iter(pairs.iter().copied());
    let mut of_each: FxHashMap<SymbolId, Vec<SymbolId>> = FxHashMap::default();
    for (made, of) in &pairs {
        of_each.entry(*made).or_default().push(*of);
    }
    let mut at = 0;
    while let Some(&(made, of)) = pairs.get(at) {
        for further in of_each.get(&of).into_iter().flatten() {
            if made != *further && known.insert((made, *further)) {
                pairs.push((made, *further));
            }
        }
        at += 1;
    }
    pairs
}

/// What a result of a block may be, outside of it.
pub(crate) fn of(
    cut: &Cut,
    pairs: &[(SymbolId, SymbolId)],
    output: BlockOutput,
) -> impl Iterator<Item = SymbolId> + use<> {
    let (itself, inner) = match output {
        BlockOutput::Outer(symbol) => (Some(symbol), symbol),
        BlockOutput::Inner(symbol) => (cut.outer(symbol), symbol),
    };
    let others = pairs.iter().filter(move |(made, _)| *made == inner);
    let others: Vec<_> = others.filter_map(|(_, of)| cut.outer(*of)).collect();
    itself.into_iter().chain(others)
}

/// Whether two results of a block share storage that was made inside or came in: one is the other,
/// or a view of it, or both are views of a third.
pub(crate) fn share(cut: &Cut, pairs: &[(SymbolId, SymbolId)], results: [BlockOutput; 2]) -> bool {
    let [first, second] = results.map(|output| {
        let (BlockOutput::Outer(symbol) | BlockOutput::Inner(symbol)) = output;
        let others = pairs.iter().filter(|(made, _)| *made == symbol);
        let all = std::iter::once(symbol).chain(others.map(|(_, of)| *of));
        // What came in has a name outside, too.
        all.map(|it| cut.outer(it).unwrap_or(it))
            .collect::<Vec<_>>()
    });
    first.iter().any(|it| second.contains(it))
}

/// Remembers that `result` may be `of`, and what that may be.
pub(crate) fn note(t: &mut Tracer<'_>, result: SymbolId, of: SymbolId) {
    let further = t.flow.aliases_of(of);
    let further: Vec<_> = further.map(|it| it.of).collect();
    for of in std::iter::once(of).chain(further) {
        let alias = Alias {
            result,
            of,
            at: t.frames.outermost,
        };
        if result != of && !t.flow.aliases.contains(&alias) {
            t.flow.aliases.push(alias);
        }
    }
}

/// Whether a tensor may be another one, or another one may be it.
pub(crate) fn is_of_two(t: &Tracer<'_>, symbol: SymbolId) -> bool {
    let is_it = |it: &Alias| it.result == symbol || it.of == symbol;
    t.flow.aliases.iter().any(is_it)
}

/// Whether nobody knows if these are one object: the interpreter runs what made them, and says so.
pub(crate) fn may_be_one(t: &Tracer<'_>, a: VarId, b: VarId) -> bool {
    let (Kind::Tensor(a), Kind::Tensor(b)) = (t.vars.kind(a), t.vars.kind(b)) else {
        return false;
    };
    let pair = (a.symbol, b.symbol);
    let is_carried = |symbol| t.flow.carried.contains(&symbol);
    if pair.0 != pair.1 && (is_carried(pair.0) || is_carried(pair.1)) {
        return true;
    }
    let of = |symbol| {
        let all = t.flow.aliases_of(symbol);
        all.map(|it| it.of).chain(std::iter::once(symbol))
    };
    of(pair.0).any(|one| of(pair.1).any(|other| one == other))
}

/// Why a question for it breaks the graph.
pub(crate) const CLASS: &str = "the class of a tensor, which captured control flow decides";

/// The class of a parameter (or another tensor of a class of its own) that a tensor without one may
/// be.
pub(crate) fn other_class<'py>(t: &Tracer<'py>, tensor: VarId) -> Option<Bound<'py, PyType>> {
    let Kind::Tensor(TensorVar {
        symbol,
        class: None,
        ..
    }) = t.vars.kind(tensor)
    else {
        return None;
    };
    let mut of = t.flow.aliases_of(*symbol);
    of.find_map(|it| class_of_input(t, it.of))
}

/// The class of an input of the graph that is more than a tensor.
pub(crate) fn class_of_input<'py>(t: &Tracer<'py>, symbol: SymbolId) -> Option<Bound<'py, PyType>> {
    let mut inputs = t.graph.inputs.iter();
    let input = inputs.find(|input| input.symbol == symbol)?;
    let class = input.value.bind(t.py).get_type();
    (!class.is(t.paddle.tensor.bind(t.py))).then_some(class)
}

/// The instruction that has to run natively where the tensor goes on to native code: what it is, or
/// is a view of, captured control flow may have left as it was.
pub fn made_at(t: &Tracer<'_>, tensor: VarId) -> Option<usize> {
    let made = |symbol| t.flow.aliases_of(symbol).next();
    let mut id = tensor;
    while let Kind::Tensor(TensorVar { symbol, view, .. }) = t.vars.kind(id) {
        let of = view.as_ref().and_then(|view| made(view.base_symbol));
        if let Some(found) = made(*symbol).or(of) {
            return Some(found.at);
        }
        id = view.as_ref()?.base;
    }
    None
}
