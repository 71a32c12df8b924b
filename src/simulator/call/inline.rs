//! Inlining Python functions: what a function variable holds, binding of arguments, running the
//! body.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};

use crate::bytecode::Code;
use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::native::is_called_as_usual;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::{FunctionField, Tracker, TrackerRef};
use crate::variables::{DictVar, FunctionVar, IterVar, Kind, VarId};

use crate::frame_state::{Exit, FrameState};
use crate::opcode_executor;
use crate::{Kwargs, Step, Tracer, cell_get, keys, provenance};

use super::Named;

const VARARGS: u32 = 0x04;
pub(crate) const VARKEYWORDS: u32 = 0x08;
pub(crate) const GENERATOR: u32 = 0x20;
const COROUTINES: u32 = 0x80 | 0x100 | 0x200;

/// A function's parts, defaults left lazy.
struct Callee {
    code: Arc<Code>,
    globals: Obj,
    closure: Vec<VarId>,
    defaults: Defaults,
}

enum Defaults {
    Real(VarId),
    New {
        defaults: Option<VarId>,
        kwdefaults: Option<VarId>,
    },
}

/// Calls a Python function variable by simulating its body.
pub fn call_function(
    t: &mut Tracer<'_>,
    function: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let tail = std::mem::take(&mut t.tail);
    if t.frames.locations.len() > t.options.max_depth {
        return t.stop(
            BreakKind::InlineDepth,
            format!("more than {} inlined calls", t.options.max_depth),
        );
    }
    let callee = open(t, function)?;
    if let Some((kind, what)) =
        provenance::native_call(&callee.code.name, callee.globals.bind(t.py))
    {
        return t.stop(kind, format!("{}() {what}", callee.code.qualname));
    }
    let flags = callee.code.flags;
    if flags & COROUTINES != 0 {
        return t.stop(BreakKind::UnsupportedCall, "call of a coroutine function");
    }
    let locals = bind(t, &callee, args, kwargs)?;
    let builtins = builtins_of(t, &callee.globals)?;
    let mut frame = FrameState {
        code: callee.code,
        globals: callee.globals,
        builtins,
        locals,
        stack: Vec::new(),
        closure: callee.closure,
        pc: 0,
        kw_names: Vec::new(),
        handling: Vec::new(),
        region: None,
        consumer: None,
    };
    if flags & GENERATOR != 0 {
        let frame = t.frames.suspend(frame);
        let made_at = t.frames.outermost;
        return Ok(t.add(Kind::Iter(IterVar::Generator { frame, made_at })));
    }
    t.progress.inlined += 1;
    match opcode_executor::run(t, &mut frame, tail)? {
        Exit::Return(value) => Ok(value),
        Exit::Yield(_) | Exit::Next(_) => t.unsupported("a yield outside of a generator"),
    }
}

/// The free variables of a real function that have one of these names.
pub(crate) fn free_variables(
    t: &mut Tracer<'_>,
    function: VarId,
    names: &Bound<'_, PyAny>,
) -> Step<Named> {
    if names.is_none() {
        return Ok(Vec::new());
    }
    let callee = open(t, function)?;
    let first = callee.code.localsplus.len() - callee.closure.len();
    let mut found = Vec::new();
    for (slot, cell) in callee.code.localsplus[first..].iter().zip(&callee.closure) {
        if names.contains(&*slot.name)? {
            found.push((slot.name.clone(), cell_get(t, *cell)?));
        }
    }
    Ok(found)
}

/// The builtins a frame with these globals sees.
pub fn builtins_of(t: &mut Tracer<'_>, globals: &Obj) -> Step<Obj> {
    let found = globals
        .bind(t.py)
        .cast::<PyDict>()
        .ok()
        .and_then(|dict| dict.get_item("__builtins__").ok().flatten());
    let builtins = match found {
        Some(found) if found.is_instance_of::<PyDict>() => found,
        Some(module) => module.getattr("__dict__")?,
        None => t.py.builtins()?.getattr("__dict__")?,
    };
    Ok(Obj::from(builtins))
}

fn open(t: &mut Tracer<'_>, function: VarId) -> Step<Callee> {
    let Kind::Function(kind) = t.kind(function).clone() else {
        return t.unsupported("call of something that is not a function");
    };
    match kind {
        FunctionVar::New(new) => Ok(Callee {
            code: t.decode(&new.code)?,
            globals: new.globals.clone(),
            closure: new.closure.clone(),
            defaults: Defaults::New {
                defaults: new.defaults,
                kwdefaults: new.kwdefaults,
            },
        }),
        FunctionVar::Real => open_real(t, function),
    }
}

fn open_real(t: &mut Tracer<'_>, function: VarId) -> Step<Callee> {
    let Some(object) = t.value(function) else {
        return t.unsupported("a function without an object");
    };
    if !is_called_as_usual(&object) {
        return t.unsupported("a function that C code made special");
    }
    let source = real_source(t, function);
    let field = |field: FunctionField| Arc::new(Tracker::Function(source.clone(), field));
    let code = Obj::from(object.getattr("__code__")?);
    let globals = Obj::from(object.getattr("__globals__")?);
    t.guards
        .add(&field(FunctionField::Code), GuardKind::Is(code.clone()));
    t.guards.add(
        &field(FunctionField::Globals),
        GuardKind::Is(globals.clone()),
    );
    let mut closure = Vec::new();
    if let Ok(cells) = object.getattr("__closure__")?.cast_into::<PyTuple>() {
        for (index, cell) in cells.iter().enumerate() {
            closure.push(t.wrap(&cell, field(FunctionField::ClosureCell(index))));
        }
    }
    Ok(Callee {
        code: t.decode(&code)?,
        globals,
        closure,
        defaults: Defaults::Real(function),
    })
}

fn real_source(t: &Tracer<'_>, function: VarId) -> TrackerRef {
    t.source(function).unwrap_or_else(|| {
        let object = t.vars.get(function).value.clone();
        Arc::new(Tracker::Const(
            object.unwrap_or_else(|| Obj::new(t.py.None())),
        ))
    })
}

impl Defaults {
    /// The default of the positional parameter that is `from_end` places before the last one (1 =
    /// last).
    fn positional(&self, t: &mut Tracer<'_>, from_end: usize) -> Step<Option<VarId>> {
        let tuple = match self {
            Self::New { defaults, .. } => *defaults,
            Self::Real(function) => {
                real_field(t, *function, "__defaults__", FunctionField::Defaults)?
            }
        };
        let Some(tuple) = tuple else { return Ok(None) };
        if let Kind::Tuple(items, _) = t.kind(tuple) {
            Ok(items.len().checked_sub(from_end).map(|index| items[index]))
        } else {
            Ok(None)
        }
    }

    fn keyword(&self, t: &mut Tracer<'_>, name: &Arc<str>) -> Step<Option<VarId>> {
        let dict = match self {
            Self::New { kwdefaults, .. } => *kwdefaults,
            Self::Real(function) => {
                real_field(t, *function, "__kwdefaults__", FunctionField::KwDefaults)?
            }
        };
        let Some(dict) = dict else { return Ok(None) };
        if let Kind::Dict(dict) = t.kind(dict).clone() {
            let name = t.str(name);
            let key = keys::key_of(t, name)?;
            Ok(dict.items.get(&key).map(|(_, value)| *value))
        } else {
            Ok(None)
        }
    }
}

/// A field of a real function.
pub(crate) fn real_field(
    t: &mut Tracer<'_>,
    function: VarId,
    name: &str,
    field: FunctionField,
) -> Step<Option<VarId>> {
    let Some(object) = t.value(function) else {
        return Ok(None);
    };
    let value = object.getattr(name)?;
    let source = Arc::new(Tracker::Function(real_source(t, function), field));
    Ok(Some(t.wrap(&value, source)))
}

/// Binds arguments as `initialize_locals` of CPython's `Python/ceval.c` does. What would be a
/// `TypeError` breaks the graph, so that the interpreter raises it.
fn bind(
    t: &mut Tracer<'_>,
    callee: &Callee,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Vec<Option<VarId>>> {
    let code = callee.code.clone();
    let positional = code.argcount as usize;
    let named = positional + code.kwonly as usize;
    let mut locals: Vec<Option<VarId>> = vec![None; code.localsplus.len()];
    let direct = args.len().min(positional);
    for (slot, value) in locals.iter_mut().zip(&args[..direct]) {
        *slot = Some(*value);
    }
    let mut next = named;
    if code.flags & VARARGS != 0 {
        locals[next] = Some(t.add(Kind::Tuple(args[direct..].to_vec(), None)));
        next += 1;
    } else if args.len() > positional {
        return t.stop(
            BreakKind::RaisesException,
            format!("{} takes fewer positional arguments", code.name),
        );
    }
    let mut extra = DictVar::default();
    for (name, value) in kwargs {
        let slot =
            (code.posonly as usize..named).find(|&slot| *code.localsplus[slot].name == **name);
        match slot {
            Some(slot) if locals[slot].is_none() => locals[slot] = Some(*value),
            Some(_) => {
                return t.stop(
                    BreakKind::RaisesException,
                    format!("{} got {name} twice", code.name),
                );
            }
            None if code.flags & VARKEYWORDS != 0 => {
                let key = t.str(name);
                extra.items.insert(keys::key_of(t, key)?, (key, *value));
            }
            None => {
                return t.stop(
                    BreakKind::RaisesException,
                    format!("{} has no parameter {name}", code.name),
                );
            }
        }
    }
    if code.flags & VARKEYWORDS != 0 {
        locals[next] = Some(t.add(Kind::Dict(extra)));
    }
    let missing: Vec<usize> = (0..named).filter(|slot| locals[*slot].is_none()).collect();
    for slot in missing {
        let default = if slot < positional {
            callee.defaults.positional(t, positional - slot)?
        } else {
            callee.defaults.keyword(t, &code.localsplus[slot].name)?
        };
        if default.is_none() {
            let message = format!(
                "{} misses the argument {}",
                code.name, code.localsplus[slot].name
            );
            return t.stop(BreakKind::RaisesException, message);
        }
        locals[slot] = default;
    }
    Ok(locals)
}

impl Tracer<'_> {
    /// The decoded form of a code object.
    pub(crate) fn decode(&mut self, code: &Obj) -> Step<Arc<Code>> {
        if let Some(known) = self.seen.decoded.get(code) {
            return Ok(known.clone());
        }
        let object = code.bind(self.py).cast::<PyCode>().map_err(PyErr::from)?;
        match Code::from_py(self.py, object) {
            Ok(decoded) => {
                let decoded = Arc::new(decoded);
                self.seen.decoded.insert(code.clone(), decoded.clone());
                Ok(decoded)
            }
            Err(err) => self.stop(BreakKind::Opcode, err.to_string()),
        }
    }
}
