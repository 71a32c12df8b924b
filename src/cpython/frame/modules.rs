//! Modules that the engine asks for.
//!
//! `PyImport_Import` asks the `__import__` in the builtins of the running frame, which is the
//! user's: it may be a function of theirs, or not be there.

use std::ptr;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyString, PyType};
use pyo3::{PyAny, ffi};

use crate::native;

/// Importing that asks nothing of the running frame.
pub trait Modules<'py> {
    /// The module of this name, imported where nobody has done so yet.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn module(self, name: impl AsRef<str>) -> PyResult<Bound<'py, PyAny>>;

    /// The module `builtins`, as the program has left it.
    ///
    /// # Errors
    /// When it is gone from `sys.modules`.
    fn builtins(self) -> PyResult<Bound<'py, PyAny>>;

    /// The module `collections`.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn collections(self) -> PyResult<Bound<'py, PyAny>>;

    /// The module `types`.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn types(self) -> PyResult<Bound<'py, PyAny>>;

    /// NumPy.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn numpy(self) -> PyResult<Bound<'py, PyAny>>;

    /// Paddle.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn paddle(self) -> PyResult<Bound<'py, PyAny>>;

    /// What Python itself has by this name in `builtins`, `operator` or `gc`, whatever the program
    /// has put in its place.
    ///
    /// # Errors
    /// When there is nothing, or was something else already when the engine was imported.
    fn original(self, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>>;

    /// The same of `builtins`.
    ///
    /// # Errors
    /// Those of [`Modules::original`].
    fn builtin(self, name: &str) -> PyResult<Bound<'py, PyAny>>;

    /// The same of `operator`.
    ///
    /// # Errors
    /// Those of [`Modules::original`].
    fn operator(self, name: &str) -> PyResult<Bound<'py, PyAny>>;

    /// A module of the engine's own package, imported. What its functions find in `builtins` is
    /// what was there when the engine was imported, whatever the program has put in its place
    /// since.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn own(self, name: &str) -> PyResult<Bound<'py, PyAny>>;

    /// Keeps what [`Modules::original`] answers with: the sooner, the less was replaced.
    ///
    /// # Errors
    /// When the modules cannot be read.
    fn keep_originals(self) -> PyResult<&'static Py<PyDict>>;
}

/// The module of builtins. Under this name all of them are kept in one dict. Others have the name
/// of their module and a dot in front of theirs.
pub const BUILTINS: &str = "builtins";

/// The module of more containers.
pub const COLLECTIONS: &str = "collections";

/// The module of classes that no builtin names.
pub const TYPES: &str = "types";

/// The package of tensors.
pub const PADDLE: &str = "paddle";

/// The package of arrays.
pub const NUMPY: &str = "numpy";

/// The engine's own package.
pub const OWN_PACKAGE: &str = "paddle_sot_rs";

/// The module of operators that can be called.
pub const OPERATOR: &str = "operator";

/// The module of the garbage collector.
pub const COLLECTOR: &str = "gc";

static ORIGINALS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Whether this is a function or class of C code, and no other that a program has put there.
fn is_of_c(value: &Bound<'_, PyAny>, name: &str) -> bool {
    if value.is_exact_instance_of::<PyCFunction>() {
        let own = value.getattr("__name__");
        return own.is_ok_and(|own| own.eq(name).unwrap_or(false));
    }
    // `ExceptionGroup` can be changed as classes of Python code can.
    value.cast::<PyType>().is_ok_and(|class| {
        !native::is_mutable(class) || class.module().is_ok_and(|module| module == BUILTINS)
    })
}

impl<'py> Modules<'py> for Python<'py> {
    fn module(self, name: impl AsRef<str>) -> PyResult<Bound<'py, PyAny>> {
        let name = PyString::intern(self, name.as_ref());
        if let Some(module) = loaded(&name)? {
            return Ok(module);
        }
        // SAFETY: the name is a live string, what is null may be; the answer is a new reference, or
        // null with an exception set. It is the outermost package: the module itself is in
        // `sys.modules` then.
        unsafe {
            let null = ptr::null_mut();
            let outermost =
                ffi::PyImport_ImportModuleLevelObject(name.as_ptr(), null, null, null, 0);
            Bound::from_owned_ptr_or_err(self, outermost)?;
        }
        loaded(&name)?.ok_or_else(|| {
            let text = format!("{name} is not in sys.modules after it was imported");
            pyo3::exceptions::PyImportError::new_err(text)
        })
    }

    fn builtins(self) -> PyResult<Bound<'py, PyAny>> {
        self.module(BUILTINS)
    }

    fn collections(self) -> PyResult<Bound<'py, PyAny>> {
        self.module(COLLECTIONS)
    }

    fn types(self) -> PyResult<Bound<'py, PyAny>> {
        self.module(TYPES)
    }

    fn numpy(self) -> PyResult<Bound<'py, PyAny>> {
        self.module(NUMPY)
    }

    fn paddle(self) -> PyResult<Bound<'py, PyAny>> {
        self.module(PADDLE)
    }

    fn builtin(self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.original(BUILTINS, name)
    }

    fn operator(self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.original(OPERATOR, name)
    }

    fn original(self, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let whole = format!("{module}.{name}");
        let found = self.keep_originals()?.bind(self).get_item(&whole)?;
        found.ok_or_else(|| PyKeyError::new_err(format!("there is no {whole}")))
    }

    fn own(self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if let Some(module) = loaded(&PyString::intern(self, name))? {
            return Ok(module);
        }
        let builtins = self.keep_originals()?.bind(self).get_item(BUILTINS)?;
        let util = self.module("importlib.util")?;
        let spec = util.call_method1("find_spec", (name,))?;
        if spec.is_none() {
            let text = format!("{name} is missing: install paddle-sot-rs again");
            return Err(pyo3::exceptions::PyImportError::new_err(text));
        }
        let module = util.call_method1("module_from_spec", (&spec,))?;
        // What has builtins already keeps them.
        module.setattr("__builtins__", builtins)?;
        let modules = self.module("sys")?.getattr("modules")?;
        modules.set_item(name, &module)?;
        if let Err(err) = spec
            .getattr("loader")?
            .call_method1("exec_module", (&module,))
        {
            modules.del_item(name)?;
            return Err(err);
        }
        if let Some((package, own)) = name.rsplit_once('.') {
            self.module(package)?.setattr(own, &module)?;
        }
        Ok(module)
    }

    fn keep_originals(self) -> PyResult<&'static Py<PyDict>> {
        ORIGINALS.get_or_try_init(self, || {
            let kept = PyDict::new(self);
            let builtins = self.builtins()?.getattr("__dict__")?;
            kept.set_item(BUILTINS, builtins.cast::<PyDict>()?.copy()?)?;
            for module in [BUILTINS, OPERATOR, COLLECTOR] {
                let names = self.module(module)?.getattr("__dict__")?;
                for (name, value) in names.cast::<PyDict>()? {
                    let Ok(name) = name.extract::<String>() else {
                        continue;
                    };
                    if is_of_c(&value, &name) {
                        kept.set_item(format!("{module}.{name}"), value)?;
                    }
                }
            }
            // Its own name is another one.
            let proxy = self.types()?.getattr("MappingProxyType")?;
            if native::is_class_of_proxies(&proxy) {
                kept.set_item("types.MappingProxyType", proxy)?;
            }
            Ok(kept.unbind())
        })
    }
}

/// What `sys.modules` has under a name.
fn loaded<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = name.py();
    // SAFETY: the name is a live string; the answer is a new reference to an entry of
    // `sys.modules`, or null, with an exception set where looking for it has raised.
    let found = unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyImport_GetModule(name.as_ptr())) };
    match found {
        None => PyErr::take(py).map_or(Ok(None), Err),
        Some(module) if module.is_none() => Ok(None),
        Some(module) => Ok(Some(module)),
    }
}
