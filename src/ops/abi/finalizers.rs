//! Whether code of the user's runs when an object goes: `__del__`, the callback of a weak
//! reference, the `finally` of a generator, its own or that of something only it holds.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types;
use pyo3::types::{PyBytes, PyFunction, PyList, PyModule, PyType};
use rustc_hash::FxHashMap;

use super::prepared_step::is_own_callback;
use crate::paddle::{Paddle, is_name_of_paddle};
use paddle_sot_cpython::frame::Modules;

use paddle_sot_cpython::native::{self, Ptr, is_tracked, is_weakly_referenced, to_bound};

/// Objects that are looked at.
const MOST: usize = 256;

/// A walk over what goes with objects.
pub struct Ends {
    left: usize,
    generators: bool,
}

impl Ends {
    /// Of what a frame holds. Its context managers hold generators, which `with` brings to their
    /// end.
    pub fn of_frames() -> Self {
        Self {
            left: MOST,
            generators: false,
        }
    }

    /// Of what an object, a container or a module holds.
    pub fn of_holders() -> Self {
        Self {
            left: MOST,
            generators: true,
        }
    }

    /// Whether the end of `value` runs code of the user's, where nothing else holds it.
    pub fn runs_code(&mut self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        if is_plain(value)? {
            return Ok(false);
        }
        let goes = vec![(value.clone(), 1)];
        Ok(self.follow(goes, FxHashMap::default())? != 0)
    }

    /// The places of a frame whose end runs code of the user's, where nothing but the frame holds
    /// what is in them. `references`: how many it and its caller have for each place.
    pub fn of_places(
        &mut self,
        bound: &[Bound<'_, PyAny>],
        references: usize,
    ) -> PyResult<Vec<usize>> {
        let (mut goes, mut counted) = (Vec::new(), FxHashMap::default());
        for (at, value) in bound.iter().enumerate() {
            let places = bound.iter().filter(|other| other.is(value)).count() * references;
            if is_plain(value)? {
                continue;
            }
            let is_first = !bound[..at].iter().any(|other| other.is(value));
            let is_held = native::references(value) > places;
            match is_first {
                true if is_held => {
                    let known = Counted::of(value.clone(), places, bit(at));
                    counted.insert(value.as_ptr() as usize, known);
                }
                true => goes.push((value.clone(), bit(at))),
                false => {}
            }
        }
        let found = self.follow(goes, counted)?;
        let places = 0..bound.len();
        Ok(places.filter(|at| found & bit(*at) != 0).collect())
    }

    /// What goes with these: an object goes when all that refer to it have gone, as CPython counts.
    /// The answer has the bits of those by which code of the user's runs.
    fn follow<'py>(
        &mut self,
        mut goes: Vec<(Bound<'py, PyAny>, u64)>,
        mut counted: FxHashMap<usize, Counted<'py>>,
    ) -> PyResult<u64> {
        let mut found = 0;
        while let Some((value, starts)) = goes.pop() {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if self.is_noticed(&value)? {
                found |= starts;
                continue;
            }
            if !is_tracked(&value) {
                continue;
            }
            let mut seen = Vec::new();
            for item in referents(&value)? {
                if is_leaf(&item) || is_plain(&item)? {
                    continue;
                }
                let at = item.as_ptr() as usize;
                let known = counted.entry(at).or_insert_with(|| Counted::of(item, 0, 0));
                known.references += 1;
                known.starts |= starts;
                seen.push(at);
            }
            for at in seen {
                // This holds it too.
                let is_gone = |it: &Counted<'_>| native::references(&it.value) <= it.references + 1;
                if counted.get(&at).is_some_and(is_gone) {
                    goes.extend(counted.remove(&at).map(|it| (it.value, it.starts)));
                }
            }
        }
        Ok(found)
    }

    /// Whether code of the user's runs when this one object goes.
    fn is_noticed(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        if self.generators && is_open_generator(value)? {
            return Ok(true);
        }
        let name = pyo3::intern!(py, "__del__");
        let class = native::type_of(value.into());
        let found = native::type_attr(class, name.into());
        match found.is_null() {
            true => is_watched(value),
            false => Ok(is_users(&to_bound(py, found))),
        }
    }
}

/// An object that may go, and how many references of those that go it has.
struct Counted<'py> {
    value: Bound<'py, PyAny>,
    references: usize,
    starts: u64,
}

impl<'py> Counted<'py> {
    fn of(value: Bound<'py, PyAny>, references: usize, starts: u64) -> Self {
        Self {
            value,
            references,
            starts,
        }
    }
}

/// The bit of a place. The last ones have one in common.
fn bit(place: usize) -> u64 {
    1 << place.min(63)
}

/// What lives on, or whose end nobody sees.
fn is_plain(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyType>()
        || value.is_instance_of::<PyModule>()
        || value.is_instance_of::<types::PyCode>()
        || Paddle::get(value.py())?.is_tensor(value))
}

/// What an object holds; of a function, what its closure does.
fn referents<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    static REFERENTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let referents = REFERENTS
        .get_or_try_init(py, || {
            py.module("gc")?.getattr("get_referents").map(Bound::unbind)
        })?
        .bind(py);
    let found = match value.cast::<PyFunction>() {
        Ok(function) => referents.call1((function.getattr("__closure__")?,))?,
        Err(_) => referents.call1((value,))?,
    };
    Ok(found.cast_into::<PyList>()?.iter().collect())
}

/// Whether it is of a class whose objects hold nothing.
fn is_leaf(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type_ptr();
    let leaves = [
        value.py().None().bind(value.py()).get_type_ptr(),
        &raw mut ffi::PyBool_Type,
        &raw mut ffi::PyLong_Type,
        &raw mut ffi::PyFloat_Type,
        &raw mut ffi::PyUnicode_Type,
    ];
    leaves.contains(&class)
}

/// Whether no code of the user's runs when an object, a container or a module lets this go.
pub fn is_quiet(py: Python<'_>, object: Ptr<'_>) -> bool {
    let value = to_bound(py, object);
    is_leaf(&value) || !Ends::of_holders().runs_code(&value).unwrap_or(true)
}

/// Whether a generator stands at a `yield`, maybe in a `try` or `with` block.
fn is_open_generator(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let is_generator = value.get_type_ptr() == &raw mut ffi::PyGen_Type;
    if !is_generator || !value.getattr("gi_suspended")?.extract::<bool>()? {
        return Ok(false);
    }
    // An entry begins at each byte that has this bit. From 3.12 on one handler is around all of a
    // generator.
    const BEGINS: u8 = 0x80;
    let table = value.getattr("gi_code")?.getattr("co_exceptiontable")?;
    let entries = table.cast::<PyBytes>()?.as_bytes().iter();
    let entries = entries.filter(|byte| **byte & BEGINS != 0).count();
    Ok(entries > usize::from(py.version_info() >= (3, 12)))
}

/// Whether somebody wrote this `__del__` in Python, and not Paddle.
fn is_users(destructor: &Bound<'_, PyAny>) -> bool {
    let module = destructor.getattr("__module__");
    let module = module.and_then(|module| module.extract::<String>());
    destructor.is_instance_of::<PyFunction>()
        && !module.is_ok_and(|module| is_name_of_paddle(&module))
}

/// Whether a weak reference to it has a callback.
fn is_watched(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyFunction>() || !is_weakly_referenced(value) {
        return Ok(false);
    }
    static FIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let find = FIND.get_or_try_init(py, || {
        py.module("weakref")?
            .getattr("getweakrefs")
            .map(Bound::unbind)
    })?;
    let found = find.bind(py).call1((value,))?;
    for reference in found.cast_into::<PyList>()? {
        let callback = reference.getattr("__callback__")?;
        if !callback.is_none() && !is_own_callback(&callback) {
            return Ok(true);
        }
    }
    Ok(false)
}
