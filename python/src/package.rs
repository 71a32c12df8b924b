//! What [`StaticFunction`] asks the Python part of the package for.

use paddle_sot::frame::Modules;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::static_function::StaticFunction;

impl StaticFunction {
    /// What a function of the package answers with, for this object and further arguments.
    pub(crate) fn ask(
        slf: &Bound<'_, Self>,
        module: &str,
        function: &str,
        more: impl IntoIterator<Item = Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let this = slf.clone().into_any().unbind();
        let arguments: Vec<_> = std::iter::once(this).chain(more).collect();
        let module = py.module(format!("paddle_sot_rs.{module}"))?;
        let answer = module.call_method1(function, PyTuple::new(py, arguments)?)?;
        Ok(answer.unbind())
    }

    /// The name under which the module of the function knows this object, if it does.
    pub(crate) fn global_name<'py>(&self, this: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        let py = this.py();
        let function = self.callable.bind(py);
        let name = function.getattr("__qualname__").ok()?;
        let path: String = name.extract().ok()?;
        let modules = py.module("sys").and_then(|sys| sys.getattr("modules"));
        let module = modules.and_then(|them| them.get_item(function.getattr("__module__")?));
        let found = path
            .split('.')
            .try_fold(module.ok()?, |parent, part| parent.getattr(part).ok())?;
        found.is(this).then_some(name)
    }
}
