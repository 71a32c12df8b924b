//! `paddle.autograd.PyLayer`: the user's `forward` and `backward` become the nested graphs of one
//! custom operation.

mod arguments;
mod parts;
mod results;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyType};

use crate::frame::Modules;
use crate::graph::{Callee, Region, SymbolId};
use crate::native;
use crate::ops::DETACH;
use crate::reason::BreakId;
use crate::variables::VarId;

use crate::call::call;
use crate::replay_reads::{self, Reads};
use crate::{Kwargs, Step, Stop, TraceMark, Tracer};
use crate::{attributes, region};
use arguments::Slot;
pub(crate) use arguments::inputs;
use parts::Parts;
use results::Returned;
pub(crate) use results::Shape;

/// Whether `name` of this class is `PyLayer.apply` of Paddle.
pub fn is_apply(t: &Tracer<'_>, class: &Bound<'_, PyType>, name: &str) -> PyResult<bool> {
    if name != "apply" {
        return Ok(false);
    }
    let base = t.py.module("paddle.autograd")?.getattr("PyLayer")?;
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

/// The class whose `apply` this bound method is (`swish = Swish.apply`).
pub fn owner<'py>(
    t: &Tracer<'py>,
    method: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyType>>> {
    if !method.is_instance_of::<PyCFunction>() || !method.getattr("__name__")?.eq("apply")? {
        return Ok(None);
    }
    let Ok(class) = method.getattr("__self__")?.cast_into::<PyType>() else {
        return Ok(None);
    };
    let is_one = is_apply(t, &class, "apply")? && class.getattr("apply")?.eq(method)?;
    Ok(is_one.then_some(class))
}

const NAME: &str = "PyLayer";

/// Stops where the code of a `backward` asks whether gradients are on, or whether `of` needs one:
/// for who asks for gradients of gradients they are, and what it makes does.
pub fn check_reads(t: &Tracer<'_>, of: Option<SymbolId>) -> Step<()> {
    let differs = |first: SymbolId| of.is_none_or(|of| of >= first);
    match t.grad.backward.is_some_and(differs) {
        true => refuse(t, "backward reads what needs gradients"),
        false => Ok(()),
    }
}

fn refuse<T>(t: &Tracer<'_>, message: &str) -> Step<T> {
    refuse_of(t, NAME, message)
}

fn refuse_of<T>(t: &Tracer<'_>, of: &str, message: &str) -> Step<T> {
    t.stop(BreakId::PyLayer, format!("{of}: {message}"))
}

/// `class.apply(*args, **kwargs)`
pub fn apply(t: &mut Tracer<'_>, class: VarId, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    t.guard_identity(class);
    replay_reads::check(t, NAME)?;
    let slots = arguments::slots(t, args, kwargs);
    let inputs = arguments::symbols(&slots);
    let mut given = args.to_vec();
    given.extend(kwargs.iter().map(|(_, value)| *value));
    // Before the context: what is written to it is no side effect.
    let mark = t.mark();
    let made =
        t.py.module("paddle_sot_rs._graph.control")?
            .getattr("LayerContext")?;
    let made = t.constant(&made);
    let context = call(t, made, &[], &[])?;
    let before = t.grad.enabled;
    let wants = before && inputs.iter().any(|it| t.graph.sir.has_gradient(*it));
    t.grad.cut_off += usize::from(!wants);
    let mut all = vec![context];
    all.extend_from_slice(args);
    t.grad.enabled = false;
    t.grad.custom += usize::from(wants);
    // The user may catch what `forward` raises, and nothing that `backward` will raise.
    let result = attributes::get(t, class, "forward")
        .and_then(|forward| call(t, forward, &all, kwargs))
        .and_then(|result| Ok((Returned::of(t, result)?, result)))
        .and_then(|(returned, result)| {
            // Also one that was changed in place.
            let same = returned.tensors.iter().any(|it| given.contains(it));
            if same || returned.symbols.iter().any(|it| inputs.contains(it)) {
                return refuse(t, "forward returns an argument as it is");
            }
            if !wants {
                return Ok((result, None));
            }
            match Way::back(t, class, context, &slots, returned) {
                Ok(way) => Ok((result, Some(way))),
                Err(Stop::Raise(_)) => refuse(t, "backward raises"),
                Err(stop) => Err(stop),
            }
        });
    t.grad.enabled = before;
    t.grad.custom -= usize::from(wants);
    match result? {
        (result, None) => Ok(result),
        (_, Some(way)) => way.emit(t, mark, name_of(t, class), inputs),
    }
}

/// What is known of a custom operation whose methods were followed.
struct Way {
    returned: Returned,
    /// Tensors that were given to `mark_non_differentiable`.
    fixed: Vec<SymbolId>,
    /// What stands for the gradients that arrive.
    given: Vec<SymbolId>,
    gradients: Vec<Option<SymbolId>>,
    forward_end: usize,
    reads: Reads,
}

impl Way {
    /// Follows `backward`.
    fn back(
        t: &mut Tracer<'_>,
        class: VarId,
        context: VarId,
        slots: &[Slot],
        returned: Returned,
    ) -> Step<Self> {
        // Backward of a single output only runs when its gradient is there.
        match flag(t, context, "materialize_grads")? {
            Some(true) => {}
            Some(false) if returned.symbols.len() == 1 => {}
            _ => return refuse(t, "set_materialize_grads(False) with several outputs"),
        }
        if flag(t, context, "grad_in_dtype_consistent")? != Some(true) {
            return refuse(t, "set_grad_in_dtype_consistent(False)");
        }
        let fixed = marked(t, context)?;
        let is_number = |symbol: &SymbolId| {
            let meta = t.graph.meta(*symbol);
            meta.is_some_and(|meta| !meta.dtype.is_differentiable())
        };
        let mut symbols = returned.symbols.iter();
        if symbols.any(|symbol| !fixed.contains(symbol) && is_number(symbol)) {
            // Eager mode says that gradients go through it.
            return refuse(
                t,
                "a result of whole numbers or bools that is not marked as non-differentiable",
            );
        }
        let forward_end = t.graph.sir.statements.len();
        let mut given = Vec::with_capacity(returned.symbols.len());
        let mut arrived = vec![context];
        for symbol in &returned.symbols {
            let Some(mut meta) = t.graph.meta(*symbol).cloned() else {
                return refuse(t, "a result without metadata");
            };
            // Zeros that stand for one that does not arrive stop gradients, and what arrives does
            // not.
            meta.stop_gradient = returned.symbols.len() > 1;
            let gradient = t.graph.placeholder(t.py, meta)?;
            given.push(gradient);
            arrived.push(region::tensor(t, gradient));
        }
        let cut_off = t.grad.cut_off;
        let first = SymbolId(t.graph.sir.symbols.len() as u32);
        let around = t.grad.backward.replace(first);
        let mark = t.mark();
        let (answer, reads) = replay_reads::watch(t, |t| {
            let backward = attributes::get(t, class, "backward")?;
            call(t, backward, &arrived, &[])
        });
        t.grad.backward = around;
        let answer = answer?;
        let gradients = arguments::gradients(t, answer, slots)?;
        // It runs later, and perhaps again: what forward has made is there for all to see by then.
        if region::acts(t, &mark) {
            return refuse(t, "backward changes something outside of it");
        }
        if t.grad.cut_off == cut_off {
            // Gradients are on in there for who asks for gradients of gradients.
            t.graph.enable_gradients(forward_end);
        }
        Ok(Self {
            returned,
            fixed,
            given,
            gradients,
            forward_end,
            reads,
        })
    }

    /// Puts the operation where its methods were followed; the answer is what `apply` returns.
    fn emit(
        self,
        t: &mut Tracer<'_>,
        mark: TraceMark,
        name: Arc<str>,
        inputs: Vec<SymbolId>,
    ) -> Step<VarId> {
        if region::acts(t, &mark) {
            return refuse(t, "forward or backward changes something outside of it");
        }
        let start = t.graph_len(&mark);
        let mut cut = t.cut(mark);
        replay_reads::note(t, self.reads)?;
        t.graph.adopt(t.py, &mut cut)?;
        let parts = Parts {
            name,
            inputs,
            results: self.returned.symbols.clone(),
            given: self.given,
            gradients: self.gradients,
            split: self.forward_end - start,
        };
        let outputs = parts.emit(t, cut)?;
        let mut made = Vec::with_capacity(outputs.len());
        for (symbol, inner) in outputs.into_iter().zip(&self.returned.symbols) {
            let id = region::tensor(t, symbol);
            made.push(match self.fixed.contains(inner) {
                true => crate::tensors::method(t, id, DETACH, &[], &[])?,
                false => id,
            });
        }
        Ok(self.returned.build(t, &made))
    }
}

/// Whether a custom operation keeps one of these tensors for its gradient, perhaps: eager mode sees
/// what it has become.
pub fn keeps(t: &Tracer<'_>, symbols: &[SymbolId]) -> bool {
    t.graph.sir.statements.iter().any(|statement| {
        let is_one = matches!(&statement.callee, Callee::Sir(region) if matches!(**region, Region::PyLayer { .. }));
        let mut found = false;
        let mut note = |symbol| found |= symbols.contains(&symbol);
        if is_one {
            statement.for_each_argument(&mut note);
            statement.output.for_each_symbol(&mut note);
        }
        found
    })
}

fn name_of(t: &Tracer<'_>, class: VarId) -> Arc<str> {
    let name = t.value(class).and_then(|class| {
        let name = class.getattr("__qualname__").ok()?;
        name.extract::<String>().ok()
    });
    Arc::from(name.unwrap_or_default())
}

fn flag(t: &mut Tracer<'_>, context: VarId, name: &str) -> Step<Option<bool>> {
    let value = attributes::get(t, context, name)?;
    let value = t.const_value(value);
    Ok(value.and_then(|value| value.extract().ok()))
}

/// Tensors given to `mark_non_differentiable`.
fn marked(t: &mut Tracer<'_>, context: VarId) -> Step<Vec<SymbolId>> {
    let value = attributes::get(t, context, "non_differentiable")?;
    if t.is_none(value) {
        return Ok(Vec::new());
    }
    let items = t.kind(value).exact_tuple().map(<[VarId]>::to_vec);
    let symbols = items.and_then(|items| {
        let symbols = items
            .iter()
            .map(|item| Some(t.kind(*item).tensor()?.symbol));
        symbols.collect()
    });
    match symbols {
        Some(symbols) => Ok(symbols),
        None => refuse(
            t,
            "mark_non_differentiable() of something else than tensors",
        ),
    }
}
