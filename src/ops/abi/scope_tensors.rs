//! The dense tensors of a scope's variables, given to those of another scope and taken away.
//!
//! What `run_program` itself does between its runs: `phi::DenseTensor::operator=` shares memory and
//! copies the description, `GcScope` lets go of the memory of all variables. Both are exported; a
//! self-test moves a tensor from one scope into another before they are used.

use std::ffi::c_void;
use std::marker::PhantomPinned;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::library::{libpaddle, libpaddle_core, opened};

/// `std::string` of libstdc++, for who only reads it.
#[repr(C)]
struct Text {
    begin: *const u8,
    length: usize,
    _inside: [u8; 16],
}

/// Room for a `phi::DenseTensor`, which takes less than half of it: the self-test looks at the
/// rest.
#[repr(C, align(16))]
struct Room([u8; ROOM]);

const ROOM: usize = 2048;

/// An empty `std::unordered_set` of libstdc++.
#[repr(C)]
struct EmptySet {
    buckets: *const *const c_void,
    bucket_count: usize,
    first: *const c_void,
    count: usize,
    max_load: f32,
    next_resize: usize,
    bucket: *const c_void,
    _pinned: PhantomPinned,
}

type FindFn = unsafe extern "C" fn(*const c_void, *const Text) -> *mut c_void;
type IsDenseFn = unsafe extern "C" fn(*mut c_void) -> bool;
type TensorFn = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type AssignFn = unsafe extern "C" fn(*mut c_void, *const c_void) -> *mut c_void;
type MakeFn = unsafe extern "C" fn(*mut Room);
type ClearFn = unsafe extern "C" fn(*mut c_void, *const EmptySet);

/// What a name stands for in a scope.
enum Variable {
    /// Nothing.
    Absent,
    /// A variable with this dense tensor.
    Dense(*mut c_void),
    /// One with nothing in it, or with something else.
    Other,
}

pub(super) struct Functions {
    find: FindFn,
    is_dense: IsDenseFn,
    tensor: TensorFn,
    assign: AssignFn,
    clear: ClearFn,
    construct: MakeFn,
    destroy: MakeFn,
    share_version: AssignFn,
    // The functions live as long as the libraries.
    _libraries: [libloading::Library; 2],
}

static FUNCTIONS: PyOnceLock<Option<Functions>> = PyOnceLock::new();

fn functions(py: Python<'_>) -> Option<&'static Functions> {
    let without = "each run that waits for its backward has an executor of its own";
    opened(py, &FUNCTIONS, open, ("paddle_sot_rs.backend", without))
}

/// Whether tensors can be moved from one scope into another.
pub fn can_move_tensors(py: Python<'_>) -> bool {
    functions(py).is_some()
}

/// The dense tensors of some variables of a scope.
pub struct ScopeTensors {
    /// The scope, which its variables live as long as.
    scope: Py<PyAny>,
    address: usize,
    /// In the order of the names, 0 where no variable has it. They are good until an executor is
    /// made for the scope, which may put other variables in their places.
    tensors: Vec<usize>,
}

impl ScopeTensors {
    /// Those of the variables with these names; `makes`: whether variables that are not there are
    /// made.
    ///
    /// # Errors
    /// Where tensors cannot be moved, or a variable holds something else.
    pub fn of(scope: &Bound<'_, PyAny>, names: &[String], makes: bool) -> PyResult<Self> {
        let py = scope.py();
        let Some(functions) = functions(py) else {
            return Err(PyRuntimeError::new_err("tensors of scopes cannot be moved"));
        };
        functions.tensors(scope, names, makes)
    }

    /// Whether these are still the tensors of the variables with the names that they were found by:
    /// Paddle makes executors where nobody sees it, as when the user has dropped all.
    pub fn are_in_place(&self, py: Python<'_>, names: &[String]) -> bool {
        let Some(functions) = functions(py) else {
            return false;
        };
        let mut known = names.iter().zip(&self.tensors);
        known.all(|(name, known)| match functions.find(self.address, name) {
            Variable::Absent => *known == 0,
            Variable::Dense(tensor) => tensor as usize == *known,
            Variable::Other => false,
        })
    }

    /// The scope.
    pub fn scope(&self, py: Python<'_>) -> Py<PyAny> {
        self.scope.clone_ref(py)
    }

    /// Gives each tensor the memory and the description of the one with the same name in another
    /// scope. Both are of the same names, and no program runs in either.
    pub fn share(&self, py: Python<'_>, from: &Self) {
        let Some(functions) = functions(py) else {
            return;
        };
        functions.share(&self.tensors, &from.tensors);
    }

    /// Lets each tensor count its changes in place by itself from now on: results that a run has
    /// handed out count theirs with the variables that they came from.
    pub fn renew_versions(&self, py: Python<'_>) {
        let Some(functions) = functions(py) else {
            return;
        };
        for &tensor in self.tensors.iter().filter(|tensor| **tensor != 0) {
            functions.with_new_tensor(|new| {
                // SAFETY: both are dense tensors, and no program uses them.
                unsafe { (functions.share_version)(tensor as *mut c_void, new) };
            });
        }
    }

    /// Lets go of the memory of all variables of the scope. No program runs in it.
    pub fn clear(&self, py: Python<'_>) {
        if let Some(functions) = functions(py) {
            functions.clear(self.address);
        }
    }
}

impl Functions {
    fn tensors(
        &self,
        scope: &Bound<'_, PyAny>,
        names: &[String],
        makes: bool,
    ) -> PyResult<ScopeTensors> {
        let py = scope.py();
        let address: usize = scope.call_method0(intern!(py, "raw_address"))?.extract()?;
        let mut tensors = Vec::with_capacity(names.len());
        let find = match makes {
            true => intern!(py, "var"),
            false => intern!(py, "find_var"),
        };
        for name in names {
            let variable = scope.call_method1(find, (name,))?;
            if variable.is_none() {
                tensors.push(0);
                continue;
            }
            // One that holds nothing yet holds a dense tensor from now on; one that holds something
            // else refuses.
            variable.call_method0(intern!(py, "get_tensor"))?;
            let Variable::Dense(tensor) = self.find(address, name) else {
                let message = format!("the variable {name} holds no dense tensor");
                return Err(PyValueError::new_err(message));
            };
            tensors.push(tensor as usize);
        }
        Ok(ScopeTensors {
            scope: scope.clone().unbind(),
            address,
            tensors,
        })
    }

    /// The variable of this name in a living scope.
    fn find(&self, scope: usize, name: &str) -> Variable {
        let text = Text {
            begin: name.as_ptr(),
            length: name.len(),
            _inside: [0; 16],
        };
        // SAFETY: the scope is alive and at this address; the text is read only; a variable with a
        // dense tensor in it is asked for that.
        unsafe {
            let variable = (self.find)(scope as *const c_void, &raw const text);
            if variable.is_null() {
                return Variable::Absent;
            }
            match (self.is_dense)(variable) {
                true => Variable::Dense((self.tensor)(variable)),
                false => Variable::Other,
            }
        }
    }

    fn share(&self, to: &[usize], from: &[usize]) {
        for (&to, &from) in to.iter().zip(from) {
            if to != 0 && from != 0 {
                // SAFETY: both are dense tensors of variables of living scopes, and no program uses
                // them.
                unsafe { (self.assign)(to as *mut c_void, from as *const c_void) };
            }
        }
    }

    /// Hands on a dense tensor that nobody has seen. The answer is how much of the room it took.
    fn with_new_tensor(&self, use_it: impl FnOnce(*const c_void)) -> usize {
        const UNUSED: u8 = 0xA5;
        let mut room = Room([UNUSED; ROOM]);
        let new = &raw mut room;
        // SAFETY: there is room for one; it is destroyed where it was made.
        unsafe {
            (self.construct)(new);
            use_it(new.cast());
            (self.destroy)(new);
        }
        let used = room.0.iter().rposition(|byte| *byte != UNUSED);
        used.map_or(0, |last| last + 1)
    }

    fn clear(&self, scope: usize) {
        let mut none = EmptySet {
            buckets: std::ptr::null(),
            bucket_count: 1,
            first: std::ptr::null(),
            count: 0,
            max_load: 1.0,
            next_resize: 0,
            bucket: std::ptr::null(),
            _pinned: PhantomPinned,
        };
        none.buckets = &raw const none.bucket;
        // SAFETY: the scope is alive, no program runs in it, and the set of what is kept is read
        // only.
        unsafe { (self.clear)(scope as *mut c_void, &raw const none) };
    }
}

pub(super) fn open(py: Python<'_>) -> Result<Functions, String> {
    let core = libpaddle_core(py)?;
    let bindings = libpaddle(py)?;
    let text = |err: libloading::Error| err.to_string();
    // SAFETY: the mangled names fix the signatures:
    // `Variable* Scope::FindVar(const std::string&) const`,
    // `bool VarIsType<DenseTensor>(Variable*)`,
    // `DenseTensor* VarGetMutable<DenseTensor>(Variable*)`,
    // `DenseTensor& DenseTensor::operator=(const DenseTensor&)`, its constructor and destructor,
    // `DenseTensor& DenseTensor::ShareInplaceVersionCounterWith(const DenseTensor&)` and
    // `void GcScope(Scope*, const std::unordered_set<std::string_view>&)`.
    let functions = unsafe {
        Functions {
            find: *bindings
                .get::<FindFn>(
                    b"_ZNK6paddle9framework5Scope7FindVarERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE\0",
                )
                .map_err(text)?,
            is_dense: *bindings
                .get::<IsDenseFn>(
                    b"_ZN3pir9VarIsTypeIN3phi11DenseTensorEEEbPN6paddle9framework8VariableE\0",
                )
                .map_err(text)?,
            tensor: *bindings
                .get::<TensorFn>(
                    b"_ZN3pir13VarGetMutableIN3phi11DenseTensorEEEPT_PN6paddle9framework8VariableE\0",
                )
                .map_err(text)?,
            assign: *core
                .get::<AssignFn>(b"_ZN3phi11DenseTensoraSERKS0_\0")
                .map_err(text)?,
            construct: *core.get::<MakeFn>(b"_ZN3phi11DenseTensorC1Ev\0").map_err(text)?,
            destroy: *core.get::<MakeFn>(b"_ZN3phi11DenseTensorD1Ev\0").map_err(text)?,
            share_version: *core
                .get::<AssignFn>(b"_ZN3phi11DenseTensor30ShareInplaceVersionCounterWithERKS0_\0")
                .map_err(text)?,
            clear: *bindings
                .get::<ClearFn>(
                    b"_ZN3egr9to_static7details7GcScopeEPN6paddle9framework5ScopeERKSt13unordered_setISt17basic_string_viewIcSt11char_traitsIcEESt4hashISA_ESt8equal_toISA_ESaISA_EE\0",
                )
                .map_err(text)?,
            _libraries: [core, bindings],
        }
    };
    match self_test(py, &functions) {
        Ok(true) => Ok(functions),
        Ok(false) => Err("a tensor that was moved is not where it belongs".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// Moves tensors of two kinds into another scope and looks at both scopes.
fn self_test(py: Python<'_>, functions: &Functions) -> PyResult<bool> {
    let test = c"
import numpy
import paddle
from paddle.base import core
names = ['first', 'a name that is longer than a string of C++ keeps inside']
one, other = core.Scope(), core.Scope()
arrays = [numpy.arange(6, dtype='float32').reshape(2, 3), numpy.array([True])]
for name, array in zip(names, arrays):
    one.var(name).get_tensor().set(array, core.CPUPlace())
tensors = [[scope.var(name).get_tensor() for name in names] for scope in (one, other)]
def is_moved():
    gone = not any(tensor._is_initialized() for tensor in tensors[0])
    return gone and all(numpy.array_equal(numpy.array(it), array) for it, array in zip(tensors[1], arrays))
";
    let scope = PyDict::new(py);
    py.run(test, Some(&scope), None)?;
    let get = |name: &str| {
        scope
            .get_item(name)?
            .ok_or_else(|| PyRuntimeError::new_err("no such name"))
    };
    let names: Vec<String> = get("names")?.extract()?;
    let one = functions.tensors(&get("one")?, &names, false)?;
    let other = functions.tensors(&get("other")?, &names, true)?;
    functions.share(&other.tensors, &one.tensors);
    functions.clear(one.address);
    let is_small = functions.with_new_tensor(|_| {}) <= ROOM / 2;
    Ok(is_small && get("is_moved")?.call0()?.is_truthy()?)
}
