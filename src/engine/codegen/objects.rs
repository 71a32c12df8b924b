//! Cells, functions, objects of the user's classes and contexts.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::reason::Break;
use crate::simulator::containers::deques;
use crate::simulator::groups;
use crate::variables::{CellVar, ContextVar, Kind, NewFunction, ObjectVar, VarId};

use super::reconstruct::{Emit, Emitter};

impl Emitter<'_, '_> {
    pub(super) fn cell(&mut self, id: VarId, content: &CellVar) -> Result<bool, Break> {
        self.call_type("types", "CellType", 0, |_| Ok(()))?;
        self.keep(id)?;
        if let CellVar::Full(value) = content {
            self.call_helper("set_cell", 2, |this| {
                this.value(id)?;
                this.value(*value)
            })?;
            self.code.op("POP_TOP", 0)?;
        }
        Ok(true)
    }

    pub(super) fn function(&mut self, new: &NewFunction) -> Emit {
        let names = PyTuple::new(
            self.t.py,
            new.attrs
                .iter()
                .map(|(name, _)| &**name)
                .collect::<Vec<_>>(),
        )?
        .into_any();
        let none = self.t.py.None().into_bound(self.t.py);
        self.call_helper("make_function", 7 + new.attrs.len(), |this| {
            this.code.load_const(&new.code)?;
            this.code.load_const(&new.globals)?;
            for part in [new.defaults, new.kwdefaults, new.annotations] {
                match part {
                    Some(part) => this.value(part)?,
                    None => this.constant(&none)?,
                }
            }
            this.values(&new.closure)?;
            this.code.op("BUILD_TUPLE", new.closure.len() as u32)?;
            this.constant(&names)?;
            let values: Vec<VarId> = new.attrs.iter().map(|(_, value)| *value).collect();
            this.values(&values)
        })
    }

    pub(super) fn object(&mut self, id: VarId, object: &ObjectVar) -> Result<bool, Break> {
        if let Some(at) = groups::stale(self.t, id) {
            let why = "an exception group whose list was changed since";
            return Err(self.t.left_to_interpreter(at, why));
        }
        match object.base {
            None if deques::is_exact(object.class.bind(self.t.py)) => {
                self.call_helper("new_deque", 1, |this| match object.most {
                    Some(most) => this.int(most as i64),
                    None => this.constant(&this.t.py.None().into_bound(this.t.py)),
                })?;
            }
            Some(args) => self.call_helper("new_exception", 2, |this| {
                this.code.load_const(&object.class)?;
                this.value(args)
            })?,
            None => {
                let held = object.contents.and_then(|it| self.t.type_of(it));
                let base = held.unwrap_or_else(|| self.t.py.get_type::<PyAny>());
                self.call_helper("new_object", 2, |this| {
                    this.constant(base.as_any())?;
                    Ok(this.code.load_const(&object.class)?)
                })?;
            }
        }
        self.keep(id)?;
        if let Some(contents) = object.contents {
            self.fill(id, contents)?;
        }
        self.writes(id, object)?;
        Ok(true)
    }

    /// Puts what a new instance of a subclass of `dict` or `list` holds into it.
    fn fill(&mut self, id: VarId, contents: VarId) -> Emit {
        let (items, list) = match self.t.vars.kind(contents) {
            Kind::List(items) => (items.clone(), true),
            Kind::Dict(dict) => {
                let pairs = dict.items.values();
                (
                    pairs.flat_map(|(key, value)| [*key, *value]).collect(),
                    false,
                )
            }
            _ => return Err(Break::internal("an instance that holds something else")),
        };
        if items.is_empty() {
            return Ok(());
        }
        self.call_helper("fill", 2, |this| {
            this.value(id)?;
            this.values(&items)?;
            match list {
                true => this.code.op("BUILD_LIST", items.len() as u32)?,
                false => this.code.op("BUILD_MAP", items.len() as u32 / 2)?,
            };
            Ok(())
        })?;
        self.code.op("POP_TOP", 0)?;
        Ok(())
    }

    /// Replays attribute writes on the object `id`.
    pub fn writes(&mut self, id: VarId, object: &ObjectVar) -> Emit {
        for write in &object.writes {
            let name = pyo3::types::PyString::intern(self.t.py, &write.name).into_any();
            match write.value {
                Some(value) => self.call_helper(write.helper(), 3, |this| {
                    this.value(id)?;
                    this.constant(&name)?;
                    this.value(value)
                })?,
                None => self.call_helper("delete_attribute", 2, |this| {
                    this.value(id)?;
                    this.constant(&name)
                })?,
            }
            self.code.op("POP_TOP", 0)?;
        }
        Ok(())
    }

    pub(super) fn context(&mut self, context: &ContextVar) -> Emit {
        match context {
            ContextVar::GradMode {
                make: (callable, args),
                ..
            }
            | ContextVar::Null {
                make: (callable, args),
                ..
            } => {
                self.code.begin_call(callable)?;
                self.values(args)?;
                Ok(self.code.call(args.len())?)
            }
            ContextVar::AutoCast {
                callable,
                args,
                kwargs,
                ..
            } => self.with_names("call_with", args, kwargs, |this| {
                Ok(this.code.load_const(callable)?)
            }),
        }
    }
}
