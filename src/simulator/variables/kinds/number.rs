//! Numbers that differ between calls.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::OPERATOR;
use crate::graph::{Arg, DType, SymbolId};
use crate::operators::UnaryOp;
use crate::reason::{Break, BreakId, BreakKind};
use crate::tracker::number::Type;
use crate::{
    Kwargs, Step, Tracer, arguments, dynamic_scalar, fold, keys, number_functions, operators,
    program_numbers,
};

use crate::variables::answers::{Exports, Finalizer, Form, Snapshot, builtin};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, call_pure, not_made};
use crate::variables::{Key, VarId, Variable};

/// Where a number that differs between calls comes from.
#[derive(Clone, Copy, Debug)]
pub enum NumberVar {
    /// From outside.
    Given,
    /// A dim of a tensor.
    Dim(SymbolId, usize),
    /// What an operator makes of two others.
    Made(BinOp, VarId, VarId),
    /// What a pure function of Python answers to one or two others.
    Called(VarId, VarId, Option<VarId>),
    /// The graph makes it: a `float64` of no dims.
    Graph(SymbolId),
}

impl NumberVar {
    /// The variables that it is made of.
    fn parts(self) -> Vec<VarId> {
        match self {
            Self::Given | Self::Dim(..) | Self::Graph(_) => Vec::new(),
            Self::Made(_, a, b) => vec![a, b],
            Self::Called(function, a, b) => [function, a].into_iter().chain(b).collect(),
        }
    }
}

/// A number of the graph: a tensor of no dims that Python sees as a number.
pub struct SymNumber(pub SymbolId);

impl Protocol for SymNumber {
    const NAME: &'static str = "SymNumber";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        let dtype = t.graph.meta(self.0)?.dtype;
        if dtype == DType::Int64 {
            builtin(t, "int")
        } else if dtype == DType::Bool {
            builtin(t, "bool")
        } else {
            None
        }
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.call_helper("number", 1, |to| to.symbol(self.0))?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn has_method(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<bool> {
        Ok(method_of(t, id, name).is_some())
    }

    fn method(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        name: &str,
        args: &[VarId],
        kwargs: &Kwargs,
    ) -> Step<VarId> {
        call_method(t, id, name, args, kwargs)
    }

    fn truth(&self, t: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        t.stop(
            BreakKind::TensorBranch,
            "the truth of a tensor decides what is executed next",
        )
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(false)
    }

    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        if op == UnaryOp::Negative {
            let zero = t.int(0);
            return operators::binary(t, BinOp::Sub, false, zero, id);
        }
        operators::unary_of_number(t, op, id)
    }

    fn argument(&self, _: &mut Tracer<'_>, _: VarId) -> Step<Arg> {
        Ok(Arg::Symbol(self.0))
    }

    fn form(&self) -> Form {
        Form::Number(self.0)
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Ok(Exports::Output(self.0))
    }
}

/// An exact `int`.
pub struct Int(pub NumberVar);

impl Protocol for Int {
    const NAME: &'static str = "Int";

    fn children(&self) -> Vec<VarId> {
        self.0.parts()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        match &var.class {
            Some(class) => class.bind(t.py).cast::<PyType>().ok().cloned(),
            None => builtin(t, "int"),
        }
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        if to.tracer().vars.get(id).class.is_some() {
            return not_made("size");
        }
        match self.0 {
            NumberVar::Dim(symbol, dim) => {
                to.symbol(symbol)?;
                to.code().load_attr("shape")?;
                to.int(dim as i64)?;
                to.code().subscript()?;
                Ok(false)
            }
            NumberVar::Made(..) | NumberVar::Called(..) => computed(self.0, to),
            NumberVar::Given | NumberVar::Graph(_) => not_made(Self::NAME),
        }
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn has_method(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<bool> {
        Ok(method_of(t, id, name).is_some())
    }

    fn method(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        name: &str,
        args: &[VarId],
        kwargs: &Kwargs,
    ) -> Step<VarId> {
        call_method(t, id, name, args, kwargs)
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        number_truth(t, id)
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        if arguments::depends_on_dims(t, id) {
            return Ok(Arg::Symbol(arguments::number_statement(t, self.0)?));
        }
        match dynamic_scalar::made_for_calls(t, id)? {
            Some(symbol) => Ok(Arg::Symbol(symbol)),
            None => arguments::refuse(t, id),
        }
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::open_key(t, id)
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Ok(Exports::Nothing)
    }
}

/// An exact `float`.
pub struct Float(pub NumberVar);

impl Protocol for Float {
    const NAME: &'static str = "Float";

    fn children(&self) -> Vec<VarId> {
        self.0.parts()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        builtin(t, "float")
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        match self.0 {
            NumberVar::Graph(symbol) => {
                to.call_helper("number", 1, |to| to.symbol(symbol))?;
                Ok(false)
            }
            NumberVar::Made(..) | NumberVar::Called(..) => computed(self.0, to),
            NumberVar::Given | NumberVar::Dim(..) => not_made(Self::NAME),
        }
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn has_method(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<bool> {
        Ok(method_of(t, id, name).is_some())
    }

    fn method(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        name: &str,
        args: &[VarId],
        kwargs: &Kwargs,
    ) -> Step<VarId> {
        call_method(t, id, name, args, kwargs)
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        number_truth(t, id)
    }

    fn form(&self) -> Form {
        if let NumberVar::Graph(symbol) = self.0 {
            Form::Number(symbol)
        } else {
            Form::Other
        }
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        if let NumberVar::Graph(symbol) = self.0 {
            Ok(Exports::Output(symbol))
        } else {
            Ok(Exports::Nothing)
        }
    }
}

/// The method of its class, where that is `int` or `float`.
fn method_of<'py>(t: &mut Tracer<'py>, id: VarId, name: &str) -> Option<Bound<'py, PyAny>> {
    let class = t.type_of(id)?;
    let of = if class.is(t.py.get_type::<PyInt>()) {
        Type::Int
    } else if class.is(t.py.get_type::<PyFloat>()) {
        Type::Float
    } else {
        return None;
    };
    number_functions::method_of(t.py, of, name)
}

fn call_method(
    t: &mut Tracer<'_>,
    id: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let Some(method) = method_of(t, id, name) else {
        return t.stop(BreakId::UnsupportedCall, format!("method {name}"));
    };
    let args: Vec<VarId> = [id].iter().chain(args).copied().collect();
    fold::call_object(t, &method, &args, kwargs)
}

/// Pushes what is computed of others.
fn computed<'py, R: Rebuild<'py>>(number: NumberVar, to: &mut R) -> Result<bool, Break> {
    match number {
        NumberVar::Made(op, a, b) => {
            to.call_type(OPERATOR, op.stem(), 2, |to| to.values(&[a, b]))?;
        }
        NumberVar::Called(function, a, b) => {
            let args: Vec<VarId> = [Some(a), b].into_iter().flatten().collect();
            call_pure(to, function, &args)?;
        }
        NumberVar::Given | NumberVar::Dim(..) | NumberVar::Graph(_) => {}
    }
    Ok(false)
}

fn number_truth(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    let zero = t.int(0);
    if let Some(holds) = program_numbers::assumed(t, CmpOp::Ne, value, zero)? {
        return Ok(holds);
    }
    match dynamic_scalar::compare(t, CmpOp::Ne, value, zero)? {
        Some(holds) => Ok(holds),
        None => t.stop(
            BreakId::Truth,
            "the truth of a number that differs between calls",
        ),
    }
}
