//! Taking a graph apart where a result is computed from another one.

use std::sync::Arc;

use paddle_sot::graph::{
    Arg, Callee, DType, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta,
};
use paddle_sot::obj::Obj;
use paddle_sot::reason::SourceLoc;
use pyo3::prelude::*;
use rstest::rstest;

fn tensor(stop_gradient: bool) -> SymbolKind {
    SymbolKind::Tensor(TensorMeta {
        shape: [2, 3].into_iter().collect(),
        dtype: DType::Float32,
        stop_gradient,
    })
}

/// One statement a word: `c=tanh(a)`, symbols are letters from `a`. Those in capitals need no gradient.
fn graph(py: Python<'_>, text: &str, outputs: &str) -> StatementIr {
    let id = |letter: char| SymbolId(letter.to_ascii_lowercase() as u32 - 'a' as u32);
    let mut symbols = vec![tensor(false); 26];
    for letter in text.chars().filter(char::is_ascii_uppercase) {
        symbols[id(letter).0 as usize] = tensor(true);
    }
    let statements = text.split_whitespace().map(|word| {
        let (made, call) = word.split_once('=').unwrap();
        let (name, args) = call.trim_end_matches(')').split_once('(').unwrap();
        Statement {
            callee: Callee::Method(Arc::from(name)),
            args: args.chars().map(|letter| Arg::Symbol(id(letter))).collect(),
            kwargs: Vec::new(),
            output: match made.chars().next() {
                Some(letter) => Arg::Symbol(id(letter)),
                None => Arg::Const(Obj::from(py.None().into_bound(py))),
            },
            grad_enabled: true,
            loc: SourceLoc::default(),
        }
    });
    StatementIr {
        name: "SIR_0".into(),
        inputs: vec![id('a'), id('b')],
        outputs: outputs.chars().map(id).collect(),
        statements: statements.collect(),
        symbols,
    }
}

/// The parts: names of their statements, and their outputs.
fn parts(text: &str, outputs: &str) -> Option<Vec<String>> {
    Python::initialize();
    Python::attach(|py| {
        let letter = |id: &SymbolId| char::from(b'a' + id.0 as u8);
        let parts = graph(py, text, outputs).parts(py)?;
        let shown = parts.into_iter().map(|part| {
            let names = part.sir.statements.iter().map(|it| match &it.callee {
                Callee::Method(name) => name.to_string(),
                other => format!("{other:?}"),
            });
            let names: Vec<String> = names.collect();
            let list = |ids: &[SymbolId]| ids.iter().map(letter).collect::<String>();
            format!(
                "{} {} {}",
                list(&part.inputs),
                names.join(","),
                list(&part.outputs)
            )
        });
        Some(shown.collect())
    })
}

#[rstest]
#[case::one("c=tanh(a) d=exp(c)", "d", None)]
#[case::side_by_side("c=tanh(a) d=exp(c) e=sin(c)", "de", None)]
#[case::no_gradient("c=tanh(a) D=argmax(c)", "cd", None)]
#[case::an_input_leaves("c=tanh(a) d=exp(c)", "acd", None)]
#[case::writes("c=tanh(a) d=add_(cb)", "cd", None)]
#[case::two("c=tanh(a) d=exp(c)", "cd", Some(vec!["a tanh c", "c exp d"]))]
#[case::three("c=tanh(a) d=exp(c) e=sin(d)", "cde", Some(vec!["a tanh c", "c exp d", "d sin e"]))]
// What only the later part uses belongs there.
#[case::moved("c=tanh(a) e=sin(b) d=mul(ce)", "cd", Some(vec!["a tanh c", "bc sin,mul d"]))]
// What both use goes from one to the other.
#[case::crosses("e=sin(b) c=mul(ae) d=mul(ce)", "cd", Some(vec!["ba sin,mul ce", "ce mul d"]))]
// Random numbers and text stay in order.
#[case::draws("c=tanh(a) d=dropout(c) e=dropout(b)", "cde", Some(vec!["a tanh c", "cb dropout,dropout de"]))]
#[case::speaks("c=tanh(a) =show(c) d=exp(c) =show(d) e=uniform(b)", "cde",
    Some(vec!["a tanh,show c", "cb exp,show,uniform de"]))]
// A statement that answers with its argument makes nothing.
#[case::existing("c=tanh(a) c=identity(c) d=exp(c)", "cd", Some(vec!["a tanh c", "c identity,exp d"]))]
fn a_graph_is_taken_apart(
    #[case] text: &str,
    #[case] outputs: &str,
    #[case] expected: Option<Vec<&str>>,
) {
    let found = parts(text, outputs);
    let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(found, expected);
}
