//! [`Parts`]: the programs of a graph with several results that gradients flow through, or with
//! sparse gradients, the views behind a program that keeps what they are of, and the pieces of a
//! long graph.

use std::ops::Range;

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::{Part, Parted, SymbolId, TensorMeta};
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::{
    self as backend, BackendError, CompileRequest, CompiledGraph, GraphBackend,
};
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::alike_pieces::{Known, Piece, Programs};
use crate::bridge;
use crate::eager_fallback::EagerFallback;
use crate::ordered_sums::in_order;
use crate::pieces::{HOPELESS, compile_pieces};
use crate::versions::{self, COMPUTED_AGAIN};

/// Parts of fewer operations always run call by call: what follows a result is often a loss of one
/// or two.
pub const LEAST: usize = 3;

/// How many times as many operations a round has that is a program.
const ROUND: usize = 3;

const SEVERAL_RESULTS: &str = "gradients of different results flow through them, or are sparse";
/// Why a long graph is several programs.
pub const TOO_LONG: &str = "what Paddle does with one program grows with the square of its length";

/// Programs that run one after the other.
///
/// The tensors of a call are numbered: what the whole takes, then what each part makes.
pub struct Parts {
    parts: Vec<Compiled>,
    /// The results of the whole.
    outputs: Vec<usize>,
    /// Who made the programs.
    backend: String,
    /// Why there are several.
    why: &'static str,
}

struct Compiled {
    graph: Box<dyn CompiledGraph>,
    /// Whether it runs the program of another part.
    is_shared: bool,
    /// The tensors that it takes.
    inputs: Vec<usize>,
    /// Those that control flow of others may have handed on to it, and whether every change of them
    /// matters.
    handed_on: (Vec<usize>, bool),
    /// Those of the results of others that may be what it has, handed on so.
    handed_to: Vec<usize>,
    /// What it makes that is another tensor for autograd alone, and which one.
    chained: Vec<(usize, usize)>,
    /// What it makes.
    outputs: Range<usize>,
    /// The tensors that nothing behind it needs.
    ended: Vec<usize>,
}

/// What a program is in its graph.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// It is one of several.
    pub is_part: bool,
    /// Gradients arrive at all of its outputs, or at none.
    pub together: bool,
    /// Tensors among its inputs, by position, that may need no gradient after all: captured control
    /// flow decides.
    pub uncertain: Vec<usize>,
}

/// A tensor, and the statements that give it gradients, in the order in which these are added.
type Sum = (SymbolId, Vec<usize>);

/// Compiles one program.
type Compile<'a> = &'a dyn Fn(CompileRequest, Role) -> Result<Box<dyn CompiledGraph>, BackendError>;

/// Who makes the programs.
pub struct Compiler<'a> {
    /// It traces the parts.
    pub backend: &'a dyn GraphBackend,
    /// It compiles them, or the whole.
    pub compile: Compile<'a>,
    /// Whether a program depends on its graph alone: pieces that are alike share one.
    pub shares: bool,
}

/// A graph, while gradients are on part by part where it has to be.
///
/// # Errors
/// Whatever compiling the whole raises, where it is one program.
pub fn compile_parts(
    py: Python<'_>,
    mut request: CompileRequest,
    compiler: &Compiler<'_>,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let role = Role {
        is_part: true,
        together: !request.sir.has_control_flow(),
        uncertain: Vec::new(),
    };
    let parted = match request.grad_enabled {
        true => request.sir.parts(py),
        false => Parted::One,
    };
    let parts = match parted {
        Parted::One => return compile_pieces(py, request, compiler, &role),
        Parted::Never(why) => Err(why),
        Parted::Parts(parts) => {
            if let Some((sir, in_order)) = in_order(py, &request, &parts)? {
                let plain = std::mem::replace(&mut request.sir, sir);
                match Parts::compile(py, &request, in_order, (compiler, SEVERAL_RESULTS), &role) {
                    Ok(parts) if parts.fell_back().is_none() => return Ok(Box::new(parts)),
                    Err(err) if err.is_interrupt(py) => return Err(err),
                    Ok(_) | Err(_) => {
                        log::info!(target: "paddle_sot_rs.backend", "gradients are added in the order of parts: with aliases these are no programs");
                    }
                }
                request.sir = plain;
            }
            Ok(parts)
        }
    };
    compile_or_give_up(py, request, parts, compiler, &role)
}

/// The parts, if there are any; otherwise, and where they do not compile, the whole runs call by
/// call.
fn compile_or_give_up(
    py: Python<'_>,
    request: CompileRequest,
    parts: Result<Vec<Part>, &str>,
    compiler: &Compiler<'_>,
    role: &Role,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let compiler = (compiler, SEVERAL_RESULTS);
    let compiled = parts.map(|parts| Parts::compile(py, &request, parts, compiler, role));
    let why = match compiled {
        Ok(Ok(parts)) => return Ok(Box::new(parts)),
        Ok(Err(err)) if err.is_interrupt(py) => return Err(err),
        Ok(Err(err)) => format!("its parts do not compile: {err}"),
        Err(why) => why.to_owned(),
    };
    EagerFallback::run(py, request, why, "eager")
}

/// One program, with views behind it where its backward reads what those are of: who writes into
/// them writes there. `sums` are added as they are by one program alone.
///
/// # Errors
/// Whatever compiling it raises.
pub(crate) fn compile_one(
    py: Python<'_>,
    request: CompileRequest,
    compiler: &Compiler<'_>,
    (role, sums): (Role, &[Sum]),
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let (sir, example_inputs) = (request.sir.clone(), request.example_inputs.clone());
    let (grad_enabled, least) = (request.grad_enabled, request.least);
    let outputs = match (compiler.compile)(request, role.clone()) {
        Err(BackendError::Raised(raised)) => read_bases(py, raised)?,
        answer => return answer,
    };
    let again = CompileRequest {
        sir,
        session: compiler.backend.begin(py)?,
        example_inputs,
        grad_enabled,
        least,
    };
    let parts = again.sir.views_behind(py, &outputs);
    let parts = parts.ok_or("a result is a view of what its gradient reads");
    let meets = |part: &Part, asked: &[usize]| asked.iter().any(|at| part.statements.contains(at));
    let is_apart = |parts: &Vec<Part>, asked: &[usize]| {
        asked.len() > 2 && parts.iter().filter(|part| meets(part, asked)).count() > 1
    };
    if parts
        .as_ref()
        .is_ok_and(|parts| sums.iter().any(|(_, asked)| is_apart(parts, asked)))
    {
        return Err(BackendError::Refused(
            "a piece hands on a view of what it adds gradients to".into(),
        ));
    }
    compile_or_give_up(py, again, parts, compiler, &role)
}

/// The outputs that a `BasesAreRead` of `aliased_outputs.py` names.
fn read_bases(py: Python<'_>, raised: PyErr) -> Result<Vec<usize>, BackendError> {
    match are_read(py, &raised)? {
        true => Ok(raised.value(py).getattr("args")?.get_item(0)?.extract()?),
        false => Err(raised.into()),
    }
}

/// Whether it is no failure, but asks for views behind the program: see `compile_one`.
///
/// # Errors
/// When the Python part cannot be loaded.
pub fn are_read(py: Python<'_>, raised: &PyErr) -> PyResult<bool> {
    let class = bridge::module(py, "aliased_outputs")?.getattr("BasesAreRead")?;
    Ok(raised.is_instance(py, &class))
}

impl Parts {
    /// Compiles parts, one after the other.
    ///
    /// # Errors
    /// Whatever compiling one raises.
    pub(crate) fn compile(
        py: Python<'_>,
        request: &CompileRequest,
        parts: Vec<Part>,
        (compiler, why): (&Compiler<'_>, &'static str),
        whole: &Role,
    ) -> Result<Self, BackendError> {
        let sir = &request.sir;
        let is_long = why == TOO_LONG;
        let mut programs = Programs {
            known: Vec::new(),
            shares: compiler.shares && is_long,
        };
        let mut numbers: FxHashMap<SymbolId, usize> = sir.tensor_inputs().zip(0..).collect();
        let number = |numbers: &FxHashMap<SymbolId, usize>, id: &SymbolId| {
            let missing = || BackendError::Compile(format!("no part makes {id}"));
            numbers.get(id).copied().ok_or_else(missing)
        };
        let mut compiled: Vec<Compiled> = Vec::with_capacity(parts.len());
        let mut all_handed_to = Vec::with_capacity(parts.len());
        let mut later: FxHashMap<SymbolId, usize> = FxHashMap::default();
        for id in parts.iter().flat_map(|part| &part.inputs) {
            *later.entry(*id).or_default() += 1;
        }
        let mut uncertain: FxHashSet<usize> = whole.uncertain.iter().copied().collect();
        for part in parts {
            let (mut taken, mut examples, mut once) = (Vec::new(), Vec::new(), Vec::new());
            for (id, own) in part.inputs.iter().zip(&part.sir.inputs) {
                let Some(meta) = part.sir.meta(*own) else {
                    continue;
                };
                let others = later.entry(*id).or_default();
                *others = others.saturating_sub(1);
                let is_fed = sir.carries_gradient(*id) && !part.unfed.contains(id);
                if is_long && request.grad_enabled && *others > 0 && is_fed {
                    once.push(*own);
                }
                let at = number(&numbers, id)?;
                examples.push(match request.example_inputs.get(at) {
                    Some(example) => example.clone(),
                    None => stand_in(py, meta)?,
                });
                taken.push(at);
            }
            let is_uncertain =
                |(at, taken): (usize, &usize)| uncertain.contains(taken).then_some(at);
            let role = Role {
                uncertain: taken.iter().enumerate().filter_map(is_uncertain).collect(),
                ..*whole
            };
            let handed_on: Vec<usize> = (part.handed_on.iter())
                .map(|id| number(&numbers, id))
                .collect::<Result<_, _>>()?;
            let mut statements = part.sir.statements.iter();
            let keeps = statements.any(|it| it.callee.runs_again());
            let decides = part.sir.has_control_flow() || !role.uncertain.is_empty();
            let first = numbers.len();
            for id in &part.outputs {
                let next = numbers.len();
                if decides {
                    uncertain.insert(next);
                }
                numbers.insert(*id, next);
            }
            let chained = part
                .chained
                .iter()
                .map(|(handed_on, of)| Ok((number(&numbers, handed_on)?, number(&numbers, of)?)));
            let chained = chained.collect::<Result<_, BackendError>>()?;
            all_handed_to.push(part.handed_to.clone());
            let piece = Piece {
                sir: part.sir.into(),
                examples,
                once,
                sums: part.sums,
                uncertain: role.uncertain.clone(),
            };
            let known = match programs.of(py, &piece) {
                Some(at) => compiled[at].graph.for_alike(py, &piece.sir)?,
                None => None,
            };
            let is_shared = known.is_some();
            if programs.shares && !is_shared {
                programs.known.push(Known {
                    piece: piece.clone(),
                    at: compiled.len(),
                });
            }
            compiled.push(Compiled {
                graph: match known {
                    Some(graph) => graph,
                    None => compile_part(py, piece, part.by_calls, (request, role), compiler)?,
                },
                is_shared,
                inputs: taken,
                handed_on: (handed_on, keeps),
                handed_to: Vec::new(),
                chained,
                outputs: first..numbers.len(),
                ended: Vec::new(),
            });
        }
        // Parts that are behind it make them.
        for (part, ids) in compiled.iter_mut().zip(all_handed_to) {
            let found = ids.iter().map(|id| number(&numbers, id));
            part.handed_to = found.collect::<Result<_, _>>()?;
        }
        let outputs = sir.outputs.iter().map(|id| number(&numbers, id));
        let outputs: Vec<usize> = outputs.collect::<Result<_, _>>()?;
        note_ends(&mut compiled, &outputs);
        Ok(Self {
            outputs,
            parts: compiled,
            backend: compiler.backend.name().to_owned(),
            why,
        })
    }
}

impl Parts {
    /// Each program once.
    fn programs(&self) -> impl Iterator<Item = &dyn CompiledGraph> {
        let own = self.parts.iter().filter(|part| !part.is_shared);
        own.map(|part| &*part.graph)
    }
}

/// Notes where each tensor is needed last.
fn note_ends(parts: &mut [Compiled], outputs: &[usize]) {
    let mut needed: FxHashSet<usize> = outputs.iter().copied().collect();
    for part in parts.iter() {
        if !part.handed_to.is_empty() {
            needed.extend(&part.handed_to);
            needed.extend(part.outputs.clone());
        }
    }
    for part in parts.iter_mut().rev() {
        let taken = part.inputs.iter().chain(&part.handed_on.0).copied();
        let all = taken.chain(part.outputs.clone());
        part.ended = all.filter(|at| needed.insert(*at)).collect();
    }
}

/// A tensor of zeros with this metadata: what a part takes from another one is not there yet.
fn stand_in(py: Python<'_>, meta: &TensorMeta) -> Result<Obj, BackendError> {
    let dims: Vec<i64> = meta.shape.iter().map(|dim| (*dim).max(1)).collect();
    let made = py
        .paddle()?
        .call_method1("full", (dims, 0, meta.dtype.as_str()))?;
    made.setattr("stop_gradient", meta.stop_gradient)?;
    Ok(Obj::from(made))
}

fn compile_part(
    py: Python<'_>,
    piece: Piece,
    by_calls: bool,
    (whole, role): (&CompileRequest, Role),
    compiler: &Compiler<'_>,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let Piece {
        sir,
        examples: example_inputs,
        once,
        sums,
        ..
    } = piece;
    let session = backend::retrace(py, compiler.backend, &sir, &example_inputs)?;
    let operations = session.operations(sir.statements.len());
    // A round of a loop pays for a program of its own later than a graph does: so much stands
    // around each.
    let least = whole.least.max(LEAST) * if once.is_empty() { 1 } else { ROUND };
    let is_too_long = operations > HOPELESS;
    if is_too_long {
        log::info!(target: "paddle_sot_rs.backend", "a part of {operations} operations runs call by call: one program would take Paddle minutes");
    }
    let runs_by_calls = by_calls || is_too_long || (operations < least && !sir.has_regions());
    for id in &once {
        // Eager mode adds a gradient for each use to those of other pieces.
        if !runs_by_calls && !session.is_used_once(py, *id)? {
            return Err(BackendError::Refused(
                "a piece uses a tensor of another one more than once".into(),
            ));
        }
    }
    if !runs_by_calls && !sums.is_empty() && !sir.adds_like(&sums, session.sums(py, &sir)?.as_ref())
    {
        return Err(BackendError::Refused(
            "a piece adds gradients in another order than eager mode".into(),
        ));
    }
    let request = CompileRequest {
        sir,
        session,
        example_inputs,
        grad_enabled: whole.grad_enabled,
        least: whole.least,
    };
    match backend::get("eager") {
        Ok(eager) if runs_by_calls => eager.backend.compile(py, request),
        _ => compile_one(py, request, compiler, (role, &sums)),
    }
}

impl CompiledGraph for Parts {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let mut tensors: Vec<Bound<'_, PyAny>> = inputs.to_vec();
        let none = py.None().into_bound(py);
        for part in &self.parts {
            let taken: Vec<_> = part.inputs.iter().map(|at| tensors[*at].clone()).collect();
            let made = part.graph.call(py, &taken)?;
            let (handed_on, ever) = &part.handed_on;
            if !handed_on.is_empty() {
                let watched = handed_on.iter().map(|at| tensors[*at].clone()).collect();
                versions::watch(py, watched, (*ever, COMPUTED_AGAIN), &made)?;
            }
            tensors.extend(made.into_iter().map(|tensor| tensor.into_bound(py)));
            for (handed_on, of) in &part.chained {
                abi::share_tensor(&tensors[*of], &tensors[*handed_on])?;
            }
            for at in &part.ended {
                tensors[*at] = none.clone();
            }
        }
        for part in self.parts.iter().filter(|part| !part.handed_to.is_empty()) {
            // They are computed from what watches them.
            let aliases = part.handed_to.iter().map(|at| abi::detached(&tensors[*at]));
            let aliases = aliases.collect::<PyResult<Vec<_>>>()?;
            let made = tensors[part.outputs.clone()].iter();
            let made: Vec<_> = made.map(|tensor| tensor.clone().unbind()).collect();
            versions::watch(py, aliases, (false, COMPUTED_AGAIN), &made)?;
        }
        let outputs = self.outputs.iter().map(|at| tensors[*at].clone().unbind());
        Ok(outputs.collect())
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        let texts: Vec<String> = self
            .programs()
            .map(|graph| graph.program_text(py))
            .collect::<PyResult<_>>()?;
        Ok(texts.join("\n"))
    }

    fn report(&self) -> Vec<String> {
        let is_program = |part: &&Compiled| part.graph.backend_name() != "eager";
        let programs = self.parts.iter().filter(is_program).count();
        let shared = match self.parts.iter().filter(|part| part.is_shared).count() {
            0 => String::new(),
            shared => format!(" ({shared} run one that another part has)"),
        };
        let mut lines = vec![format!(
            "{} parts, one after the other, of which {programs} are programs{shared}: {}",
            self.parts.len(),
            self.why
        )];
        lines.extend(self.programs().flat_map(|graph| graph.report()));
        lines
    }

    fn fell_back(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.graph.fell_back())
    }

    fn backend_name(&self) -> &str {
        &self.backend
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        let graphs = self.parts.iter().map(|part| &part.graph);
        graphs.for_each(|graph| graph.traverse(visit));
    }
}
