//! A Python namespace to guard, and short forms for trackers.

use std::ffi::CString;
use std::sync::{Arc, Mutex};

use paddle_sot::abi::GlobalState;
use paddle_sot::frame::Modules;
use paddle_sot::guard::{
    CompiledGuard, GuardCompiler, GuardFailure, GuardInputs, GuardKind, GuardSet,
    NativeGuardCompiler,
};
use paddle_sot::native::Ptr;
use paddle_sot::obj::Obj;
use paddle_sot::sync::lock;
use paddle_sot::tracker::{DictKey, FunctionField, Tracker, TrackerRef};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What the guards read of Paddle's global state, without Paddle.
const PADDLE: &std::ffi::CStr = c"
import sys, types

def module(name, **names):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(names)
    return made

def tracer(grad=True, level=0):
    return types.SimpleNamespace(_has_grad=grad, _amp_level=level)

class Place:
    def is_cpu_place(self): return True

class LayerHelperBase: pass
setattr(LayerHelperBase, '_LayerHelperBase__dtype', 'float32')

module('paddle')
module('paddle.base')
framework = module('paddle.base.framework', global_var=types.SimpleNamespace(_dygraph_tracer_=tracer()),
    _current_expected_place=Place, _global_expected_place_='cpu')
module('paddle.base.layer_helper_base', LayerHelperBase=LayerHelperBase)
";

/// Names that every program can use.
const DEFINITIONS: &std::ffi::CStr = c"
import collections, types, weakref

class Base: pass

class A(Base):
    def __init__(self, **names): vars(self).update(names)
    def method(self): pass

class B(Base): pass

class Slots:
    __slots__ = ('s',)

class List(list): pass

class Hostile:
    'Runs user code wherever it can.'
    def __init__(self, value): object.__setattr__(self, 'value', value)
    def fail(self, *args): raise AssertionError('a guard ran user code')
    __eq__ = __hash__ = __len__ = __bool__ = __getattribute__ = __getattr__ = __setattr__ = __iter__ = fail

def function(a, b=2, *, c=3): return a
";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A namespace in which `x` is the first argument, `y` the second, and `closure` the closure.
pub struct World<'py> {
    pub py: Python<'py>,
    names: Bound<'py, PyDict>,
}

/// Global state is one per process: tests take turns.
pub fn with_world(setup: &str, test: impl FnOnce(&World<'_>)) {
    let _turn = lock(&ONE_AT_A_TIME);
    Python::attach(|py| {
        let names = PyDict::new(py);
        if !py
            .module("sys")
            .unwrap()
            .getattr("modules")
            .unwrap()
            .contains("paddle.base")
            .unwrap()
        {
            py.run(PADDLE, Some(&PyDict::new(py)), None).unwrap();
        }
        py.run(DEFINITIONS, Some(&names), None).unwrap();
        let world = World { py, names };
        world.run(setup);
        test(&world);
    });
}

impl<'py> World<'py> {
    pub fn run(&self, code: &str) {
        let code = CString::new(code).unwrap();
        self.py.run(&code, Some(&self.names), None).unwrap();
    }

    pub fn eval(&self, expression: &str) -> Obj {
        let code = CString::new(expression).unwrap();
        Obj::from(self.py.eval(&code, Some(&self.names), None).unwrap())
    }

    pub fn compile(&self, guards: &GuardSet, slots: &[TrackerRef]) -> Box<dyn CompiledGuard> {
        let state = GlobalState::capture(self.py).unwrap();
        NativeGuardCompiler
            .compile(self.py, guards, slots, &state)
            .unwrap()
    }

    /// Compiles guards on one tracker each.
    pub fn guard(&self, guards: &[(&TrackerRef, GuardKind)]) -> Box<dyn CompiledGuard> {
        self.compile(&set(guards), &[])
    }

    /// The addresses in the slots, or what failed.
    pub fn check(&self, guard: &dyn CompiledGuard) -> Result<Vec<usize>, GuardFailure> {
        let get = |name: &str| self.names.get_item(name).unwrap();
        let arguments: Vec<_> = ["x", "y"].into_iter().filter_map(get).collect();
        let locals: Vec<_> = arguments.iter().map(Ptr::from).collect();
        let closure = get("closure");
        let inputs = GuardInputs {
            locals: &locals,
            closure: closure.as_ref().map_or(Ptr::NULL, Ptr::from),
        };
        let answer = guard.check(self.py, inputs);
        assert!(
            PyErr::take(self.py).is_none(),
            "a check left an exception behind"
        );
        answer.map(|slots| slots.iter().map(|slot| slot.as_ptr() as usize).collect())
    }

    pub fn holds(&self, guard: &dyn CompiledGuard) -> bool {
        self.check(guard).is_ok()
    }
}

pub fn set(guards: &[(&TrackerRef, GuardKind)]) -> GuardSet {
    let mut made = GuardSet::default();
    for (tracker, kind) in guards {
        made.add(tracker, kind.clone());
    }
    made
}

pub fn x() -> TrackerRef {
    Arc::new(Tracker::Local {
        index: 0,
        name: "x".into(),
    })
}

pub fn y() -> TrackerRef {
    Arc::new(Tracker::Local {
        index: 1,
        name: "y".into(),
    })
}

pub fn attr(base: TrackerRef, name: &str) -> TrackerRef {
    key(
        Arc::new(Tracker::InstanceDict(base)),
        DictKey::Str(name.into()),
    )
}

pub fn key(base: TrackerRef, key: DictKey) -> TrackerRef {
    Arc::new(Tracker::DictItem(base, key))
}

pub fn class_attr(base: TrackerRef, name: &str) -> TrackerRef {
    Arc::new(Tracker::TypeAttr(
        Arc::new(Tracker::TypeOf(base)),
        name.into(),
    ))
}

pub fn free_cell() -> TrackerRef {
    Arc::new(Tracker::FreeCell {
        index: 0,
        name: "free".into(),
    })
}

pub fn field(of: TrackerRef, field: FunctionField) -> TrackerRef {
    Arc::new(Tracker::Function(of, field))
}

pub fn texts(keys: &[&str]) -> GuardKind {
    GuardKind::DictKeys(keys.iter().map(|key| DictKey::Str((*key).into())).collect())
}

/// What a set holds now, in its order.
pub fn elements(world: &World, name: &str) -> GuardKind {
    let items = world.eval(&format!("list({name})"));
    let items = Python::attach(|py| {
        let items = items.bind(py).try_iter().unwrap();
        items.map(|item| Obj::from(item.unwrap())).collect()
    });
    GuardKind::Elements(items)
}
