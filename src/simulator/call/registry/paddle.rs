//! Functions of Paddle, and of this package, that are more than operators: a new one is a row here.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::builtins::{one, wrong};
use crate::frame::{Modules, OWN_PACKAGE};
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::{Kind, StandIn, VarId};
use crate::{Step, Tracer, attributes, contexts, fold, layers, pylayer, recompute, tensors};

use super::Action::{Context, Fold, Polyfill, Simulate, Statement};
use super::{Row, learns};

pub(super) const ROWS: &[Row] = &[
    ("paddle", "no_grad", Context(contexts::no_grad)),
    (
        "paddle.base.dygraph",
        "no_grad_",
        Context(contexts::no_grad),
    ),
    ("paddle", "enable_grad", Context(contexts::enable_grad)),
    ("paddle.amp", "auto_cast", Context(contexts::auto_cast)),
    (
        "paddle.amp.auto_cast",
        "amp_guard",
        Context(contexts::auto_cast),
    ),
    (
        "paddle_sot_rs._graph.polyfills",
        "stand_in",
        Simulate(StandIn::make),
    ),
    // How Paddle is built does not change while the process lives.
    (
        "paddle.base.core",
        "is_compiled_with_* get_all_custom_device_type get_all_device_type \
         get_custom_device_count",
        Fold,
    ),
    (
        "paddle_sot_rs._graph.control",
        "apply_layer",
        Simulate(|t, a, k| match a {
            [class, args @ ..] => pylayer::apply(t, *class, args, k),
            [] => wrong(t, "apply"),
        }),
    ),
    (
        "paddle.nn.layer.rnn",
        "RNNCellBase.get_initial_states",
        Polyfill("initial_states"),
    ),
    (
        "paddle.static.nn.control_flow",
        "switch_case",
        Polyfill("switch_case"),
    ),
    (
        "paddle.static.nn.control_flow",
        "assign_skip_lod_tensor_array",
        Polyfill("assign_variable_of_loop"),
    ),
    (
        "paddle_sot_rs._graph.quantisers",
        "quantise dequantise fake_by_average fake_by_largest fake_by_channel observe_by_average",
        Statement,
    ),
    (
        "paddle._legacy_C_ops",
        "quantize_linear",
        Polyfill("quantize_linear"),
    ),
    (
        "paddle._legacy_C_ops",
        "dequantize_linear",
        Polyfill("dequantize_linear"),
    ),
    (
        "paddle.quantization.quanters.abs_max",
        "FakeQuanterWithAbsMaxObserverLayer.dynamic_forward",
        Polyfill("fake_by_average"),
    ),
    (
        "paddle.nn.quant.quant_layers",
        "FakeQuantMovingAverageAbsMax.forward",
        Polyfill("old_fake_by_average"),
    ),
    (
        "paddle.nn.quant.quant_layers",
        "FakeQuantAbsMax.forward",
        Polyfill("old_fake_by_largest"),
    ),
    (
        "paddle.nn.quant.quant_layers",
        "FakeQuantChannelWiseAbsMax.forward",
        Polyfill("old_fake_by_channel"),
    ),
    (
        "paddle.nn.quant.quant_layers",
        "MovingAverageAbsMaxScale.forward",
        Polyfill("observe_by_average"),
    ),
    (
        "paddle.nn.quant.lsq",
        "FakeQuantActLSQPlus.forward",
        Simulate(|t, a, k| learns(t, ("lsq_of_activations", "frozen_lsq_of_activations"), a, k)),
    ),
    (
        "paddle.nn.quant.lsq",
        "FakeQuantWeightLSQPlus.forward",
        Simulate(|t, a, k| learns(t, ("lsq_of_weights", "frozen_lsq_of_weights"), a, k)),
    ),
    (
        "paddle",
        "is_tensor",
        Simulate(|t, a, k| {
            one(t, a, k, |t, x| {
                let is = matches!(t.kind(x), Kind::Tensor(_));
                Ok(t.bool(is))
            })
        }),
    ),
    (
        "paddle",
        "is_grad_enabled",
        Simulate(|t, a, k| {
            if !(a.is_empty() && k.is_empty()) {
                return wrong(t, "is_grad_enabled");
            }
            recompute::check_reads(t)?;
            pylayer::check_reads(t, None)?;
            let on = t.grad.enabled;
            Ok(t.bool(on))
        }),
    ),
    (
        "paddle.base.core",
        "_has_grad",
        Simulate(|t, a, k| {
            if !(a.is_empty() && k.is_empty()) {
                return wrong(t, "_has_grad");
            }
            let on = t.grad.enabled;
            Ok(t.bool(on))
        }),
    ),
    // `no_grad.__enter__` and `__exit__` of objects that exist already end here.
    (
        "paddle.base.core",
        "_set_has_grad",
        Simulate(|t, a, k| {
            one(t, a, k, |t, mode| {
                let mode = t.const_value(mode);
                // What else is true or false Paddle refuses, or asks user code about.
                let mode = mode.filter(|mode| mode.is_none() || mode.cast::<PyInt>().is_ok());
                match mode.map(|mode| mode.is_truthy()) {
                    None => t.unsupported("a grad mode that is no bool"),
                    Some(Ok(on)) if t.grad.at_entry || !on => {
                        t.grad.enabled = on;
                        t.grad.cut_off += usize::from(!on);
                        Ok(t.none())
                    }
                    _ => t.stop(
                        BreakKind::UnsupportedOperation,
                        "gradients are switched on in a function that is called without them",
                    ),
                }
            })
        }),
    ),
    (
        "paddle.nn",
        "Layer.__setattr__",
        Simulate(|t, a, k| match (a, k) {
            ([layer, name, value], []) if matches!(t.kind(*layer), Kind::Layer(_)) => {
                let Some(name) = t.const_str(*name) else {
                    return wrong(t, "__setattr__");
                };
                attributes::set_on_layer(t, *layer, &name, *value)?;
                Ok(t.none())
            }
            _ => wrong(t, "__setattr__"),
        }),
    ),
    (
        "paddle.nn",
        "Layer.__getattr__",
        Simulate(|t, a, k| match (a, k) {
            ([layer, name], []) if matches!(t.kind(*layer), Kind::Layer(_)) => {
                let Some(name) = t.const_str(*name) else {
                    return wrong(t, "__getattr__");
                };
                if let Some(value) = layers::registered(t, *layer, &name)? {
                    return Ok(value);
                }
                let Kind::Layer(state) = t.kind(*layer).clone() else {
                    return wrong(t, "__getattr__");
                };
                attributes::generic_or_raise(t, *layer, &state, &name)
            }
            _ => wrong(t, "__getattr__"),
        }),
    ),
    (
        "paddle.base.data_feeder",
        "convert_dtype",
        Simulate(|t, a, k| {
            one(t, a, k, |t, dtype| {
                let function = t.py.module("paddle.base.data_feeder")?;
                let function = function.getattr("convert_dtype")?;
                fold::call_object(t, &function, &[dtype], &[])
            })
        }),
    ),
    (
        "paddle.base.dygraph.base",
        "in_to_static_mode",
        Simulate(|t, a, k| {
            let _ = (a, k);
            Ok(t.bool(false))
        }),
    ),
    (
        "paddle",
        "in_dynamic_mode",
        Simulate(|t, a, k| {
            if !(a.is_empty() && k.is_empty()) {
                return wrong(t, "in_dynamic_mode");
            }
            Ok(t.bool(true))
        }),
    ),
    (
        "paddle.base.framework",
        "in_dygraph_mode",
        Simulate(|t, a, k| {
            if !(a.is_empty() && k.is_empty()) {
                return wrong(t, "in_dygraph_mode");
            }
            Ok(t.bool(true))
        }),
    ),
    (
        "paddle.base.framework",
        "in_dynamic_or_pir_mode",
        Simulate(|t, a, k| {
            let _ = (a, k);
            Ok(t.bool(true))
        }),
    ),
    (
        "paddle.base.framework",
        "in_pir_mode",
        Simulate(|t, a, k| {
            let _ = (a, k);
            Ok(t.bool(false))
        }),
    ),
    (
        "paddle.base.data_feeder",
        "check_variable_and_dtype",
        Simulate(|t, a, k| {
            let _ = (a, k);
            Ok(t.none())
        }),
    ),
    (
        "paddle.base.data_feeder",
        "check_type",
        Simulate(|t, a, k| {
            let _ = (a, k);
            Ok(t.none())
        }),
    ),
    (
        "paddle",
        "get_default_dtype",
        Simulate(|t, a, k| {
            if !(a.is_empty() && k.is_empty()) {
                return wrong(t, "get_default_dtype");
            }
            let v = t.py.paddle()?.call_method0("get_default_dtype")?;
            Ok(t.constant(&v))
        }),
    ),
    (
        "paddle",
        "shape",
        Simulate(|t, a, k| match (a, k) {
            ([x], []) => shape_statement(t, *x),
            _ => wrong(t, "shape"),
        }),
    ),
    (
        OWN_PACKAGE,
        "graph_break",
        Simulate(|t, a, k| {
            let _ = k;
            let text = a.first().and_then(|x| t.const_str(*x));
            t.stop(
                BreakKind::UserBreak,
                text.map_or("graph_break()".to_owned(), |x| x.to_string()),
            )
        }),
    ),
    (
        OWN_PACKAGE,
        "is_compiling",
        Simulate(|t, a, k| {
            let _ = (a, k);
            Ok(t.bool(true))
        }),
    ),
];

fn shape_statement(t: &mut Tracer<'_>, tensor: VarId) -> Step<VarId> {
    let function = t.py.paddle()?.getattr("shape")?;
    let callee = crate::graph::Callee::Api(Obj::from(function));
    tensors::capture(t, callee, None, &[tensor], &[], &mut |_| None)
}
