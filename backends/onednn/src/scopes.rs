//! The executors of the blocks of a program: each has variables in a scope below that of the
//! program, and names of variables begin with the address of the executor that made them.

use libloading::Library;
use paddle_sot_backend::frame::Modules;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::caches::Text;

/// `Scope::kids`, `LocalVarNames` and `FindVar`.
const KIDS: &[u8] = b"_ZNK6paddle9framework5Scope4kidsB5cxx11Ev";
const NAMES: &[u8] = b"_ZNK6paddle9framework5Scope13LocalVarNamesB5cxx11Ev";
const FIND: &[u8] = b"_ZNK6paddle9framework5Scope7FindVarERK\
    NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
/// `operator delete`.
const DELETE: &[u8] = b"_ZdlPv";

/// Where an object of pybind11 has the address of what it stands for, in bytes.
const HELD: usize = 16;
/// Behind its address, a name has the nanoseconds since 1970 at which its executor was made.
const DIGITS: usize = 19;

/// A node of a `std::list<Scope *>`; the list itself is one without a value.
#[repr(C)]
struct Node {
    next: *const Node,
    _before: *const Node,
    scope: usize,
}

/// A `std::vector<std::string>`.
#[repr(C)]
struct Names {
    begin: *mut Text,
    end: *mut Text,
    room: *mut Text,
}

struct Functions {
    kids: extern "C" fn(usize) -> *const Node,
    names: extern "C" fn(*mut Names, usize),
    delete: extern "C" fn(*mut u8),
    _library: Library,
}

static FUNCTIONS: PyOnceLock<Option<Functions>> = PyOnceLock::new();

/// Whether this Paddle tells which executors there are.
///
/// # Errors
/// When Paddle cannot be imported.
pub fn are_told(py: Python<'_>) -> PyResult<bool> {
    functions(py).map(|functions| functions.is_some())
}

/// The addresses of the executors below a scope that a program has run in.
///
/// # Errors
/// When Paddle cannot be imported.
pub fn executors(scope: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    if let Some(functions) = functions(scope.py())? {
        functions.collect(held(scope), &mut found);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn functions(py: Python<'_>) -> PyResult<Option<&'static Functions>> {
    let found = FUNCTIONS.get_or_try_init(py, || load(py))?;
    Ok(found.as_ref())
}

/// The address of what an object of pybind11 stands for.
fn held(object: &Bound<'_, PyAny>) -> usize {
    // SAFETY: `load` has compared what lies there with what Paddle says; the object is alive.
    unsafe {
        object
            .as_ptr()
            .cast::<u8>()
            .add(HELD)
            .cast::<usize>()
            .read()
    }
}

fn load(py: Python<'_>) -> PyResult<Option<Functions>> {
    if !cfg!(target_arch = "x86_64") {
        // Elsewhere C++ hands objects back in another way.
        return Ok(None);
    }
    let file: String = py
        .module("paddle.base.libpaddle")?
        .getattr("__file__")?
        .extract()?;
    let scope = py.module("paddle.base.core")?.getattr("Scope")?.call0()?;
    let variable = scope.call_method1("var", ("sot",))?;
    // SAFETY: Paddle has loaded the library and run its initialisers; these are functions and
    // methods of it, with the signatures that their names say.
    let loaded = unsafe { symbols(&file) };
    let Some((functions, find)) = loaded else {
        return Ok(None);
    };
    // A variable that the scope finds is the one that the other object stands for.
    let is_known = find(held(&scope), &raw const *Text::new(b"sot")) == held(&variable);
    Ok(is_known.then_some(functions))
}

type Find = extern "C" fn(usize, *const Text) -> usize;

/// # Safety
/// The file is Paddle's library.
unsafe fn symbols(file: &str) -> Option<(Functions, Find)> {
    // SAFETY: as the caller says.
    unsafe {
        let library = Library::new(file).ok()?;
        let find = *library.get::<Find>(FIND).ok()?;
        let functions = Functions {
            kids: *library.get(KIDS).ok()?,
            names: *library.get(NAMES).ok()?,
            delete: *library.get(DELETE).ok()?,
            _library: library,
        };
        Some((functions, find))
    }
}

impl Functions {
    fn collect(&self, scope: usize, found: &mut Vec<usize>) {
        found.extend(self.maker(scope));
        let list = (self.kids)(scope);
        // SAFETY: no program runs in this scope now, so that nobody changes the list, whose end
        // is its beginning.
        unsafe {
            let mut node = (*list).next;
            while node != list {
                self.collect((*node).scope, found);
                node = (*node).next;
            }
        }
    }

    /// The executor that has made variables in a scope.
    fn maker(&self, scope: usize) -> Option<usize> {
        let mut names = Names {
            begin: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
            room: std::ptr::null_mut(),
        };
        (self.names)(&raw mut names, scope);
        let mut found = None;
        let mut at = names.begin;
        // SAFETY: C++ has made a vector there, of which this is the only owner.
        unsafe {
            while at != names.end {
                found = found.or_else(|| address((*at).bytes()));
                if !(*at).is_inside() {
                    (self.delete)((*at).address.cast_mut());
                }
                at = at.add(1);
            }
        }
        if !names.begin.is_null() {
            (self.delete)(names.begin.cast());
        }
        found
    }
}

/// The address that a name begins with.
fn address(name: &[u8]) -> Option<usize> {
    let name = std::str::from_utf8(name).ok()?.strip_prefix("0x")?;
    let (made, _) = name.split_once("_inner_var_")?;
    let digits = made.len().checked_sub(DIGITS)?;
    usize::from_str_radix(made.get(..digits)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn names_begin_with_addresses() {
        let name = b"0x560b61e1f0601795881193450974794_inner_var_48";
        assert_eq!(address(name), Some(0x560b_61e1_f060));
        assert_eq!(address(b"output_1"), None);
        assert_eq!(address(b"0x12_inner_var_1"), None);
    }
}
