//! Instances to bytes.

use std::ffi::c_char;

use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PySequence, PyString, PyTuple};

use super::failure::{Failure, Outcome};
use super::output::Output;
use super::plan::{AbsentField, Element, FieldPlan, StructPlan};
use super::uuid;
use super::wire::{STRING_BYTES_MAX, put_unsigned_varint};

/// Records of fewer bytes are copied between the fields around them, which costs less than a part of their own.
const SPLICED_BYTES_MIN: usize = 4096;

/// Writes one struct into the output, and what it holds.
pub(super) fn structure<'py>(
    out: &mut Output<'py>,
    plan: &StructPlan,
    instance: &Bound<'py, PyAny>,
) -> Outcome<()> {
    for field in &plan.absent {
        check_absent(field, instance).map_err(|failure| failure.within_field(&field.name))?;
    }
    for field in &plan.fields {
        let value = field.slot.get(instance)?;
        put_value(out, field, &value).map_err(|failure| failure.within_field(&field.name))?;
    }
    if plan.flexible {
        put_tagged_fields(out, plan, instance)?;
    }
    Ok(())
}

fn check_absent(field: &AbsentField, instance: &Bound<'_, PyAny>) -> Outcome<()> {
    if field.ignorable || is_default(&field.slot.get(instance)?, &field.default)? {
        return Ok(());
    }
    let reason = "the version cannot carry this field, and its value is not the default";
    Err(Failure::of(reason))
}

/// Most values that equal the default are the default, so that comparing them costs little.
fn is_default(value: &Bound<'_, PyAny>, default: &Py<PyAny>) -> Outcome<bool> {
    let default = default.bind(value.py());
    if value.is(default) {
        return Ok(true);
    }
    if value.is_none() || default.is_none() {
        return Ok(false);
    }
    if default.is_instance_of::<PyTuple>() {
        return Ok(value.len()? == 0);
    }
    Ok(value.eq(default)?)
}

/// Only those that differ from their defaults, each with its tag and its size.
fn put_tagged_fields<'py>(
    out: &mut Output<'py>,
    plan: &StructPlan,
    instance: &Bound<'py, PyAny>,
) -> Outcome<()> {
    let mut count = 0;
    let count_at = out.bytes.len();
    for field in &plan.tagged {
        let value = field.slot.get(instance)?;
        if !is_default(&value, &field.default)? {
            count += 1;
            put_tagged_field(out, field, &value)
                .map_err(|failure| failure.within_field(&field.name))?;
        }
    }
    // No struct has 128 tagged fields, so the count is one byte.
    out.bytes.insert(count_at, count);
    Ok(())
}

fn put_tagged_field<'py>(
    out: &mut Output<'py>,
    field: &FieldPlan,
    value: &Bound<'py, PyAny>,
) -> Outcome<()> {
    let mut inner = Output::whole();
    put_value(&mut inner, field, value)?;
    let size = u32::try_from(inner.bytes.len())
        .map_err(|_| Failure::of("a tagged field larger than 4 GiB"))?;
    put_unsigned_varint(&mut out.bytes, field.tag);
    put_unsigned_varint(&mut out.bytes, size);
    out.put(&inner.bytes);
    Ok(())
}

fn put_value<'py>(
    out: &mut Output<'py>,
    field: &FieldPlan,
    value: &Bound<'py, PyAny>,
) -> Outcome<()> {
    if value.is_none() {
        return put_null(out, field);
    }
    if field.is_array {
        return put_array(out, field, value);
    }
    if field.nullable && matches!(field.element, Element::Struct(_)) {
        out.put(&[1]);
    }
    put_element(out, field, value)
}

fn put_null(out: &mut Output<'_>, field: &FieldPlan) -> Outcome<()> {
    if !field.nullable {
        return Err(Failure::of("None is not allowed in this version"));
    }
    match field.element {
        Element::Struct(_) if !field.is_array => out.put(&[field.null_marker]),
        _ if field.compact => out.put(&[0]),
        Element::String if !field.is_array => out.put(&(-1_i16).to_be_bytes()),
        _ => out.put(&(-1_i32).to_be_bytes()),
    }
    Ok(())
}

/// Any sequence is an array, except those of characters and of bytes, which are mistakes.
fn put_array<'py>(
    out: &mut Output<'py>,
    field: &FieldPlan,
    value: &Bound<'py, PyAny>,
) -> Outcome<()> {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return put_elements(out, field, tuple);
    }
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    match value.cast::<PySequence>() {
        Ok(sequence) if !is_text => put_elements(out, field, &sequence.to_tuple()?),
        _ => Err(Failure::of(format!("{} is not an array", type_name(value)))),
    }
}

fn put_elements<'py>(
    out: &mut Output<'py>,
    field: &FieldPlan,
    tuple: &Bound<'py, PyTuple>,
) -> Outcome<()> {
    out.put_length(tuple.len(), field.compact)?;
    for (index, element) in tuple.iter_borrowed().enumerate() {
        put_element(out, field, &element).map_err(|failure| failure.within_element(index))?;
    }
    Ok(())
}

fn put_element<'py>(
    out: &mut Output<'py>,
    field: &FieldPlan,
    value: &Bound<'py, PyAny>,
) -> Outcome<()> {
    match &field.element {
        Element::Bool => match value.cast::<PyBool>() {
            Ok(value) => out.put(&[value.is_true().into()]),
            Err(_) => return Err(Failure::of(format!("{} is not a bool", type_name(value)))),
        },
        Element::Int8 => out.put(&integer::<i8>(value, "int8")?.to_be_bytes()),
        Element::Int16 => out.put(&integer::<i16>(value, "int16")?.to_be_bytes()),
        Element::Int32 => out.put(&integer::<i32>(value, "int32")?.to_be_bytes()),
        Element::Int64 => out.put(&integer::<i64>(value, "int64")?.to_be_bytes()),
        Element::Uint16 => out.put(&integer::<u16>(value, "uint16")?.to_be_bytes()),
        Element::Uint32 => out.put(&integer::<u32>(value, "uint32")?.to_be_bytes()),
        Element::Float64 => out.put(&value.extract::<f64>()?.to_be_bytes()),
        Element::Uuid => out.put(&uuid::to_bytes(value)?),
        Element::String => put_string(out, field, value)?,
        Element::Bytes => with_bytes(value, |bytes| {
            out.put_length(bytes.len(), field.compact)?;
            out.put(bytes);
            Ok(())
        })?,
        Element::Records => put_records(out, field, value)?,
        Element::Struct(plan) => structure(out, plan, value)?,
    }
    Ok(())
}

fn put_string(out: &mut Output<'_>, field: &FieldPlan, value: &Bound<'_, PyAny>) -> Outcome<()> {
    let mut size: ffi::Py_ssize_t = 0;
    // SAFETY: returns the UTF-8 form that the string keeps, with its size, or null with an error set.
    let pointer: *const c_char = unsafe { ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &mut size) };
    if pointer.is_null() {
        return Err(Failure::fetched(value.py()));
    }
    // SAFETY: the pointer is good for `size` bytes while `value` lives.
    let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size.unsigned_abs()) };
    let Ok(short_length) = i16::try_from(bytes.len()) else {
        let size = bytes.len();
        return Err(Failure::of(format!(
            "a string of {size} bytes, {STRING_BYTES_MAX} at most"
        )));
    };
    if field.compact {
        out.put_length(bytes.len(), true)?;
    } else {
        out.put(&short_length.to_be_bytes());
    }
    out.put(bytes);
    Ok(())
}

/// Records in memory are written, or spliced when they are many; records elsewhere must be spliced.
fn put_records<'py>(
    out: &mut Output<'py>,
    field: &FieldPlan,
    value: &Bound<'py, PyAny>,
) -> Outcome<()> {
    if !value.is_instance_of::<PyBytes>()
        && let Some(slices) = value.getattr_opt("slices")?
    {
        if !out.may_splice() {
            return Err(Failure::of(
                "these records are not in memory: encode the frame in parts",
            ));
        }
        let size = value.getattr("total_bytes")?.extract()?;
        let objects = slices.try_iter()?.collect::<PyResult<_>>()?;
        out.put_length(size, field.compact)?;
        out.splice(size, objects);
        return Ok(());
    }
    with_bytes(value, |bytes| {
        out.put_length(bytes.len(), field.compact)?;
        if out.may_splice() && bytes.len() >= SPLICED_BYTES_MIN {
            out.splice(bytes.len(), vec![value.clone()]);
        } else {
            out.put(bytes);
        }
        Ok(())
    })
}

/// Calls `write` with the bytes of anything that has them in one piece.
fn with_bytes(value: &Bound<'_, PyAny>, write: impl FnOnce(&[u8]) -> Outcome<()>) -> Outcome<()> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return write(bytes.as_bytes());
    }
    let Ok(buffer) = PyBuffer::<u8>::get(value) else {
        return Err(Failure::of(format!("{} has no bytes", type_name(value))));
    };
    if !buffer.is_c_contiguous() {
        return Err(Failure::of("the bytes are not contiguous"));
    }
    if buffer.len_bytes() == 0 {
        return write(&[]);
    }
    // SAFETY: the buffer is contiguous, it is held, and `write` does nothing but copy or splice.
    write(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

#[inline]
fn integer<T: TryFrom<i64>>(value: &Bound<'_, PyAny>, name: &str) -> Outcome<T> {
    // SAFETY: returns the value, or -1 with an error set when it is no integer or does not fit.
    let wide = unsafe { ffi::PyLong_AsLongLong(value.as_ptr()) };
    if wide == -1
        && let Some(error) = PyErr::take(value.py())
    {
        return Err(error.into());
    }
    T::try_from(wide).map_err(|_| Failure::of(format!("{wide} does not fit {name}")))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().qualname();
    name.map_or_else(|_| "this".to_owned(), |name| name.to_string())
}
