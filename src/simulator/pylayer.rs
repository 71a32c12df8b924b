//! `paddle.autograd.PyLayer`: the user's `forward` and `backward` become the nested graphs of one custom operation.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::graph::{BlockOutput, Callee, Cut, Region, Statement, SymbolId, SymbolKind};
use crate::guard::native;
use crate::reason::BreakKind;
use crate::variables::{Kind, VarId};

use super::call::call;
use super::{attributes, regions};
use super::{Kwargs, Step, Tracer};

/// Whether `name` of this class is `PyLayer.apply` of Paddle.
pub fn is_apply(t: &Tracer<'_>, class: &Bound<'_, PyType>, name: &str) -> PyResult<bool> {
    if name != "apply" {
        return Ok(false);
    }
    let base = t.py.import("paddle.autograd")?.getattr("PyLayer")?;
    let below = base.getattr("__base__")?;
    let overridden = native::mro(class).iter().any(|kind| {
        let own = kind
            .cast::<PyType>()
            .ok()
            .and_then(|kind| kind.getattr("__dict__").ok())
            .is_some_and(|names| names.contains("apply").unwrap_or(true));
        own && !kind.is(&below)
    });
    Ok(native::mro(class).iter().any(|kind| kind.is(&base)) && !overridden)
}

const NAME: &str = "PyLayer";

fn refuse<T>(t: &Tracer<'_>, message: &str) -> Step<T> {
    refuse_of(t, NAME, message)
}

fn refuse_of<T>(t: &Tracer<'_>, of: &str, message: &str) -> Step<T> {
    t.stop(BreakKind::UnsupportedCall, format!("{of}: {message}"))
}

/// `class.apply(*args, **kwargs)`
pub fn apply(t: &mut Tracer<'_>, class: VarId, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    t.guard_identity(class);
    let inputs = inputs(t, NAME, args, kwargs)?;
    // Before the context: what is written to it is no side effect.
    let mark = t.mark();
    let made =
        t.py.import("paddle_sot_rs._control")?
            .getattr("LayerContext")?;
    let made = t.constant(&made);
    let context = call(t, made, &[], &[])?;
    let forward = attributes::get(t, class, "forward")?;
    let wants = t.grad_enabled && inputs.iter().any(|it| t.graph.sir.has_gradient(*it));
    let mut all = vec![context];
    all.extend_from_slice(args);
    let before = t.grad_enabled;
    t.grad_enabled = false;
    let result = call(t, forward, &all, kwargs)?;
    let shape = Shape::of(t, NAME, result)?;
    let results = shape.symbols().to_vec();
    if results.iter().any(|symbol| inputs.contains(symbol)) {
        return refuse(t, "forward returns an argument as it is");
    }
    if !wants {
        t.grad_enabled = before;
        return Ok(result);
    }
    // Backward of a single output only runs when its gradient is there.
    match flag(t, context, "_materializes")? {
        Some(true) => {}
        Some(false) if results.len() == 1 => {}
        _ => return refuse(t, "set_materialize_grads(False) with several outputs"),
    }
    let fixed = marked(t, context)?;
    let is_number = |symbol: &SymbolId| {
        let meta = t.graph.meta(*symbol);
        meta.is_some_and(|meta| !meta.dtype.is_differentiable())
    };
    if results
        .iter()
        .any(|symbol| !fixed.contains(symbol) && is_number(symbol))
    {
        // Eager mode says that gradients go through it.
        return refuse(
            t,
            "a result of whole numbers or bools that is not marked as non-differentiable",
        );
    }
    let forward_end = t.graph.sir.statements.len();
    let mut given = Vec::with_capacity(results.len());
    let mut arrived = vec![context];
    for symbol in &results {
        let Some(mut meta) = t.graph.meta(*symbol).cloned() else {
            return refuse(t, "a result without metadata");
        };
        meta.stop_gradient = true;
        let gradient = t.graph.placeholder(t.py, meta)?;
        given.push(gradient);
        arrived.push(regions::tensor(t, gradient));
    }
    let backward = attributes::get(t, class, "backward")?;
    let answer = call(t, backward, &arrived, &[])?;
    let gradients = gradients(t, answer, inputs.len())?;
    t.grad_enabled = before;
    if regions::acts(t, &mark) {
        return refuse(t, "forward or backward changes something outside of it");
    }
    let start = t.graph_len(&mark);
    let mut cut = t.cut(mark);
    t.graph.adopt(t.py, &mut cut)?;
    let parts = Parts {
        name: name_of(t, class),
        inputs,
        results,
        given,
        gradients,
        split: forward_end - start,
    };
    let outputs = parts.emit(t, cut)?;
    let mut made = Vec::with_capacity(outputs.len());
    for (at, symbol) in outputs.into_iter().enumerate() {
        let id = regions::tensor(t, symbol);
        made.push(match fixed.contains(&shape.symbols()[at]) {
            true => super::tensors::method(t, id, "detach", &[], &[])?,
            false => id,
        });
    }
    Ok(shape.build(t, &made))
}

fn name_of(t: &Tracer<'_>, class: VarId) -> Arc<str> {
    let name = t.value(class).and_then(|class| {
        let name = class.getattr("__qualname__").ok()?;
        name.extract::<String>().ok()
    });
    Arc::from(name.unwrap_or_default())
}

/// The tensors among the arguments. Containers of tensors have gradients of their own rules.
pub(super) fn inputs(
    t: &mut Tracer<'_>,
    of: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Vec<SymbolId>> {
    let mut inputs = Vec::new();
    let named = kwargs.iter().map(|(_, value)| *value);
    for id in args.iter().copied().chain(named) {
        t.realize(id);
        match t.kind(id).clone() {
            Kind::Tensor(tensor) if inputs.contains(&tensor.symbol) => {
                return refuse_of(t, of, "the same tensor is given twice")
            }
            Kind::Tensor(tensor) => inputs.push(tensor.symbol),
            Kind::List(items) | Kind::Tuple(items, _) => {
                for item in items {
                    t.realize(item);
                    if matches!(t.kind(item), Kind::Tensor(_)) {
                        return refuse_of(t, of, "a list or tuple of tensors as argument");
                    }
                }
            }
            _ => {}
        }
    }
    Ok(inputs)
}

/// What `forward` answers with: a tensor, or a tuple or list of tensors.
pub(super) enum Shape {
    One(SymbolId),
    Tuple(Vec<SymbolId>),
    List(Vec<SymbolId>),
}

impl Shape {
    pub(super) fn of(t: &mut Tracer<'_>, of: &str, result: VarId) -> Step<Self> {
        let symbols = results(t, of, result)?;
        Ok(match t.kind(result) {
            Kind::Tuple(..) => Self::Tuple(symbols),
            Kind::List(_) => Self::List(symbols),
            _ => Self::One(symbols[0]),
        })
    }

    pub(super) fn symbols(&self) -> &[SymbolId] {
        match self {
            Self::One(symbol) => std::slice::from_ref(symbol),
            Self::Tuple(symbols) | Self::List(symbols) => symbols,
        }
    }

    pub(super) fn build(&self, t: &mut Tracer<'_>, made: &[VarId]) -> VarId {
        match self {
            Self::One(_) => made[0],
            Self::Tuple(_) => t.add(Kind::Tuple(made.to_vec(), None)),
            Self::List(_) => t.add(Kind::List(made.to_vec())),
        }
    }
}

fn results(t: &mut Tracer<'_>, of: &str, result: VarId) -> Step<Vec<SymbolId>> {
    t.realize(result);
    let items = match t.kind(result).clone() {
        Kind::Tensor(tensor) => return Ok(vec![tensor.symbol]),
        Kind::Tuple(items, None) | Kind::List(items) if !items.is_empty() => items,
        _ => return refuse_of(t, of, "the function returns something else than tensors"),
    };
    let mut symbols = Vec::with_capacity(items.len());
    for item in items {
        t.realize(item);
        match t.kind(item) {
            Kind::Tensor(tensor) if !symbols.contains(&tensor.symbol) => {
                symbols.push(tensor.symbol)
            }
            _ => {
                return refuse_of(
                    t,
                    of,
                    "the function returns something else than different tensors",
                )
            }
        }
    }
    Ok(symbols)
}

/// The gradient of each input, as far as `backward` gives one.
fn gradients(t: &mut Tracer<'_>, answer: VarId, count: usize) -> Step<Vec<Option<SymbolId>>> {
    t.realize(answer);
    let items = match t.kind(answer).clone() {
        Kind::Tuple(items, _) | Kind::List(items) => items,
        _ => vec![answer],
    };
    if items.len() != count {
        return refuse(
            t,
            "backward returns another number of gradients than forward takes tensors",
        );
    }
    items
        .into_iter()
        .map(|item| {
            t.realize(item);
            match t.kind(item).clone() {
                Kind::Tensor(tensor) => Ok(Some(tensor.symbol)),
                Kind::Const if t.is_none(item) => Ok(None),
                _ => refuse(t, "backward returns something else than tensors and None"),
            }
        })
        .collect()
}

fn flag(t: &mut Tracer<'_>, context: VarId, name: &str) -> Step<Option<bool>> {
    let value = attributes::get(t, context, name)?;
    let value = t.const_value(value);
    Ok(value.and_then(|value| value.extract().ok()))
}

/// Tensors given to `mark_non_differentiable`.
fn marked(t: &mut Tracer<'_>, context: VarId) -> Step<Vec<SymbolId>> {
    let value = attributes::get(t, context, "_fixed")?;
    let items = match t.kind(value).clone() {
        Kind::Tuple(items, None) => items,
        _ => {
            return refuse(
                t,
                "mark_non_differentiable() of something else than tensors",
            )
        }
    };
    let mut symbols = Vec::new();
    for item in items {
        match t.kind(item) {
            Kind::Tensor(tensor) => symbols.push(tensor.symbol),
            _ => {
                return refuse(
                    t,
                    "mark_non_differentiable() of something else than tensors",
                )
            }
        }
    }
    Ok(symbols)
}

struct Parts {
    name: Arc<str>,
    inputs: Vec<SymbolId>,
    results: Vec<SymbolId>,
    given: Vec<SymbolId>,
    gradients: Vec<Option<SymbolId>>,
    /// How many of the statements are those of `forward`.
    split: usize,
}

impl Parts {
    /// Adds the operation to the graph; the answer is its outputs.
    fn emit(&self, t: &mut Tracer<'_>, mut cut: Cut) -> Step<Vec<SymbolId>> {
        let mut backward = Cut {
            statements: cut.statements.split_off(self.split),
            symbols: cut.symbols.clone(),
            inputs: Vec::new(),
            first: cut.first,
            adopted: cut.adopted.clone(),
        };
        // What backward uses and does not make itself goes there from forward.
        let made = defined(&backward.statements);
        let mut saved: Vec<SymbolId> = Vec::new();
        let mut note = |symbol: SymbolId| {
            let is_tensor = matches!(cut.symbols[symbol.0 as usize], SymbolKind::Tensor(_));
            let own = [&made, &self.given, &self.results];
            let own = own.iter().any(|symbols| symbols.contains(&symbol));
            if is_tensor && !own && !saved.contains(&symbol) {
                saved.push(symbol);
            }
        };
        for statement in &backward.statements {
            if matches!(statement.callee, Callee::Layer(_)) {
                return refuse(t, "backward calls a layer");
            }
            statement.for_each_argument(&mut note);
        }
        self.gradients.iter().flatten().copied().for_each(note);
        let outputs: Vec<BlockOutput> = self
            .results
            .iter()
            .chain(&saved)
            .map(|symbol| BlockOutput::Inner(*symbol))
            .collect();
        let mut free = Vec::new();
        cut.free(&outputs, &mut free);
        free.retain(|symbol| !self.inputs.contains(symbol));
        let free = regions::with_kinds(t, free);
        let forward = cut.block(
            format!("{}_forward", self.name),
            &self.inputs,
            &free,
            &outputs,
        );
        let leading = [&self.results[..], &saved, &self.given].concat();
        let mut order = Vec::new();
        let mut returned = Vec::new();
        for gradient in &self.gradients {
            order.push(gradient.map(|symbol| {
                returned.push(BlockOutput::Inner(symbol));
                returned.len() - 1
            }));
        }
        backward.inputs.clear();
        let backward = backward.block(format!("{}_backward", self.name), &leading, &[], &returned);
        let region = Region::PyLayer {
            name: self.name.clone(),
            forward: Arc::new(forward),
            backward: Arc::new(backward),
            inputs: self.inputs.len(),
            outputs: self.results.len(),
            gradients: order,
        };
        regions::emit(t, region, self.inputs.clone(), &free)
    }
}

fn defined(statements: &[Statement]) -> Vec<SymbolId> {
    let mut made = Vec::new();
    for statement in statements {
        statement
            .output
            .for_each_symbol(&mut |symbol| made.push(symbol));
    }
    made
}
