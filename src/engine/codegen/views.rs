//! Operations that are done again on real tensors: see [`crate::simulator::alias_analysis`].

use pyo3::types::{PyBool, PyString, PyTuple};

use crate::frame::Modules;
use crate::graph::{Arg, Callee};
use crate::obj::Obj;
use crate::variables::{Emit, Rebuild, View};

use super::reconstruct::Emitter;

impl Emitter<'_, '_> {
    /// Pushes the result of a view operation on its rebuilt base. Several results come from one
    /// call.
    pub(super) fn view(&mut self, view: &View) -> Emit {
        let Some((list, at)) = view.item else {
            return self.view_call(view);
        };
        match self.lists.get(&list) {
            Some(local) => self.code.load(*local)?,
            None => {
                self.view_call(view)?;
                let local = self.code.local(&format!(".list_{}", list.0));
                self.code.op("COPY", 1)?;
                self.code.store(local)?;
                self.lists.insert(list, local);
            }
        }
        self.int(at as i64)?;
        self.code.subscript()?;
        Ok(())
    }

    fn view_call(&mut self, view: &View) -> Emit {
        let py = self.t.py;
        let names = view.kwargs.iter().map(|(name, _)| &**name);
        let names = PyTuple::new(py, names)?.into_any();
        let (args, attribute) = match &view.callee {
            Callee::Api(_) => (&view.args[..], None),
            Callee::Attribute(name) => (&view.args[..], Some(PyString::new(py, name))),
            Callee::Method(_) | Callee::Layer(_) | Callee::Sir(_) => (&view.args[1..], None),
        };
        let count = args.len() + usize::from(attribute.is_some()) + view.kwargs.len();
        self.call_helper("again", 3 + count, |this| {
            this.constant(&PyBool::new(py, view.grad_enabled).to_owned().into_any())?;
            match &view.callee {
                Callee::Api(function) => this.code.load_const(function)?,
                Callee::Method(name) => {
                    this.arg(view, &view.args[0])?;
                    this.code.load_attr(name)?;
                }
                Callee::Layer(layer) => {
                    this.symbol(*layer)?;
                    this.code.load_attr("forward")?;
                }
                Callee::Attribute(_) | Callee::Sir(_) => {
                    let getter = py.builtin("getattr")?;
                    this.constant(&getter)?;
                }
            }
            this.constant(&names)?;
            for arg in args {
                this.arg(view, arg)?;
            }
            if let Some(name) = attribute {
                this.constant(name.as_any())?;
            }
            for (_, arg) in &view.kwargs {
                this.arg(view, arg)?;
            }
            Ok(())
        })
    }

    fn args(&mut self, view: &View, args: &[Arg]) -> Emit {
        args.iter().try_for_each(|arg| self.arg(view, arg))
    }

    fn arg(&mut self, view: &View, arg: &Arg) -> Emit {
        let build = |this: &mut Self, name: &str, count: usize| -> Emit {
            this.code.op(name, count as u32)?;
            Ok(())
        };
        match arg {
            Arg::Symbol(symbol) if *symbol == view.base_symbol => self.value(view.base),
            Arg::Symbol(symbol) => match self.made_number(*symbol) {
                Some((number, _)) => self.number(&number),
                None => self.symbol(*symbol),
            },
            Arg::Const(value) => Ok(self.code.load_const(value)?),
            Arg::List(items) => {
                self.args(view, items)?;
                build(self, "BUILD_LIST", items.len())
            }
            Arg::Tuple(items) => {
                self.args(view, items)?;
                build(self, "BUILD_TUPLE", items.len())
            }
            Arg::NamedTuple(class, items) => {
                self.code.begin_call(class)?;
                self.args(view, items)?;
                Ok(self.code.call(items.len())?)
            }
            Arg::Dict(items) => {
                for (key, item) in items {
                    self.code.load_const(&Obj::clone(key))?;
                    self.arg(view, item)?;
                }
                build(self, "BUILD_MAP", items.len())
            }
            Arg::Slice(parts) => {
                self.args(view, &parts[..])?;
                build(self, "BUILD_SLICE", 3)
            }
        }
    }
}
