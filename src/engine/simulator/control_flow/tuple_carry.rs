//! Tuples that a loop makes anew in each round: what is in them is carried like locals of their
//! own.

use std::collections::BTreeMap;

use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use crate::simulator::phi::{self, Joined, Piece, refuse, same_class};
use crate::simulator::{Step, Tracer};

/// A tuple that is carried, or something in it.
#[derive(Clone, Debug)]
enum Node {
    /// Carried like a local of this number.
    Leaf(usize),
    /// A tuple, with its class.
    Tuple(Vec<Node>, Option<Obj>),
}

/// The most leaves of a loop.
pub const MOST: usize = 256;

/// Tuples that differ from round to round, by the slots they are in.
#[derive(Debug)]
pub struct Trees {
    first: usize,
    roots: BTreeMap<usize, Node>,
    /// What each leaf is in front of the loop, and the root it is in.
    leaves: Vec<(VarId, usize)>,
}

impl Trees {
    /// None yet; leaves are carried like locals from `first` on.
    pub fn new(first: usize) -> Self {
        Self {
            first,
            roots: BTreeMap::new(),
            leaves: Vec::new(),
        }
    }

    /// What a leaf is in front of the loop, and the slot of the tuple it is in.
    pub fn leaf(&self, slot: usize) -> Option<(VarId, usize)> {
        let at = slot.checked_sub(self.first)?;
        self.leaves.get(at).copied()
    }

    /// Describes what is in a tuple that is carried, or that is `first` in front of the loop and
    /// another one now; false when it is none. `name` is that of the variable.
    pub fn open(
        &mut self,
        t: &mut Tracer<'_>,
        slot: usize,
        first: Option<VarId>,
        piece: &Piece,
        name: &str,
        found: &mut Vec<(usize, Piece)>,
    ) -> Step<bool> {
        if !self.roots.contains_key(&slot) {
            let Some(first) = first else {
                return Ok(false);
            };
            let same = matches!(piece, Piece::Same(now) if *now == first);
            if same {
                return Ok(false);
            }
            t.realize(first);
            if !matches!(t.kind(first), Kind::Tuple(..)) {
                return Ok(false);
            }
            let root = self.node(t, first, slot)?;
            self.roots.insert(slot, root);
        }
        let root = self.roots[&slot].clone();
        split(t, &root, piece, name, found)?;
        Ok(true)
    }

    fn node(&mut self, t: &mut Tracer<'_>, id: VarId, root: usize) -> Step<Node> {
        t.realize(id);
        if let Kind::Tuple(items, class) = t.kind(id).clone() {
            let items = items.into_iter().map(|item| self.node(t, item, root));
            return Ok(Node::Tuple(items.collect::<Step<_>>()?, class));
        }
        if self.leaves.len() == MOST {
            return refuse(t, "too much is in tuples that change inside");
        }
        self.leaves.push((id, root));
        Ok(Node::Leaf(self.first + self.leaves.len() - 1))
    }

    /// The tuples of a round, where leaves that are carried are these variables.
    pub fn build(
        &self,
        t: &mut Tracer<'_>,
        carried: &BTreeMap<usize, VarId>,
    ) -> Vec<(usize, VarId)> {
        let roots = self.roots.iter();
        roots
            .map(|(slot, node)| (*slot, self.value(t, node, carried)))
            .collect()
    }

    fn value(&self, t: &mut Tracer<'_>, node: &Node, carried: &BTreeMap<usize, VarId>) -> VarId {
        match node {
            Node::Leaf(slot) => match carried.get(slot) {
                Some(value) => *value,
                None => self.leaves[slot - self.first].0,
            },
            Node::Tuple(items, class) => {
                let items = items.iter().map(|item| self.value(t, item, carried));
                let items = items.collect();
                t.add(Kind::Tuple(items, class.clone()))
            }
        }
    }

    /// The tuples behind the loop; `carried` are leaves that are results of it.
    pub fn joined(&self, carried: &BTreeMap<usize, Joined>) -> Vec<(usize, Joined)> {
        let roots = self.roots.iter();
        roots
            .map(|(slot, node)| (*slot, self.join(node, carried)))
            .collect()
    }

    fn join(&self, node: &Node, carried: &BTreeMap<usize, Joined>) -> Joined {
        match node {
            Node::Leaf(slot) => match carried.get(slot) {
                Some(joined) => joined.clone(),
                None => Joined::Keep(self.leaves[slot - self.first].0),
            },
            Node::Tuple(items, class) => {
                let items = items.iter().map(|item| self.join(item, carried));
                Joined::Tuple(items.collect(), class.clone())
            }
        }
    }
}

/// Describes the leaves of a tuple at the end of a round.
fn split(
    t: &mut Tracer<'_>,
    node: &Node,
    piece: &Piece,
    name: &str,
    found: &mut Vec<(usize, Piece)>,
) -> Step<()> {
    let (nodes, class) = match node {
        Node::Leaf(slot) => {
            found.push((*slot, piece.clone()));
            return Ok(());
        }
        Node::Tuple(nodes, class) => (nodes, class),
    };
    match items(t, piece) {
        Some((items, other)) if items.len() == nodes.len() && same_class(class, &other) => {
            for (node, item) in nodes.iter().zip(&items) {
                split(t, node, item, name, found)?;
            }
            Ok(())
        }
        _ => {
            let (count, now) = (nodes.len(), phi::shown(t, piece));
            phi::unlike(
                t,
                format!(
                    "{name:?} is a tuple of {count} in front of the loop and {now} after a round of it"
                ),
            )
        }
    }
}

/// The items and class of a tuple.
pub fn items(t: &mut Tracer<'_>, piece: &Piece) -> Option<(Vec<Piece>, Option<Obj>)> {
    match piece {
        Piece::Tuple(items, class) => Some((items.clone(), class.clone())),
        Piece::Same(id) => {
            t.realize(*id);
            if let Kind::Tuple(items, class) = t.kind(*id).clone() {
                Some((items.into_iter().map(Piece::Same).collect(), class))
            } else {
                None
            }
        }
        Piece::Unbound
        | Piece::Real(..)
        | Piece::Tensor(..)
        | Piece::Number(_)
        | Piece::Const(_)
        | Piece::List(..)
        | Piece::Dict(_)
        | Piece::Other(_) => None,
    }
}
