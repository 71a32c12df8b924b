//! `StaticFunction`: the callable that `to_static` answers with.

use std::sync::Arc;

use paddle_sot::frame::Modules;
use paddle_sot::obj::Obj;
use paddle_sot::sync::lock;
use paddle_sot::translate::{Shared, Translated, register};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::frozen::Frozen;
use crate::options::compile_options;
use crate::vectorcall;
use paddle_sot_bindings_base::records::{GraphRecord, StatsRecord};

/// A function that is translated when it is called.
#[pyclass(frozen, dict, weakref, module = "paddle_sot_rs._core")]
pub struct StaticFunction {
    pub(crate) vectorcall: vectorcall::Entry,
    pub(crate) inner: Arc<Translated>,
    pub(crate) callable: Py<PyAny>,
    make: Obj,
    pub(crate) checks: bool,
}

#[pymethods]
impl StaticFunction {
    /// `options` holds: backend, backend_options, full_graph, dynamic, min_graph_size, black_list,
    /// black_names, specification, capture_control_flow, forward_only, assumes_branches, check;
    /// `marks`, what holds for all functions of the process: black_list, allow_list, disabled. The
    /// Python layer has checked them.
    #[new]
    fn new(
        callable: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        marks: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let compile = compile_options(options, marks)?;
        let specification = options.as_any().get_item("specification")?;
        let shared = Shared::new(compile, false);
        let specification = (!specification.is_none()).then(|| Obj::from(specification));
        let inner = Arc::new(Translated::new(callable, shared)?.with_specification(specification));
        register(&inner);
        Ok(Self {
            vectorcall: vectorcall::call,
            inner,
            callable: callable.clone().unbind(),
            make: Obj::from(options),
            checks: options.as_any().get_item("check")?.extract()?,
        })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        vectorcall::install(slf);
        if slf.get().checks {
            let kwargs = kwargs.into_pyobject(py)?.into_any().unbind();
            let args = args.clone().into_any().unbind();
            return Self::ask(slf, "_reproduce.checking", "compared_call", [args, kwargs]);
        }
        slf.get().inner.call(py, args, kwargs)
    }

    /// The options that it was made with.
    #[getter]
    fn compile_options(&self, py: Python<'_>) -> Py<PyAny> {
        self.make.py(py)
    }

    /// A call that is not compared with plain Python.
    #[pyo3(signature = (*args, **kwargs))]
    fn call_unchecked(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        self.inner.call(py, args, kwargs)
    }

    /// Methods: binding to an instance gives a callable with `self` in front, and the same cache.
    fn __get__(
        slf: &Bound<'_, Self>,
        instance: &Bound<'_, PyAny>,
        owner: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = owner;
        // A bound method stays with its object.
        if instance.is_none() || slf.get().inner.receiver.is_some() {
            return Ok(slf.clone().into_any().unbind());
        }
        vectorcall::bound_method(slf, instance)
    }

    /// A class takes these for what they are where they are plain functions.
    fn __set_name__(
        slf: &Bound<'_, Self>,
        owner: &Bound<'_, PyAny>,
        name: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let py = slf.py();
        let kind = match name.to_str()? {
            "__new__" => "staticmethod",
            "__init_subclass__" | "__class_getitem__" => "classmethod",
            _ => {
                let attributes = slf.getattr("__dict__")?;
                if let Some(specification) = attributes
                    .cast::<PyDict>()?
                    .get_item(pyo3::intern!(py, "specification"))?
                {
                    specification.call_method1(pyo3::intern!(py, "belongs_to"), (owner,))?;
                }
                return Ok(());
            }
        };
        let method = py.builtin(kind)?.call1((slf,))?;
        let class = py.get_type::<PyType>();
        class.call_method1("__setattr__", (owner, name, method))?;
        Ok(())
    }

    /// The original callable, until it is set (`functools.update_wrapper`).
    #[getter]
    fn __wrapped__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let attributes = slf.getattr("__dict__")?;
        let set = attributes
            .cast::<PyDict>()?
            .get_item(pyo3::intern!(slf.py(), "__wrapped__"))?;
        Ok(set.map_or_else(|| slf.get().callable.clone_ref(slf.py()), Bound::unbind))
    }

    #[setter(__wrapped__)]
    fn set_wrapped(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.getattr("__dict__")?.set_item("__wrapped__", value)
    }

    #[deleter(__wrapped__)]
    fn delete_wrapped(slf: &Bound<'_, Self>) -> PyResult<()> {
        let deleted = slf.getattr("__dict__")?.del_item("__wrapped__");
        deleted.map_err(|_| PyAttributeError::new_err("__wrapped__"))
    }

    /// The code of the original: `inspect` takes this for a function, and finds its arguments.
    #[getter]
    fn __code__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__code__")
    }

    #[setter(__code__)]
    fn set_code(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.callable.setattr(py, "__code__", value)
    }

    /// Those of the original.
    #[getter]
    fn __defaults__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__defaults__")
    }

    #[setter(__defaults__)]
    fn set_defaults(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.callable.setattr(py, "__defaults__", value)
    }

    #[deleter(__defaults__)]
    fn delete_defaults(&self, py: Python<'_>) -> PyResult<()> {
        self.callable.bind(py).delattr("__defaults__")
    }

    /// Those of the original.
    #[getter]
    fn __kwdefaults__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__kwdefaults__")
    }

    #[setter(__kwdefaults__)]
    fn set_kwdefaults(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.callable.setattr(py, "__kwdefaults__", value)
    }

    #[deleter(__kwdefaults__)]
    fn delete_kwdefaults(&self, py: Python<'_>) -> PyResult<()> {
        self.callable.bind(py).delattr("__kwdefaults__")
    }

    /// That of the original, where it is a bound method.
    #[getter]
    fn __self__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__self__")
    }

    /// That of the original, where it is a bound method.
    #[getter]
    fn __func__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__func__")
    }

    /// Those of the original.
    #[getter]
    fn __annotations__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__annotations__")
    }

    #[setter(__annotations__)]
    fn set_annotations(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.callable.setattr(py, "__annotations__", value)
    }

    #[deleter(__annotations__)]
    fn delete_annotations(&self, py: Python<'_>) -> PyResult<()> {
        self.callable.bind(py).delattr("__annotations__")
    }

    /// Those of the original.
    #[getter]
    fn __type_params__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__type_params__")
    }

    #[setter(__type_params__)]
    fn set_type_params(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.callable.setattr(py, "__type_params__", value)
    }

    /// Those of the original.
    #[getter]
    fn __builtins__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__builtins__")
    }

    /// Those of the original.
    #[getter]
    fn __closure__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__closure__")
    }

    /// Those of the original.
    #[getter]
    fn __globals__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.callable.getattr(py, "__globals__")
    }

    /// The captured statements, as text: of all graphs so far, else of that for `input_spec`.
    #[getter]
    fn code(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "jit", "code_of", [])
    }

    /// The function as one static program for its input specification.
    #[getter(concrete_program)]
    fn program(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "jit", "concrete_program_of", [])
    }

    /// What the last arguments were that it was translated for: (positional, by name), or `None`.
    #[getter]
    fn observed(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.inner.last_observed().map(|seen| seen.py(py))
    }

    /// `concrete_program` for these arguments, and the function itself.
    #[pyo3(signature = (*args, **kwargs))]
    fn get_concrete_program(
        slf: &Bound<'_, Self>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let kwargs = kwargs.into_pyobject(slf.py())?.into_any().unbind();
        let args = args.clone().into_any().unbind();
        Self::ask(slf, "jit", "concrete_program_and", [args, kwargs])
    }

    /// What Paddle knows of the parameters, and the input specification.
    #[getter]
    fn function_spec(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "_paddle_jit.interface", "function_spec", [])
    }

    /// Paddle's programs by their keys: there are none here.
    #[getter]
    fn program_cache(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "_paddle_jit.interface", "program_cache", [])
    }

    /// The object of a bound method, else `None`.
    #[getter]
    fn class_instance(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "_paddle_jit.interface", "class_instance", [])
    }

    /// Whether it stands for a value that is saved with a Layer: never.
    #[getter]
    #[allow(clippy::unused_self)]
    fn is_property(&self) -> bool {
        false
    }

    /// Specifications of the positional arguments that it was translated for last, or `None`.
    #[getter]
    fn last_call_input_spec(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "_paddle_jit.interface", "last_call_input_spec", [])
    }

    /// `concrete_program` for this specification.
    #[pyo3(signature = (input_spec=None, with_hook=None, is_prim_infer=None))]
    fn concrete_program_specify_input_spec(
        slf: &Bound<'_, Self>,
        input_spec: Option<Py<PyAny>>,
        with_hook: Option<Py<PyAny>>,
        is_prim_infer: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let given = [input_spec, with_hook, is_prim_infer];
        let given = given.map(|value| value.unwrap_or_else(|| slf.py().None()));
        Self::ask(slf, "_paddle_jit.interface", "program_for", given)
    }

    /// `get_concrete_program` for the arguments that a key of Paddle's holds.
    fn get_concrete_program_with_cache_key(
        slf: &Bound<'_, Self>,
        cached_key: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        Self::ask(
            slf,
            "_paddle_jit.interface",
            "program_for_key",
            [cached_key],
        )
    }

    /// How many graphs were compiled.
    fn get_traced_count(&self) -> usize {
        let graphs = &self.inner.shared.graphs;
        let graphs = lock(graphs);
        graphs.len()
    }

    /// `concrete_program.main_program`.
    #[getter]
    fn main_program(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::program(slf)?.getattr(slf.py(), "main_program")
    }

    /// `concrete_program.inputs`.
    #[getter]
    fn inputs(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::program(slf)?.getattr(slf.py(), "inputs")
    }

    /// `concrete_program.outputs`.
    #[getter]
    fn outputs(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::program(slf)?.getattr(slf.py(), "outputs")
    }

    /// Puts the original method back into the object that it was taken from, and answers with it.
    fn rollback(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::ask(slf, "jit", "rollback", [])
    }

    /// For programs that were written for Paddle's: here the mode of each call decides.
    #[allow(clippy::unused_self)]
    fn train(&self) {}

    /// For programs that were written for Paddle's: here the mode of each call decides.
    #[allow(clippy::unused_self)]
    fn eval(&self) {}

    /// The original callable, by the name Paddle uses.
    #[getter]
    fn dygraph_function(&self, py: Python<'_>) -> Py<PyAny> {
        self.callable.clone_ref(py)
    }

    /// Counters.
    fn stats(&self) -> StatsRecord {
        let stats = &self.inner.shared.stats;
        (&*lock(stats)).into()
    }

    /// Forgets all translations and counters.
    fn reset(&self, py: Python<'_>) {
        self.inner.reset(py);
    }

    /// The graphs compiled so far.
    fn graphs(&self, py: Python<'_>) -> Vec<GraphRecord> {
        let graphs = &self.inner.shared.graphs;
        let graphs = lock(graphs);
        graphs
            .iter()
            .map(|graph| GraphRecord {
                ir: graph.ir.clone(),
                program: graph.made().program.clone(),
                guards: graph.guards.clone(),
                backend: graph.made().backend.clone(),
                report: graph.made().report.clone(),
                code: graph.code.as_ref().map(|code| code.py(py)),
            })
            .collect()
    }

    /// One program for these arguments: (what the backend made, the statements, what is assumed).
    #[pyo3(signature = (inputs, *args, **kwargs))]
    fn export(
        &self,
        py: Python<'_>,
        inputs: Vec<(String, Bound<'_, PyAny>, Vec<usize>)>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(Py<PyAny>, String, Vec<String>)> {
        let inputs = inputs
            .into_iter()
            .map(|(name, tensor, dims)| (name, Obj::from(tensor), dims))
            .collect();
        let other = self.inner.of_other_code(py)?;
        let function = other.as_ref().unwrap_or(&self.inner);
        let exported = function.export(py, inputs, args, kwargs)?;
        Ok((exported.program.py(py), exported.ir, exported.assumptions))
    }

    /// The function as one graph that runs without guards: see `freeze` in `frozen.py`.
    #[pyo3(signature = (inputs, keep, *args, **kwargs))]
    fn freeze(
        &self,
        py: Python<'_>,
        inputs: Vec<(Bound<'_, PyAny>, Vec<usize>)>,
        keep: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Frozen> {
        let inputs = inputs.into_iter().map(|(it, dims)| (Obj::from(it), dims));
        let inputs: Vec<_> = inputs.collect();
        let graph = self.inner.freeze(py, &inputs, keep, args, kwargs)?;
        Ok(Frozen(graph))
    }

    /// Seconds one evaluation of the newest entry's guards takes, averaged over `times`.
    #[pyo3(signature = (times, *args, **kwargs))]
    fn time_guards(
        &self,
        py: Python<'_>,
        times: usize,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<f64> {
        self.inner.time_guards(py, args, kwargs, times)
    }

    /// What its module knows by its name (`@to_static def f`) is pickled as that, like a plain
    /// function. Of what is not, the copy translates anew: translations belong to the object they
    /// were made for.
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if let Some(name) = this.global_name(slf) {
            return Ok(name.unbind());
        }
        let api = py.module("paddle_sot_rs.api")?;
        let attributes = api.call_method1("attributes_of", (slf,))?;
        let arguments = (this.callable.clone_ref(py), this.make.py(py), attributes);
        Ok((api.getattr("copied")?, arguments)
            .into_pyobject(py)?
            .into_any()
            .unbind())
    }

    /// Functions are their own copies.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Functions are their own copies; a bound method is copied with its object.
    fn __deepcopy__(slf: &Bound<'_, Self>, memo: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let this = slf.get();
        if this.inner.receiver.is_none() {
            return Ok(slf.clone().into_any().unbind());
        }
        Self::ask(slf, "api", "deep_copied", [memo, this.make.py(slf.py())])
    }

    fn __repr__(&self) -> String {
        format!("<StaticFunction of {}>", self.inner.location())
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.callable)?;
        visit.call(self.inner.function.reference())?;
        match &self.inner.receiver {
            Some(receiver) => visit.call(receiver.reference()),
            None => Ok(()),
        }
    }
}
