//! Layers of Paddle's that become one call of the graph.
//!
//! What stands for such a layer is what its code did when it was translated. So that code is
//! Paddle's, with all that it names, and guards say that it stays what it was: others are inlined.

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyCFunction, PyDict, PyFunction, PyList, PyModule, PyString, PyTuple, PyType,
};
use rustc_hash::FxHashMap;

use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::obj::{Obj, is_named, names_of_code};
use crate::paddle::is_name_of_paddle;
use crate::tracker::{DictKey, Tracker};

use crate::attributes::lookup;
use crate::layers::{REGISTRIES, registry};
use crate::{Tracer, api, classes, provenance};

/// Whether it is a class of layers of Paddle's.
pub fn is_paddle(class: &Bound<'_, PyType>) -> bool {
    provenance::module_in_paddle(class).is_some_and(|module| {
        module.starts_with("paddle.nn.")
            || module.starts_with("paddle.incubate.nn.")
            || module == "paddle.vision.ops"
    })
}

/// Paddle layers whose own code only calls other layers: they are inlined, so that user layers,
/// hooks and shared sub-layers inside of them are seen.
const CONTAINERS: &[&str] = &["LayerList", "Sequential", "LayerDict", "ParameterList"];

/// Those with several results, of which a part of a graph may use some: as one call they would be a
/// part of their own, and the sums of gradients in another order than in eager mode.
const CELLS: &[&str] = &["SimpleRNNCell", "LSTMCell", "GRUCell"];

/// Layers that quantise: in eager mode they call other kernels than while a program is built. They
/// are inlined.
const QUANTISED: &str = "paddle.nn.quant.";

/// What is known of the code of classes, by address; `None` for those that run other code than
/// Paddle's. While a function is translated no class changes.
pub type KnownCode<'py> = FxHashMap<usize, (Bound<'py, PyType>, Option<Rc<Named<'py>>>)>;

/// The code that runs where a layer is called: of its class, and of those of the layers below it,
/// each once.
#[derive(Default)]
pub struct LayerCode<'py>(Vec<(Bound<'py, PyType>, Rc<Named<'py>>)>);

impl<'py> LayerCode<'py> {
    /// `None` unless the whole tree below a real layer is Paddle's, unmodified and without hooks.
    pub fn of(layer: &Bound<'py, PyAny>, known: &mut KnownCode<'py>) -> PyResult<Option<Self>> {
        let mut this = Self::default();
        let name = layer.get_type().name()?.to_string();
        if [CONTAINERS, CELLS].iter().any(|of| of.contains(&&*name)) {
            return Ok(None);
        }
        Ok(this.add(layer, known)?.then_some(this))
    }

    /// Adds a layer and those below it; whether nothing but Paddle's code runs where it is called.
    fn add(&mut self, layer: &Bound<'py, PyAny>, known: &mut KnownCode<'py>) -> PyResult<bool> {
        let class = layer.get_type();
        if !self.0.iter().any(|(other, _)| other.is(&class)) {
            let code = match known.get(&(class.as_ptr() as usize)) {
                Some((_, code)) => code.clone(),
                None => {
                    let code = match is_paddle(&class) && !is_quantised(&class) {
                        true => Named::by(&class)?.map(Rc::new),
                        false => None,
                    };
                    known.insert(class.as_ptr() as usize, (class.clone(), code.clone()));
                    code
                }
            };
            let Some(code) = code else {
                return Ok(false);
            };
            self.0.push((class, code));
        }
        let Ok(own) = layer.getattr("__dict__")?.cast_into::<PyDict>() else {
            return Ok(false);
        };
        if own.contains("forward")?
            || has_hooks(layer, "_forward_pre_hooks")
            || has_hooks(layer, "_forward_post_hooks")
            || !own.values().iter().all(|value| is_no_other_code(&value))
            || works_in_place(&own)
            || keeps_tensors(&own)?
        {
            return Ok(false);
        }
        let Some(children) = registry(layer, "_sub_layers") else {
            return Ok(false);
        };
        for (_, child) in children.iter() {
            if !child.is_none() && !self.add(&child, known)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Guards that it stays what it is.
    pub fn guard(self, t: &mut Tracer<'_>) {
        for (class, code) in self.0 {
            let methods: Vec<&str> = code.methods.iter().map(|name| &**name).collect();
            classes::guard_names(t, &class, &methods);
            classes::guard_names(t, &class, &["__call__"]);
            for (names, name, found) in &code.globals {
                let names = Arc::new(Tracker::Const(Obj::from(names)));
                let name = DictKey::Str(Arc::from(name.as_str()));
                let tracker = Arc::new(Tracker::DictItem(names, name));
                t.guards.add(&tracker, GuardKind::Is(Obj::from(found)));
            }
        }
    }
}

fn is_quantised(class: &Bound<'_, PyType>) -> bool {
    provenance::module_in_paddle(class).is_some_and(|module| module.starts_with(QUANTISED))
}

/// Whether a setting of a layer (`inplace`, `_inplace`) asks to write its result into what it is
/// given.
fn works_in_place(own: &Bound<'_, PyDict>) -> bool {
    let asks = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let is_off = value.cast::<PyBool>().is_ok_and(|value| !value.is_true());
        let is_one = name.cast::<PyString>().is_ok_and(|name| {
            let name = name.to_str().map(|name| name.trim_start_matches('_'));
            name.is_ok_and(|name| api::WRITTEN.contains(&name))
        });
        is_one && !is_off && !value.is_none()
    };
    own.iter().any(asks)
}

/// Whether a setting of a layer is a container with a tensor in it: its code would get the real one
/// while it is traced. Parameters, as recurrent layers have them in lists, are known to the
/// program.
fn keeps_tensors(own: &Bound<'_, PyDict>) -> PyResult<bool> {
    let tensor = own.py().paddle()?.getattr("Tensor")?;
    for (name, value) in own {
        let is_registry = name
            .extract::<&str>()
            .is_ok_and(|name| REGISTRIES.contains(&name));
        if !is_registry && holds(&value, &tensor, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a container has something of this class in it, or in those in it.
fn holds(value: &Bound<'_, PyAny>, class: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
    const DEEPEST: usize = 16;
    let items = match value.cast::<PyDict>() {
        Ok(dict) => dict.values().try_iter()?,
        Err(_) if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() => {
            value.try_iter()?
        }
        Err(_) => return Ok(false),
    };
    for item in items {
        let item = item?;
        if depth > DEEPEST || item.get_type().is(class) || holds(&item, class, depth + 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_hooks(layer: &Bound<'_, PyAny>, which: &str) -> bool {
    registry(layer, which).is_some_and(|hooks| !hooks.is_empty())
}

/// Whether an attribute of a layer is nothing that somebody else has written for it to call.
fn is_no_other_code(value: &Bound<'_, PyAny>) -> bool {
    if is_named(value, "method") {
        let function = value.getattr("__func__");
        return function.is_ok_and(|function| provenance::is_of_paddle(&function));
    }
    let class = value.get_type();
    !value.is_callable()
        || provenance::is_of_paddle(value)
        || value.is_instance_of::<PyCFunction>()
        || value.is_instance_of::<PyType>()
        || provenance::name_in_paddle(&class).is_some()
        || provenance::module_in_paddle(&class).is_some()
}

/// What the code of a class's `forward` names: methods, and functions in its module and in other
/// modules of Paddle's.
pub struct Named<'py> {
    methods: Vec<String>,
    globals: Vec<(Bound<'py, PyDict>, String, Bound<'py, PyAny>)>,
}

impl<'py> Named<'py> {
    /// `None` where a function among it is not Paddle's.
    fn by(class: &Bound<'py, PyType>) -> PyResult<Option<Self>> {
        let call = lookup(class, "__call__");
        if !call.is_some_and(|call| provenance::is_of_paddle(&call)) {
            return Ok(None);
        }
        let mut this = Self {
            methods: vec!["forward".to_owned()],
            globals: Vec::new(),
        };
        let mut at = 0;
        while let Some(name) = this.methods.get(at) {
            let Some(method) = lookup(class, name).filter(provenance::is_of_paddle) else {
                return Ok(None);
            };
            if !this.add_code(class, method)? {
                return Ok(None);
            }
            at += 1;
        }
        Ok(Some(this))
    }

    /// What a function names, and what it decorates.
    fn add_code(
        &mut self,
        class: &Bound<'py, PyType>,
        method: Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let mut next = Some(method);
        while let Some(function) = next {
            let names = names_of_code(&function.getattr("__code__")?)?;
            let names: Vec<Bound<'_, PyString>> = names.extract()?;
            for name in &names {
                let name = name.to_str()?;
                let is_method = lookup(class, name)
                    .is_some_and(|found| found.is_exact_instance_of::<PyFunction>());
                if is_method && !self.methods.iter().any(|known| known == name) {
                    self.methods.push(name.to_owned());
                }
            }
            let globals = function.getattr("__globals__")?.cast_into::<PyDict>()?;
            if !self.add_globals(globals, &names)? {
                return Ok(false);
            }
            next = function.getattr_opt("__wrapped__")?;
        }
        Ok(true)
    }

    /// The functions that these names have in the dictionary of a module, and in Paddle's modules
    /// that they have there.
    fn add_globals(
        &mut self,
        globals: Bound<'py, PyDict>,
        names: &[Bound<'py, PyString>],
    ) -> PyResult<bool> {
        let mut dicts = vec![globals];
        let mut at = 0;
        while let Some(dict) = dicts.get(at).cloned() {
            for name in names {
                let Some(found) = dict.get_item(name)? else {
                    continue;
                };
                if let Ok(module) = found.cast::<PyModule>() {
                    let dict = module.dict();
                    let is_paddle = module
                        .name()
                        .is_ok_and(|name| name.to_str().is_ok_and(is_name_of_paddle));
                    if is_paddle && !dicts.iter().any(|known| known.is(&dict)) {
                        dicts.push(dict);
                    }
                    continue;
                }
                let is_function = found.is_exact_instance_of::<PyFunction>();
                if is_function && !provenance::is_of_paddle(&found) {
                    return Ok(false);
                }
                if is_function || found.is_instance_of::<PyCFunction>() {
                    let name = name.to_str()?.to_owned();
                    self.globals.push((dict.clone(), name, found));
                }
            }
            at += 1;
        }
        Ok(true)
    }
}
