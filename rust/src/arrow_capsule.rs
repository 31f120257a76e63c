//! Arrow arrays to and from Python through the PyCapsule interface, so that no Arrow library is needed here.
//!
//! Source: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, StructArray};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;

const SCHEMA_NAME: &CStr = c"arrow_schema";
const ARRAY_NAME: &CStr = c"arrow_array";

/// The two capsules of a struct array: its schema and its data.
pub fn export<'py>(
    py: Python<'py>,
    array: &StructArray,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(arrow_error)?;
    Ok((
        PyCapsule::new_with_value(py, schema, SCHEMA_NAME)?,
        PyCapsule::new_with_value(py, array, ARRAY_NAME)?,
    ))
}

/// The capsule of a struct array's schema.
pub fn export_schema<'py>(py: Python<'py>, array: &StructArray) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(array.data_type()).map_err(arrow_error)?;
    PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
}

/// The struct array, or record batch, behind an object with `__arrow_c_array__`.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<StructArray> {
    let method = object.getattr("__arrow_c_array__").map_err(|_| {
        PyTypeError::new_err(
            "an Arrow struct array or record batch is needed, with `__arrow_c_array__`",
        )
    })?;
    let capsules = method.call0()?;
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
        capsules.cast::<PyTuple>()?.extract()?;
    let schema = schema
        .cast::<PyCapsule>()?
        .pointer_checked(Some(SCHEMA_NAME))?;
    let array = array
        .cast::<PyCapsule>()?
        .pointer_checked(Some(ARRAY_NAME))?;
    // SAFETY: capsules of these names hold these structs, by the interface. Both are moved out and marked as released.
    let data = unsafe {
        let schema = FFI_ArrowSchema::from_raw(schema.as_ptr().cast());
        let array = FFI_ArrowArray::from_raw(array.as_ptr().cast());
        from_ffi(array, &schema).map_err(arrow_error)?
    };
    match data.data_type() {
        DataType::Struct(_) => Ok(StructArray::from(data)),
        other => Err(PyTypeError::new_err(format!(
            "an Arrow struct array or record batch is needed, not {other}"
        ))),
    }
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
