//! The steps of a guard program: what one reads, and what one checks.

use std::sync::Mutex;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::abi;
use crate::native::{self, Ptr, Upcoming, WeakOrStrong};
use crate::obj::Obj;
use crate::sync::lock;
use crate::tracker::FunctionField;
use crate::tracker::number::Outcome;

use super::compile::GuardInputs;
use super::layer_state::LayerSnapshot;
use super::{ArrayGuard, TensorGuard};

/// What a slot has, or null.
pub(super) fn in_slot(slots: &[usize], slot: usize) -> Ptr<'_> {
    // SAFETY: a slot has what was loaded into it: an argument of the running call, which its caller
    // keeps, or what such a one holds. Where a check may run Python, `Held` keeps all of them.
    unsafe { Ptr::new(slots[slot] as *mut ffi::PyObject) }
}

/// What a step puts into its slot.
pub(super) enum Load {
    Local(usize),
    FreeCell(usize),
    Const(WeakOrStrong),
    Handled,
    CellContents(usize),
    Proxied(usize),
    ContextValue(usize),
    TypeOf(usize),
    InstanceDict(usize),
    DictItem(usize, native::HashedKey),
    Nothing,
    ListItem(usize, usize),
    DequeItem(usize, usize),
    /// The last is the number that the iterator makes, for as long as the slot has it.
    Upcoming(usize, usize, Mutex<Option<Py<PyAny>>>),
    TupleItem(usize, usize),
    TypeAttr(usize, Py<PyAny>),
    Member(usize, Py<PyAny>),
    Function(usize, FunctionField),
    MethodPart(usize, bool),
}

/// What must be true of a slot.
pub(super) enum Check {
    Present,
    Absent,
    TypeIs(WeakOrStrong),
    Is(WeakOrStrong),
    ConstEq(Obj),
    Len(usize),
    Filled(bool),
    MaxLen(Option<usize>),
    Holds(WeakOrStrong, bool),
    Elements(Vec<Obj>),
    DictKeys(Vec<Py<PyAny>>),
    Tensor(TensorGuard),
    Contiguous,
    Apart(usize),
    ApartFromAll(usize),
    Unhooked,
    PlainOptimizer,
    Array(ArrayGuard),
    SameAs(usize),
    OtherThan(usize),
    Order(Vec<WeakOrStrong>),
    Registered(native::Registered),
    Named(Py<PyAny>, Obj),
    Outcome(Outcome<usize>),
    Quiet,
    Layer(LayerSnapshot),
    Never,
}

/// A step of a guard program: slots are loaded in order, and checked.
pub(super) enum Step {
    Load(usize, Load),
    Check {
        slot: usize,
        check: Check,
        guard: usize,
    },
}

/// What is there, or null; `None` when it cannot be told without running code of the user's.
pub(super) fn load<'a>(
    py: Python<'a>,
    load: &'a Load,
    inputs: GuardInputs<'a>,
    slots: &'a [usize],
) -> Option<Ptr<'a>> {
    let base = |slot: &usize| in_slot(slots, *slot);
    let from = |slot: &usize, read: &dyn Fn(Ptr<'a>) -> Ptr<'a>| {
        let object = base(slot);
        if object.is_null() {
            object
        } else {
            read(object)
        }
    };
    Some(match load {
        Load::Local(index) => inputs.locals.get(*index).copied().unwrap_or(Ptr::NULL),
        Load::FreeCell(index) if inputs.closure.is_null() => {
            let _ = index;
            Ptr::NULL
        }
        Load::FreeCell(index) => native::tuple_item(inputs.closure, *index),
        Load::Const(object) => object.get(),
        Load::Handled => native::handled_exception(py),
        Load::CellContents(slot) => from(slot, &native::cell_contents),
        Load::Proxied(slot) => from(slot, &native::proxied),
        Load::ContextValue(slot) => from(slot, &native::context_value),
        Load::TypeOf(slot) => from(slot, &native::type_of),
        Load::InstanceDict(slot) => from(slot, &|object| native::instance_dict(py, object)),
        Load::DictItem(slot, key) => match base(slot) {
            dict if dict.is_null() => dict,
            dict => native::dict_item(dict, key)?,
        },
        Load::Nothing => Ptr::NULL,
        Load::ListItem(slot, index) => from(slot, &|list| native::list_item(list, *index)),
        Load::DequeItem(slot, index) => from(slot, &|deque| native::deque_item(deque, *index)),
        Load::Upcoming(slot, ahead, number) => {
            from(slot, &|iterator| upcoming(py, iterator, *ahead, number))
        }
        Load::TupleItem(slot, index) => from(slot, &|tuple| native::tuple_item(tuple, *index)),
        Load::TypeAttr(slot, name) => from(slot, &|class| native::type_attr(class, name.into())),
        Load::Member(slot, name) => from(slot, &|object| native::member(py, object, name.into())),
        Load::Function(slot, field) => {
            from(slot, &|function| native::function_field(function, field))
        }
        Load::MethodPart(slot, receiver) => {
            from(slot, &|method| native::method_part(method, *receiver))
        }
    })
}

/// What an iterator gives next. A number has no owner but the guard: the one before it may go, as
/// whoever still reads it holds it (`Held`).
fn upcoming<'a>(
    py: Python<'a>,
    iterator: Ptr<'a>,
    ahead: usize,
    made: &'a Mutex<Option<Py<PyAny>>>,
) -> Ptr<'a> {
    match native::upcoming(py, iterator, ahead) {
        Some(Upcoming::Item(item)) => item,
        Some(Upcoming::Number(number)) => {
            let number = PyInt::new(py, number).into_any().unbind();
            let address = number.as_ptr();
            *lock(made) = Some(number);
            // SAFETY: it is held where it was just put.
            unsafe { Ptr::new(address) }
        }
        None => Ptr::NULL,
    }
}

/// Whether a check is true of the object in its slot.
pub(super) fn holds(py: Python<'_>, check: &Check, object: Ptr<'_>, slots: &[usize]) -> bool {
    if object.is_null() {
        return matches!(check, Check::Absent | Check::Quiet);
    }
    match check {
        Check::Present => true,
        Check::Absent | Check::Never => false,
        Check::TypeIs(class) => class.is(native::type_of(object)),
        Check::Is(known) => known.is(object),
        Check::ConstEq(constant) => native::const_equal(py, object, constant.into()),
        Check::Len(len) => native::length(object) == Some(*len),
        Check::MaxLen(most) => native::max_len(py, object) == Some(*most),
        Check::Filled(filled) => native::length(object).is_some_and(|len| (len > 0) == *filled),
        Check::Holds(key, is) => native::set_holds(object, key.get()) == Some(*is),
        Check::Elements(elements) => native::elements_are(py, object, elements),
        Check::DictKeys(keys) => native::dict_keys_are(object, keys),
        Check::Tensor(guard) => abi::tensor_matches(py, object, guard),
        Check::Contiguous => abi::is_contiguous(py, object),
        Check::Apart(other) => abi::are_apart(py, object, in_slot(slots, *other)),
        Check::ApartFromAll(other) => {
            abi::is_apart_from_all(py, object, &native::to_bound(py, in_slot(slots, *other)))
        }
        Check::Unhooked => abi::is_unhooked(&native::to_bound(py, object)),
        Check::PlainOptimizer => abi::is_plain_optimizer(&native::to_bound(py, object)),
        Check::Array(guard) => abi::array_matches(py, object, guard),
        Check::Outcome(outcome) => outcome.is_same(py, &mut |slot, dim| {
            let object = in_slot(slots, *slot);
            (!object.is_null())
                .then(|| abi::value(py, object, dim))
                .flatten()
        }),
        Check::SameAs(other) => object.address() == slots[*other],
        Check::OtherThan(other) => object.address() != slots[*other],
        Check::Order(classes) => native::order_is(object, classes),
        Check::Registered(known) => known.holds(py, object),
        Check::Named(name, value) => native::is_named(py, object, name.into(), value.into()),
        Check::Quiet => abi::is_quiet(py, object),
        Check::Layer(snapshot) => snapshot.holds(py),
    }
}

/// Whether no two of these slots hold the same object.
pub(super) fn all_distinct(which: &[usize], slots: &[usize]) -> bool {
    if which.len() <= 8 {
        return which
            .iter()
            .enumerate()
            .all(|(at, a)| which[..at].iter().all(|b| slots[*a] != slots[*b]));
    }
    let mut seen: Vec<usize> = which.iter().map(|slot| slots[*slot]).collect();
    seen.sort_unstable();
    seen.windows(2).all(|pair| pair[0] != pair[1])
}
