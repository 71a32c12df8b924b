//! Byte code: what is decoded assembles to the same, and what is built runs.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use paddle_sot::bytecode::{
    BytecodeError, Code, CodeBuilder, ExceptionEntry, Instr, Loc, ResumeSpec, StackDepths,
    build_resume, live_locals,
};
use paddle_sot::frame::Modules;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use rstest::rstest;

const STDLIB: &str = include_str!("bytecode/stdlib.py");
const BEHAVIOUR: &str = include_str!("bytecode/behaviour.py");

/// `CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR`
const SUSPENDS: u32 = 0x20 | 0x80 | 0x200;
/// `CO_OPTIMIZED`: functions, not bodies of modules and classes.
const FUNCTION: u32 = 0x1;

fn error(err: BytecodeError) -> PyErr {
    PyValueError::new_err(err.to_string())
}

#[pyfunction]
fn round_trip<'py>(py: Python<'py>, code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyCode>> {
    Code::from_py(py, code)
        .map_err(error)?
        .to_py(py)
        .map_err(error)
}

/// Whether nothing leads to some of its instructions.
#[pyfunction]
fn has_dead_code(py: Python<'_>, code: &Bound<'_, PyCode>) -> PyResult<bool> {
    let code = Code::from_py(py, code).map_err(error)?;
    let depths = StackDepths::of(py, &code).map_err(error)?;
    Ok(depths.before.contains(&None))
}

/// Resumes a function at every instruction it can reach; answers what is wrong.
#[pyfunction]
fn resume_everywhere(py: Python<'_>, code: &Bound<'_, PyCode>) -> PyResult<Option<String>> {
    let limit: u32 = code.getattr("co_stacksize")?.extract()?;
    let code = Arc::new(Code::from_py(py, code).map_err(error)?);
    if code.flags & FUNCTION == 0 || code.flags & SUSPENDS != 0 || code.instructions.len() > 60 {
        return Ok(None);
    }
    let depths = StackDepths::of(py, &code).map_err(error)?;
    for (at, depth) in depths.before.iter().enumerate() {
        let Some(depth) = depth else { continue };
        let spec = ResumeSpec {
            at,
            nulls: vec![false; *depth as usize],
            live: live_locals(&code, at),
            native: false,
        };
        let (resumed, _) = build_resume(py, &code, &spec).map_err(error)?;
        let made = resumed.to_py(py).map_err(error)?;
        let size: u32 = made.getattr("co_stacksize")?.extract()?;
        // Passing a cell takes one.
        if size > limit.max(1) {
            return Ok(Some(format!("at {at}: stack of {size}, not {limit}")));
        }
    }
    Ok(None)
}

fn module<'py>(py: Python<'py>, source: &str) -> Bound<'py, PyModule> {
    let source = std::ffi::CString::new(source).unwrap();
    PyModule::from_code(py, &source, c"case.py", c"case").unwrap()
}

fn code_of<'py>(py: Python<'py>, source: &str) -> Code {
    let function = module(py, source).getattr("f").unwrap();
    let code = function.getattr("__code__").unwrap();
    Code::from_py(py, code.cast::<PyCode>().unwrap()).unwrap()
}

fn all_right((count, wrong): (usize, Vec<Py<PyAny>>), py: Python<'_>, at_least: usize) {
    let shown = wrong.iter().take(20);
    let shown: Vec<String> = shown.map(|case| case.bind(py).to_string()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        shown.join("\n")
    );
    assert!(count >= at_least, "only {count}");
}

#[test]
fn the_standard_library_survives_a_round_trip() {
    Python::attach(|py| {
        let stdlib = module(py, STDLIB);
        stdlib
            .add_function(wrap_pyfunction!(round_trip, py).unwrap())
            .unwrap();
        stdlib
            .add_function(wrap_pyfunction!(has_dead_code, py).unwrap())
            .unwrap();
        let examine = py
            .eval(
                c"lambda c: differences(c, round_trip(c), has_dead_code(c))",
                Some(&stdlib.dict()),
                None,
            )
            .unwrap();
        let answer = stdlib.getattr("check").unwrap().call1((examine,));
        all_right(answer.unwrap().extract().unwrap(), py, 5_000);
    });
}

#[test]
fn resume_functions_of_the_standard_library_assemble_and_need_no_more_stack() {
    Python::attach(|py| {
        let stdlib = module(py, STDLIB);
        let examine = wrap_pyfunction!(resume_everywhere, py).unwrap();
        let answer = stdlib.getattr("check").unwrap().call1((examine, "[a-f]"));
        all_right(answer.unwrap().extract().unwrap(), py, 2_000);
    });
}

#[test]
fn assembled_functions_behave_like_the_originals() {
    Python::attach(|py| {
        let behaviour = module(py, BEHAVIOUR);
        let function = wrap_pyfunction!(round_trip, py).unwrap();
        let answer = behaviour.getattr("check").unwrap().call1((function,));
        all_right(answer.unwrap().extract().unwrap(), py, 60);
    });
}

#[rstest]
#[case::nothing(Loc::default())]
#[case::a_line(Loc::line_only(7))]
#[case::lines_without_columns(Loc { end_line: Some(12), ..Loc::line_only(7) })]
#[case::columns(Loc { col: Some(0), end_col: Some(300), ..Loc::line_only(7) })]
#[case::lines_and_columns(Loc { line: Some(3), end_line: Some(5), col: Some(9), end_col: Some(1) })]
#[case::one_column(Loc { col: Some(4), ..Loc::line_only(7) })]
#[case::before_the_first_line(Loc { end_line: Some(1_000_000), ..Loc::line_only(1) })]
fn locations_survive(#[case] loc: Loc) {
    Python::attach(|py| {
        let mut code = code_of(py, "\n\ndef f(x):\n    return x\n");
        for instruction in &mut code.instructions {
            instruction.loc = loc;
        }
        let made = code.to_py(py).unwrap();
        let again = Code::from_py(py, &made).unwrap();
        assert!(again.instructions.iter().all(|i| i.loc == loc));
        let list = py
            .module("builtins")
            .unwrap()
            .getattr("list")
            .unwrap()
            .call1((made.call_method0("co_positions").unwrap(),));
        type Position = (Option<u32>, Option<u32>, Option<u32>, Option<u32>);
        let positions: Vec<Position> = list.unwrap().extract().unwrap();
        let expected = (loc.line, loc.end_line, loc.col, loc.end_col);
        assert!(positions.iter().all(|position| *position == expected));
    });
}

/// The deepest point of each is written out; the interpreter's own versions differ by nothing else.
#[rstest]
#[case::an_argument("def f(x):\n    return x", 1)]
#[case::a_binary_operation("def f(x):\n    return x + x", 2)]
#[case::operands_wait("def f(x):\n    return x + (x + (x + (x + x)))", 5)]
#[case::a_tuple_of_twenty("def f(x):\n    return (x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x)", 20)]
#[case::a_loop_keeps_its_iterator("def f(x):\n    for y in x:\n        y\n", 2)]
fn the_stack_size_is_what_the_deepest_path_needs(#[case] source: &str, #[case] size: u32) {
    Python::attach(|py| {
        let code = code_of(py, source);
        assert_eq!(StackDepths::of(py, &code).unwrap().max, size);
    });
}

fn builder<'py>(py: Python<'py>) -> CodeBuilder {
    let like = code_of(py, "def f(x):\n    return x\n");
    CodeBuilder::new(py, &like, vec![Arc::from("x")]).unwrap()
}

#[test]
fn built_code_gets_the_stack_it_needs() {
    Python::attach(|py| {
        let mut b = builder(py);
        (0..100).for_each(|_| b.load(0).unwrap());
        b.op("BUILD_TUPLE", 100).unwrap();
        b.op("RETURN_VALUE", 0).unwrap();
        let made = b.code.to_py(py).unwrap();
        let size: u32 = made.getattr("co_stacksize").unwrap().extract().unwrap();
        assert_eq!(size, 100);
    });
}

#[test]
fn a_handler_counts_with_what_it_is_given() {
    Python::attach(|py| {
        let mut b = builder(py);
        let start = b.here();
        b.load(0).unwrap();
        b.op("RETURN_VALUE", 0).unwrap();
        let target = b.here();
        b.op("PUSH_EXC_INFO", 0).unwrap();
        b.load(0).unwrap();
        b.op("RETURN_VALUE", 0).unwrap();
        b.code.exception_table.push(ExceptionEntry {
            start,
            end: target,
            target,
            depth: 0,
            lasti: true,
        });
        // The position, the exception, the one it replaces, and the argument.
        assert_eq!(StackDepths::of(py, &b.code).unwrap().max, 4);
    });
}

/// What cannot run is refused; the interpreter would not notice.
#[rstest]
#[case::pops_too_much(&[("POP_TOP", 0), ("LOAD_FAST", 0), ("RETURN_VALUE", 0)], "below its bottom")]
#[case::runs_off_the_end(&[("LOAD_FAST", 0)], "off the end")]
fn code_that_would_corrupt_the_stack_is_refused(
    #[case] instructions: &[(&str, u32)],
    #[case] message: &str,
) {
    Python::attach(|py| {
        let mut b = builder(py);
        for (name, arg) in instructions {
            b.op(name, *arg).unwrap();
        }
        let err = b.code.to_py(py).unwrap_err().to_string();
        assert!(err.contains(message), "{err}");
    });
}

#[test]
fn paths_that_meet_at_different_depths_are_refused() {
    Python::attach(|py| {
        let mut b = builder(py);
        let start = b.here();
        b.load(0).unwrap();
        let back = b.op("JUMP_BACKWARD", 0).unwrap();
        b.patch(back, start).unwrap();
        let err = b.code.to_py(py).unwrap_err().to_string();
        assert!(err.contains("different stack depths"), "{err}");
    });
}

#[test]
fn a_jump_that_goes_the_wrong_way_is_refused() {
    Python::attach(|py| {
        let mut b = builder(py);
        let start = b.here();
        let jump = b.op("JUMP_FORWARD", 0).unwrap();
        b.code.instructions[jump].instr = Instr::Jump { target: start };
        let err = b.code.to_py(py).unwrap_err().to_string();
        assert!(err.contains("wrong way"), "{err}");
    });
}

#[test]
fn handlers_whose_ranges_overlap_are_refused() {
    Python::attach(|py| {
        let mut code = code_of(py, "def f(x):\n    with x:\n        return x\n");
        let first = code.exception_table[0];
        code.exception_table.insert(0, first);
        let err = code.to_py(py).unwrap_err().to_string();
        assert!(err.contains("overlap"), "{err}");
    });
}
