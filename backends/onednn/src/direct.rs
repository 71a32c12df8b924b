//! [`DirectCalls`]: a frozen program of a few operators, run as calls of eager mode's functions.

use paddle_sot_backend::CompiledGraph;
use paddle_sot_backend::abi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

/// What `DirectCalls.recipe` of `direct_calls.py` answers: the number of inputs, the calls, and
/// which tensors are the results.
pub type Recipe = (usize, Vec<(Py<PyAny>, Vec<Py<PyAny>>)>, Vec<usize>);

/// The calls, and the program that does the same.
pub struct DirectCalls {
    calls: Vec<Call>,
    /// The tensors of a run that are results.
    results: Vec<usize>,
    /// It runs where eager mode's functions would do more: record gradients, cast.
    program: Box<dyn CompiledGraph>,
}

/// The tensors of a run are numbered: what it takes, then what each call makes.
struct Call {
    function: Py<PyAny>,
    arguments: Vec<Argument>,
}

enum Argument {
    Tensor(usize),
    Constant(Py<PyAny>),
}

impl DirectCalls {
    /// The calls of a recipe.
    ///
    /// # Errors
    /// When the recipe is none.
    pub fn new(py: Python<'_>, recipe: Recipe, program: Box<dyn CompiledGraph>) -> PyResult<Self> {
        let (_, calls, results) = recipe;
        let argument = |given: Py<PyAny>| match given.bind(py).cast::<PyTuple>() {
            Ok(number) => Ok(Argument::Tensor(number.get_item(0)?.extract()?)),
            Err(_) => Ok(Argument::Constant(given)),
        };
        let call = |(function, given): (Py<PyAny>, Vec<Py<PyAny>>)| {
            let arguments: PyResult<Vec<_>> = given.into_iter().map(argument).collect();
            arguments.map(|arguments| Call {
                function,
                arguments,
            })
        };
        Ok(Self {
            calls: calls.into_iter().map(call).collect::<PyResult<_>>()?,
            results,
            program,
        })
    }

    /// Whether eager mode's functions do what the program does, and nothing else.
    fn may_run(&self, py: Python<'_>, inputs: &[Bound<'_, PyAny>]) -> bool {
        let records = abi::records_gradients(py);
        matches!(abi::tracer(py), Ok(Some(_)))
            && !abi::may_cast(py)
            && (inputs.iter()).all(|input| abi::is_dense(py, input.as_ptr(), records))
    }
}

impl CompiledGraph for DirectCalls {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        if !self.may_run(py, inputs) {
            return self.program.call(py, inputs);
        }
        let mut tensors: SmallVec<[Bound<'_, PyAny>; 16]> = inputs.iter().cloned().collect();
        for call in &self.calls {
            let given = call.arguments.iter().map(|argument| match argument {
                Argument::Tensor(at) => &tensors[*at],
                Argument::Constant(value) => value.bind(py),
            });
            let given = PyTuple::new(py, given)?;
            tensors.push(call.function.bind(py).call1(given)?);
        }
        let results = self.results.iter();
        Ok(results.map(|at| tensors[*at].clone().unbind()).collect())
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.program.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        let calls = format!("calls of eager mode's functions: {}", self.calls.len());
        [self.program.report(), vec![calls]].concat()
    }

    fn backend_name(&self) -> &str {
        self.program.backend_name()
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        for call in &self.calls {
            for argument in &call.arguments {
                if let Argument::Constant(value) = argument {
                    visit(value);
                }
            }
        }
        self.program.traverse(visit);
    }
}
