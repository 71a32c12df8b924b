//! Which statements may be computed once.

use paddle_sot_backend::graph::{Callee, Statement, StatementIr, SymbolId};
use pyo3::prelude::*;

/// Functions without effects and random numbers whose result never shares storage with an argument.
const FUNCTIONS: &[&str] = &[
    "ones", "zeros", "full", "arange", "eye", "add", "subtract", "multiply", "divide", "maximum",
    "minimum", "matmul", "exp", "log", "sqrt", "rsqrt", "square", "sin", "cos", "tanh", "sigmoid",
    "relu", "gelu", "silu", "softmax", "abs",
];
/// The same among the methods of tensors.
const METHODS: &[&str] = &[
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__neg__",
    "__matmul__",
    "add",
    "subtract",
    "multiply",
    "divide",
    "matmul",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "square",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "abs",
];

/// Whether the statement is in one of the tables.
pub fn is_pure(py: Python<'_>, statement: &Statement) -> bool {
    match &statement.callee {
        Callee::Method(name) => METHODS.contains(&&**name),
        Callee::Api(function) => {
            let text =
                |name: &str| -> PyResult<String> { function.bind(py).getattr(name)?.extract() };
            let (Ok(module), Ok(name)) = (text("__module__"), text("__name__")) else {
                return false;
            };
            (module == "paddle" || module.starts_with("paddle.")) && FUNCTIONS.contains(&&*name)
        }
        Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => false,
    }
}

/// Calls `f` for every symbol a statement uses.
pub fn for_each_use(statement: &Statement, f: &mut impl FnMut(SymbolId)) {
    let named = statement.kwargs.iter().map(|(_, arg)| arg);
    for arg in statement.args.iter().chain(named) {
        arg.for_each_symbol(f);
    }
}

/// Whether nobody outside of the graph, and no view, can get hold of the tensor: then it need not
/// be a new one in each call.
pub fn stays_inside(sir: &StatementIr, pure: &[bool], symbol: SymbolId) -> bool {
    let mut inside = !sir.outputs.contains(&symbol);
    for (statement, pure) in sir.statements.iter().zip(pure) {
        for_each_use(statement, &mut |used| inside &= used != symbol || *pure);
    }
    inside
}
