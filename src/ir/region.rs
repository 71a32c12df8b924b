//! Nested graphs: blocks of control flow, and the forward and backward parts of a custom operation.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use paddle_sot_cpython::bytecode::SourceLoc;
use paddle_sot_cpython::obj::Obj;

use super::{Arg, Callee, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta};

/// What the nested graphs of a `call_sir` statement are to one another.
///
/// The statement's arguments begin with those named below, and end with the symbols of the graph
/// around it that the blocks use; each block takes its own leading inputs and then the latter.
#[derive(Clone, Debug)]
pub enum Region {
    /// Arguments: the condition. The result is what the chosen block returns.
    If {
        /// Runs when it holds.
        then: Arc<StatementIr>,
        /// Runs when it does not.
        otherwise: Arc<StatementIr>,
    },
    /// Arguments: the condition, then the first values of the loop's variables. The body takes the
    /// variables and returns the next condition and their next values; the result is their last
    /// values.
    While {
        /// The body.
        body: Arc<StatementIr>,
        /// How many variables there are.
        carried: usize,
        /// Whether gradients go through it.
        differentiable: bool,
    },
    /// The result is what the block returns; its gradient runs the block again instead of keeping
    /// what it computes.
    Recompute {
        /// The block.
        body: Arc<StatementIr>,
        /// Which of the arguments the results need gradients for, as those of a PyLayer do; `None`
        /// where all count.
        given: Option<Vec<usize>>,
    },
    /// A custom operation. Arguments: its tensor inputs. `forward` takes them and returns the
    /// outputs, then the values `backward` uses; `backward` takes those values and the gradients of
    /// the outputs, and returns the gradients of the inputs that want one.
    PyLayer {
        /// Its name.
        name: Arc<str>,
        /// The forward part.
        forward: Arc<StatementIr>,
        /// The backward part.
        backward: Arc<StatementIr>,
        /// How many inputs it has.
        inputs: usize,
        /// How many outputs it has.
        outputs: usize,
        /// For each input: which result of `backward` is its gradient.
        gradients: Vec<Option<usize>>,
    },
}

impl Region {
    /// The nested graphs, with what they are called.
    pub fn blocks(&self) -> Vec<(&'static str, &Arc<StatementIr>)> {
        match self {
            Self::If { then, otherwise } => vec![("then", then), ("else", otherwise)],
            Self::While { body, .. } | Self::Recompute { body, .. } => vec![("body", body)],
            Self::PyLayer {
                forward, backward, ..
            } => vec![("forward", forward), ("backward", backward)],
        }
    }

    /// The nested graphs.
    pub(super) fn blocks_mut(&mut self) -> Vec<&mut Arc<StatementIr>> {
        match self {
            Self::If { then, otherwise } => vec![then, otherwise],
            Self::While { body, .. } | Self::Recompute { body, .. } => vec![body],
            Self::PyLayer {
                forward, backward, ..
            } => vec![forward, backward],
        }
    }

    /// Whether plain Python runs code of it again for its gradient.
    pub fn runs_again(&self) -> bool {
        match self {
            Self::Recompute { .. } | Self::PyLayer { .. } => true,
            Self::If { .. } | Self::While { .. } => self.blocks().iter().any(|(_, block)| {
                let mut statements = block.statements.iter();
                statements.any(|it| it.callee.runs_again())
            }),
        }
    }

    /// Those of the statement's arguments that its nested graphs update on the way forward.
    pub fn updates(&self, args: &[Arg]) -> Vec<SymbolId> {
        let mut found = Vec::new();
        let forward = match self {
            Self::PyLayer { .. } => 1,
            Self::If { .. } | Self::While { .. } | Self::Recompute { .. } => 2,
        };
        for (_, block) in self.blocks().into_iter().take(forward) {
            let is_updated =
                |input: &SymbolId| block.statements.iter().any(|it| it.updates.contains(input));
            // Both end with what is used of the graph around.
            for (input, arg) in block.inputs.iter().rev().zip(args.iter().rev()) {
                if is_updated(input) {
                    found.extend(arg.first_symbol());
                }
            }
        }
        found
    }

    /// `cond`, `while_loop`, `recompute`, `static_pylayer`: what Paddle calls the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::If { .. } => "cond",
            Self::While { .. } => "while_loop",
            Self::Recompute { .. } => "recompute",
            Self::PyLayer { .. } => "static_pylayer",
        }
    }
}

/// A result of a nested graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOutput {
    /// A symbol of what was cut out.
    Inner(SymbolId),
    /// A symbol of the graph around it.
    Outer(SymbolId),
}

/// Statements taken out of a graph under construction, to become a nested graph. `I` is how that
/// graph knows its inputs.
#[derive(Debug)]
pub struct Cut<I = ()> {
    /// The statements.
    pub statements: Vec<Statement>,
    /// All symbols at that time.
    pub symbols: Vec<SymbolKind>,
    /// External tensors and layers they met first.
    pub inputs: Vec<I>,
    /// The first symbol of its own.
    pub first: u32,
    /// What the external tensors are called outside.
    pub adopted: FxHashMap<SymbolId, SymbolId>,
}

impl<I> Cut<I> {
    /// Adds a constant to the end: `paddle.full([], value, dtype)`.
    pub fn constant(&mut self, full: &Obj, value: Obj, dtype: Obj, meta: TensorMeta) -> SymbolId {
        let symbol = SymbolId(self.symbols.len() as u32);
        self.symbols.push(SymbolKind::Tensor(meta));
        let args = vec![Arg::List(Vec::new()), Arg::Const(value), Arg::Const(dtype)];
        self.statements.push(Statement::plain(
            Callee::Api(full.clone()),
            args,
            Arg::Symbol(symbol),
            SourceLoc::default(),
        ));
        symbol
    }

    /// The metadata of a symbol.
    pub fn meta(&self, symbol: SymbolId) -> Option<&TensorMeta> {
        match self.symbols.get(symbol.0 as usize)? {
            SymbolKind::Tensor(meta) => Some(meta),
            SymbolKind::Layer(_) => None,
        }
    }

    /// What a symbol is called in the graph around it, if it is not of its own.
    pub fn outer(&self, symbol: SymbolId) -> Option<SymbolId> {
        if symbol.0 < self.first {
            return Some(symbol);
        }
        self.adopted.get(&symbol).copied()
    }

    /// Adds the symbols of the graph around that `symbols` and the statements use to `free`.
    pub fn free(&self, outputs: &[BlockOutput], free: &mut Vec<SymbolId>) {
        let mut note_inner = Vec::new();
        for output in outputs {
            match output {
                BlockOutput::Inner(symbol) => note_inner.push(*symbol),
                BlockOutput::Outer(symbol) if !free.contains(symbol) => free.push(*symbol),
                BlockOutput::Outer(_) => {}
            }
        }
        let mut note = |symbol: SymbolId| {
            let is_tensor = matches!(
                self.symbols.get(symbol.0 as usize),
                Some(SymbolKind::Tensor(_))
            );
            if let (true, Some(outer)) = (is_tensor, self.outer(symbol)) {
                if !free.contains(&outer) {
                    free.push(outer);
                }
            }
        };
        for statement in &self.statements {
            statement.for_each_argument(&mut note);
        }
        note_inner.into_iter().for_each(note);
    }

    /// The nested graph: its inputs are `leading`, then `free`, which are symbols of the graph
    /// around it.
    pub fn block(
        &self,
        name: String,
        leading: &[SymbolId],
        free: &[(SymbolId, SymbolKind)],
        outputs: &[BlockOutput],
    ) -> StatementIr {
        let mut block = Renamed {
            cut: self,
            names: FxHashMap::default(),
            sir: StatementIr {
                name,
                ..StatementIr::default()
            },
        };
        for symbol in leading {
            let id = block.symbol(*symbol);
            block.sir.inputs.push(id);
        }
        for (symbol, kind) in free {
            let id = block.named((true, *symbol), kind);
            block.sir.inputs.push(id);
        }
        for statement in &self.statements {
            let callee = match &statement.callee {
                Callee::Layer(symbol) => Callee::Layer(block.symbol(*symbol)),
                other @ (Callee::Api(_)
                | Callee::Method(_)
                | Callee::Attribute(_)
                | Callee::Sir(_)) => other.clone(),
            };
            let args = statement.args.iter().map(|arg| block.arg(arg)).collect();
            let kwargs = statement
                .kwargs
                .iter()
                .map(|(name, arg)| (name.clone(), block.arg(arg)))
                .collect();
            let output = block.arg(&statement.output);
            block.sir.statements.push(Statement {
                callee,
                args,
                kwargs,
                output,
                grad_enabled: statement.grad_enabled,
                copies: statement.copies,
                draws: statement.draws,
                computes_dims: statement.computes_dims,
                alone: statement.alone,
                updates: (statement.updates.iter())
                    .filter_map(|symbol| block.known(*symbol))
                    .collect(),
                loc: statement.loc.clone(),
            });
        }
        block.sir.outputs = outputs
            .iter()
            .map(|output| match output {
                BlockOutput::Inner(symbol) => block.symbol(*symbol),
                // Among the free symbols, which are named already.
                BlockOutput::Outer(symbol) => block.names[&(true, *symbol)],
            })
            .collect();
        block.sir
    }
}

/// A nested graph under construction: symbols are numbered anew.
struct Renamed<'a, I> {
    cut: &'a Cut<I>,
    /// By whether it is a symbol of the graph around it.
    names: FxHashMap<(bool, SymbolId), SymbolId>,
    sir: StatementIr,
}

impl<I> Renamed<'_, I> {
    fn symbol(&mut self, symbol: SymbolId) -> SymbolId {
        let key = match self.cut.outer(symbol) {
            Some(outer) => (true, outer),
            None => (false, symbol),
        };
        self.named(key, &self.cut.symbols[symbol.0 as usize])
    }

    /// What a symbol is called, if anything that came before names it.
    fn known(&self, symbol: SymbolId) -> Option<SymbolId> {
        let outer = self.cut.outer(symbol);
        let key = (outer.is_some(), outer.unwrap_or(symbol));
        self.names.get(&key).copied()
    }

    fn named(&mut self, key: (bool, SymbolId), kind: &SymbolKind) -> SymbolId {
        let next = SymbolId(self.sir.symbols.len() as u32);
        let id = *self.names.entry(key).or_insert(next);
        if id == next {
            self.sir.symbols.push(kind.clone());
        }
        id
    }

    fn arg(&mut self, arg: &Arg) -> Arg {
        match arg {
            Arg::Symbol(symbol) => Arg::Symbol(self.symbol(*symbol)),
            Arg::Const(value) => Arg::Const(value.clone()),
            Arg::List(items) => Arg::List(self.many(items)),
            Arg::Tuple(items) => Arg::Tuple(self.many(items)),
            Arg::NamedTuple(class, items) => Arg::NamedTuple(class.clone(), self.many(items)),
            Arg::Dict(items) => Arg::Dict(
                items
                    .iter()
                    .map(|(key, item)| (key.clone(), self.arg(item)))
                    .collect(),
            ),
            Arg::Slice(parts) => Arg::Slice(Box::new([0, 1, 2].map(|at| self.arg(&parts[at])))),
        }
    }

    fn many(&mut self, items: &[Arg]) -> Vec<Arg> {
        items.iter().map(|item| self.arg(item)).collect()
    }
}
