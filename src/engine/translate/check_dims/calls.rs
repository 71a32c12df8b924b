//! What calls of two traces are, and whether they are the same.

use pyo3::prelude::*;

use crate::bytecode::BinOp;
use crate::graph::{Arg, Callee, Statement};
use crate::obj;
use crate::ops::{FULL, FULL_LIKE, RESHAPES, TO_TENSOR, knows};

/// Whether two statements are one operator, with the number on either side.
pub(super) fn is_same_operator(a: &Statement, b: &Statement) -> bool {
    let (Callee::Method(left), Callee::Method(right)) = (&a.callee, &b.callee) else {
        return false;
    };
    let stem = |name: &str| {
        let stem = name.trim_matches('_').trim_start_matches('r').to_owned();
        [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::TrueDiv]
            .into_iter()
            .any(|op| op.stem() == stem)
            .then_some(stem)
    };
    a.loc == b.loc && stem(left).is_some() && stem(left) == stem(right)
}

pub(super) fn is_named(py: Python<'_>, it: &Statement, names: &[&str]) -> bool {
    let known = it.callee.api_names(py);
    known.iter().any(|name| names.contains(&name.as_str()))
}

pub(super) fn reshapes(py: Python<'_>, it: &Statement) -> bool {
    let known = it.callee.api_names(py);
    known.iter().any(|name| knows(name, RESHAPES))
}

/// Whether a statement calls a function of this module.
pub(super) fn is_of_module(py: Python<'_>, it: &Statement, module: &str) -> bool {
    match &it.callee {
        Callee::Api(function) => obj::module_and_name(function.bind(py)).0 == module,
        Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => false,
    }
}

/// The name of a function of `_graph/rows.py`.
pub(super) fn of_rows(py: Python<'_>, it: &Statement) -> Option<String> {
    let Callee::Api(function) = &it.callee else {
        return None;
    };
    let (module, name) = obj::module_and_name(function.bind(py));
    (module == "paddle_sot_rs._graph.rows").then_some(name)
}

/// Whether a statement makes no rows, of which open dims are 0.
pub(super) fn has_no_rows(py: Python<'_>, it: &Statement) -> bool {
    of_rows(py, it).is_some_and(|name| name == "empty_rows")
}

/// Whether a statement checks that there is such a place: see `index_range.rs`.
pub(super) fn checks_place(py: Python<'_>, it: &Statement) -> bool {
    match &it.callee {
        Callee::Api(function) => {
            obj::name_of(function.bind(py)).is_some_and(|name| name == "check_place")
        }
        Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => false,
    }
}

/// Whether a statement makes a tensor of a number of the graph, or of a list of such.
pub(super) fn stacks(py: Python<'_>, it: &Statement) -> bool {
    let Callee::Api(function) = &it.callee else {
        return false;
    };
    let (module, name) = obj::module_and_name(function.bind(py));
    module == "paddle_sot_rs._graph.control" && matches!(name.as_str(), "new_stack" | "new_tensor")
}

/// Whether a statement makes a tensor of a constant, or of a list of constants.
pub(super) fn makes(py: Python<'_>, it: &Statement) -> bool {
    is_named(py, it, &[TO_TENSOR])
        && matches!(
            it.args.first(),
            Some(Arg::List(_) | Arg::Tuple(_) | Arg::Const(_))
        )
}

/// Whether both make what nobody sees of a loop without a round: zeros.
pub(super) fn are_both_zeros(py: Python<'_>, a: &Statement, b: &Statement) -> bool {
    a.loc == b.loc && [a, b].iter().all(|it| is_named(py, it, &[FULL, FULL_LIKE]))
}

pub(super) fn is_same_call(py: Python<'_>, open: &Statement, known: &Statement) -> bool {
    let callee = match (&open.callee, &known.callee) {
        (Callee::Api(a), Callee::Api(b)) => {
            let rows = || of_rows(py, open);
            let is_of_list = |name: String| is_named(py, known, &[name.trim_end_matches("_rows")]);
            a.is(b) || rows().is_some_and(is_of_list) || stacks(py, open) && makes(py, known)
        }
        (Callee::Method(a), Callee::Method(b)) | (Callee::Attribute(a), Callee::Attribute(b)) => {
            a == b
        }
        (Callee::Layer(_), Callee::Layer(_)) | (Callee::Sir(_), Callee::Sir(_)) => true,
        // See `dynamic_scalar::scaled`.
        (Callee::Api(_), Callee::Method(name)) => {
            matches!(&**name, "__mul__" | "__rmul__") && is_named(py, open, &["scale"])
        }
        _ => false,
    };
    callee && open.loc == known.loc
}
