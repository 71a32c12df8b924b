//! Tuples, lists and dicts that a loop makes anew in each round: what is in them is carried like
//! locals of their own.

use std::collections::BTreeMap;

use crate::graph::TensorMeta;
use crate::obj::Obj;
use crate::variables::{DictVar, Key, Kind, VarId};

use crate::control_flow::maybe;
use crate::control_flow::own_containers::{self, Around, Holder, Items};
use crate::loop_return::{self, Leaf};
use crate::phi::{self, Joined, Piece, refuse, same_class, same_keys};
use crate::tracer::TraceMark;
use crate::{Step, Tracer, region};

/// A tuple that is carried, or something in it.
#[derive(Clone, Debug)]
enum Node {
    /// Carried like a local of this number.
    Leaf(usize),
    /// A tuple, with its class.
    Tuple(Vec<Node>, Option<Obj>),
    /// A list that nobody else has.
    List(Vec<Node>),
    /// A dict that nobody else has.
    Dict(Vec<(Key, Obj, Node)>),
    /// A tensor or `None`: a flag and a tensor, which is this one in front of the loop.
    Maybe([usize; 2], VarId),
}

/// The most leaves of a loop.
pub const MOST: usize = 256;

/// Where a container is: the slot that it is carried in, the frame, and what holds it.
#[derive(Clone, Copy)]
pub struct Root<'a> {
    /// Its slot.
    pub slot: usize,
    /// The frame in front of the loop.
    pub around: Around<'a>,
    /// What holds it.
    pub holder: Holder,
}

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
        at: Root<'_>,
        first: Option<VarId>,
        (piece, meta): (&Piece, Option<TensorMeta>),
        name: &str,
        found: &mut Vec<(usize, Piece)>,
    ) -> Step<bool> {
        let slot = at.slot;
        if !self.roots.contains_key(&slot) {
            let Some(first) = first else {
                return Ok(false);
            };
            let same = matches!(piece, Piece::Same(now) if *now == first);
            if same {
                return Ok(false);
            }
            t.realize(first);
            if let Some(root) = self.flagged(t, first, at, piece, meta)? {
                self.roots.insert(slot, root.clone());
                split(t, &root, piece, name, found)?;
                return Ok(true);
            }
            let is_container = matches!(
                t.kind(first),
                Kind::Tuple(..) | Kind::List(_) | Kind::Dict(_)
            );
            if !is_container {
                return Ok(false);
            }
            let root = self.node(t, first, at)?;
            if matches!(root, Node::Leaf(_)) {
                self.leaves.pop();
                return Ok(false);
            }
            self.roots.insert(slot, root);
        }
        let root = self.roots[&slot].clone();
        split(t, &root, piece, name, found)?;
        Ok(true)
    }

    /// What is a tensor after some rounds, and `None` after others. `meta` is that of the tensor at
    /// the end of this one.
    fn flagged(
        &mut self,
        t: &mut Tracer<'_>,
        first: VarId,
        at: Root<'_>,
        piece: &Piece,
        meta: Option<TensorMeta>,
    ) -> Step<Option<Node>> {
        if !t.flow.maybes {
            return Ok(None);
        }
        let (flag, tensor) = if let Kind::Maybe(maybe) = *t.kind(first) {
            (t.add(Kind::SymNumber(maybe.holds)), maybe.tensor)
        } else if let (true, Some(meta)) = (t.is_none(first), meta) {
            let leaf = Leaf {
                meta,
                number: false,
            };
            let zeros = loop_return::zeros(t, &leaf, &at.around.frame.locals)?;
            (t.bool(false), region::tensor(t, zeros))
        } else if matches!(t.kind(first), Kind::Tensor(_)) {
            match maybe::parts(t, piece) {
                Some((_, None)) => (t.bool(true), first),
                Some(_) if matches!(piece, Piece::Maybe(_)) => (t.bool(true), first),
                _ => return Ok(None),
            }
        } else {
            return Ok(None);
        };
        let slot = self.first + self.leaves.len();
        self.leaves.extend([(flag, at.slot), (tensor, at.slot)]);
        Ok(Some(Node::Maybe([slot, slot + 1], tensor)))
    }

    fn leaf_value(&self, slot: usize, carried: &BTreeMap<usize, VarId>) -> VarId {
        let known = carried.get(&slot).copied();
        known.unwrap_or(self.leaves[slot - self.first].0)
    }

    fn leaf_joined(&self, slot: usize, carried: &BTreeMap<usize, Joined>) -> Joined {
        let known = carried.get(&slot).cloned();
        known.unwrap_or(Joined::Keep(self.leaves[slot - self.first].0))
    }

    fn node(&mut self, t: &mut Tracer<'_>, id: VarId, root: Root<'_>) -> Step<Node> {
        t.realize(id);
        if let Kind::Tuple(items, class) = t.kind(id).clone() {
            let items = items.into_iter().map(|item| self.node(t, item, root));
            return Ok(Node::Tuple(items.collect::<Step<_>>()?, class));
        }
        match own_containers::items_of(t, root.around, root.holder, id) {
            Some(Items::List(items)) => {
                let items = items.into_iter().map(|item| self.node(t, item, root));
                return Ok(Node::List(items.collect::<Step<_>>()?));
            }
            Some(Items::Dict(items)) => {
                let items = items.into_iter();
                let items =
                    items.map(|(key, name, item)| Ok((key, name, self.node(t, item, root)?)));
                return Ok(Node::Dict(items.collect::<Step<_>>()?));
            }
            None => {}
        }
        if self.leaves.len() == MOST {
            return refuse(t, "too much is in containers that change inside");
        }
        self.leaves.push((id, root.slot));
        Ok(Node::Leaf(self.first + self.leaves.len() - 1))
    }

    /// Lists and dicts that a round made since `mark` in the place of others: they may not change.
    pub fn stand_ins(t: &mut Tracer<'_>, built: &[(usize, VarId)], mark: &TraceMark) -> Vec<VarId> {
        let mut open: Vec<VarId> = built.iter().map(|(_, id)| *id).collect();
        let mut found = Vec::new();
        while let Some(id) = open.pop() {
            let is_container =
                matches!(t.kind(id), Kind::Tuple(..) | Kind::List(_) | Kind::Dict(_));
            if is_container && !t.is_older(id, mark) {
                open.extend(t.kind(id).children());
                found.push(id);
            }
        }
        found
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
            Node::Leaf(slot) => self.leaf_value(*slot, carried),
            Node::Maybe([flag, tensor], _) => {
                let flag = self.leaf_value(*flag, carried);
                maybe::variable(t, flag, self.leaf_value(*tensor, carried))
            }
            Node::Tuple(items, class) => {
                let items = items.iter().map(|item| self.value(t, item, carried));
                let items = items.collect();
                t.add(Kind::Tuple(items, class.clone()))
            }
            Node::List(items) => {
                let items = items.iter().map(|item| self.value(t, item, carried));
                let items = items.collect();
                t.add(Kind::List(items))
            }
            Node::Dict(items) => {
                let mut dict = DictVar::default();
                for (key, name, item) in items {
                    let name = name.bind(t.py).clone();
                    let name = t.constant(&name);
                    let item = self.value(t, item, carried);
                    dict.items.insert(key.clone(), (name, item));
                }
                t.add(Kind::Dict(dict))
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
            Node::Leaf(slot) => self.leaf_joined(*slot, carried),
            Node::Maybe([flag, tensor], _) => Joined::Maybe(Box::new((
                self.leaf_joined(*flag, carried),
                self.leaf_joined(*tensor, carried),
            ))),
            Node::Tuple(items, class) => {
                let items = items.iter().map(|item| self.join(item, carried));
                Joined::Tuple(items.collect(), class.clone())
            }
            Node::List(items) => {
                let items = items.iter().map(|item| self.join(item, carried));
                Joined::List(items.collect(), None)
            }
            Node::Dict(items) => {
                let items = items.iter();
                let join = |(key, name, item): &(Key, Obj, Node)| {
                    (key.clone(), name.clone(), self.join(item, carried))
                };
                Joined::Dict(items.map(join).collect())
            }
        }
    }
}

/// Describes the leaves of a container at the end of a round.
fn split(
    t: &mut Tracer<'_>,
    node: &Node,
    piece: &Piece,
    name: &str,
    found: &mut Vec<(usize, Piece)>,
) -> Step<()> {
    let what = match node {
        Node::Leaf(slot) => {
            found.push((*slot, piece.clone()));
            return Ok(());
        }
        Node::Maybe([flag, tensor], first) => {
            if let Some((holds, known)) = maybe::parts(t, piece) {
                found.push((*flag, holds));
                found.push((*tensor, known.unwrap_or(Piece::Same(*first))));
                return Ok(());
            }
            "a tensor or None".to_owned()
        }
        Node::Tuple(nodes, class) => {
            if let Some((items, other)) = items(t, piece) {
                if items.len() == nodes.len() && same_class(class, &other) {
                    return split_all(t, nodes, &items, name, found);
                }
            }
            format!("a tuple of {}", nodes.len())
        }
        Node::List(nodes) => {
            if let Piece::List(items, None) = piece {
                if items.len() == nodes.len() {
                    return split_all(t, nodes, items, name, found);
                }
            }
            format!("a list of {}", nodes.len())
        }
        Node::Dict(nodes) => {
            if let Piece::Dict(items) = piece {
                if same_keys(t, nodes, items)? {
                    for ((.., node), (.., item)) in nodes.iter().zip(items) {
                        split(t, node, item, name, found)?;
                    }
                    return Ok(());
                }
            }
            format!("a dict of {}", nodes.len())
        }
    };
    let now = phi::shown(t, piece);
    phi::unlike(
        t,
        format!("{name:?} is {what} in front of the loop and {now} after a round of it"),
    )
}

fn split_all(
    t: &mut Tracer<'_>,
    nodes: &[Node],
    items: &[Piece],
    name: &str,
    found: &mut Vec<(usize, Piece)>,
) -> Step<()> {
    for (node, item) in nodes.iter().zip(items) {
        split(t, node, item, name, found)?;
    }
    Ok(())
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
        | Piece::Maybe(_)
        | Piece::Other(_) => None,
    }
}
