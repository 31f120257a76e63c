//! The codec of messages, driven by the Python that makes its plans: targets that are written in Python, here guided by
//! what the kernel does.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::OnceLock;

static CHECK: OnceLock<Py<PyAny>> = OnceLock::new();

/// The targets: each is a module of `tests.fuzz.targets`.
pub const NAMES: [&str; 3] = ["messages", "single_fetch", "single_produce"];

/// Starts an interpreter in which this kernel is `ottla.native._kernel`, with the target of that name.
pub fn start(name: &str) {
    Python::initialize();
    Python::attach(|py| load(py, name).map_err(|error| error.display(py)).unwrap());
}

fn load(py: Python<'_>, name: &str) -> PyResult<()> {
    let kernel = pyo3::wrap_pymodule!(crate::_kernel)(py);
    let modules = py.import("sys")?.getattr("modules")?;
    modules.set_item("ottla.native._kernel", kernel)?;
    let check = py
        .import(format!("tests.fuzz.targets.{name}"))?
        .getattr("check")?
        .unbind();
    CHECK.get_or_init(|| check);
    Ok(())
}

/// See the files in `tests/fuzz/targets`.
pub fn check(data: &[u8]) {
    Python::attach(|py| {
        let check = CHECK.get().expect("started").bind(py);
        if let Err(error) = check.call1((PyBytes::new(py, data),)) {
            error.display(py);
            panic!("a message broke a promise");
        }
    });
}
