//! Tells the engine which CPython it is compiled for (`cfg(Py_3_12)`, ...).

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
