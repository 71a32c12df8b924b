//! [`CapturedFlow`]: what captured branches and loops know of one another.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::branches::RefusedLoops;
use crate::bytecode::Code;
use crate::graph::{SymbolId, TensorMeta};
use crate::loops::LoopPlaces;
use crate::tensor_scalar::known::KnownNumbers;
use crate::variables::VarId;

/// A result of captured control flow that may be another tensor of the graph: in a graph it is a
/// new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The result.
    pub result: SymbolId,
    /// What it may be, or be a view of.
    pub of: SymbolId,
    /// The instruction of the outermost frame that made it.
    pub at: usize,
}

/// Captured control flow: where the simulation is inside of it, and what it has made.
#[derive(Default)]
pub struct CapturedFlow {
    /// Captured branches and loops being simulated.
    pub regions: usize,
    /// How many branches are followed on either way to the end of the frame, inside of one
    /// another.
    pub tails: usize,
    /// What the ways that are being simulated know: tensors of the graph that decided for them,
    /// and how.
    pub decided: Vec<(SymbolId, bool)>,
    /// Whether control flow was last refused because its ways leave values that no operation
    /// chooses between.
    pub unlike: bool,
    /// By code and FOR_ITER, whether the loop is left from inside.
    pub left_inside: FxHashMap<(*const Code, usize), bool>,
    /// Whether a branch has left the round of a loop: how many rounds there are, it decides.
    pub leaves_early: bool,
    /// Whether a tensor on one way and `None` on the other are a tensor with a flag.
    pub maybes: bool,
    /// How often that was tried.
    pub flagged: usize,
    /// Results that may be a tensor from in front of it, or a view of one.
    pub aliases: Vec<Alias>,
    /// What the variables of captured loops are called in a round: in another round each may be
    /// another object.
    pub carried: Vec<SymbolId>,
    /// Numbers of the graph that are the same in each call.
    pub(crate) known_numbers: KnownNumbers,
    /// Arrays of NumPy that are what a tensor held, and their items: where NumPy warns, or has
    /// digits of its own, it computes with them itself.
    pub(crate) read_arrays: FxHashSet<SymbolId>,
    /// Those of them that are arrays without dims, and no scalars.
    pub(crate) arrays_without_dims: FxHashSet<SymbolId>,
    /// Scalars of NumPy that each call makes of numbers, with those as Python's: guards compute
    /// them.
    pub(crate) scalars_of_calls: Vec<(SymbolId, VarId)>,
    /// Arrays that the program makes of such numbers.
    pub(crate) arrays_of_calls: FxHashSet<SymbolId>,
    /// Keys of dicts and sets that are made of dims; no two of them are equal.
    pub(crate) open_keys: Vec<VarId>,
    /// Numbers that have been keys.
    pub(crate) number_keys: FxHashSet<i64>,
    /// The same of texts that show such numbers.
    pub(crate) open_texts: Vec<VarId>,
    /// Texts that have been keys.
    pub(crate) text_keys: FxHashSet<Arc<str>>,
    /// Lists that grew on a way that is not captured, and by what: see `grown_lists::note`.
    pub(crate) grown: Vec<(VarId, TensorMeta)>,
    /// Loops over numbers of the graph that have been captured.
    pub captured_loops: LoopPlaces,
    /// Loops that no operation holds: their rounds do not ask again.
    pub(crate) refused: RefusedLoops,
}

/// A position of what it has made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowMark {
    aliases: usize,
    carried: usize,
    decided: usize,
    scalars: usize,
    open_keys: usize,
    open_texts: usize,
}

impl CapturedFlow {
    /// Whether what is simulated is in a captured branch or loop.
    pub fn is_captured(&self) -> bool {
        self.regions > 0
    }

    /// The results that may be another tensor, with what they may be.
    pub fn aliases_of(&self, result: SymbolId) -> impl Iterator<Item = &Alias> {
        self.aliases.iter().filter(move |it| it.result == result)
    }

    pub(crate) fn mark(&self) -> FlowMark {
        FlowMark {
            aliases: self.aliases.len(),
            carried: self.carried.len(),
            decided: self.decided.len(),
            scalars: self.scalars_of_calls.len(),
            open_keys: self.open_keys.len(),
            open_texts: self.open_texts.len(),
        }
    }

    /// Back to a mark, in a graph that has so many symbols and statements.
    pub(crate) fn rollback(&mut self, mark: FlowMark, (symbols, statements): (usize, usize)) {
        self.aliases.truncate(mark.aliases);
        self.carried.truncate(mark.carried);
        self.decided.truncate(mark.decided);
        self.scalars_of_calls.truncate(mark.scalars);
        self.open_keys.truncate(mark.open_keys);
        self.open_texts.truncate(mark.open_texts);
        self.known_numbers.forget(symbols, statements);
        for arrays in [
            &mut self.read_arrays,
            &mut self.arrays_without_dims,
            &mut self.arrays_of_calls,
        ] {
            arrays.retain(|id| (id.0 as usize) < symbols);
        }
    }
}
