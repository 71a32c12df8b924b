//! Optimizers whose step runs no code of the user's: all that it reads is Paddle's or Python's own.
//!
//! A step computes with rates, decays and norms, and looks things up in groups, attributes and
//! state. A subclass of `float` or `dict` has operators of its own, a list of another class is gone
//! through by code of its own, and a parameter, group or clip may hold functions. So classes are
//! compared by identity, all the way down; of what is not known a step may run anything.

use std::sync::{LazyLock, Mutex};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyFunction, PyInt, PyList, PyNone,
    PySet, PyString, PyTuple, PyType,
};

use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::native::{self, instance_dict, to_bound};
use paddle_sot_cpython::obj::names_of_code;
use paddle_sot_cpython::sync::lock;
use rustc_hash::FxHashMap;

use super::unchanged_objects::{Notes, Unchanged};

/// Containers in containers that are looked into.
const DEEPEST: usize = 6;
/// Most texts of a function that answers.
const MOST_TEXTS: usize = 1 << 16;

/// Classes of what Paddle puts there, and does not call in a step.
const INERT: &[(&str, &str)] = &[
    ("paddle", "Tensor"),
    ("paddle.base.framework", "EagerParamBase"),
    ("paddle", "dtype"),
    ("paddle.base.framework", "Program"),
    ("paddle.base.layer_helper", "LayerHelper"),
];
/// Those that it calls: what they hold counts.
const CALLED: &[(&str, &str)] = &[
    ("paddle.regularizer", "L1Decay"),
    ("paddle.regularizer", "L2Decay"),
    ("paddle.nn", "ClipGradByGlobalNorm"),
    ("paddle.nn", "ClipGradByNorm"),
    ("paddle.nn", "ClipGradByValue"),
];
const SCHEDULERS: &[(&str, &str)] = &[("paddle.optimizer.lr", "LRScheduler")];

/// How a parameter is made, which no step asks for.
const MAKERS: &[&str] = &["_init_func", "_init_op_creator"];

/// Whether no code of the user's runs where a step reads what an optimizer holds. The class of a
/// scheduler, and a function that answers which parameters decay, are asked by who calls this.
pub fn is_plain_optimizer(optimizer: &Bound<'_, PyAny>) -> bool {
    let address = optimizer.as_ptr() as usize;
    let known = lock(&PLAIN).remove(&address);
    let known = known.filter(|known| known.is_so(optimizer.py()));
    let (is_plain, known) = match known {
        Some(known) => (true, Some(known)),
        None => looked_into(optimizer),
    };
    if let Some(known) = known {
        let mut plain = lock(&PLAIN);
        if plain.len() >= MOST_KNOWN {
            plain.clear();
        }
        plain.insert(address, known);
    }
    is_plain
}

/// Those that were found to be plain, by address, with what says that they still are.
static PLAIN: LazyLock<Mutex<FxHashMap<usize, Unchanged>>> = LazyLock::new(Mutex::default);
/// Most of them: some may be gone.
const MOST_KNOWN: usize = 64;

/// What says that a plain optimizer, and all that it holds, is what it is now; `None` of another
/// one, or where nothing tells.
pub(super) fn unchanged(optimizer: &Bound<'_, PyAny>) -> Option<Unchanged> {
    looked_into(optimizer).1
}

fn looked_into(optimizer: &Bound<'_, PyAny>) -> (bool, Option<Unchanged>) {
    let mut notes = Notes::new();
    let is_plain = is_plain(optimizer, &mut notes).unwrap_or(false);
    (is_plain, notes.end().filter(|_| is_plain))
}

/// Whether it is a text, or a container of Python's that holds texts alone.
pub fn is_text_or_texts(value: &Bound<'_, PyAny>) -> bool {
    is_text(value) || is_container(value) && are_texts(value).unwrap_or(false)
}

fn is_plain(optimizer: &Bound<'_, PyAny>, notes: &mut Notes) -> PyResult<bool> {
    let Some(own) = attributes(optimizer) else {
        return Ok(false);
    };
    let class = optimizer.get_type();
    notes.class_of(optimizer);
    notes.class(&class);
    // A new rate is no change, nor are settings of groups, which a step writes to the optimizer.
    notes.attributes(optimizer, &own, "_learning_rate");
    let mut groups: Vec<Bound<'_, PyAny>> = Vec::new();
    for (name, value) in &own {
        let Ok(text) = name.cast_exact::<PyString>() else {
            return Ok(false);
        };
        if has_descriptor(&class, &name, notes) {
            return Ok(false);
        }
        let is_plain = match text.to_str()? {
            "_parameter_list" | "_param_groups" if value.is_none() => true,
            "_parameter_list" | "_param_groups" => {
                let is_known = groups.iter().any(|known| known.is(&value));
                is_known || {
                    groups.push(value.clone());
                    is_plain_list(&value, notes)?
                }
            }
            "_learning_rate" => {
                is_value(&value, DEEPEST, notes)? || is_plain_scheduler(&value, notes)?
            }
            "_apply_decay_param_fun" => value.is_none() || knows_texts_alone(&value, notes)?,
            _ => is_value(&value, DEEPEST, notes)? || is_method_of(&value, optimizer),
        };
        if !is_plain {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a class has something by this name that is asked before the instance is.
fn has_descriptor(class: &Bound<'_, PyType>, name: &Bound<'_, PyAny>, notes: &mut Notes) -> bool {
    let found = native::type_attr(class.into(), name.into());
    if found.is_null() {
        return false;
    }
    let py = class.py();
    let name = intern!(py, "__set__");
    let kind = native::type_of(found);
    let class = to_bound(py, kind);
    if class.cast::<PyType>().is_ok_and(native::is_mutable) {
        notes.give_up();
    }
    !native::type_attr(kind, name.into()).is_null()
}

/// Whether it is a list of Python's own, of parameters and groups of such.
fn is_plain_list(list: &Bound<'_, PyAny>, notes: &mut Notes) -> PyResult<bool> {
    let Ok(list) = list.cast_exact::<PyList>() else {
        return Ok(false);
    };
    notes.items(list.as_any());
    for item in list {
        let is_plain = match item.cast_exact::<PyDict>() {
            Ok(group) => is_plain_group(group, notes)?,
            Err(_) => is_plain_parameter(&item, notes)?,
        };
        if !is_plain {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_plain_group(group: &Bound<'_, PyDict>, notes: &mut Notes) -> PyResult<bool> {
    notes.dict(group);
    for (name, value) in group {
        let is_plain = is_text(&name)
            && match name.eq(intern!(name.py(), "params"))? {
                true => is_plain_list(&value, notes)?,
                false => is_value(&value, DEEPEST, notes)?,
            };
        if !is_plain {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether it is a parameter or a tensor, and of no class of the user's.
pub(super) fn is_parameter(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASSES: Classes = Classes::new();
    is_one_of(object, &CLASSES, &INERT[..2])
}

fn is_plain_parameter(parameter: &Bound<'_, PyAny>, notes: &mut Notes) -> PyResult<bool> {
    if !is_parameter(parameter)? {
        return Ok(false);
    }
    let Some(own) = attributes(parameter) else {
        return Ok(true);
    };
    notes.own_dict(parameter, &own);
    for (name, value) in own {
        let Ok(text) = name.cast_exact::<PyString>() else {
            return Ok(false);
        };
        if !is_value(&value, DEEPEST, notes)? && !MAKERS.contains(&text.to_str()?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a value, and all that it holds, computes and is looked up as Paddle and Python do it.
fn is_value(value: &Bound<'_, PyAny>, depth: usize, notes: &mut Notes) -> PyResult<bool> {
    static INERT_CLASSES: Classes = Classes::new();
    static CALLED_CLASSES: Classes = Classes::new();
    if is_number_or_text(value) {
        return Ok(true);
    }
    if is_one_of(value, &INERT_CLASSES, INERT)? {
        notes.class_of(value);
        return Ok(true);
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Ok(false);
    };
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        notes.dict(dict);
        return are_entries(dict, depth, notes);
    }
    if is_container(value) {
        return are_values(value, depth, notes);
    }
    if is_one_of(value, &CALLED_CLASSES, CALLED)? {
        notes.class_of(value);
        return match attributes(value) {
            Some(held) => {
                notes.own_dict(value, &held);
                are_entries(&held, depth, notes)
            }
            None => Ok(true),
        };
    }
    if let (Ok(dict), true) = (value.cast::<PyDict>(), is_tables_of_paddle(value, notes)?) {
        notes.dict(dict);
        return are_entries(dict, depth, notes);
    }
    let class = value.get_type();
    Ok(native::is_scalar_class(class.as_any()))
}

fn are_entries(dict: &Bound<'_, PyDict>, depth: usize, notes: &mut Notes) -> PyResult<bool> {
    for (key, value) in dict {
        if !is_value(&key, depth, notes)? || !is_value(&value, depth, notes)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same of a container of Python's own.
fn are_values(container: &Bound<'_, PyAny>, depth: usize, notes: &mut Notes) -> PyResult<bool> {
    if !container.is_exact_instance_of::<PyTuple>() {
        notes.items(container);
    }
    for item in container.try_iter()? {
        if !is_value(&item?, depth, notes)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_number_or_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyNone>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyComplex>()
        || value.is_exact_instance_of::<PyBytes>()
}

fn is_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
}

fn is_container(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PySet>()
        || value.is_exact_instance_of::<PyFrozenSet>()
        || value.is_exact_instance_of::<PyDict>()
}

/// Whether it is a dict of C code, such as the tables of optimizers: Paddle's function makes a
/// missing one.
fn is_tables_of_paddle(value: &Bound<'_, PyAny>, notes: &mut Notes) -> PyResult<bool> {
    let py = value.py();
    if value.cast::<PyDict>().is_err() || native::is_mutable(&value.get_type()) {
        return Ok(false);
    }
    let name = intern!(py, "default_factory");
    let Some(maker) = value.getattr_opt(name)? else {
        notes.give_up();
        return Ok(true);
    };
    notes.field(value, name, &maker);
    let Ok(maker) = maker.cast_exact::<PyFunction>() else {
        return Ok(maker.is_none() || maker.is(py.get_type::<PyDict>()));
    };
    let names = maker.getattr(intern!(py, "__globals__"))?;
    let module = names.get_item(intern!(py, "__name__"))?;
    let Ok(module) = module.cast_exact::<PyString>() else {
        return Ok(false);
    };
    let module = module.to_str()?;
    let is_paddles = module.starts_with("paddle.optimizer");
    Ok(is_paddles
        && py
            .module(module)?
            .getattr(intern!(py, "__dict__"))?
            .is(&names))
}

/// Whether a scheduler's rate is a number of Python's own.
fn is_plain_scheduler(value: &Bound<'_, PyAny>, notes: &mut Notes) -> PyResult<bool> {
    static CLASSES: Classes = Classes::new();
    let classes = CLASSES.get_or_try_init(value.py(), || found(value.py(), SCHEDULERS))?;
    let order = native::mro(&value.get_type());
    let is_scheduler = order
        .iter()
        .any(|base| classes.iter().any(|it| base.is(it)));
    let own = attributes(value).filter(|_| is_scheduler);
    let name = intern!(value.py(), "last_lr");
    match own.map(|own| own.get_item(name)).transpose()?.flatten() {
        Some(rate) if rate.is_exact_instance_of::<PyFloat>() => {
            notes.class_of(value);
            notes.class(&value.get_type());
            notes.float(value, name);
            Ok(true)
        }
        Some(rate) => {
            notes.give_up();
            is_value(&rate, 1, notes)
        }
        None => Ok(false),
    }
}

/// Whether all that a function has from outside are texts, and containers of such.
fn knows_texts_alone(function: &Bound<'_, PyAny>, notes: &mut Notes) -> PyResult<bool> {
    let py = function.py();
    let Ok(function) = function.cast_exact::<PyFunction>() else {
        return Ok(false);
    };
    let globals = function.getattr(intern!(py, "__globals__"))?;
    let Ok(globals) = globals.cast_exact::<PyDict>() else {
        return Ok(false);
    };
    let parts = [
        intern!(py, "__code__"),
        intern!(py, "__defaults__"),
        intern!(py, "__kwdefaults__"),
    ];
    let code = function.getattr(parts[0])?;
    notes.field(function, parts[0], &code);
    for part in &parts[1..] {
        let defaults = function.getattr(part)?;
        notes.field(function, part, &defaults);
        if !defaults.is_none() {
            notes.give_up();
        }
    }
    for name in names_of_code(&code)?.try_iter()? {
        let name = name?.cast_into_exact::<PyString>()?;
        match globals.get_item(&name)? {
            Some(known) if is_text_or_texts(&known) => notes.named(globals, &name, &known),
            _ => return Ok(false),
        }
    }
    let cells = function.getattr(intern!(py, "__closure__"))?;
    if cells.is_none() {
        return Ok(true);
    }
    for cell in cells.try_iter()? {
        let cell = cell?;
        let content = native::cell_contents((&cell).into());
        if content.is_null() {
            return Ok(false);
        }
        let content = to_bound(py, content);
        if !is_text_or_texts(&content) {
            return Ok(false);
        }
        notes.cell(&cell, &content);
    }
    Ok(true)
}

fn are_texts(container: &Bound<'_, PyAny>) -> PyResult<bool> {
    if container.len()? > MOST_TEXTS {
        return Ok(false);
    }
    for item in container.try_iter()? {
        if !is_text(&item?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether it is a method that the class of an optimizer has, bound to it.
fn is_method_of(value: &Bound<'_, PyAny>, optimizer: &Bound<'_, PyAny>) -> bool {
    let py = value.py();
    let receiver = native::method_part(value.into(), true);
    let function = native::method_part(value.into(), false);
    if receiver != optimizer.into() || function.is_null() {
        return false;
    }
    let name = to_bound(py, function).getattr(intern!(py, "__name__"));
    let name = name.and_then(|name| Ok(name.cast_into_exact::<PyString>()?));
    name.is_ok_and(|name| {
        native::type_attr((&optimizer.get_type()).into(), (&name).into()) == function
    })
}

type Classes = PyOnceLock<Vec<Py<PyType>>>;

fn is_one_of(
    value: &Bound<'_, PyAny>,
    classes: &Classes,
    names: &[(&str, &str)],
) -> PyResult<bool> {
    let py = value.py();
    let class = native::type_of(value.into());
    let mut classes = classes.get_or_try_init(py, || found(py, names))?.iter();
    Ok(classes.any(|it| class == it.into()))
}

fn found(py: Python<'_>, names: &[(&str, &str)]) -> PyResult<Vec<Py<PyType>>> {
    let found = names.iter().map(|(module, name)| {
        let class = py.module(module)?.getattr(*name)?;
        Ok(class.cast_into::<PyType>()?.unbind())
    });
    found.collect()
}

/// The instance dictionary of an object.
pub(super) fn attributes<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    let py = object.py();
    let dict = instance_dict(py, object.into());
    match dict.is_null() {
        true => None,
        false => to_bound(py, dict).cast_into_exact::<PyDict>().ok(),
    }
}
