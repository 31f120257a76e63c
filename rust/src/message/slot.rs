//! The slots of Python classes, read and written past `__setattr__`.
//!
//! The messages are frozen: their `__setattr__` refuses, and their `__init__` would have to be called with names and
//! values. The descriptors behind `__slots__` set a field in nanoseconds, and check that the instance is of their class.

use std::ffi::c_int;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// One slot of a class: its member descriptor and the functions of the descriptor's type.
pub(super) struct Slot {
    descriptor: Py<PyAny>,
    get: ffi::descrgetfunc,
    set: ffi::descrsetfunc,
}

impl Slot {
    pub(super) fn new(class: &Bound<'_, PyType>, name: &str) -> PyResult<Self> {
        let descriptor = class.getattr(name)?;
        let kind = descriptor.get_type();
        if kind.qualname()? != "member_descriptor" {
            return Err(PyTypeError::new_err(format!(
                "{}.{name} is not a slot",
                class.qualname()?
            )));
        }
        let slot = |id: c_int| -> PyResult<*mut std::ffi::c_void> {
            // SAFETY: `kind` is a live type; the function returns null for what the type does not have.
            let function = unsafe { ffi::PyType_GetSlot(kind.as_type_ptr(), id) };
            if function.is_null() {
                return Err(PyTypeError::new_err(format!(
                    "{}.{name} cannot be set",
                    class.qualname()?
                )));
            }
            Ok(function)
        };
        let (get, set) = (slot(ffi::Py_tp_descr_get)?, slot(ffi::Py_tp_descr_set)?);
        // SAFETY: these two ids name functions of exactly these two signatures.
        let (get, set) = unsafe {
            (
                std::mem::transmute::<*mut std::ffi::c_void, ffi::descrgetfunc>(get),
                std::mem::transmute::<*mut std::ffi::c_void, ffi::descrsetfunc>(set),
            )
        };
        Ok(Self {
            descriptor: descriptor.unbind(),
            get,
            set,
        })
    }

    /// The value in the slot of `instance`. Raises TypeError when it is of another class.
    #[inline]
    pub(super) fn get<'py>(&self, instance: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = instance.py();
        // SAFETY: all pointers are live objects; the function returns a new reference, or null with an error set.
        unsafe {
            let value = (self.get)(
                self.descriptor.as_ptr(),
                instance.as_ptr(),
                instance.get_type_ptr().cast(),
            );
            Bound::from_owned_ptr_or_err(py, value)
        }
    }

    /// Puts `value` into the slot of `instance`. Raises TypeError when it is of another class.
    #[inline]
    pub(super) fn set(
        &self,
        instance: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // SAFETY: all pointers are live objects; the function takes a reference of its own to the value.
        let status =
            unsafe { (self.set)(self.descriptor.as_ptr(), instance.as_ptr(), value.as_ptr()) };
        if status == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(instance.py()))
        }
    }
}

/// A new instance of `class` with empty slots, as `object.__new__` makes it.
#[inline]
pub(super) fn allocate<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `class` is a heap type without items; the result is a new reference, or null with an error set.
    unsafe {
        Bound::from_owned_ptr_or_err(class.py(), ffi::PyType_GenericAlloc(class.as_type_ptr(), 0))
    }
}
