//! The crates of the engine, and their folders: what stands later in a list may use what stands
//! before it.

use std::path::{Path, PathBuf};

const CRATES: &[&str] = &[
    "cpython",
    "ops",
    "ir",
    "backend",
    "reason",
    "guard",
    "simulator",
    "engine",
];

const LAYERS: &[&str] = &["codegen", "translate"];

fn crate_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(std::fs::read_to_string(&path).expect("the file can be read"));
        }
    }
}

#[test]
fn arrows_between_crates_go_one_way() {
    for (at, name) in CRATES.iter().enumerate() {
        let manifest = std::fs::read_to_string(crate_folder(name).join("Cargo.toml"))
            .expect("the manifest can be read");
        for later in &CRATES[at + 1..] {
            let package = match *later {
                "engine" => "paddle-sot.workspace".to_owned(),
                later => format!("paddle-sot-{later}.workspace"),
            };
            assert!(!manifest.contains(&package), "{name} uses {later}");
        }
    }
}

#[test]
fn arrows_between_folders_go_one_way() {
    let engine = crate_folder("engine");
    for (at, layer) in LAYERS.iter().enumerate() {
        let mut texts = Vec::new();
        sources(&engine.join(layer), &mut texts);
        assert!(!texts.is_empty(), "{layer} has no file");
        for later in &LAYERS[at + 1..] {
            let arrow = format!("crate::{later}::");
            let backward = texts.iter().filter(|text| text.contains(&arrow)).count();
            assert_eq!(backward, 0, "{backward} files of {layer} use {later}");
        }
    }
}

/// Trackers are what guards are made of: of their crate they use other crates and themselves.
#[test]
fn trackers_know_no_guard() {
    let mut texts = Vec::new();
    sources(&crate_folder("guard").join("tracker"), &mut texts);
    assert!(!texts.is_empty(), "tracker has no file");
    for text in texts {
        for (at, _) in text.match_indices("crate::") {
            let used = text[at + "crate::".len()..].split([':', ';', '{']).next();
            let known = ["bytecode", "frame", "native", "obj", "ops", "tracker"];
            assert!(used.is_some_and(|used| known.contains(&used)), "{used:?}");
        }
    }
}

#[test]
fn every_folder_is_a_layer() {
    let folders = std::fs::read_dir(crate_folder("engine")).expect("the folder can be read");
    for entry in folders {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_layer = name.is_some_and(|name| LAYERS.contains(&name));
        let mut texts = Vec::new();
        if path.is_dir() {
            sources(&path, &mut texts);
        }
        assert!(texts.is_empty() || is_layer, "{name:?} is not in the list");
    }
}

#[test]
fn every_crate_is_in_the_list() {
    for entry in std::fs::read_dir(crate_folder(".")).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_known = name.is_some_and(|name| CRATES.contains(&name));
        assert!(is_known || !path.is_dir(), "{name:?} is not in the list");
    }
}

/// The arms of a `match` stand one under the other: rustfmt says so.
fn wildcards_beside_kinds(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // The `match` blocks around a line: how far their arms are indented, and whether one is a kind.
    let mut around: Vec<(usize, bool)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.is_empty() || code.starts_with("//") {
            continue;
        }
        while around.last().is_some_and(|(arms, _)| indent < *arms) {
            around.pop();
        }
        if let Some((arms, of_kinds)) = around.last_mut() {
            if indent == *arms {
                *of_kinds |= code.starts_with("Kind::") || code.starts_with("| Kind::");
                if *of_kinds && (code.starts_with("_ =>") || code.starts_with("_ if ")) {
                    found.push(at + 1);
                }
            }
        }
        if code.contains("match ") && code.ends_with('{') {
            around.push((indent + 4, false));
        }
    }
    found
}

#[test]
fn a_match_on_kinds_has_no_wildcard() {
    let mut texts = Vec::new();
    for name in ["reason", "guard", "simulator", "engine"] {
        sources(&crate_folder(name), &mut texts);
    }
    for text in texts {
        let found = wildcards_beside_kinds(&text);
        assert!(found.is_empty(), "lines {found:?} of:\n{text}");
    }
    let example = "match kind {\n    Kind::Null => 1,\n    _ => 2,\n}\n";
    assert_eq!(wildcards_beside_kinds(example), [3]);
}

/// What is of a thread is indented, in `thread_local!`.
fn statics(text: &str) -> usize {
    let is_static = |line: &str| {
        line.trim_start_matches("pub(crate) ")
            .starts_with("static ")
    };
    text.lines().filter(|line| is_static(line)).count()
}

#[test]
fn statics_of_the_paddle_backend_are_one_runtime() {
    let backend = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../backends/paddle/src");
    let mut texts = Vec::new();
    sources(&backend, &mut texts);
    let found: usize = texts.iter().map(|text| statics(text)).sum();
    assert_eq!(found, 1);
    assert_eq!(
        statics("static A: u8 = 0;\npub(crate) static B: u8 = 0;\n    static C: u8 = 0;\n"),
        2
    );
}

fn fullest(folder: &Path, most: usize, found: &mut Vec<String>) {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            fullest(&path, most, found);
        } else if matches!(ending, Some("rs" | "py")) {
            files += 1;
        }
    }
    if files > most {
        found.push(format!("{}: {files}", folder.display()));
    }
}

#[test]
fn a_folder_has_no_more_than_25_files() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["src", "backends", "python", "tests"] {
        fullest(&tree.join(folder), 25, &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
}

/// Families of the simulator that ask each other: a call runs an operator, which runs a method,
/// which is a call. What runs instructions asks them, and is asked by none.
const FAMILIES: &[&str] = &[
    "autograd",
    "builtins",
    "call",
    "scalars",
    "semantics",
    "tensor",
    "tracer",
    "variables",
];

#[test]
fn instructions_are_run_by_the_executor_alone() {
    let simulator = crate_folder("simulator");
    for family in FAMILIES {
        let mut texts = Vec::new();
        sources(&simulator.join(family), &mut texts);
        assert!(!texts.is_empty(), "{family} has no file");
        let asks = texts.iter().filter(|text| text.contains("dispatch::"));
        assert_eq!(asks.count(), 0, "{family} runs instructions");
    }
}
