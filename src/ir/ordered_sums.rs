//! Sums of gradients that the parts of a graph would make in another order than eager mode.
//!
//! Eager mode adds what arrives at a tensor one after the other, in the order of its operations. A
//! part is one node of autograd: it adds what its own operations give first, and it runs when its
//! results have gradients, however long the way through it is. So where more than two gradients of
//! several parts meet, each use takes an alias of the tensor, made by a statement of its own that
//! says in which order their gradients are added (`ordered_sums.py`). A layer that holds the tensor
//! is called with an alias in its place. Where results have nothing else in common each may go
//! backward alone: the nodes of such aliases go backward any number of times. Parts that are alike,
//! and as far from the results, run in eager mode's order, however far those are from a loss.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};
use rustc_hash::{FxHashMap, FxHashSet};

use paddle_sot_cpython::obj::Obj;

use super::split::Part;
use super::{Arg, Callee, LayerRef, Statement, StatementIr, SymbolId, SymbolKind};

/// Where gradients meet.
#[derive(Debug)]
pub struct Arrivals {
    /// Tensors, and for each gradient that comes to one what a statement makes through which it
    /// comes, and how many operations that is from the results, in eager mode's order.
    pub sums: Vec<(SymbolId, Vec<(SymbolId, usize)>)>,
    /// How many operations a call has, by what it makes.
    pub operations: FxHashMap<SymbolId, usize>,
}

/// What makes aliases: see `ordered_sums.py`.
pub struct Makers {
    /// `aliases`.
    pub aliases: Obj,
    /// `place_of`.
    pub place_of: Obj,
    /// `WithAliases`.
    pub with_aliases: Obj,
    /// `chained`.
    pub chained: Obj,
    /// The tensors that go into the graph.
    pub inputs: FxHashMap<SymbolId, Obj>,
    /// Parts of fewer operations run call by call.
    pub least: usize,
}

/// For each statement whose layer is called with aliases: where it holds their tensor, and they.
type Held = FxHashMap<usize, Vec<(Obj, SymbolId)>>;

/// A tensor whose gradients are added by a statement.
struct Sum {
    tensor: SymbolId,
    /// The aliases: for each the statements that take it, once for each gradient.
    uses: Vec<Vec<usize>>,
    /// Whether it leaves the graph: what comes from outside is the first of the sum.
    leaves: bool,
    /// Whether results may go backward through it one by one.
    again: bool,
}

impl StatementIr {
    /// The graph with statements for the sums that its parts would make in another order. `None`:
    /// there are none.
    ///
    /// # Errors
    /// When Python cannot look at a layer.
    pub fn with_ordered_sums(
        &self,
        py: Python<'_>,
        parts: &[Part],
        arrivals: &Arrivals,
        makers: &Makers,
    ) -> PyResult<Option<Self>> {
        let producer = self.producers();
        let mut of = vec![0; self.statements.len()];
        for (number, part) in parts.iter().enumerate() {
            part.statements.iter().for_each(|at| of[*at] = number);
        }
        let mut whole = self.clone();
        let mut held = Held::default();
        let mut made: FxHashMap<Option<usize>, Vec<Statement>> = FxHashMap::default();
        let depths = self.depths(parts);
        let count = |at: &usize| {
            let made = self.statements[*at].output.first_symbol();
            let known = made.and_then(|made| arrivals.operations.get(&made));
            known.copied().unwrap_or(1)
        };
        let is_small = |part: &Part| {
            part.by_calls || part.statements.iter().map(count).sum::<usize>() < makers.least
        };
        let by_calls: Vec<bool> = parts.iter().map(is_small).collect();
        let as_eager = self.all_behind(parts, &by_calls);
        for (tensor, users) in &arrivals.sums {
            let by = |(id, _): &(SymbolId, usize)| producer.get(id.0 as usize).copied().flatten();
            let Some(uses) = users.iter().map(by).collect::<Option<Vec<usize>>>() else {
                continue;
            };
            let in_turn = |(at, (_, level)): (&usize, &(SymbolId, usize))| {
                let part = of[*at];
                (part, by_calls[part], (*level, depths[part], by_calls[part]))
            };
            let is_as_eager = uses.iter().all(|at| as_eager[of[*at]]);
            if is_as_eager || are_in_turn(uses.iter().zip(users).map(in_turn)) {
                continue;
            }
            let home = producer[tensor.0 as usize];
            let is_leaf = home.is_none_or(|at| !self.goes_backward(at));
            let place = home.map(|at| of[at]);
            let leaves = self.outputs.contains(tensor);
            let apart = match leaves {
                true => apart_where_it_leaves(&uses, place, &of),
                false => apart_in_order(&uses, place, &of),
            };
            let Some(apart) = apart else {
                continue;
            };
            let Some(places) = self.may_alias(py, *tensor, &uses, makers)? else {
                continue;
            };
            let sum = Sum {
                tensor: *tensor,
                uses: apart,
                leaves,
                again: is_leaf && self.may_go_apart(&producer, &uses),
            };
            if let Some(statement) = whole.make_aliases(py, &sum, (places, &mut held), makers) {
                made.entry(home).or_default().push(statement);
            }
        }
        if made.is_empty() {
            return Ok(None);
        }
        whole.call_with_aliases(py, held, makers)?;
        let statements = std::mem::take(&mut whole.statements);
        whole
            .statements
            .extend(made.remove(&None).unwrap_or_default());
        for (number, statement) in statements.into_iter().enumerate() {
            whole.statements.push(statement);
            let behind = made.remove(&Some(number)).unwrap_or_default();
            whole.statements.extend(behind);
        }
        Ok(Some(whole))
    }

    /// How many parts each is from the results, on the longest way.
    fn depths(&self, parts: &[Part]) -> Vec<usize> {
        let mut depths = vec![0; parts.len()];
        for number in (0..parts.len()).rev() {
            let behind = behind(parts, number).map(|other| depths[other] + 1);
            depths[number] = behind.max().unwrap_or(0);
        }
        depths
    }

    /// The parts that this holds of, and of all that gradients go through before them.
    fn all_behind(&self, parts: &[Part], holds: &[bool]) -> Vec<bool> {
        let mut all = holds.to_vec();
        for number in (0..parts.len()).rev() {
            all[number] &= behind(parts, number).all(|other| all[other]);
        }
        all
    }

    /// Whether gradients flow from what a statement makes to what it takes or holds.
    fn goes_backward(&self, at: usize) -> bool {
        let statement = &self.statements[at];
        let mut flows = matches!(statement.callee, Callee::Layer(_));
        statement.for_each_argument(&mut |id| flows |= self.carries_gradient(id));
        flows
    }

    /// Whether two results have nothing but leaves in common, one of which the statements at `uses`
    /// take. Eager mode goes backward from one and then from the other, but through aliases once.
    fn may_go_apart(&self, producer: &[Option<usize>], uses: &[usize]) -> bool {
        let on_the_way = |result: &SymbolId| {
            let mut found = FxHashSet::default();
            let mut left = vec![*result];
            while let Some(id) = left.pop() {
                let by = producer[id.0 as usize].filter(|_| self.carries_gradient(id));
                let by = by.filter(|at| self.goes_backward(*at));
                if let Some(at) = by.filter(|at| found.insert(*at)) {
                    self.statements[at].for_each_argument(&mut |id| left.push(id));
                }
            }
            found
        };
        let ways: Vec<FxHashSet<usize>> = self.outputs.iter().map(on_the_way).collect();
        let ways = ways.iter();
        let ways: Vec<_> = ways
            .filter(|way| uses.iter().any(|at| way.contains(at)))
            .collect();
        let mut pairs = ways.iter().enumerate();
        pairs.any(|(at, way)| ways[..at].iter().any(|other| way.is_disjoint(other)))
    }

    /// Whether uses of a tensor can take aliases of it: where layers hold it, by their statements.
    fn may_alias(
        &self,
        py: Python<'_>,
        tensor: SymbolId,
        uses: &[usize],
        makers: &Makers,
    ) -> PyResult<Option<FxHashMap<usize, Obj>>> {
        let leaves = self.outputs.contains(&tensor);
        // A statement that hands it on, as a cast to the dtype that it has, makes it once more.
        let makes = |statement: &&Statement| {
            let mut makes = false;
            statement
                .output
                .for_each_symbol(&mut |id| makes |= id == tensor);
            makes
        };
        if self.statements.iter().filter(makes).count() > 1 {
            return Ok(None);
        }
        let mut places = FxHashMap::default();
        for at in uses {
            let statement = &self.statements[*at];
            let is_view = leaves && self.shares(py, statement);
            let is_nested = matches!(statement.callee, Callee::Sir(_));
            if is_view || is_nested || statement.may_select_rows(py, &self.symbols) {
                return Ok(None);
            }
            let times = uses.iter().filter(|other| *other == at).count();
            match count(statement, tensor) {
                0 if times == 1 => match self.place_in_layer(py, statement, tensor, makers)? {
                    Some(place) => places.insert(*at, place),
                    None => return Ok(None),
                },
                takes if takes == times => None,
                // A layer holds it too, or does more with it than the statement says.
                _ => return Ok(None),
            };
        }
        Ok(Some(places))
    }

    /// Where the layer that a statement calls has a tensor. `None`: nowhere, or in several places.
    pub(super) fn place_in_layer(
        &self,
        py: Python<'_>,
        statement: &Statement,
        tensor: SymbolId,
        makers: &Makers,
    ) -> PyResult<Option<Obj>> {
        let (Some(layer), Some(tensor)) = (self.layer_of(statement), makers.inputs.get(&tensor))
        else {
            return Ok(None);
        };
        let place_of = makers.place_of.bind(py);
        let place = place_of.call1((layer.bind(py), tensor.bind(py)))?;
        Ok((!place.is_none()).then(|| Obj::from(place)))
    }

    /// The layer that a statement calls.
    fn layer_of(&self, statement: &Statement) -> Option<&LayerRef> {
        let Callee::Layer(symbol) = statement.callee else {
            return None;
        };
        match self.kind(symbol) {
            SymbolKind::Layer(layer) => Some(layer),
            SymbolKind::Tensor(_) => None,
        }
    }

    /// Has layers take aliases of what they hold.
    fn call_with_aliases(&mut self, py: Python<'_>, held: Held, makers: &Makers) -> PyResult<()> {
        for (at, held) in held {
            let places = held.iter().map(|(place, _)| place);
            if let Some(stand_in) = self.stand_in(py, at, places, makers)? {
                let aliases = held.iter().map(|(_, alias)| Arg::Symbol(*alias));
                self.statements[at].call_stand_in(stand_in, aliases.collect());
            }
        }
        Ok(())
    }

    /// A new input: what stands for the layer that a statement calls, and takes what that holds in
    /// these places.
    pub(super) fn stand_in<'a>(
        &mut self,
        py: Python<'_>,
        at: usize,
        places: impl Iterator<Item = &'a Obj>,
        makers: &Makers,
    ) -> PyResult<Option<SymbolId>> {
        let Some(layer) = self.layer_of(&self.statements[at]) else {
            return Ok(None);
        };
        let places: Vec<_> = places.map(|place| place.bind(py)).collect();
        let with_aliases = makers.with_aliases.bind(py);
        let stand_in = with_aliases.call1((layer.bind(py), places))?;
        let symbol = SymbolId(self.symbols.len() as u32);
        let kept = LayerRef::kept(&stand_in);
        self.symbols.push(SymbolKind::Layer(kept));
        self.inputs.insert(0, symbol);
        Ok(Some(symbol))
    }

    /// Has the statements take aliases; the answer makes those.
    fn make_aliases(
        &mut self,
        py: Python<'_>,
        sum: &Sum,
        (mut places, held): (FxHashMap<usize, Obj>, &mut Held),
        makers: &Makers,
    ) -> Option<Statement> {
        let meta = self.meta(sum.tensor)?.clone();
        let mut made = Vec::with_capacity(sum.uses.len());
        let mut taken: FxHashMap<usize, Vec<SymbolId>> = FxHashMap::default();
        for uses in &sum.uses {
            let alias = SymbolId(u32::try_from(self.symbols.len()).ok()?);
            self.symbols.push(SymbolKind::Tensor(meta.clone()));
            made.push(Arg::Symbol(alias));
            for at in uses {
                taken.entry(*at).or_default().push(alias);
            }
        }
        let loc = self.statements[*sum.uses.first()?.first()?].loc.clone();
        for (at, aliases) in taken {
            let mut aliases = aliases.into_iter();
            if let Some(place) = places.remove(&at) {
                held.entry(at)
                    .or_default()
                    .extend(aliases.next().map(|alias| (place, alias)));
                continue;
            }
            self.statements[at].rename_arguments(&mut |id| match id == sum.tensor {
                true => aliases.next().unwrap_or(id),
                false => id,
            });
        }
        let number = Obj::from(PyInt::new(py, made.len()).into_any());
        let together = sum.uses.first().is_some_and(|uses| uses.len() > 1);
        let flag = |is: bool| Arg::Const(Obj::from(PyBool::new(py, is).to_owned().into_any()));
        let args = vec![
            Arg::Symbol(sum.tensor),
            Arg::Const(number),
            flag(sum.leaves),
            flag(sum.again),
            flag(together),
        ];
        let callee = Callee::Api(makers.aliases.clone());
        Some(Statement {
            alone: true,
            ..Statement::plain(callee, args, Arg::List(made), loc)
        })
    }
}

/// How often a statement takes a tensor.
pub(super) fn count(statement: &Statement, tensor: SymbolId) -> usize {
    let mut takes = 0;
    statement.for_each_argument(&mut |id| takes += usize::from(id == tensor));
    takes
}

/// The parts that take what one makes.
fn behind(parts: &[Part], number: usize) -> impl Iterator<Item = usize> + '_ {
    let made = &parts[number].outputs;
    let takes = move |other: &usize| made.iter().any(|id| parts[*other].inputs.contains(id));
    (number + 1..parts.len()).filter(takes)
}

/// Whether parts give their gradients one after the other in eager mode's order: they are alike,
/// and each gives one, or runs call by call.
fn are_in_turn<T: PartialEq>(uses: impl Iterator<Item = (usize, bool, T)>) -> bool {
    let uses: Vec<(usize, bool, T)> = uses.collect();
    let mut others = uses.iter().enumerate().skip(1);
    others.all(|(at, (part, by_calls, known))| {
        let before = &uses[..at];
        *known == uses[0].2 && (*by_calls || before.iter().all(|(earlier, ..)| earlier != part))
    })
}

/// The uses of each alias of a tensor that stays in the graph. `None`: parts add what comes through
/// these statements as eager mode does, first what other parts than `home` give, which makes the
/// tensor. The first two may change places.
fn apart_in_order(uses: &[usize], home: Option<usize>, of: &[usize]) -> Option<Vec<Vec<usize>>> {
    let parts: Vec<Option<usize>> = uses.iter().map(|at| Some(of[*at])).collect();
    let is_right = |parts: &[Option<usize>]| {
        let others = parts.iter().take_while(|part| **part != home).count();
        let (others, own) = parts.split_at(others);
        let is_one = others.iter().all(|part| Some(part) == others.first());
        own.iter().all(|part| *part == home) && (is_one || others.len() <= 2)
    };
    let mut swapped = parts.clone();
    if swapped.len() > 1 {
        swapped.swap(0, 1);
    }
    if is_right(&parts) || is_right(&swapped) {
        return None;
    }
    // What one part gives first it may add by itself; one that runs call by call does not.
    let first = parts.iter().take_while(|part| **part == parts[0]).count();
    let (together, single) = uses.split_at(first);
    if single.is_empty() && parts.iter().all(|part| *part != home) {
        return None;
    }
    let single = single.iter().map(|at| vec![*at]);
    Some([together.to_vec()].into_iter().chain(single).collect())
}

/// The same of one that leaves the graph: there is a gradient in front of those of the uses.
fn apart_where_it_leaves(
    uses: &[usize],
    home: Option<usize>,
    of: &[usize],
) -> Option<Vec<Vec<usize>>> {
    let others: Vec<usize> = uses
        .iter()
        .copied()
        .filter(|at| Some(of[*at]) != home)
        .collect();
    let is_again = |at: usize| {
        others[..at]
            .iter()
            .any(|other| of[*other] == of[others[at]])
    };
    let is_apart = (0..others.len()).any(is_again);
    is_apart.then(|| others.into_iter().map(|at| vec![at]).collect())
}
