//! Taking a graph apart, by the results whose gradients flow to a statement.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use paddle_sot::graph::{
    Arg, Callee, DType, Parted, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta,
};
use paddle_sot::obj::Obj;
use paddle_sot::reason::SourceLoc;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use rstest::rstest;

fn tensor(stop_gradient: bool) -> SymbolKind {
    SymbolKind::Tensor(TensorMeta {
        shape: [2, 3].into_iter().collect(),
        dtype: DType::Float32,
        stop_gradient,
    })
}

/// One statement a word: `c=tanh(a)`, `cd=split(a)`, symbols are letters from `a`. Those in
/// capitals need no gradient, `!` is `True`.
fn graph(py: Python<'_>, text: &str, outputs: &str) -> StatementIr {
    let id = |letter: char| SymbolId(letter.to_ascii_lowercase() as u32 - 'a' as u32);
    let mut symbols = vec![tensor(false); 26];
    for letter in text.chars().filter(char::is_ascii_uppercase) {
        symbols[id(letter).0 as usize] = tensor(true);
    }
    let arg = |letter: char| match letter {
        '!' => Arg::Const(Obj::from(PyBool::new(py, true).to_owned().into_any())),
        letter => Arg::Symbol(id(letter)),
    };
    let statements = text.split_whitespace().map(|word| {
        let (made, call) = word.split_once('=').unwrap();
        let (name, args) = call.trim_end_matches(')').split_once('(').unwrap();
        Statement {
            callee: Callee::Method(Arc::from(name)),
            args: args.chars().map(arg).collect(),
            kwargs: Vec::new(),
            output: match made.len() {
                0 => Arg::Const(Obj::from(py.None().into_bound(py))),
                1 => made.chars().map(arg).next().unwrap(),
                _ => Arg::List(made.chars().map(arg).collect()),
            },
            grad_enabled: true,
            copies: false,
            draws: name == "dropout",
            computes_dims: false,
            alone: false,
            // What the call writes besides making its result: its last argument.
            updates: match name {
                "batch_norm" => args.chars().last().map(id).into_iter().collect(),
                _ => Vec::new(),
            },
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
        let Parted::Parts(parts) = graph(py, text, outputs).parts(py) else {
            return None;
        };
        let shown = parts.into_iter().map(|part| {
            let names = part.sir.statements.iter().map(|it| {
                if let Callee::Method(name) = &it.callee {
                    name.to_string()
                } else {
                    format!("{:?}", it.callee)
                }
            });
            let names: Vec<String> = names.collect();
            let list = |ids: &[SymbolId]| ids.iter().map(letter).collect::<String>();
            format!(
                "{}{} {} {}",
                if part.by_calls { "by calls: " } else { "" },
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
#[case::no_gradient("c=tanh(a) D=argmax(c)", "cd", None)]
#[case::an_input_leaves("c=tanh(a) d=exp(c)", "acd", None)]
#[case::writes("c=tanh(a) d=add_(cb)", "cd", None)]
#[case::together("c=tanh(a) d=mul(cc) d=identity(d)", "dd", None)]
#[case::one_of_the_other("c=tanh(a) d=exp(c)", "cd", Some(vec!["a tanh c", "c exp d"]))]
#[case::a_chain("c=tanh(a) d=exp(c) e=sin(d)", "cde", Some(vec!["a tanh c", "c exp d", "d sin e"]))]
#[case::side_by_side("c=tanh(a) d=exp(c) e=sin(c)", "de", Some(vec!["a tanh c", "c exp d", "c sin e"]))]
#[case::nothing_shared("c=tanh(a) d=exp(c) e=sin(b)", "de", Some(vec!["a tanh,exp d", "b sin e"]))]
#[case::of_both("c=tanh(a) d=exp(b) e=mul(cd)", "cde", Some(vec!["a tanh c", "b exp d", "cd mul e"]))]
// What only the later part uses belongs there, what both use goes from one to the other.
#[case::moved("c=tanh(a) E=sin(b) d=mul(ce)", "cd", Some(vec!["a tanh c", "bc sin,mul d"]))]
#[case::crosses("e=sin(b) c=mul(ae) d=mul(ce)", "cd", Some(vec!["ab sin,mul ce", "ce mul d"]))]
// Nothing flows through a mask, which is of a part that runs later.
#[case::a_mask("c=tanh(a) D=greater(c) e=mul(cd) f=sin(e)", "ef", Some(vec!["a tanh,greater,mul e", "e sin f"]))]
#[case::a_mask_of_the_other("c=tanh(a) D=greater(c) e=mul(bd)", "ce", Some(vec!["a tanh c", "bc greater,mul e"]))]
// Views of what comes in or goes out are made again, or by calls where gradients of several parts
// flow through them.
#[case::a_view("C=slice(b) d=mul(ac) e=sin(ac)", "de", Some(vec!["ab slice,mul d", "ab slice,sin e"]))]
#[case::a_view_of_a_view("C=slice(b) D=squeeze(c) e=mul(ad) f=sin(ac)", "ef",
    Some(vec!["ab slice,squeeze,mul e", "ab slice,sin f"]))]
#[case::a_view_of_a_result("c=tanh(a) D=detach(c) e=mul(bd) f=sin(bd)", "cef",
    Some(vec!["a tanh c", "bc detach,mul e", "bc detach,sin f"]))]
#[case::a_view_of_what_is_inside("c=tanh(a) d=exp(c) E=detach(c) f=mul(be)", "df",
    Some(vec!["a tanh,exp dc", "bc detach,mul f"]))]
#[case::a_view_between("c=slice(a) d=tanh(c) e=exp(c)", "de",
    Some(vec!["by calls: a slice c", "c tanh d", "c exp e"]))]
#[case::a_view_for_one("c=slice(a) d=tanh(c) e=exp(d)", "e", None)]
// Random numbers and text stay in order.
#[case::draws("c=tanh(a) d=dropout(c) e=dropout(b)", "cde", Some(vec!["a tanh c", "c dropout d", "b dropout e"]))]
#[case::draws_in_turns("c=dropout(a) d=dropout(b) e=dropout(c) f=dropout(d)", "ef",
    Some(vec!["a dropout c", "b dropout d", "c dropout e", "d dropout f"]))]
#[case::a_mask_of_what_comes_later("c=tanh(a) D=greater(c) e=mul(bd) f=mul(ec)", "ef",
    Some(vec!["a tanh c", "bc greater,mul e", "ce mul f"]))]
#[case::speaks("c=tanh(a) =show(c) d=exp(c) =show(d) e=uniform(b)", "cde",
    Some(vec!["a tanh,show c", "c exp,show d", "b uniform e"]))]
// What reads running statistics stays on its side of what updates them.
#[case::reads_before("D=scale(B) c=batch_norm(aB) e=exp(a) f=mul(ed)", "cf",
    Some(vec!["ab scale,batch_norm cd", "ad exp,mul f"]))]
#[case::reads_behind("e=exp(a) c=batch_norm(aB) D=scale(B)", "ecd",
    Some(vec!["a exp e", "ab batch_norm,scale cd"]))]
#[case::reads_in_between("c=batch_norm(aB) D=scale(B) e=batch_norm(aB) f=mul(ad)", "cef",
    Some(vec!["ab batch_norm,scale cd", "ab batch_norm e", "ad mul f"]))]
#[case::reads_a_view("D=slice(B) c=batch_norm(aB) E=scale(D) f=mul(ae) g=exp(a)", "gcf",
    Some(vec!["ab slice,batch_norm,scale ce", "ae mul f", "a exp g"]))]
#[case::updates_one_after_the_other("c=batch_norm(aB) e=mul(cB) f=batch_norm(cB) g=mul(fB)", "eg",
    Some(vec!["ab batch_norm c", "bc mul e", "bc batch_norm,mul g"]))]
// A statement that answers with its argument makes nothing.
#[case::existing("c=tanh(a) c=identity(c) d=exp(c)", "cd", Some(vec!["a tanh,identity c", "c exp d"]))]
// Gradients of selected rows are not those of a program.
#[case::sparse("c=embedding(ab!) d=tanh(c) e=exp(d)", "e", Some(vec!["by calls: ab embedding c", "c tanh,exp e"]))]
#[case::dense("c=embedding(ab) d=tanh(c) e=exp(d)", "e", None)]
#[case::several_sparse("c=embedding(ab!) d=tanh(c) e=embedding(ab!) f=mul(de)", "f",
    Some(vec!["by calls: ab embedding,embedding ce", "ce tanh,mul f"]))]
#[case::sparse_of_what_is_computed("C=cast(a) d=embedding(cb!) e=tanh(d)", "e",
    Some(vec!["by calls: ab cast,embedding d", "d tanh e"]))]
#[case::sparse_in_turns("c=tanh(a) D=argmax(c) e=embedding(db!) f=mul(ce)", "f",
    Some(vec!["a tanh c", "by calls: bc argmax,embedding e", "ce mul f"]))]
#[case::only_sparse("c=embedding(ab!)", "c", Some(vec!["by calls: ab embedding c"]))]
#[case::sparse_for_two("c=embedding(ab!) d=tanh(c) e=exp(c)", "de",
    Some(vec!["by calls: ab embedding c", "c tanh d", "c exp e"]))]
// Calls with several results that gradients come to apart.
#[case::pieces_leave("cd=split(a) e=exp(c)", "cde", Some(vec!["by calls: a split cd", "c exp e"]))]
#[case::pieces_of_what_is_made("c=tanh(a) de=chunk(c)", "de", Some(vec!["a tanh c", "by calls: c chunk de"]))]
#[case::pieces_inside("cd=split(a) e=exp(c) f=sin(d)", "ef", Some(vec!["a split cd", "c exp e", "d sin f"]))]
#[case::apart_inside("cd=frexp(a) e=exp(c) f=sin(d)", "ef",
    Some(vec!["by calls: a frexp cd", "c exp e", "d sin f"]))]
#[case::together_inside("cd=frexp(a) e=mul(cd)", "e", None)]
#[case::one_is_not_used("cd=frexp(a) e=exp(c) f=sin(c)", "ef", Some(vec!["a frexp c", "c exp e", "c sin f"]))]
#[case::all_or_nothing("cd=qr(a)", "cd", None)]
#[case::sparse_without_gradients("C=embedding(ab!) d=tanh(a) e=mul(cd)", "e", None)]
fn a_graph_is_taken_apart(
    #[case] text: &str,
    #[case] outputs: &str,
    #[case] expected: Option<Vec<&str>>,
) {
    let found = parts(text, outputs);
    let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(found, expected);
}
