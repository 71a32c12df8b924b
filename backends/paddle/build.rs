//! Compiles the one piece of C++: Rust cannot catch its exceptions.

fn main() {
    println!("cargo:rerun-if-changed=src/foreign.cpp");
    cc::Build::new()
        .cpp(true)
        .file("src/foreign.cpp")
        .compile("paddle_sot_foreign");
}
