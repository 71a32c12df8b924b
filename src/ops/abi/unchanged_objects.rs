//! Objects that were looked into, and whether anybody has changed them since.
//!
//! A walk over attributes, dictionaries and lists notes what it went by: versions of dictionaries,
//! items of lists, classes. While all of that is as it was, another walk would find the same. Notes
//! hold nothing but constants: each is reached from one in front of it, parents first, so that what
//! has not changed is alive. A version of a dictionary is its own for ever, whatever lies at its
//! address.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyFrozenSet, PyList, PySet, PyString, PyTuple};

use paddle_sot_cpython::native::{self, Ptr, WeakOrStrong};
use paddle_sot_cpython::obj::{Obj, is_plain_constant};

/// Something that a walk went by, by addresses.
enum Note {
    /// A dictionary that another object holds, and its version.
    Dict(usize, u64),
    /// An object, and the version of its own dictionary.
    OwnDict(usize, u64),
    /// An object, and what its attributes are.
    Attributes(usize, Attributes),
    /// A list or a set, and its items with their classes.
    Items(usize, Vec<(usize, usize)>),
    /// An object whose class may be set to another one, and that class.
    Class(usize, usize),
    /// A class, and its version.
    Version(usize, u32),
    /// An object, and the name of an attribute in its dictionary that is a `float`.
    Float(usize, Py<PyString>),
    /// An object of C code, the name of what it holds, and that.
    Field(usize, Py<PyString>, usize),
    /// A dictionary, a name in it, and what that is.
    Named(usize, Py<PyString>, usize),
    /// A cell, and its content.
    Cell(usize, usize),
    /// A container of texts, and those: others would have their addresses if they went.
    Texts(usize, Vec<Py<PyAny>>),
    /// A text, by another name: see above.
    Text(#[expect(dead_code, reason = "it is kept")] Py<PyAny>),
}

/// What a walk goes by. Once that is something that nothing tells of, nothing is noted.
pub(super) struct Notes(Option<Vec<Note>>);

impl Notes {
    /// Of a walk that begins.
    pub(super) fn new() -> Self {
        Self(Some(Vec::new()))
    }

    /// It goes by something that nothing tells of.
    pub(super) fn give_up(&mut self) {
        self.0 = None;
    }

    fn add(&mut self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &mut self.0 {
            notes.push(note());
        }
    }

    fn version(&mut self, dict: &Bound<'_, PyDict>) -> u64 {
        let address = dict.as_ptr() as usize;
        if self.0.is_some() && !native::version_follows(dict.py(), address) {
            self.give_up();
        }
        native::dict_version(address)
    }

    /// It goes by the items of a dictionary.
    pub(super) fn dict(&mut self, dict: &Bound<'_, PyDict>) {
        let version = self.version(dict);
        self.add(|| Note::Dict(dict.as_ptr() as usize, version));
    }

    /// It goes by the items of an object's own dictionary.
    pub(super) fn own_dict(&mut self, object: &Bound<'_, PyAny>, dict: &Bound<'_, PyDict>) {
        let version = self.version(dict);
        self.add(|| Note::OwnDict(object.as_ptr() as usize, version));
    }

    /// It goes by all attributes of an object, of which one is a `float` whatever it is; who writes
    /// to the others what they are has not changed them.
    pub(super) fn attributes(
        &mut self,
        object: &Bound<'_, PyAny>,
        dict: &Bound<'_, PyDict>,
        varies: &str,
    ) {
        let version = self.version(dict);
        match Attributes::of(dict, varies, version) {
            Some(known) => self.add(|| Note::Attributes(object.as_ptr() as usize, known)),
            None => self.own_dict(object, dict),
        }
    }

    /// It goes by one attribute of an object, which is a `float`; the others change.
    pub(super) fn float(&mut self, object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) {
        self.add(|| Note::Float(object.as_ptr() as usize, name.clone().unbind()));
    }

    /// It goes by what an object of C code holds.
    pub(super) fn field(
        &mut self,
        object: &Bound<'_, PyAny>,
        name: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
    ) {
        let (object, value) = (object.as_ptr() as usize, value.as_ptr() as usize);
        self.add(|| Note::Field(object, name.clone().unbind(), value));
    }

    /// It goes by what a name is in a dictionary: a text or a container of such.
    pub(super) fn named(
        &mut self,
        dict: &Bound<'_, PyDict>,
        name: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
    ) {
        let (dict, address) = (dict.as_ptr() as usize, value.as_ptr() as usize);
        self.add(|| Note::Named(dict, name.clone().unbind(), address));
        self.texts(value);
    }

    /// It goes by the content of a cell: a text or a container of such.
    pub(super) fn cell(&mut self, cell: &Bound<'_, PyAny>, content: &Bound<'_, PyAny>) {
        self.add(|| Note::Cell(cell.as_ptr() as usize, content.as_ptr() as usize));
        self.texts(content);
    }

    fn texts(&mut self, value: &Bound<'_, PyAny>) {
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            return self.dict(dict);
        }
        if value.is_exact_instance_of::<PyString>() {
            return self.add(|| Note::Text(value.clone().unbind()));
        }
        match texts(value) {
            Some(texts) => self.add(|| Note::Texts(value.as_ptr() as usize, texts)),
            None => self.give_up(),
        }
    }

    /// It goes by the items of a list or a set.
    pub(super) fn items(&mut self, container: &Bound<'_, PyAny>) {
        match items(container) {
            Ok(items) => self.add(|| Note::Items(container.as_ptr() as usize, items)),
            Err(_) => self.give_up(),
        }
    }

    /// It goes by the class of an object.
    pub(super) fn class_of(&mut self, object: &Bound<'_, PyAny>) {
        self.add(|| {
            let (object, class) = with_class(object.into());
            Note::Class(object, class)
        });
    }

    /// It goes by what a class is.
    pub(super) fn class(&mut self, class: &Bound<'_, PyAny>) {
        match native::type_version(class.into()) {
            0 => self.give_up(),
            version => self.add(|| Note::Version(class.as_ptr() as usize, version)),
        }
    }

    /// What can be asked again.
    pub(super) fn end(self) -> Option<Unchanged> {
        self.0.map(Unchanged)
    }
}

fn with_class(object: Ptr<'_>) -> (usize, usize) {
    (object.address(), native::type_of(object).address())
}

/// What lies at an address of a note in front of which all notes hold.
fn at<'a>(address: &usize) -> Ptr<'a> {
    // SAFETY: the notes in front of this one hold, so that what it is about is alive.
    unsafe { Ptr::new(*address as *mut ffi::PyObject) }
}

fn items(container: &Bound<'_, PyAny>) -> PyResult<Vec<(usize, usize)>> {
    let items = container.try_iter()?;
    items.map(|item| Ok(with_class((&item?).into()))).collect()
}

/// The items of a container of Python's own.
fn texts(container: &Bound<'_, PyAny>) -> Option<Vec<Py<PyAny>>> {
    let is_own = container.is_exact_instance_of::<PyList>()
        || container.is_exact_instance_of::<PyTuple>()
        || container.is_exact_instance_of::<PySet>()
        || container.is_exact_instance_of::<PyFrozenSet>();
    let items = is_own.then(|| container.try_iter())?.ok()?;
    items.map(|item| item.ok().map(Bound::unbind)).collect()
}

/// The attributes of an object, in their order.
struct Attributes {
    /// The version of its dictionary that says that they are.
    version: AtomicU64,
    known: Vec<(Py<PyString>, Known)>,
}

/// What an attribute is.
enum Known {
    /// This one.
    Same(WeakOrStrong),
    /// A container, whose content has a note of its own.
    At(usize),
    /// Any `float`.
    Float,
}

impl Attributes {
    /// `None` where another object could be taken for one of them.
    fn of(dict: &Bound<'_, PyDict>, varies: &str, version: u64) -> Option<Self> {
        let known = dict.iter().map(|(name, value)| {
            let name = name.cast_into_exact::<PyString>().ok()?;
            let known = match (name == varies) && value.is_exact_instance_of::<PyFloat>() {
                true => Known::Float,
                false => Known::of(&value)?,
            };
            Some((name.unbind(), known))
        });
        Some(Self {
            version: AtomicU64::new(version),
            known: known.collect::<Option<_>>()?,
        })
    }

    fn are_so(&self, py: Python<'_>, dict: Ptr<'_>) -> bool {
        let address = dict.address();
        let version = native::dict_version(address);
        if version == self.version.load(Ordering::Relaxed) {
            return true;
        }
        let dict = native::to_bound(py, dict);
        let are_so = dict.cast_exact::<PyDict>().is_ok_and(|dict| {
            let mut known = self.known.iter();
            let mut is_next = |name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>| {
                known
                    .next()
                    .is_some_and(|(own, it)| name.is(own) && it.is(value))
            };
            dict.iter().all(|(name, value)| is_next(&name, &value)) && known.next().is_none()
        });
        // Another dictionary may be one whose version says nothing.
        if are_so && native::version_follows(py, address) {
            self.version.store(version, Ordering::Relaxed);
        }
        are_so
    }
}

impl Known {
    fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        let is_container = value.cast::<PyDict>().is_ok()
            || value.is_exact_instance_of::<PyList>()
            || value.is_exact_instance_of::<PySet>();
        if is_container {
            return Some(Self::At(value.as_ptr() as usize));
        }
        let tuple = value.cast_exact::<PyTuple>();
        let is_constant = is_plain_constant(value)
            || tuple.is_ok_and(|tuple| tuple.iter().all(|item| is_plain_constant(&item)));
        let can_be_told = is_constant || native::is_weakly_referenced(value);
        can_be_told.then(|| Self::Same(WeakOrStrong::new(value.py(), &Obj::from(value))))
    }

    fn is(&self, value: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Same(known) => known.is(value.into()),
            Self::At(address) => value.as_ptr() as usize == *address,
            Self::Float => value.is_exact_instance_of::<PyFloat>(),
        }
    }
}

/// What a walk went by.
pub(super) struct Unchanged(Vec<Note>);

impl Unchanged {
    /// Whether another walk from the same object, which is alive, would find the same.
    pub(super) fn is_so(&self, py: Python<'_>) -> bool {
        self.0.iter().all(|note| note.is_so(py))
    }
}

impl Note {
    /// The notes in front of this one hold, so that what it is about is alive.
    fn is_so(&self, py: Python<'_>) -> bool {
        match self {
            Self::Dict(dict, version) => native::dict_version(*dict) == *version,
            Self::OwnDict(object, version) => {
                let dict = native::instance_dict(py, at(object)).address();
                dict != 0 && native::dict_version(dict) == *version
            }
            Self::Attributes(object, known) => {
                let dict = native::instance_dict(py, at(object));
                !dict.is_null() && known.are_so(py, dict)
            }
            Self::Class(object, class) => with_class(at(object)).1 == *class,
            Self::Version(class, version) => native::type_version(at(class)) == *version,
            Self::Items(container, known) => {
                items(&native::to_bound(py, at(container))).is_ok_and(|items| items == *known)
            }
            Self::Float(object, name) => {
                let dict = native::instance_dict(py, at(object));
                if dict.is_null() {
                    return false;
                }
                let dict = native::to_bound(py, dict);
                let value = dict.cast_exact::<PyDict>().map(|dict| dict.get_item(name));
                matches!(value, Ok(Ok(Some(value))) if value.is_exact_instance_of::<PyFloat>())
            }
            Self::Named(dict, name, value) => {
                let dict = native::to_bound(py, at(dict));
                let found = dict.cast_exact::<PyDict>().map(|dict| dict.get_item(name));
                matches!(found, Ok(Ok(Some(found))) if found.as_ptr() as usize == *value)
            }
            Self::Cell(cell, content) => native::cell_contents(at(cell)).address() == *content,
            Self::Texts(container, known) => {
                let found = texts(&native::to_bound(py, at(container)));
                found.is_some_and(|found| {
                    found.len() == known.len()
                        && found.iter().zip(known).all(|(one, other)| one.is(other))
                })
            }
            Self::Text(_) => true,
            Self::Field(object, name, value) => {
                let object = native::to_bound(py, at(object));
                let found = object.getattr(name);
                found.is_ok_and(|found| found.as_ptr() as usize == *value)
            }
        }
    }
}
