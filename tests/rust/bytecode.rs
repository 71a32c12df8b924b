//! Byte code: what is decoded assembles to the same, and what is built runs.

use paddle_sot::bytecode::Code;
use pyo3::prelude::*;
use pyo3::types::PyCode;

/// Every code object of every file of the standard library, in a Python loop around our round trip.
const STDLIB: &str = r#"
import os, sysconfig, types, warnings
warnings.simplefilter("ignore")

FIELDS = ("co_code co_consts co_names co_varnames co_cellvars co_freevars co_exceptiontable co_flags co_argcount "
          "co_posonlyargcount co_kwonlyargcount co_nlocals co_filename co_name co_qualname co_firstlineno").split()

def codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes(const)

def files():
    root = sysconfig.get_path("stdlib")
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if n not in ("site-packages", "lib2to3", "__pycache__")]
        yield from (os.path.join(folder, f) for f in files if f.endswith(".py"))

def check(round_trip):
    count, wrong = 0, []
    for path in files():
        try:
            with open(path, "rb") as f:
                top = compile(f.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        for code in codes(top):
            count += 1
            try:
                back = round_trip(code)
            except Exception as e:
                wrong.append((path, code.co_qualname, repr(e)))
                continue
            bad = [f for f in FIELDS if getattr(code, f) != getattr(back, f)]
            if list(code.co_positions()) != list(back.co_positions()):
                bad.append("co_positions")
            if code.co_stacksize > back.co_stacksize:
                bad.append("co_stacksize")
            if bad:
                wrong.append((path, code.co_qualname, bad))
    return count, wrong
"#;

#[pyfunction]
fn round_trip<'py>(py: Python<'py>, code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyCode>> {
    let error = |err: paddle_sot::bytecode::BytecodeError| {
        pyo3::exceptions::PyValueError::new_err(err.to_string())
    };
    Code::from_py(py, code)
        .map_err(error)?
        .to_py(py)
        .map_err(error)
}

fn module<'py>(py: Python<'py>, source: &str) -> Bound<'py, PyModule> {
    let source = std::ffi::CString::new(source).unwrap();
    PyModule::from_code(py, &source, c"case.py", c"case").unwrap()
}

#[test]
fn the_standard_library_survives_a_round_trip() {
    Python::attach(|py| {
        let check = module(py, STDLIB).getattr("check").unwrap();
        let function = wrap_pyfunction!(round_trip, py).unwrap();
        let (count, wrong): (usize, Vec<Py<PyAny>>) =
            check.call1((function,)).unwrap().extract().unwrap();
        let shown: Vec<String> = wrong
            .iter()
            .take(20)
            .map(|case| case.bind(py).to_string())
            .collect();
        assert!(
            wrong.is_empty(),
            "{} of {count} differ:\n{}",
            wrong.len(),
            shown.join("\n")
        );
        assert!(count > 10_000, "only {count} code objects found");
    });
}
