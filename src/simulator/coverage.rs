//! What the simulator does with builtins and with the methods of builtin types, for the test that
//! walks them.

use super::call::registry;
use super::methods;
use super::variables::kinds::{RANGE, SLICE};
use crate::frame::BUILTINS;

/// Builtins that break the graph: name, why.
const BREAKS: &[(&str, &str)] = &[
    ("__build_class__", "a class is made by running its body"),
    (
        "__import__",
        "runs the import system; import statements of loaded modules are simulated",
    ),
    ("aiter", "asynchronous"),
    ("anext", "asynchronous"),
    ("breakpoint", "looks at the frame that calls it"),
    ("bytearray", "a mutable buffer that others may share"),
    ("classmethod", "makes a descriptor that outlives the frame"),
    ("compile", "runs the compiler"),
    ("dir", "looks at the frame that calls it, or runs __dir__"),
    ("eval", "looks at the frame that calls it"),
    ("exec", "looks at the frame that calls it"),
    (
        "globals",
        "answers with the dict itself, which anything may change",
    ),
    ("id", "addresses of objects that do not exist yet"),
    ("input", "input and output"),
    ("locals", "looks at the frame that calls it"),
    ("memoryview", "shares the memory of another object"),
    ("object", "identity is all that such an object has"),
    ("open", "input and output"),
    ("print", "input and output"),
    ("property", "makes a descriptor that outlives the frame"),
    ("staticmethod", "makes a descriptor that outlives the frame"),
    (
        "vars",
        "looks at the frame that calls it, or answers with a live dict",
    ),
];

const REFLECTED: &str = "called by name: the operator itself is simulated";
const ORDER: &str = "the order of the result depends on how the set came about";
const OPAQUE: &str = "objects of this type are not followed: every method runs natively";

/// Methods that break the graph: class (`*`: any), method (`*`: all), why.
const METHOD_BREAKS: &[(&str, &str, &str)] = &[
    ("*", "__class_getitem__", "makes a generic alias"),
    ("*", "__add__", REFLECTED),
    ("*", "__iadd__", REFLECTED),
    ("*", "__mul__", REFLECTED),
    ("*", "__rmul__", REFLECTED),
    ("*", "__imul__", REFLECTED),
    ("*", "__delitem__", REFLECTED),
    ("*", "__or__", REFLECTED),
    ("*", "__ror__", REFLECTED),
    ("*", "__ior__", REFLECTED),
    ("*", "__and__", REFLECTED),
    ("*", "__rand__", REFLECTED),
    ("*", "__iand__", REFLECTED),
    ("*", "__sub__", REFLECTED),
    ("*", "__rsub__", REFLECTED),
    ("*", "__isub__", REFLECTED),
    ("*", "__xor__", REFLECTED),
    ("*", "__rxor__", REFLECTED),
    ("*", "__ixor__", REFLECTED),
    (
        "*",
        "__reversed__",
        "called by name: reversed() is simulated",
    ),
    ("tuple", "__getnewargs__", "for pickling"),
    (
        "dict",
        "fromkeys",
        "a class method that user classes override",
    ),
    ("set", "difference_update", ORDER),
    ("set", "intersection_update", ORDER),
    ("set", "symmetric_difference_update", ORDER),
    ("*", "symmetric_difference", ORDER),
    ("*", "isdisjoint", "no row yet: nothing in its way"),
    ("set", "pop", ORDER),
    (
        RANGE,
        "*",
        "called by name: loops, len() and subscripts are simulated",
    ),
    (SLICE, "*", "attributes of a slice that the frame made"),
    ("bytearray", "*", OPAQUE),
    ("memoryview", "*", OPAQUE),
    ("object", "*", "inherited by every class: see attributes"),
];

/// Types whose values are constants: all of their methods are folded.
const FOLDED_TYPES: &[&str] = &["str", "int", "float", "bool", "complex", "bytes"];

/// Rows: owner (`builtins` or a class), name, what happens, why.
pub fn builtin_coverage() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let (simulated, folded) = registry::builtin_names();
    let breaks = |name: &str| BREAKS.iter().any(|row| row.0 == name);
    let mut rows = Vec::new();
    for name in simulated.into_iter().filter(|name| !breaks(name)) {
        rows.push((BUILTINS, name, "simulated", ""));
    }
    rows.extend(
        folded
            .iter()
            .map(|name| (BUILTINS, *name, "folded", "on constants")),
    );
    rows.extend(
        BREAKS
            .iter()
            .map(|(name, why)| (BUILTINS, *name, "breaks", *why)),
    );
    for (class, tables) in methods::BY_CLASS {
        let names = tables.iter().flat_map(|table| table.iter());
        rows.extend(names.map(|row| (*class, row.name, "simulated", "")));
    }
    rows.extend(
        FOLDED_TYPES
            .iter()
            .map(|class| (*class, "*", "folded", "on constants")),
    );
    rows.extend(
        METHOD_BREAKS
            .iter()
            .map(|(class, name, why)| (*class, *name, "breaks", *why)),
    );
    rows
}
