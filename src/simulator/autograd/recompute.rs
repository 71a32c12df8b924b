//! `recompute(function, *args)`: what the function computes on the way is not kept, but computed
//! again on the way back.
//!
//! Its statements become the nested graph of one operation, whose gradient runs them again. Plain
//! Python runs the function twice, so only functions that do nothing but compute are captured.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::graph::{BlockOutput, Callee, Region, SymbolId};
use crate::obj::module_and_name;
use crate::reason::BreakId;
use crate::tracer::function_graph::Cut;
use crate::variables::{FunctionVar, Kind, VarId};

use crate::builtins::warned;
use crate::call::{Named, call};
use crate::inline::VARKEYWORDS;
use crate::pylayer::{Shape, inputs};
use crate::{Kwargs, Step, Stop, Tracer, attributes, region, replay_reads, tensors};

const NAME: &str = "recompute";
const MODULE: &str = "paddle.distributed.fleet.recompute.recompute";

fn refuse<T>(t: &Tracer<'_>, message: impl std::fmt::Display) -> Step<T> {
    t.stop(BreakId::Recompute, format!("{NAME}: {message}"))
}

/// Stops where code reads what is different on the way back: reentrant, nothing needs gradients on
/// the way forward.
pub fn check_reads(t: &Tracer<'_>) -> Step<()> {
    match t.replays.is_inside {
        true => refuse(t, "the function reads what needs gradients"),
        false => Ok(()),
    }
}

/// A call of Paddle's `recompute`; `None` for other functions.
pub fn try_call(
    t: &mut Tracer<'_>,
    callee: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(function) = t.value(callee) else {
        return Ok(None);
    };
    if module_and_name(&function) != (MODULE.to_owned(), "recompute".to_owned())
        || !t.py.module(MODULE)?.getattr("recompute")?.is(&function)
    {
        return Ok(None);
    }
    t.guard_identity(callee);
    let asked = Asked::of(t, args, kwargs)?;
    if t.grad.enabled {
        return captured(t, &asked).map(Some);
    }
    called(t, &asked).map(Some)
}

/// Where no gradient goes back through it, it is a call.
fn called(t: &mut Tracer<'_>, asked: &Asked) -> Step<VarId> {
    let mark = t.mark();
    let before = t.grad.enabled;
    if asked.reentrant && before {
        t.grad.enabled = false;
        t.grad.cut_off += 1;
    }
    let result = call(t, asked.function, &asked.args, &asked.kwargs);
    t.grad.enabled = before;
    let result = result?;
    if asked.reentrant {
        let shape = Shape::of(t, NAME, result)?;
        let given = inputs(t, NAME, &asked.args, &asked.kwargs)?;
        check(t, &mark, result, shape.symbols(), &given)?;
        if before && has_gradient(t, shape.symbols()) {
            return refuse(t, "a result that it did not compute");
        }
    }
    Ok(result)
}

fn has_gradient(t: &Tracer<'_>, symbols: &[SymbolId]) -> bool {
    symbols.iter().any(|it| t.graph.sir.has_gradient(*it))
}

/// Paddle logs, before the function runs, that no argument needs a gradient.
fn log(t: &mut Tracer<'_>) -> Step<()> {
    if t.options.forward_only {
        // Nothing that is exported goes backward, with or without it.
        return Ok(());
    }
    let function = t.py.module(MODULE)?.getattr("check_recompute_necessary")?;
    let nothing = t.add(Kind::Tuple(Vec::new(), None));
    match warned::call_later(t, &function, vec![nothing]) {
        true => Ok(()),
        false => refuse(
            t,
            "no argument needs a gradient, and what Paddle logs comes late",
        ),
    }
}

/// Whether an argument that Paddle looks at before it logs needs a gradient: one of its own, or
/// in a tuple.
fn is_necessary(t: &mut Tracer<'_>, asked: &Asked) -> bool {
    let named = asked.kwargs.iter().map(|(_, value)| *value);
    let mut looked_at = Vec::new();
    for id in asked.args.iter().copied().chain(named) {
        t.realize(id);
        if let Kind::Tuple(items, None) = t.kind(id).clone() {
            looked_at.extend(items)
        } else {
            looked_at.push(id)
        }
    }
    looked_at.into_iter().any(|id| {
        t.realize(id);
        let meta = tensors::meta_of(t, id);
        meta.is_some_and(|meta| !meta.stop_gradient)
    })
}

/// What the call asks for.
struct Asked {
    function: VarId,
    args: Vec<VarId>,
    kwargs: Named,
    reentrant: bool,
}

impl Asked {
    fn of(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Self> {
        let Some((function, args)) = args.split_first() else {
            return refuse(t, "the function is not its first positional argument");
        };
        let mut asked = Self {
            function: *function,
            args: args.to_vec(),
            kwargs: Vec::new(),
            reentrant: true,
        };
        for (name, value) in kwargs {
            match &**name {
                "use_reentrant" | "preserve_rng_state" => {
                    let Some(truth) = t.const_value(*value) else {
                        return refuse(t, format!("{name} is no constant"));
                    };
                    if &**name == "use_reentrant" {
                        asked.reentrant = truth.is_truthy()?;
                    }
                }
                "offload_indices" if asked.reentrant => return refuse(t, "offload_indices"),
                _ => asked.kwargs.push((name.clone(), *value)),
            }
        }
        let manager = t.py.module(MODULE)?.getattr("custom_state_manager")?;
        let manager = t.constant(&manager);
        let custom = attributes::get(t, manager, "custom_get_state_func")?;
        if !t.is_none(custom) {
            return refuse(t, "a custom state manager");
        }
        if asked.reentrant {
            asked.check_signature(t)?;
        }
        Ok(asked)
    }

    /// Reentrant, everything is passed by position, defaults too: the same call, unless somebody
    /// looks.
    fn check_signature(&self, t: &mut Tracer<'_>) -> Step<()> {
        t.realize(self.function);
        let function = if let Kind::Method { function, .. } = t.kind(self.function).clone() {
            function
        } else {
            self.function
        };
        let code = if let Kind::Function(FunctionVar::New(new)) = t.kind(function).clone() {
            new.code.bind(t.py).clone()
        } else if let Kind::Layer(_) = t.kind(function) {
            let Some(layer) = t.value(function) else {
                return refuse(t, "a layer that the function made");
            };
            for hooks in ["_forward_pre_hooks", "_forward_post_hooks"] {
                if layer.getattr(hooks)?.len()? > 0 {
                    return refuse(t, "a layer with hooks");
                }
            }
            own_code(t, &layer.getattr("forward")?)?
        } else if let Kind::Function(FunctionVar::Real) = t.kind(function) {
            match t.value(function) {
                Some(function) => own_code(t, &function)?,
                None => return refuse(t, "a function without an object"),
            }
        } else {
            return refuse(t, "something else than a function or a layer");
        };
        let flags: u32 = code.getattr("co_flags")?.extract()?;
        let named_only: usize = code.getattr("co_kwonlyargcount")?.extract()?;
        if named_only > 0 || (flags & VARKEYWORDS != 0 && !self.kwargs.is_empty()) {
            return refuse(t, "arguments that are passed by name only");
        }
        Ok(())
    }
}

/// The code of a function or method that no other one stands for.
fn own_code<'py>(t: &Tracer<'py>, function: &Bound<'py, PyAny>) -> Step<Bound<'py, PyAny>> {
    match function.getattr_opt("__code__")? {
        Some(code) if function.getattr_opt("__wrapped__")?.is_none() => Ok(code),
        _ => refuse(t, "a wrapped function"),
    }
}

/// What it did besides computing would happen twice, and its results are new tensors.
fn check(
    t: &mut Tracer<'_>,
    mark: &crate::TraceMark,
    result: VarId,
    results: &[SymbolId],
    given: &[SymbolId],
) -> Step<()> {
    if region::acts(t, mark) {
        return refuse(t, "the function has a side effect");
    }
    if results.iter().any(|symbol| given.contains(symbol)) {
        return refuse(t, "the function returns an argument as it is");
    }
    let items = t
        .kind(result)
        .items()
        .map_or_else(|| vec![result], <[VarId]>::to_vec);
    let is_view = |id: &VarId| matches!(t.kind(*id), Kind::Tensor(tensor) if tensor.view.is_some());
    if items.iter().any(is_view) {
        return refuse(t, "the function returns a view");
    }
    Ok(())
}

fn captured(t: &mut Tracer<'_>, asked: &Asked) -> Step<VarId> {
    let given = inputs(t, NAME, &asked.args, &asked.kwargs)?;
    if !is_necessary(t, asked) {
        if has_gradient(t, &given) {
            return refuse(t, "what needs a gradient is in a container");
        }
        log(t)?;
        if asked.reentrant {
            return called(t, asked);
        }
    }
    replay_reads::check(t, NAME)?;
    let mark = t.mark();
    let before = t.replays.is_inside;
    t.replays.is_inside |= asked.reentrant;
    let (result, reads) =
        replay_reads::watch(t, |t| call(t, asked.function, &asked.args, &asked.kwargs));
    t.replays.is_inside = before;
    let result = match result {
        Err(Stop::Raise(_)) => return refuse(t, "the function raises"),
        result => result?,
    };
    let shape = Shape::of(t, NAME, result)?;
    let results = shape.symbols().to_vec();
    check(t, &mark, result, &results, &given)?;
    if !asked.reentrant && !has_gradient(t, &results) {
        // Nothing goes back to where it would run again.
        return Ok(result);
    }
    if asked.reentrant
        && !results
            .iter()
            .all(|symbol| t.graph.sir.has_gradient(*symbol))
    {
        // Eager mode says that gradients go through each of them.
        return refuse(t, "a result without a gradient");
    }
    let mut cut = t.cut(mark);
    replay_reads::note(t, reads)?;
    region::refuse_selected_rows(t, &cut)?;
    t.graph.adopt(t.py, &mut cut)?;
    let outputs: Vec<BlockOutput> = results.iter().map(|it| BlockOutput::Inner(*it)).collect();
    if results.iter().any(|symbol| cut.outer(*symbol).is_some()) {
        return refuse(t, "the function returns what it did not compute");
    }
    if decides(&cut) {
        return refuse(t, "control flow on tensors inside of it");
    }
    if cut.statements.iter().any(|it| !it.updates.is_empty()) {
        return refuse(t, "the function writes what it has seen");
    }
    let mut free = Vec::new();
    cut.free(&outputs, &mut free);
    if asked.reentrant {
        // Results need a gradient where an argument does, used or not.
        let unused = |it: &SymbolId| t.graph.sir.has_gradient(*it) && !free.contains(it);
        if given.iter().any(unused) {
            return refuse(t, "an argument that needs a gradient and is not used");
        }
        for symbol in &free {
            if !given.contains(symbol)
                && t.graph.sir.has_gradient(*symbol)
                && !is_parameter(t, *symbol)?
            {
                return refuse(t, "a tensor that needs a gradient and is no argument");
            }
        }
    }
    let free = region::with_kinds(t, free);
    let body = Arc::new(cut.block("recompute".to_owned(), &[], &free, &outputs));
    let places = (free.iter().enumerate()).filter(|(_, (symbol, _))| given.contains(symbol));
    let given = asked.reentrant.then(|| places.map(|(at, _)| at).collect());
    let outputs = region::emit(t, Region::Recompute { body, given }, Vec::new(), &free)?;
    let made: Vec<VarId> = outputs
        .into_iter()
        .map(|symbol| region::tensor(t, symbol))
        .collect();
    Ok(shape.build(t, &made))
}

fn decides(cut: &Cut) -> bool {
    cut.statements.iter().any(|statement| {
        matches!(&statement.callee, Callee::Sir(region) if matches!(**region, Region::If { .. } | Region::While { .. }))
    })
}

/// Whether it is a parameter from outside: its gradient is added up, whoever goes backward.
fn is_parameter(t: &Tracer<'_>, symbol: SymbolId) -> PyResult<bool> {
    let mut inputs = t.graph.inputs.iter();
    let Some(input) = inputs.find(|input| input.symbol == symbol) else {
        return Ok(false);
    };
    let parameter =
        t.py.module("paddle.base.framework")?
            .getattr("EagerParamBase")?;
    input.value.bind(t.py).is_instance(&parameter)
}
