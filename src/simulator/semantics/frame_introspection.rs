//! Functions that read the locals of another frame: `sys._getframe(1).f_locals`,
//! `inspect.stack()[1].frame.f_locals`.
//!
//! However they get at the frame, the attribute has one name. Who only passes a frame on is not
//! found.

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyModule, PyString, PyTuple, PyType};

use crate::bytecode::Code;
use crate::frame::Modules;
use crate::obj::{Obj, called, names_of_code, of_type};

const LOCALS: &str = "f_locals";

/// What shows which function called this one.
const CALLERS: [&str; 7] = [
    "_getframe",
    "currentframe",
    "f_back",
    "extract_stack",
    "format_stack",
    "print_stack",
    "walk_stack",
];

/// Whether this code reads the locals of a frame. What is defined in it does not count.
pub fn reads_locals(code: &Code) -> bool {
    code.names.iter().any(|name| &**name == LOCALS)
}

/// Whether this function may tell which one called it.
pub(crate) fn tells_callers(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(function) = function.cast_exact::<PyFunction>() else {
        return Ok(false);
    };
    let code = function.getattr("__code__")?;
    let names: Vec<String> = names_of_code(&code)?.extract()?;
    if names.iter().any(|name| CALLERS.contains(&&**name)) {
        return Ok(true);
    }
    // Names of keyword arguments: `warnings.warn(text, stacklevel=2)`.
    for value in code.getattr("co_consts")?.try_iter()? {
        let value = value?;
        let names = value.cast_exact::<PyTuple>();
        if names.is_ok_and(|names| names.contains("stacklevel").unwrap_or(false)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether something that this code names, or defines, reads the locals of a frame: functions and
/// classes of its globals, of the builtins and of modules in there, and the methods of objects
/// there.
pub fn calls_onlookers(py: Python<'_>, code: &Code, globals: &Obj) -> bool {
    let defined = |value: &Obj| reads(value.bind(py)).unwrap_or(false);
    code.consts.iter().any(defined) || names_one(code, globals.bind(py)).unwrap_or(false)
}

fn names_one(code: &Code, globals: &Bound<'_, PyAny>) -> PyResult<bool> {
    let builtins = globals.py().builtins()?.cast_into::<PyModule>();
    let mut namespaces = vec![globals.cast::<PyDict>()?.clone()];
    namespaces.extend(builtins.ok().map(|module| module.dict()));
    let mut at = 0;
    while let Some(namespace) = namespaces.get(at).cloned() {
        at += 1;
        for name in &code.names {
            let Some(value) = namespace.get_item(&**name)? else {
                continue;
            };
            if is_onlooker(&value) {
                return Ok(true);
            }
            if let Ok(module) = value.cast_exact::<PyModule>() {
                let inner = module.dict();
                if !namespaces.iter().any(|known| known.is(&inner)) {
                    namespaces.push(inner);
                }
            }
        }
    }
    Ok(false)
}

/// Whether this is a function that reads the locals of a frame, or an object with such a method.
pub fn is_onlooker(value: &Bound<'_, PyAny>) -> bool {
    let Some(value) = called(value) else {
        return true;
    };
    let found = match value.cast::<PyType>() {
        Ok(class) => a_method_reads(class),
        Err(_) if value.is_exact_instance_of::<PyFunction>() => reads(&value),
        Err(_) => a_method_reads(&value.get_type()),
    };
    found.unwrap_or(false)
}

fn a_method_reads(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    let holders = [
        (py.builtin("property")?, "fget"),
        (py.builtin("staticmethod")?, "__func__"),
        (py.builtin("classmethod")?, "__func__"),
    ];
    for class in class.mro() {
        let class = class.cast::<PyType>()?;
        let Some(namespace) = of_type(class, "__dict__") else {
            continue;
        };
        for value in namespace.call_method0("values")?.try_iter()? {
            let value = value?;
            let mut holders = holders.iter();
            let found = match holders.find(|(holder, _)| value.get_type().is(holder)) {
                Some((_, name)) => reads(&value.getattr(*name)?)?,
                None => reads(&value)?,
            };
            if found {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether this code, or that of this function, reads the locals of a frame.
fn reads(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let code = match value.cast_exact::<PyFunction>() {
        Ok(function) => function.getattr(pyo3::intern!(py, "__code__"))?,
        Err(_) if value.is_exact_instance_of::<PyCode>() => value.clone(),
        Err(_) => return Ok(false),
    };
    let text = PyString::intern(py, LOCALS);
    let names = names_of_code(&code)?;
    if names.cast::<PyTuple>()?.contains(&text)? {
        return Ok(true);
    }
    let constants = code.getattr(pyo3::intern!(py, "co_consts"))?;
    for value in constants.cast::<PyTuple>()? {
        // `getattr(frame, "f_locals")`, and what is defined inside.
        let is_text = value.cast_exact::<PyString>().is_ok_and(|it| it == LOCALS);
        if is_text || value.is_exact_instance_of::<PyCode>() && reads(&value)? {
            return Ok(true);
        }
    }
    Ok(false)
}
