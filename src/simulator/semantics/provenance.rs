//! Where functions and classes come from. `__module__` does not say: anyone may set it, and
//! `functools.wraps` copies it. The variables that a function uses are those of the module that it
//! was written in.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyString, PyType};

use crate::frame::{Modules, NUMPY, OWN_PACKAGE, PADDLE};
use crate::native;
use crate::obj::{is_attr, is_builtin_method, of_type, text_of};
use crate::paddle::is_name_of_paddle;
use crate::reason::BreakId;

/// Most decorators that are looked through.
const DEEPEST: usize = 16;

/// The name of the loaded module whose variables a function uses; empty where there is none.
fn home(function: &Bound<'_, PyFunction>) -> PyResult<String> {
    home_of(&function.getattr("__globals__")?)
}

/// The name of the loaded module whose variables these are.
fn home_of(globals: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = globals.call_method1("get", ("__name__",))?;
    let Ok(name) = name.cast_exact::<PyString>() else {
        return Ok(String::new());
    };
    let name = name.to_str()?.to_owned();
    // Code that was executed with variables of its own may call itself as it likes.
    let loaded = globals.py().module("sys")?.getattr("modules")?;
    let module = loaded.get_item(&name);
    let names = module.and_then(|module| module.getattr("__dict__"));
    match names.is_ok_and(|names| names.is(globals)) {
        true => Ok(name),
        false => Ok(String::new()),
    }
}

/// Whether a function was written in the module of this name.
pub fn is_from(function: &Bound<'_, PyAny>, module: &str) -> bool {
    let function = function.cast_exact::<PyFunction>();
    function.is_ok_and(|function| home(function).is_ok_and(|home| home == module))
}

const OURS: &str = "paddle_sot_rs._core";
const THEIRS: &str = "paddle.jit.dy2static.program_translator";

/// What this package's `to_static` answers with, and Paddle's.
const STATIC_FUNCTIONS: &[(&str, &str)] = &[
    (OURS, "StaticFunction"),
    (THEIRS, "ASTStaticFunction"),
    (THEIRS, "SymbolicStaticFunction"),
];

/// Whether this is a class of functions that were given to `to_static`: `dygraph_function` is what
/// they were, and what they mean inside of another translation.
pub fn is_static_function(class: &Bound<'_, PyType>) -> bool {
    STATIC_FUNCTIONS
        .iter()
        .any(|(module, name)| is_attr(class, module, name))
}

/// Names of functions, by module, or package with a dot behind it.
type Homes = &'static [(&'static str, &'static [&'static str])];

/// Functions of Paddle that work on the gradients of many parameters, by module, or package with a
/// dot behind it: their graphs would be cut at each of those.
const GRADIENT_STEPS: Homes = &[
    (
        "paddle.optimizer.",
        &[
            "apply_gradients",
            "backward",
            "clear_grad",
            "minimize",
            "step",
        ],
    ),
    (
        "paddle.amp.grad_scaler",
        &["minimize", "step", "unscale_", "update"],
    ),
    ("paddle.nn.clip", &["__call__"]),
    ("paddle.nn.utils.clip_grad_norm_", &["clip_grad_norm_"]),
    ("paddle.nn.utils.clip_grad_value_", &["clip_grad_value_"]),
];

/// Schedulers have steps too, which compute with numbers only.
const SCHEDULERS: &str = "paddle.optimizer.lr";

/// Functions in which processes wait for each other; `DataParallel` prepares for that in each call.
const COLLECTIVES: Homes = &[
    (
        "paddle.distributed.communication.",
        &[
            "all_gather",
            "all_gather_object",
            "all_reduce",
            "all_to_all",
            "all_to_all_single",
            "alltoall",
            "alltoall_single",
            "barrier",
            "batch_isend_irecv",
            "broadcast",
            "broadcast_object_list",
            "gather",
            "irecv",
            "isend",
            "recv",
            "reduce",
            "reduce_scatter",
            "scatter",
            "scatter_object_list",
            "send",
            "wait",
        ],
    ),
    ("paddle.distributed.parallel", &["forward"]),
];

/// Functions of Python's library that hand on to code of all kinds.
const HANDING_ON: Homes = &[("logging", &["_log"])];

/// Functions that run as one native call: the reason of the break, and what it says of them.
const NATIVE_CALLS: &[(Homes, BreakId, &str)] = &[
    (GRADIENT_STEPS, BreakId::GradientStep, "works on gradients"),
    (HANDING_ON, BreakId::NativeCode, "hands on to other code"),
    (COLLECTIVES, BreakId::Collective, "is for several processes"),
];

/// Why the function of this name, with these variables of its module, is one of them.
pub fn native_call(name: &str, globals: &Bound<'_, PyAny>) -> Option<(BreakId, &'static str)> {
    let mut rows = NATIVE_CALLS.iter();
    let found = rows.find(|(homes, ..)| is_in(homes, name, globals));
    found.map(|(_, id, what)| (*id, *what))
}

fn is_in(rows: Homes, name: &str, globals: &Bound<'_, PyAny>) -> bool {
    let rows = rows.iter();
    let mut homes = rows.filter(|(_, names)| names.contains(&name)).peekable();
    // Most functions have other names: their modules are not looked for.
    if homes.peek().is_none() {
        return false;
    }
    let module = home_of(globals).unwrap_or_default();
    homes.any(|(home, _)| match home.ends_with('.') {
        true => module.starts_with(home) && module != SCHEDULERS,
        false => module == *home,
    })
}

/// Whether a module is none of Python, Paddle, NumPy or this package.
pub fn is_of_program(module: &Bound<'_, PyAny>) -> bool {
    let known = || -> PyResult<bool> {
        let name = module.getattr("__name__")?.extract::<String>()?;
        let package = name.split('.').next().unwrap_or_default();
        let library = module.py().module("sys")?.getattr("stdlib_module_names")?;
        Ok([PADDLE, OWN_PACKAGE, NUMPY].contains(&package) || library.contains(package)?)
    };
    !known().unwrap_or(true)
}

/// Whether it is what Python itself has by this name in `builtins` or `operator`.
pub fn is_of_python(value: &Bound<'_, PyAny>, module: &str, name: &str) -> bool {
    let own = value.py().original(module, name);
    own.is_ok_and(|own| own.is(value))
}

/// Whether it is what Python itself has by this name in `builtins`.
pub fn is_builtin(value: &Bound<'_, PyAny>, name: &str) -> bool {
    value.py().builtin(name).is_ok_and(|own| own.is(value))
}

/// Whether what a module has by a name is what it came with, and nothing that a program has put in
/// its place.
pub fn is_original(value: &Bound<'_, PyAny>, module: &str, name: &str) -> bool {
    let package = |module: &str| module.split('.').next().unwrap_or_default().to_owned();
    let ours = package(module);
    let last = name.rsplit('.').next().unwrap_or(name);
    if let Ok(class) = value.cast::<PyType>() {
        if !native::is_mutable(class) {
            return class.name().is_ok_and(|own| own == last);
        }
        return text_of(class, "__module__").split('.').next() == Some(&*ours);
    }
    match value.cast_exact::<PyFunction>() {
        Ok(_) if ours == PADDLE => is_of_paddle(value),
        Ok(function) => home(function).is_ok_and(|home| package(&home) == ours),
        // The name of what C code made cannot be changed.
        Err(_) => {
            let is_c = value.is_exact_instance_of::<PyCFunction>() || is_builtin_method(value);
            is_c && text_of(value, "__name__") == last
        }
    }
}

/// The name of a class of Paddle's C code.
pub fn name_in_paddle(class: &Bound<'_, PyType>) -> Option<String> {
    // What Python code defines has another metaclass.
    if class.get_type().is(class.py().get_type::<PyType>()) {
        return None;
    }
    let module = text_of(class, "__module__");
    let known = matches!(&*module, PADDLE | "paddle.base.libpaddle")
        || module.starts_with("paddle.base.libpaddle.");
    let name = class.name().ok()?.to_string();
    known.then_some(name)
}

/// The module of Paddle that has a class by its own name: what the class says of itself is there in
/// a user's, too.
pub fn module_in_paddle(class: &Bound<'_, PyType>) -> Option<String> {
    let text = |name| of_type(class, name)?.extract::<String>().ok();
    let module = text("__module__").filter(|module| is_name_of_paddle(module))?;
    is_attr(class, &module, &text("__qualname__")?).then_some(module)
}

/// Whether a function was written by Paddle, and all that it decorates.
pub fn is_of_paddle(function: &Bound<'_, PyAny>) -> bool {
    let mut innermost = function.clone();
    for _ in 0..DEEPEST {
        let Ok(function) = innermost.cast_exact::<PyFunction>() else {
            return false;
        };
        if !home(function).is_ok_and(|home| is_name_of_paddle(&home)) {
            return false;
        }
        innermost = match function.getattr_opt("__wrapped__") {
            Ok(Some(wrapped)) => wrapped,
            Ok(None) => return true,
            Err(_) => return false,
        };
    }
    false
}
