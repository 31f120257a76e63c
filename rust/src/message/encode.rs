//! Instances to bytes.

use std::ffi::c_char;

use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList, PySequence, PyString, PyTuple};

use super::failure::{Failure, Outcome};
use super::plan::{AbsentField, Element, FieldPlan, StructPlan};
use super::uuid;
use super::wire::{STRING_BYTES_MAX, put_unsigned_varint};

/// Records of fewer bytes are copied between the fields around them, which costs less than a part of their own.
const SPLICED_BYTES_MIN: usize = 4096;

/// The size of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// Writes one message, as one run of bytes or as parts between which records stand that are not copied.
pub(super) struct Encoder<'py> {
    py: Python<'py>,
    out: Vec<u8>,
    /// None when everything must be in `out`.
    splices: Option<Vec<Splice<'py>>>,
}

/// Objects that stand between the bytes of `out`, before the position `at`.
struct Splice<'py> {
    at: usize,
    bytes: usize,
    objects: Vec<Bound<'py, PyAny>>,
}

impl<'py> Encoder<'py> {
    /// The message alone.
    pub(super) fn whole(py: Python<'py>) -> Self {
        Self {
            py,
            out: Vec::with_capacity(256),
            splices: None,
        }
    }

    /// The message after a header, with room for the length in front.
    pub(super) fn framed(py: Python<'py>, header: &[u8]) -> Self {
        let mut encoder = Self::whole(py);
        encoder.out.extend_from_slice(&[0; LENGTH_BYTES]);
        encoder.out.extend_from_slice(header);
        encoder
    }

    /// The same, in parts.
    pub(super) fn framed_in_parts(py: Python<'py>, header: &[u8]) -> Self {
        Self {
            splices: Some(Vec::new()),
            ..Self::framed(py, header)
        }
    }

    /// Writes the length into its place.
    pub(super) fn with_length(mut self) -> Outcome<Self> {
        let spliced: usize = self
            .splices
            .iter()
            .flatten()
            .map(|splice| splice.bytes)
            .sum();
        let size = i32::try_from(self.out.len() - LENGTH_BYTES + spliced)
            .map_err(|_| Failure::of("the frame is larger than 2 GiB"))?;
        self.out[..LENGTH_BYTES].copy_from_slice(&size.to_be_bytes());
        Ok(self)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// The bytes and what stands between them, in order.
    pub(super) fn parts(self) -> PyResult<Bound<'py, PyList>> {
        let parts = PyList::empty(self.py);
        let mut start = 0;
        for splice in self.splices.into_iter().flatten() {
            if splice.at > start {
                parts.append(PyBytes::new(self.py, &self.out[start..splice.at]))?;
                start = splice.at;
            }
            for object in splice.objects {
                parts.append(object)?;
            }
        }
        if self.out.len() > start {
            parts.append(PyBytes::new(self.py, &self.out[start..]))?;
        }
        Ok(parts)
    }

    pub(super) fn structure(
        &mut self,
        plan: &StructPlan,
        instance: &Bound<'py, PyAny>,
    ) -> Outcome<()> {
        for field in &plan.absent {
            self.check_absent(field, instance)
                .map_err(|failure| failure.within_field(&field.name))?;
        }
        for field in &plan.fields {
            self.field(field, instance)
                .map_err(|failure| failure.within_field(&field.name))?;
        }
        if plan.flexible {
            self.tagged_fields(plan, instance)?;
        }
        Ok(())
    }

    fn check_absent(&self, field: &AbsentField, instance: &Bound<'py, PyAny>) -> Outcome<()> {
        let value = field
            .slot
            .get(instance)
            .map_err(|error| Failure::raised(error, self.py))?;
        if field.ignorable || self.is_default(&value, &field.default)? {
            return Ok(());
        }
        Err(Failure::of(
            "the version cannot carry this field, and its value is not the default",
        ))
    }

    /// Most values that equal the default are the default, so that comparing them costs little.
    fn is_default(&self, value: &Bound<'py, PyAny>, default: &Py<PyAny>) -> Outcome<bool> {
        let default = default.bind(self.py);
        if value.is(default) {
            return Ok(true);
        }
        if value.is_none() || default.is_none() {
            return Ok(false);
        }
        if default.is_instance_of::<PyTuple>() {
            return Ok(value
                .len()
                .map_err(|error| Failure::raised(error, self.py))?
                == 0);
        }
        value
            .eq(default)
            .map_err(|error| Failure::raised(error, self.py))
    }

    #[inline]
    fn field(&mut self, field: &FieldPlan, instance: &Bound<'py, PyAny>) -> Outcome<()> {
        let value = field
            .slot
            .get(instance)
            .map_err(|error| Failure::raised(error, self.py))?;
        self.value(field, &value)
    }

    /// Only those that differ from their defaults, each with its tag and its size.
    fn tagged_fields(&mut self, plan: &StructPlan, instance: &Bound<'py, PyAny>) -> Outcome<()> {
        let mut count = 0;
        let count_at = self.out.len();
        for field in &plan.tagged {
            let value = field
                .slot
                .get(instance)
                .map_err(|error| Failure::raised(error, self.py))?;
            if !self.is_default(&value, &field.default)? {
                count += 1;
                self.tagged_field(field, &value)
                    .map_err(|failure| failure.within_field(&field.name))?;
            }
        }
        // Tables have fewer than 128 tags in a struct, so the count is one byte.
        self.out.insert(count_at, count);
        Ok(())
    }

    fn tagged_field(&mut self, field: &FieldPlan, value: &Bound<'py, PyAny>) -> Outcome<()> {
        let mut inner = Self::whole(self.py);
        inner.value(field, value)?;
        put_unsigned_varint(&mut self.out, field.tag);
        put_unsigned_varint(&mut self.out, wire_size(inner.out.len())?);
        self.out.append(&mut inner.out);
        Ok(())
    }

    fn value(&mut self, field: &FieldPlan, value: &Bound<'py, PyAny>) -> Outcome<()> {
        if value.is_none() {
            return self.null(field);
        }
        if field.is_array {
            return self.array(field, value);
        }
        if field.nullable && matches!(field.element, Element::Struct(_)) {
            self.out.push(1);
        }
        self.element(field, value)
    }

    fn null(&mut self, field: &FieldPlan) -> Outcome<()> {
        if !field.nullable {
            return Err(Failure::of("None is not allowed in this version"));
        }
        match field.element {
            Element::Struct(_) if !field.is_array => self.out.push(field.null_marker),
            _ if field.compact => self.out.push(0),
            Element::String if !field.is_array => {
                self.out.extend_from_slice(&(-1_i16).to_be_bytes())
            }
            _ => self.out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
        Ok(())
    }

    fn array(&mut self, field: &FieldPlan, value: &Bound<'py, PyAny>) -> Outcome<()> {
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.elements(field, tuple);
        }
        let not_an_array = || Failure::of(format!("{} is not an array", type_name(value)));
        if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
            return Err(not_an_array());
        }
        let sequence = value.cast::<PySequence>().map_err(|_| not_an_array())?;
        let tuple = sequence
            .to_tuple()
            .map_err(|error| Failure::raised(error, self.py))?;
        self.elements(field, &tuple)
    }

    fn elements(&mut self, field: &FieldPlan, tuple: &Bound<'py, PyTuple>) -> Outcome<()> {
        self.length(tuple.len(), field.compact)?;
        for (index, element) in tuple.iter_borrowed().enumerate() {
            self.element(field, &element)
                .map_err(|failure| failure.within_element(index))?;
        }
        Ok(())
    }

    fn element(&mut self, field: &FieldPlan, value: &Bound<'py, PyAny>) -> Outcome<()> {
        match &field.element {
            Element::Bool => {
                let value = value
                    .cast::<PyBool>()
                    .map_err(|_| Failure::of(format!("{} is not a bool", type_name(value))))?;
                self.out.push(value.is_true().into());
            }
            Element::Int8 => self
                .out
                .extend_from_slice(&integer::<i8>(value, "int8")?.to_be_bytes()),
            Element::Int16 => self
                .out
                .extend_from_slice(&integer::<i16>(value, "int16")?.to_be_bytes()),
            Element::Int32 => self
                .out
                .extend_from_slice(&integer::<i32>(value, "int32")?.to_be_bytes()),
            Element::Int64 => self
                .out
                .extend_from_slice(&integer::<i64>(value, "int64")?.to_be_bytes()),
            Element::Uint16 => self
                .out
                .extend_from_slice(&integer::<u16>(value, "uint16")?.to_be_bytes()),
            Element::Uint32 => self
                .out
                .extend_from_slice(&integer::<u32>(value, "uint32")?.to_be_bytes()),
            Element::Float64 => {
                let value: f64 = value
                    .extract()
                    .map_err(|error| Failure::raised(error, self.py))?;
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            Element::Uuid => {
                let bytes =
                    uuid::to_bytes(value).map_err(|error| Failure::raised(error, self.py))?;
                self.out.extend_from_slice(&bytes);
            }
            Element::String => self.string(field, value)?,
            Element::Bytes => self.bytes_of(field, value, false)?,
            Element::Records => self.records(field, value)?,
            Element::Struct(plan) => self.structure(plan, value)?,
        }
        Ok(())
    }

    fn string(&mut self, field: &FieldPlan, value: &Bound<'py, PyAny>) -> Outcome<()> {
        let mut size: ffi::Py_ssize_t = 0;
        // SAFETY: returns the UTF-8 form that the string keeps, with its size, or null with an error set.
        let pointer: *const c_char =
            unsafe { ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &mut size) };
        if pointer.is_null() {
            return Err(Failure::fetched(self.py));
        }
        // SAFETY: the pointer is good for `size` bytes while `value` lives.
        let bytes =
            unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size.unsigned_abs()) };
        let size = i16::try_from(bytes.len()).map_err(|_| {
            Failure::of(format!(
                "a string of {} bytes, {STRING_BYTES_MAX} at most",
                bytes.len()
            ))
        })?;
        if field.compact {
            self.length(bytes.len(), true)?;
        } else {
            self.out.extend_from_slice(&size.to_be_bytes());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn records(&mut self, field: &FieldPlan, value: &Bound<'py, PyAny>) -> Outcome<()> {
        if value.is_instance_of::<PyBytes>() {
            return self.bytes_of(field, value, true);
        }
        let elsewhere = value
            .getattr_opt("slices")
            .map_err(|error| Failure::raised(error, self.py))?;
        let Some(slices) = elsewhere else {
            return self.bytes_of(field, value, true);
        };
        if self.splices.is_none() {
            return Err(Failure::of(
                "these records are not in memory: encode the frame in parts",
            ));
        }
        let total: PyResult<(usize, Vec<Bound<'py, PyAny>>)> = (|| {
            let objects = slices.try_iter()?.collect::<PyResult<_>>()?;
            Ok((value.getattr("total_bytes")?.extract()?, objects))
        })();
        let (bytes, objects) = total.map_err(|error| Failure::raised(error, self.py))?;
        self.length(bytes, field.compact)?;
        self.splice(bytes, objects);
        Ok(())
    }

    fn splice(&mut self, bytes: usize, objects: Vec<Bound<'py, PyAny>>) {
        let at = self.out.len();
        if let Some(splices) = &mut self.splices {
            splices.push(Splice { at, bytes, objects });
        }
    }

    fn bytes_of(
        &mut self,
        field: &FieldPlan,
        value: &Bound<'py, PyAny>,
        may_splice: bool,
    ) -> Outcome<()> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return self.slice(field, value, bytes.as_bytes(), may_splice);
        }
        let buffer = PyBuffer::<u8>::get(value)
            .map_err(|_| Failure::of(format!("{} has no bytes", type_name(value))))?;
        if !buffer.is_c_contiguous() {
            return Err(Failure::of("the bytes are not contiguous"));
        }
        let size = buffer.len_bytes();
        let pointer = if size == 0 {
            std::ptr::NonNull::dangling().as_ptr()
        } else {
            buffer.buf_ptr().cast::<u8>()
        };
        // SAFETY: the buffer is contiguous and held, and no Python code runs before the bytes are copied.
        let bytes = unsafe { std::slice::from_raw_parts(pointer, size) };
        self.slice(field, value, bytes, may_splice)
    }

    fn slice(
        &mut self,
        field: &FieldPlan,
        value: &Bound<'py, PyAny>,
        bytes: &[u8],
        may_splice: bool,
    ) -> Outcome<()> {
        self.length(bytes.len(), field.compact)?;
        if may_splice && self.splices.is_some() && bytes.len() >= SPLICED_BYTES_MIN {
            self.splice(bytes.len(), vec![value.clone()]);
        } else {
            self.out.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn length(&mut self, length: usize, compact: bool) -> Outcome<()> {
        let length = wire_size(length)?;
        if compact {
            put_unsigned_varint(&mut self.out, length + 1);
        } else {
            self.out.extend_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// A length that the wire can say: less than 2 GiB.
fn wire_size(size: usize) -> Outcome<u32> {
    match i32::try_from(size) {
        Ok(size) => Ok(size.unsigned_abs()),
        Err(_) => Err(Failure::of(format!(
            "a length of {size}, 2147483647 at most"
        ))),
    }
}

#[inline]
fn integer<T: TryFrom<i64>>(value: &Bound<'_, PyAny>, name: &str) -> Outcome<T> {
    // SAFETY: returns the value, or -1 with an error set when it is no integer or does not fit.
    let wide = unsafe { ffi::PyLong_AsLongLong(value.as_ptr()) };
    if wide == -1
        && let Some(error) = PyErr::take(value.py())
    {
        return Err(Failure::raised(error, value.py()));
    }
    T::try_from(wide).map_err(|_| Failure::of(format!("{wide} does not fit {name}")))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .qualname()
        .map_or_else(|_| "this".to_owned(), |name| name.to_string())
}
