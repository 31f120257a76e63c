//! The codec of messages, driven by the Python that makes its plans: the same target that Python's own fuzzer runs, here
//! guided by what the kernel does.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::OnceLock;

static CHECK: OnceLock<Py<PyAny>> = OnceLock::new();

/// Starts an interpreter in which this kernel is `ottla.native._kernel`.
pub fn start() {
    Python::initialize();
    Python::attach(|py| load(py).map_err(|error| error.display(py)).unwrap());
}

fn load(py: Python<'_>) -> PyResult<()> {
    let kernel = pyo3::wrap_pymodule!(crate::_kernel)(py);
    let modules = py.import("sys")?.getattr("modules")?;
    modules.set_item("ottla.native._kernel", kernel)?;
    let check = py
        .import("tests.fuzz.targets.messages")?
        .getattr("check")?
        .unbind();
    CHECK.get_or_init(|| check);
    Ok(())
}

/// See `tests/fuzz/targets/messages.py`.
pub fn check(data: &[u8]) {
    Python::attach(|py| {
        let check = CHECK.get().expect("started").bind(py);
        if let Err(error) = check.call1((PyBytes::new(py, data),)) {
            error.display(py);
            panic!("a message broke a promise");
        }
    });
}
