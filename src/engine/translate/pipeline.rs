//! One translation: decode, simulate, generate, compile, guard.

mod behind_break;
mod simulated_frame;

use std::sync::Arc;

use pyo3::prelude::*;

use crate::abi::GlobalState;
use crate::bytecode::{Origin, ResumeSpec};
use crate::codegen;
use crate::obj::Obj;
use crate::reason::{Break, BreakId, BreakKind, SourceLoc};
use crate::simulator::deferred;
use crate::simulator::replay_reads;
use crate::simulator::{InnerFrame, Outcome};
use crate::sync::lock;
use crate::tracker::{Place, TrackerRef};

use super::automatic_dynamic::{self, Learnt, Seen, Varies};
use super::callees;
use super::check_dims::{Checked, check_dims};
use super::choice::Configured;
use super::declared_dynamic::{Declared, DynamicTensors};
use super::finish::{Steps, Traced, finish};
use super::function::{Entry, Translated, shown};
use super::inner_steps::InnerSteps;
use super::pin;
use super::resumes::resume_function;

use behind_break::{calls_python, takes_gradients};
pub(super) use simulated_frame::{Simulated, simulate, watcher};

/// The state translations depend on, and the backend.
pub(super) fn prepare(
    py: Python<'_>,
    of: &Translated,
) -> Result<(GlobalState, Arc<Configured>), Break> {
    let state = GlobalState::capture(py)?;
    if !state.is_dynamic() {
        return Err(Break::new(
            BreakKind::UnsupportedOperation,
            "Paddle is in static mode",
        ));
    }
    if state.casts() {
        // Programs traced under auto_cast cannot be compared with eager mode without such a device.
        return Err(Break::new(
            BreakKind::UnsupportedOperation,
            "auto_cast is active",
        ));
    }
    let choice = &of.shared.options.backend;
    if let Some(backend) = pin::backend(&of.shared) {
        return Ok((state, backend));
    }
    let backend = choice.current(py).map_err(|err| {
        Break::new(
            BreakKind::UnsupportedOperation,
            format!("the backend {:?} was replaced: {err}", choice.name()),
        )
    })?;
    Ok((state, backend))
}

/// Translates the frame of a call with these bound arguments.
///
/// # Errors
/// A [`Break`] when the frame must run natively.
pub fn translate(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    wanted: &DynamicTensors,
) -> Result<Entry, Break> {
    lock(&of.shared.stats).translations += 1;
    let (state, backend) = prepare(py, of)?;
    let mut varies = Varies {
        guarded: true,
        ..Varies::default()
    };
    let mut traced = trace(py, of, bound, &state, &backend, &varies)?;
    let mut general = false;
    if backend.dynamic {
        let Learnt {
            open,
            costly,
            containers,
        } = automatic_dynamic::numbers(py, of, bound, &traced.guards);
        let mut attempt = |varies: &mut Varies, more: &[(TrackerRef, Obj)], breaks: bool| {
            let known = varies.numbers.clone();
            varies.numbers.extend(more.iter().cloned());
            match trace(py, of, bound, &state, &backend, varies) {
                Ok(attempt) if breaks || place(&attempt) == place(&traced) => {
                    traced = attempt;
                    true
                }
                _ => {
                    varies.numbers = known;
                    false
                }
            }
        };
        // Only where nothing needs the value: the graph ends, or breaks, where it did.
        if !open.is_empty() && !attempt(&mut varies, &open, false) {
            let alone = 1 < open.len() && open.len() <= automatic_dynamic::FEW;
            for number in &open {
                if !alone || !attempt(&mut varies, std::slice::from_ref(number), false) {
                    lock(&of.learnt.numbers).insert(Place::of(&number.0), Seen::Needed);
                }
            }
        }
        // One translation that breaks where the value is needed does for all values.
        if !costly.is_empty() && !of.shared.options.full_graph {
            general |= attempt(&mut varies, &costly, true);
        }
        if !containers.is_empty() && !of.shared.options.full_graph {
            varies.closed.extend(containers);
            match trace(py, of, bound, &state, &backend, &varies) {
                Ok(attempt) => {
                    traced = attempt;
                    general = true;
                }
                Err(_) => varies.closed.clear(),
            }
        }
    }
    let declared = Declared::of(py, &traced.inputs, wanted)?;
    varies.dims = automatic_dynamic::dims(of, &traced.guards, &declared, backend.dynamic);
    if !varies.dims.is_empty() {
        // A dynamic graph that breaks earlier, or cannot be traced, is no better than another
        // static one.
        let attempt = trace(py, of, bound, &state, &backend, &varies);
        let refused = match attempt {
            Ok(attempt) if attempt.reason.is_none() || place(&attempt) == place(&traced) => {
                let check = |checked, known: &Traced| {
                    let open = (&attempt.sir, &*attempt.session);
                    check_dims(py, checked, open, (&known.sir, &*known.session))
                };
                let mut checked = check(Checked::Called, &traced);
                if checked.is_err() && !attempt.captured_loops.is_empty() {
                    // Rounds that may be left early are no rounds that stand one after the other.
                    varies.dims.clear();
                    varies.kept_open.clone_from(&attempt.captured_loops);
                    if let Ok(known) = trace(py, of, bound, &state, &backend, &varies) {
                        if known.reason.is_none() {
                            checked = check(Checked::CalledLoops, &known);
                        }
                    }
                }
                if checked.is_ok() {
                    traced = attempt;
                }
                checked.err()
            }
            Ok(attempt) => attempt.reason,
            Err(reason) => Some(reason),
        };
        if let Some(reason) = refused {
            let level = match declared.dynamic.is_empty() {
                true => log::Level::Info,
                false => log::Level::Warn,
            };
            log::log!(target: "paddle_sot_rs.recompiles", level, "{}: dims that differ between calls are traced static: {reason}", of.location());
        }
    }
    if let Some(reason) = &traced.reason {
        if of.shared.options.full_graph {
            return Err(reason.clone());
        }
        if !traced.reported {
            let count = lock(&of.shared.stats).note_break(reason, 1);
            if let Some(times) = shown(count) {
                log::info!(target: "paddle_sot_rs.graph_breaks", "{times}{}", reason.advice(py));
            }
        }
    }
    let is_input = |tensor: &usize| {
        let mut inputs = traced.inputs.iter();
        inputs.any(|input| input.value.bind(py).as_ptr() as usize == *tensor)
    };
    let asks = of.checks_sizes(py)? || !wanted.keys().all(is_input);
    let entry = finish(py, of, &backend, traced, &state, asks)?;
    Ok(Entry { general, ..entry })
}

/// Where and why a graph ends before its frame does.
fn place(traced: &Traced) -> Option<(BreakKind, SourceLoc)> {
    let reason = traced.reason.as_ref()?;
    Some((reason.kind, reason.loc.clone()))
}

fn trace(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    state: &GlobalState,
    chosen: &Configured,
    varies: &Varies,
) -> Result<Traced, Break> {
    loop {
        let mut otherwise = None;
        let traced = trace_once(py, of, bound, state, chosen, varies, &mut otherwise);
        // Each is added once.
        let again = match (&traced, otherwise) {
            (Err(_), Some(Otherwise::Native(at))) => lock(&of.learnt.detours).native.insert(at),
            (Err(_), Some(Otherwise::Filled(at))) => {
                let mut detours = lock(&of.learnt.detours);
                detours.filled.insert(at) || detours.native.insert(at)
            }
            (Err(_), Some(Otherwise::NotDeferred(at))) => {
                lock(&of.learnt.detours).not_deferred.insert(at)
            }
            (Err(_), Some(Otherwise::Apart(at))) => lock(&of.learnt.detours).apart.insert(at),
            (Err(_), Some(Otherwise::ClearsFirst(first))) => {
                let before = lock(&of.learnt.detours).clears_first.replace(first);
                before != Some(first)
            }
            (Err(_), Some(Otherwise::Inside(inside))) => {
                let before = lock(&of.learnt.detours).steps_inside.replace(inside);
                before != Some(inside)
            }
            (Err(_), Some(Otherwise::Computed(places))) => {
                lock(&of.learnt.detours).computed.extend(places);
                true
            }
            (Err(_), Some(Otherwise::ChangedLater(loc))) => {
                lock(&of.shared.changed_later).insert(loc)
            }
            _ => false,
        };
        if !again {
            return traced;
        }
    }
}

/// What the interpreter has to run in another attempt.
enum Otherwise {
    /// This instruction.
    Native(usize),
    /// What gives a tensor gradients in place in this instruction.
    Filled(usize),
    /// This call of a train step, which is not deferred.
    NotDeferred(usize),
    /// This call of `backward()`, whose gradients are no part of the graph.
    Apart(usize),
    /// Steps of optimizers are part of the graph, or not any more.
    Inside(bool),
    /// What clears gradients first is done behind the graph, or not any more.
    ClearsFirst(bool),
    /// These changes in place, which the graph computes.
    Computed(Vec<usize>),
    /// The operation at this place: what its code reads when it runs again has changed by then.
    ChangedLater(SourceLoc),
}

fn trace_once(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    state: &GlobalState,
    chosen: &Configured,
    varies: &Varies,
    otherwise: &mut Option<Otherwise>,
) -> Result<Traced, Break> {
    let Simulated {
        mut tracer,
        mut outcome,
        code,
        code_object,
        globals,
    } = simulate(py, of, bound, state, chosen, varies)?;
    if let Some(loc) = replay_reads::changed(&mut tracer, &code, &outcome) {
        let reason = Break::new(BreakKind::UnsupportedCall, "what runs again has changed");
        *otherwise = Some(Otherwise::ChangedLater(loc));
        return Err(reason);
    }
    if let (Outcome::Break(_), true, Some(last)) = (
        &outcome,
        tracer.graph.was_asked_when_closed(),
        deferred::last(&tracer),
    ) {
        *otherwise = Some(match deferred::to_compute(&tracer) {
            Some(places) => Otherwise::Computed(places),
            None if deferred::inside::may_be(&tracer) => Otherwise::Inside(true),
            None if tracer.options.detours.steps_inside == Some(true) => Otherwise::Inside(false),
            None if deferred::joined::may_clear_first(&tracer) => Otherwise::ClearsFirst(true),
            None if tracer.options.detours.clears_first == Some(true) => {
                Otherwise::ClearsFirst(false)
            }
            None => Otherwise::NotDeferred(last),
        });
        return Err(Break::new(BreakKind::GradientStep, deferred::CLOSED));
    }
    let seen = deferred::seen_elsewhere(&tracer);
    if let Some(at) = seen.or_else(|| deferred::overtaken(&tracer)) {
        *otherwise = Some(Otherwise::NotDeferred(at));
        return Err(Break::new(BreakKind::GradientStep, deferred::CLOSED));
    }
    let mut by_calls = tracer.at_break.changes_views;
    if let Outcome::Break(at) = &mut outcome {
        let reaches = at.reason.id == BreakId::PartialGradients
            || takes_gradients(&tracer, &code, (at.start, &at.stack))
            || (at.inner.iter())
                .any(|frame| takes_gradients(&tracer, &frame.code, (frame.start, &frame.stack)));
        by_calls |= reaches;
        let foreign = |frame: &InnerFrame| !callees::is_translated(py, &frame.code.filename);
        if let Some(count) = at.inner.iter().position(foreign) {
            at.retreat(&mut tracer, count);
        }
    }
    let reason = match &outcome {
        Outcome::Break(at) => Some(at.reason.clone()),
        Outcome::Return(_) => None,
    };
    let (original, origin) = of
        .origin
        .clone()
        .unwrap_or_else(|| (code_object, Arc::new(Origin::identity(code.clone()))));
    let mut resume = |inner: Option<&InnerFrame>, spec: ResumeSpec, raised_at: usize| match inner {
        None => resume_function(py, of, &original, &origin.code, &globals, spec, raised_at),
        Some(frame) => {
            let (object, globals) = (&frame.code_object, &frame.globals);
            resume_function(py, of, object, &frame.code, globals, spec, raised_at)
        }
    };
    // A callee's caller may change what it gets, too; the user's own call gets new tensors.
    tracer.at_break.hands_on = matches!(outcome, Outcome::Break(_))
        || of.is_callee
        || of.reported.is_some()
        || !tracer.deferred.is_empty();
    let inner_steps = match deferred::inside::finish(&mut tracer)? {
        Ok(steps) if InnerSteps::may_hold(py, &steps, &tracer.graph.sir) => steps,
        Ok(_) | Err(_) => {
            *otherwise = Some(Otherwise::Inside(false));
            let reason = Break::new(BreakKind::GradientStep, deferred::inside::BEHIND);
            return Err(reason);
        }
    };
    let has_inner = !inner_steps.is_empty();
    // Of inner frames some may be called again, with what they had put off.
    let steps = match &outcome {
        _ if has_inner => Some(Steps::Inner(inner_steps)),
        Outcome::Break(at) if !at.inner.is_empty() => None,
        Outcome::Return(_) | Outcome::Break(_) => {
            deferred::joined::join(&mut tracer)?.map(Steps::Last)
        }
    };
    let first = tracer.options.detours.clears_first == Some(true);
    if first && !has_inner && steps.is_none() && deferred::joined::clears_first(&tracer) > 0 {
        *otherwise = Some(Otherwise::ClearsFirst(false));
        return Err(Break::new(BreakKind::GradientStep, deferred::CLOSED));
    }
    let joins = match &steps {
        Some(Steps::Last(step)) => Some(step.at),
        Some(Steps::Inner(_)) | None => None,
    };
    let emission = loop {
        let made = codegen::generate(&mut tracer, &code, &origin, &globals, &outcome, &mut resume);
        match (made, &mut outcome) {
            // What cannot be rebuilt in a callee may not be needed in front of its call.
            (Err(_), Outcome::Break(at)) if !at.inner.is_empty() => {
                at.retreat(&mut tracer, at.inner.len() - 1);
                tracer.at_break.native_next = None;
            }
            (made, _) => {
                break made.inspect_err(|_| {
                    *otherwise = tracer.at_break.native_next.map(|at| {
                        match tracer.grad.fills.contains(&at) {
                            true => Otherwise::Filled(at),
                            false => Otherwise::Native(at),
                        }
                    });
                })?;
            }
        }
    };
    // Nothing is rolled back any more.
    let settled = deferred::settle(&mut tracer)?;
    if let Some(at) = settled.or_else(|| deferred::unchanged::settle(&mut tracer)) {
        // What is read for its gradients may be what cannot be told apart.
        *otherwise = Some(match (has_inner, joins) {
            (true, _) => Otherwise::Inside(false),
            (false, Some(joins)) => Otherwise::Apart(joins),
            (false, None) => Otherwise::NotDeferred(at),
        });
        return Err(Break::new(BreakKind::GradientStep, deferred::CLOSED));
    }
    if steps.is_some() {
        let least = chosen.min_training_size;
        let is_whole = !by_calls && emission.alone.is_empty();
        if !is_whole || deferred::joined::is_seen(&tracer, &emission.outputs, least)? {
            *otherwise = Some(joins.map_or(Otherwise::Inside(false), Otherwise::Apart));
            return Err(Break::new(BreakKind::GradientStep, deferred::joined::APART));
        }
    }
    if let Some(loc) = replay_reads::handed_on(&tracer, &emission.made, &outcome) {
        *otherwise = Some(Otherwise::ChangedLater(loc));
        let message = "what runs again reads what is handed on";
        return Err(Break::new(BreakKind::UnsupportedCall, message));
    }
    let outside = replay_reads::outside(&tracer);
    let (listens, reported) = match &outcome {
        Outcome::Break(at) if at.inner.is_empty() => (
            calls_python(&mut tracer, &code, at),
            of.reported == Some(at.start),
        ),
        Outcome::Return(_) | Outcome::Break(_) => (false, false),
    };
    tracer.guard_namespaces();
    let in_front = std::mem::take(&mut tracer.graph.in_front);
    let (sir, inputs, session) = tracer.graph.into_parts();
    Ok(Traced {
        emission,
        in_front,
        sir,
        inputs,
        session,
        guards: tracer.guards,
        reason,
        reported,
        listens,
        by_calls,
        steps,
        inlined: tracer.progress.inlined,
        captured_loops: tracer.flow.captured_loops,
        outside,
    })
}
