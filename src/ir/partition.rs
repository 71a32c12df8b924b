//! Parts of a graph with several results: each is a program of its own, so that autograd goes
//! through as much of the graph as in eager mode.
//!
//! A program is one node of autograd. It goes backward as a whole, with zeros for results that no
//! gradient arrived at: what only they depend on would get zeros instead of nothing (or not a
//! number, where zero meets an infinite slope), and what is put on a result from outside (a hook,
//! `retain_grads()`) would not see what comes through other results that are computed from it. So
//! statements are one part when gradients of the same results flow to them.
//!
//! Calls whose gradient is selected rows are parts of their own, which are no programs. So are
//! those with several results that gradients come to apart (`multi_output_grad.rs`), and views of
//! what comes in or goes out that gradients of several parts flow through; other such views are
//! made again where they are used.

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::split::{Part, Plan, for_each_operand};
use super::{Arg, Callee, LayerRef, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta};

/// More are one program.
const MOST: usize = 64;

/// What keeps a statement in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing but what it takes and what takes its results.
    Free,
    /// It reads what others update: those before it stay before it, those behind it behind it.
    Reads,
    /// It does something besides computing its results, and stays in order with others that do and
    /// that read: random numbers, running statistics, text.
    Acts,
}

/// The order of a statement; `None` where it changes its argument. `updated` is what statements of
/// the graph update.
fn order(
    py: Python<'_>,
    sir: &StatementIr,
    statement: &Statement,
    updated: &FxHashSet<SymbolId>,
) -> Option<Order> {
    if statement.callee.writes(py) {
        return None;
    }
    let acts = match &statement.callee {
        Callee::Layer(symbol) => match sir.kind(*symbol) {
            SymbolKind::Layer(layer) => has_state(py, layer).unwrap_or(true),
            SymbolKind::Tensor(_) => true,
        },
        Callee::Sir(_) => true,
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) => false,
    };
    let does = acts || statement.draws || !statement.updates.is_empty();
    if does || matches!(statement.output, Arg::Const(_)) {
        return Some(Order::Acts);
    }
    let mut reads = false;
    statement.for_each_argument(&mut |id| reads |= updated.contains(&id));
    Some(if reads { Order::Reads } else { Order::Free })
}

/// Whether a layer has buffers, perhaps in its parts (running statistics are parameters without
/// gradients).
fn has_state(py: Python<'_>, layer: &LayerRef) -> PyResult<bool> {
    let layer = layer.bind(py);
    if layer.call_method0("buffers")?.len()? > 0 {
        return Ok(true);
    }
    for parameter in layer.call_method0("parameters")?.try_iter()? {
        if parameter?.getattr("stop_gradient")?.is_truthy()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where a statement goes.
#[derive(Clone, Copy)]
enum Place {
    /// Gradients of these results flow to it: a number for each set of them.
    Group(usize),
    /// No gradient does: it goes where it is used first.
    Free,
}

/// What is known of the statements of a graph.
struct Known<'a> {
    /// For each symbol the statement that makes it.
    producer: &'a [Option<usize>],
    places: &'a [Place],
    order: &'a [Order],
}

const SPARSE: &str = "a sparse gradient in a graph that cannot be taken apart";
const GRADIENTS: &str = "gradients of several results flow through what paddle.grad() goes through";

/// How a graph is taken apart.
#[derive(Debug)]
pub enum Parted {
    /// It is one program.
    One,
    /// In order.
    Parts(Vec<Part>),
    /// It would have to be, and cannot: it runs call by call.
    Never(&'static str),
}

impl StatementIr {
    /// The parts of the graph, while gradients are on. One that cannot be taken apart by its
    /// results is one.
    pub fn parts(&self, py: Python<'_>) -> Parted {
        let selects = |it: &Statement| it.alone || it.may_select_rows(py, &self.symbols);
        let mut apart: Vec<bool> = self.statements.iter().map(selects).collect();
        match self.parts_with(py, &mut apart) {
            Some(_) if self.makes_gradients(py) => Parted::Never(GRADIENTS),
            Some(parts) => Parted::Parts(parts),
            None if apart.contains(&true) => Parted::Never(SPARSE),
            None => Parted::One,
        }
    }

    /// The same, where `apart` says which statements have to be parts of their own, and learns of
    /// more.
    fn parts_with(&self, py: Python<'_>, apart: &mut [bool]) -> Option<Vec<Part>> {
        let producer = self.producers();
        let (mut places, mut groups, from) = self.places(&producer, apart)?;
        let mut more = false;
        for (statement, apart) in self.statements.iter().zip(apart.iter_mut()) {
            if !*apart && self.has_results_apart(py, statement, &from) {
                *apart = true;
                more = true;
            }
        }
        if more {
            (places, groups, _) = self.places(&producer, apart)?;
        }
        let mut views = self.views(py, &producer);
        let mut alone = apart.to_vec();
        self.add_views_between(&producer, &places, &views, &mut alone);
        if alone != apart {
            match self.places(&producer, &alone)? {
                (_, more, _) if more > MOST => alone.copy_from_slice(apart),
                (found, number, _) => (places, groups) = (found, number),
            }
        }
        let flows = |place: &Place| matches!(place, Place::Group(_));
        for (at, place) in places.iter().enumerate() {
            alone[at] &= flows(place);
            if flows(place) {
                views[at] = None;
            }
        }
        if groups > MOST || (groups < 2 && !alone.contains(&true)) {
            return None;
        }
        let order = self.order(py)?;
        let known = Known {
            producer: &producer,
            places: &places,
            order: &order,
        };
        let mut of = match self.group_by_group(&known, groups) {
            Some(of) => of,
            None => self.in_turns(&known)?,
        };
        self.use_late(&known, &mut of);
        let plan = Plan {
            producer: &producer,
            of: &of,
            alone: &alone,
            is_view: &|at| views[at].is_some(),
            taken: None,
        };
        self.without_idle_gradients(&places).cut_up(py, &plan)
    }

    /// Notes the views that gradients of several parts flow through, and those that these are views
    /// of.
    fn add_views_between(
        &self,
        producer: &[Option<usize>],
        places: &[Place],
        views: &[Option<SymbolId>],
        alone: &mut [bool],
    ) {
        let group = |at: usize| match places[at] {
            Place::Group(group) => Some(group),
            Place::Free => None,
        };
        for (number, statement) in self.statements.iter().enumerate().rev() {
            let mut note = |id: SymbolId| {
                let from = producer[id.0 as usize].filter(|from| *from < number);
                let Some(from) = from.filter(|from| views[*from].is_some()) else {
                    return;
                };
                let between = group(number).is_some() && group(from) != group(number);
                if group(from).is_some() && (between || (alone[number] && views[number].is_some()))
                {
                    alone[from] = true;
                }
            };
            for_each_operand(statement, &mut note);
        }
    }

    /// The same graph, in which nothing needs a gradient that none flows to: one part would hand it
    /// to another as if.
    fn without_idle_gradients(&self, places: &[Place]) -> Self {
        let mut whole = self.clone();
        for (statement, place) in whole.statements.iter_mut().zip(places) {
            if matches!(place, Place::Group(_)) {
                continue;
            }
            statement.grad_enabled = false;
            let symbols = &mut whole.symbols;
            statement.output.for_each_symbol(&mut |id| {
                if let SymbolKind::Tensor(meta) = &mut symbols[id.0 as usize] {
                    meta.stop_gradient = true;
                }
            });
        }
        whole
    }

    /// The group of each statement, how many groups there are, and the results that gradients of
    /// each symbol come from.
    fn places(
        &self,
        producer: &[Option<usize>],
        selects: &[bool],
    ) -> Option<(Vec<Place>, usize, Vec<u64>)> {
        // For each symbol the results that gradients come from: one bit each.
        let mut from: Vec<u64> = vec![0; self.symbols.len()];
        let mut bit = 0;
        for id in &self.outputs {
            producer[id.0 as usize]?;
            if self.has_gradient(*id) {
                from[id.0 as usize] |= 1_u64.checked_shl(bit)?;
                bit += 1;
            }
        }
        if bit < 2 && !selects.contains(&true) {
            return None;
        }
        let mut numbers: FxHashMap<(u64, bool), usize> = FxHashMap::default();
        let mut places = vec![Place::Free; self.statements.len()];
        for (number, statement) in self.statements.iter().enumerate().rev() {
            let mut results = 0;
            statement.output.for_each_symbol(&mut |id| {
                if self.has_gradient(id) {
                    results |= from[id.0 as usize];
                }
            });
            if results == 0 {
                continue;
            }
            let next = numbers.len();
            places[number] =
                Place::Group(*numbers.entry((results, selects[number])).or_insert(next));
            let mut carries = false;
            for_each_operand(statement, &mut |id| carries |= self.carries_gradient(id));
            // Where no gradient flows any further, the result needs one because whole numbers do.
            let flows = |id| match carries {
                true => self.carries_gradient(id),
                false => self.has_gradient(id),
            };
            for_each_operand(statement, &mut |id| {
                if flows(id) {
                    from[id.0 as usize] |= results;
                }
            });
        }
        let groups = numbers.len();
        Some((places, groups, from))
    }

    /// What keeps each statement in its place; `None` where one changes its argument.
    pub(super) fn order(&self, py: Python<'_>) -> Option<Vec<Order>> {
        let mut updated = self.updated();
        let one = |it: &Statement| {
            let order = order(py, self, it, &updated)?;
            if order == Order::Reads && self.shares(py, it) {
                // Who reads a view reads what it is of.
                it.output.for_each_symbol(&mut |id| {
                    updated.insert(id);
                });
            }
            Some(order)
        };
        self.statements.iter().map(one).collect()
    }

    /// What statements update, and inputs that may be views of it: whoever calls may give one.
    fn updated(&self) -> FxHashSet<SymbolId> {
        let updates = self.statements.iter().flat_map(|it| &it.updates);
        let mut found: FxHashSet<SymbolId> = updates.copied().collect();
        let whole: Vec<&TensorMeta> = found.iter().filter_map(|id| self.meta(*id)).collect();
        let is_within = |view: &TensorMeta, whole: &TensorMeta| {
            let count = |meta: &TensorMeta| meta.shape.iter().product::<i64>();
            let fits = !view.is_static() || !whole.is_static() || count(view) <= count(whole);
            view.dtype == whole.dtype && fits
        };
        let may_view = |id: &SymbolId| {
            let meta = self.meta(*id).filter(|meta| meta.stop_gradient);
            meta.is_some_and(|view| whole.iter().any(|whole| is_within(view, whole)))
        };
        let views: Vec<SymbolId> = self.inputs.iter().copied().filter(may_view).collect();
        found.extend(views);
        found
    }

    /// For each statement its part, where each group is one; `None` where groups take turns.
    fn group_by_group(&self, known: &Known<'_>, groups: usize) -> Option<Vec<usize>> {
        let mut first = vec![usize::MAX; groups];
        // The groups that have to run before a statement, or that it is among: one bit each.
        let mut needs = vec![0_u64; known.places.len()];
        // The same for those that acted, and for those that have read since.
        let (mut acted, mut read) = (0, 0);
        for (number, place) in known.places.iter().enumerate() {
            let mut wanted = 0;
            self.for_each_source(known.producer, number, &mut |from| {
                wanted |= match known.places[from] {
                    Place::Group(group) => 1 << group,
                    Place::Free => needs[from],
                };
            });
            match known.order[number] {
                Order::Free => {}
                Order::Reads => wanted |= acted,
                Order::Acts => wanted |= acted | read,
            }
            needs[number] = wanted;
            if let Place::Group(group) = place {
                first[*group] = first[*group].min(number);
            }
            let runs = match place {
                Place::Group(group) => 1 << group,
                Place::Free => wanted,
            };
            match known.order[number] {
                Order::Free => {}
                Order::Reads => read |= runs,
                Order::Acts => (acted, read) = (runs, 0),
            }
        }
        let mut before = vec![0_u64; groups];
        for (number, place) in known.places.iter().enumerate() {
            if let Place::Group(group) = place {
                before[*group] |= needs[number] & !(1 << group);
            }
        }
        let mut ranks = vec![usize::MAX; groups];
        let mut done = 0_u64;
        for rank in 0..groups {
            let ready =
                (0..groups).filter(|at| ranks[*at] == usize::MAX && before[*at] & !done == 0);
            let next = ready.min_by_key(|at| first[*at])?;
            ranks[next] = rank;
            done |= 1 << next;
        }
        let of = known.places.iter().zip(&needs).map(|(place, needs)| {
            let needed = (0..groups).filter(|group| needs >> group & 1 == 1);
            match place {
                Place::Group(group) => ranks[*group],
                Place::Free => needed.map(|group| ranks[group]).max().unwrap_or(0),
            }
        });
        Some(of.collect())
    }

    /// The same where groups take turns: a part is what runs of a group at its turn. `None` where
    /// there are too many.
    fn in_turns(&self, known: &Known<'_>) -> Option<Vec<usize>> {
        // Turns and groups that have to run before a statement, or that it is among.
        type Turns = Vec<(usize, usize)>;
        let mut needs: Vec<Turns> = Vec::with_capacity(known.places.len());
        let (mut acted, mut read) = (Turns::new(), Turns::new());
        for (number, place) in known.places.iter().enumerate() {
            let mut wanted = Turns::new();
            self.for_each_source(known.producer, number, &mut |from| {
                wanted.extend_from_slice(&needs[from]);
            });
            if known.order[number] != Order::Free {
                wanted.extend_from_slice(&acted);
            }
            if known.order[number] == Order::Acts {
                wanted.append(&mut read);
            }
            wanted.sort_unstable();
            wanted.dedup();
            if let Place::Group(own) = *place {
                let turns = wanted
                    .iter()
                    .map(|(turn, group)| turn + usize::from(*group != own));
                wanted = vec![(turns.max().unwrap_or(0), own)];
            }
            match known.order[number] {
                Order::Free => {}
                Order::Reads => read.extend_from_slice(&wanted),
                Order::Acts => acted.clone_from(&wanted),
            }
            needs.push(wanted);
        }
        let places = known.places.iter().zip(&needs);
        let grouped = places.filter(|(place, _)| matches!(place, Place::Group(_)));
        let mut turns: Turns = grouped
            .filter_map(|(_, needs)| needs.last().copied())
            .collect();
        turns.sort_unstable();
        turns.dedup();
        if turns.len() > MOST {
            return None;
        }
        let of = needs.iter().map(|needs| match needs.last() {
            Some(turn) => turns.binary_search(turn).ok(),
            None => Some(0),
        });
        of.collect()
    }

    /// What no gradient flows to goes where it is used first: fewer tensors go from one part to the
    /// other.
    fn use_late(&self, known: &Known<'_>, of: &mut [usize]) {
        let mut wanted: Vec<Option<usize>> = vec![None; of.len()];
        for number in (0..of.len()).rev() {
            let stays = known.order[number] != Order::Free
                || matches!(known.places[number], Place::Group(_));
            if let (false, Some(first)) = (stays, wanted[number]) {
                of[number] = of[number].max(first);
            }
            let part = of[number];
            self.for_each_source(known.producer, number, &mut |from| {
                wanted[from] = Some(wanted[from].map_or(part, |known| known.min(part)));
            });
        }
    }
}
