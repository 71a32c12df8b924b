//! The text of a StatementIR, which is public API.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use paddle_sot::graph::{
    Arg, Callee, DType, LayerRef, Region, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta,
};
use paddle_sot::obj::Obj;
use paddle_sot::reason::SourceLoc;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rstest::rstest;

const DEFINITIONS: &std::ffi::CStr = c"
import collections

class Conv2D: pass

def function(module, name):
    made = lambda: None
    made.__module__, made.__name__ = module, name
    return made

class Unprintable:
    def __repr__(self): raise ValueError

Point = collections.namedtuple('Point', 'x y')
";

/// An object made by an expression over the definitions above.
fn object(py: Python<'_>, expression: &str) -> Obj {
    let namespace = PyDict::new(py);
    py.run(DEFINITIONS, Some(&namespace), None).unwrap();
    let expression = std::ffi::CString::new(expression).unwrap();
    Obj::from(py.eval(&expression, Some(&namespace), None).unwrap())
}

fn constant(py: Python<'_>, expression: &str) -> Arg {
    Arg::Const(object(py, expression))
}

fn tensor() -> SymbolKind {
    SymbolKind::Tensor(TensorMeta {
        shape: [2, 3].into_iter().collect(),
        dtype: DType::Float32,
        stop_gradient: true,
    })
}

fn symbol(number: u32) -> Arg {
    Arg::Symbol(SymbolId(number))
}

fn statement(callee: Callee, args: Vec<Arg>, output: Arg) -> Statement {
    Statement {
        callee,
        args,
        kwargs: Vec::new(),
        output,
        grad_enabled: true,
        copies: false,
        draws: false,
        computes_dims: false,
        alone: false,
        updates: Vec::new(),
        loc: SourceLoc::default(),
    }
}

/// A graph `var_1 = <callee> (<args>, <kwargs>)` over `var_0`; the answer is the line of the
/// statement.
fn line(callee: Callee, args: Vec<Arg>, kwargs: Vec<(Arc<str>, Arg)>, output: Arg) -> String {
    let mut made = statement(callee, args, output);
    made.kwargs = kwargs;
    let sir = StatementIr {
        name: "SIR_7".into(),
        inputs: vec![SymbolId(0)],
        outputs: vec![SymbolId(1)],
        statements: vec![made],
        symbols: vec![tensor(), tensor(), tensor()],
    };
    let text = sir.to_string();
    let (head, line) = text.rsplit_once('\n').unwrap();
    assert_eq!(
        head,
        "StatementIR: SIR_7\n  inputs: ['var_0']\n  outputs: ['var_1']\n  statements:"
    );
    line.to_owned()
}

#[test]
fn the_example_of_the_design_prints_exactly() {
    let sir = Python::attach(|py| StatementIr {
        name: "SIR_0".into(),
        inputs: [0, 1, 2].map(SymbolId).into(),
        outputs: vec![SymbolId(5)],
        statements: vec![
            statement(
                Callee::Layer(SymbolId(0)),
                vec![symbol(0), symbol(2)],
                symbol(3),
            ),
            statement(
                Callee::Method("__add__".into()),
                vec![symbol(3), symbol(2)],
                symbol(4),
            ),
            statement(
                Callee::Api(object(
                    py,
                    "function('paddle.nn.functional.activation', 'relu')",
                )),
                vec![symbol(4)],
                symbol(5),
            ),
        ],
        symbols: vec![
            SymbolKind::Layer(LayerRef::new(object(py, "Conv2D()").bind(py))),
            SymbolKind::Layer(LayerRef::new(object(py, "Conv2D()").bind(py))),
            tensor(),
            tensor(),
            tensor(),
            tensor(),
        ],
    });
    let expected = "\
StatementIR: SIR_0
  inputs: ['layer_0', 'layer_1', 'var_0']
  outputs: ['var_3']
  statements:
    layer      || var_1 = Conv2D ((layer_0, var_0), {})
    method     || var_2 = __add__ ((var_1, var_0), {})
    api        || var_3 = paddle.nn.functional.relu ((var_2,), {})";
    assert_eq!(sir.to_string(), expected);
}

#[test]
fn an_empty_graph_prints_its_headings() {
    let sir = StatementIr {
        name: "SIR_1".into(),
        ..StatementIr::default()
    };
    assert_eq!(
        sir.to_string(),
        "StatementIR: SIR_1\n  inputs: []\n  outputs: []\n  statements:"
    );
}

#[test]
fn symbols_are_numbered_per_kind_in_order_of_first_use() {
    let sir = Python::attach(|py| StatementIr {
        symbols: vec![
            tensor(),
            SymbolKind::Layer(LayerRef::new(object(py, "Conv2D()").bind(py))),
            tensor(),
            SymbolKind::Layer(LayerRef::new(object(py, "Conv2D()").bind(py))),
            tensor(),
        ],
        ..StatementIr::default()
    });
    let names: Vec<String> = (0..5).map(|id| sir.symbol_name(SymbolId(id))).collect();
    assert_eq!(names, ["var_0", "layer_0", "var_1", "layer_1", "var_2"]);
}

#[rstest]
#[case::defined_below_paddle_tensor("paddle.tensor.math", "add", "paddle.add")]
#[case::defined_below_functional(
    "paddle.nn.functional.conv",
    "conv2d",
    "paddle.nn.functional.conv2d"
)]
#[case::anywhere_else("paddle.vision.ops", "nms", "paddle.vision.ops.nms")]
#[case::of_the_user("__main__", "pure", "__main__.pure")]
fn functions_print_where_users_import_them_from(
    #[case] module: &str,
    #[case] name: &str,
    #[case] expected: &str,
) {
    let callee =
        Python::attach(|py| Callee::Api(object(py, &format!("function({module:?}, {name:?})"))));
    assert_eq!(
        line(callee, vec![symbol(0)], Vec::new(), symbol(1)),
        format!("    api        || var_1 = {expected} ((var_0,), {{}})")
    );
}

#[test]
fn a_function_without_a_module_prints_its_name() {
    let callee = Python::attach(|py| Callee::Api(object(py, "function(None, 'add')")));
    assert_eq!(
        line(callee, Vec::new(), Vec::new(), symbol(1)),
        "    api        || var_1 = add ((), {})"
    );
}

#[test]
fn an_attribute_prints_its_name() {
    assert_eq!(
        line(
            Callee::Attribute("T".into()),
            vec![symbol(0)],
            Vec::new(),
            symbol(1)
        ),
        "    attribute  || var_1 = T ((var_0,), {})"
    );
}

#[test]
fn nested_graphs_print_below_what_uses_them() {
    let block = |name: &str| {
        Arc::new(StatementIr {
            name: name.into(),
            ..StatementIr::default()
        })
    };
    let nested = Region::If {
        then: block("SIR_8"),
        otherwise: block("SIR_9"),
    };
    let mut made = statement(Callee::Sir(Arc::new(nested)), vec![symbol(0)], symbol(1));
    made.kwargs.clear();
    let sir = StatementIr {
        name: "SIR_7".into(),
        statements: vec![made],
        symbols: vec![tensor(), tensor()],
        ..StatementIr::default()
    };
    assert_eq!(
        sir.to_string(),
        "StatementIR: SIR_7
  inputs: []
  outputs: []
  statements:
    sir        || var_1 = cond ((var_0,), {})
      then: StatementIR: SIR_8
        inputs: []
        outputs: []
        statements:
      else: StatementIR: SIR_9
        inputs: []
        outputs: []
        statements:"
    );
}

/// Builds an argument.
type MakeArg = fn(Python<'_>) -> Arg;

#[rstest]
#[case::number(|py: Python<'_>| constant(py, "1.0"), "1.0")]
#[case::text(|py: Python<'_>| constant(py, "'it\\'s'"), "\"it's\"")]
#[case::none(|py: Python<'_>| constant(py, "None"), "None")]
#[case::without_a_repr(|py: Python<'_>| constant(py, "Unprintable()"), "a Unprintable")]
#[case::symbol(|_: Python<'_>| symbol(2), "var_2")]
#[case::list(|py: Python<'_>| Arg::List(vec![symbol(0), constant(py, "2")]), "[var_0, 2]")]
#[case::list_of_one(|_: Python<'_>| Arg::List(vec![symbol(0)]), "[var_0]")]
#[case::empty_list(|_: Python<'_>| Arg::List(Vec::new()), "[]")]
#[case::tuple_of_one(|_: Python<'_>| Arg::Tuple(vec![symbol(0)]), "(var_0,)")]
#[case::empty_tuple(|_: Python<'_>| Arg::Tuple(Vec::new()), "()")]
#[case::nested(|_: Python<'_>| Arg::Tuple(vec![Arg::List(vec![symbol(0)]), symbol(2)]), "([var_0], var_2)")]
#[case::named_tuple(|py: Python<'_>| Arg::NamedTuple(object(py, "Point"), vec![symbol(0), symbol(2)]), "Point(var_0, var_2)")]
#[case::dict(
    |py: Python<'_>| Arg::Dict(vec![(object(py, "'a'"), symbol(0)), (object(py, "3"), symbol(2))]),
    "{'a': var_0, 3: var_2}"
)]
#[case::slice(
    |py: Python<'_>| Arg::Slice(Box::new([constant(py, "None"), symbol(0), constant(py, "2")])),
    "slice(None, var_0, 2)"
)]
fn arguments_print_as_python(#[case] make: MakeArg, #[case] expected: &str) {
    let arg = Python::attach(make);
    let callee = || Callee::Method("m".into());
    assert_eq!(
        line(callee(), vec![arg.clone()], Vec::new(), symbol(1)),
        format!("    method     || var_1 = m (({expected},), {{}})")
    );
    assert_eq!(
        line(
            callee(),
            Vec::new(),
            vec![("by".into(), arg.clone()), ("to".into(), symbol(0))],
            symbol(1)
        ),
        format!("    method     || var_1 = m ((), {{'by': {expected}, 'to': var_0}})")
    );
    assert_eq!(
        line(callee(), Vec::new(), Vec::new(), arg),
        format!("    method     || {expected} = m ((), {{}})")
    );
}
