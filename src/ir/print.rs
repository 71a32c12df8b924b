//! The printer of [`StatementIr`], part of the public API.

use paddle_sot_cpython::frame::PADDLE;
use std::fmt;

use itertools::Itertools;
use pyo3::prelude::*;

use paddle_sot_cpython::obj::module_and_name;

use super::{Arg, Callee, StatementIr};

impl StatementIr {
    fn arg(&self, arg: &Arg) -> String {
        let many = |items: &[Arg]| items.iter().map(|item| self.arg(item)).join(", ");
        match arg {
            Arg::Symbol(symbol) => self.symbol_name(*symbol),
            Arg::Const(value) => {
                Python::attach(|py| paddle_sot_cpython::obj::shown(value.bind(py)))
            }
            Arg::List(items) => format!("[{}]", many(items)),
            Arg::Tuple(items) => tuple(items.iter().map(|item| self.arg(item))),
            Arg::NamedTuple(class, items) => {
                let name = Python::attach(|py| {
                    class
                        .bind(py)
                        .getattr("__name__")
                        .map_or_else(|_| "tuple".to_owned(), |name| name.to_string())
                });
                format!("{name}({})", many(items))
            }
            Arg::Dict(items) => {
                let pairs = items.iter().map(|(key, value)| {
                    format!(
                        "{}: {}",
                        self.arg(&Arg::Const(key.clone())),
                        self.arg(value)
                    )
                });
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }
            Arg::Slice(parts) => format!("slice({})", many(&parts[..])),
        }
    }

    fn callee(&self, callee: &Callee) -> (&'static str, String) {
        match callee {
            Callee::Api(function) => Python::attach(|py| {
                let (module, name) = module_and_name(function.bind(py));
                // Public functions live where users import them from, not where they are defined.
                let public = if module.starts_with("paddle.tensor") {
                    PADDLE.to_owned()
                } else if module.starts_with("paddle.nn.functional") {
                    "paddle.nn.functional".to_owned()
                } else {
                    module
                };
                (
                    "api",
                    if public.is_empty() {
                        name
                    } else {
                        format!("{public}.{name}")
                    },
                )
            }),
            Callee::Method(name) => ("method", name.to_string()),
            Callee::Attribute(name) => ("attribute", name.to_string()),
            Callee::Layer(symbol) => {
                let name = match self.kind(*symbol) {
                    super::SymbolKind::Layer(layer) => layer.class_name().to_owned(),
                    super::SymbolKind::Tensor(_) => "Layer".to_owned(),
                };
                ("layer", name)
            }
            Callee::Sir(region) => ("sir", region.name().to_owned()),
        }
    }
}

fn tuple(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    format!("[{}]", names.map(|name| format!("'{name}'")).join(", "))
}

impl fmt::Display for StatementIr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "StatementIR: {}", self.name)?;
        writeln!(
            f,
            "  inputs: {}",
            list(self.inputs.iter().map(|id| self.symbol_name(*id)))
        )?;
        writeln!(
            f,
            "  outputs: {}",
            list(self.outputs.iter().map(|id| self.symbol_name(*id)))
        )?;
        write!(f, "  statements:")?;
        for statement in &self.statements {
            let (kind, name) = self.callee(&statement.callee);
            let args = tuple(statement.args.iter().map(|arg| self.arg(arg)));
            let kwargs = statement
                .kwargs
                .iter()
                .map(|(name, value)| format!("'{name}': {}", self.arg(value)))
                .join(", ");
            let output = self.arg(&statement.output);
            write!(
                f,
                "\n    {kind:<10} || {output} = {name} ({args}, {{{kwargs}}})"
            )?;
            if let Callee::Sir(region) = &statement.callee {
                for (role, block) in region.blocks() {
                    let text = block.to_string();
                    write!(f, "\n      {role}: {}", text.replace('\n', "\n      "))?;
                }
            }
        }
        Ok(())
    }
}
