//! `uuid.UUID` to sixteen bytes and back, past its slow constructor.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::slot::{Slot, allocate};

/// What is needed of the class: its slots and the value of the one that says nothing.
struct UuidClass {
    class: Py<PyType>,
    int: Slot,
    is_safe: Slot,
    unknown_safety: Py<PyAny>,
}

static UUID_CLASS: PyOnceLock<UuidClass> = PyOnceLock::new();

impl UuidClass {
    fn get(py: Python<'_>) -> PyResult<&UuidClass> {
        UUID_CLASS.get_or_try_init(py, || {
            let module = py.import("uuid")?;
            let class = module.getattr("UUID")?.cast_into::<PyType>()?;
            Ok(Self {
                int: Slot::new(&class, "int")?,
                is_safe: Slot::new(&class, "is_safe")?,
                unknown_safety: module.getattr("SafeUUID")?.getattr("unknown")?.unbind(),
                class: class.unbind(),
            })
        })
    }
}

/// The UUID of sixteen bytes.
pub(super) fn from_bytes<'py>(py: Python<'py>, bytes: [u8; 16]) -> PyResult<Bound<'py, PyAny>> {
    let class = UuidClass::get(py)?;
    let instance = allocate(class.class.bind(py))?;
    class.int.set(
        &instance,
        u128::from_be_bytes(bytes).into_pyobject(py)?.as_any(),
    )?;
    class
        .is_safe
        .set(&instance, class.unknown_safety.bind(py))?;
    Ok(instance)
}

/// The sixteen bytes of a UUID. Raises TypeError when it is something else.
pub(super) fn to_bytes(value: &Bound<'_, PyAny>) -> PyResult<[u8; 16]> {
    let py = value.py();
    let int = UuidClass::get(py)?.int.get(value)?;
    // SAFETY: `int` is a live object; both functions return all ones with an error set when it is no integer.
    unsafe {
        let low = ffi::PyLong_AsUnsignedLongLongMask(int.as_ptr());
        let shift = 64_i32.into_pyobject(py)?;
        let high =
            Bound::from_owned_ptr_or_err(py, ffi::PyNumber_Rshift(int.as_ptr(), shift.as_ptr()))?;
        let high = ffi::PyLong_AsUnsignedLongLong(high.as_ptr());
        if (low == u64::MAX || high == u64::MAX)
            && let Some(error) = PyErr::take(py)
        {
            return Err(error);
        }
        Ok((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }
}
