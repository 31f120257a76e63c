//! Bytes to instances.

use std::ffi::c_char;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat};

use super::failure::{Failure, Outcome};
use super::input::Input;
use super::plan::{Element, FieldPlan, StructPlan};
use super::slot::allocate;
use super::uuid;
use super::wire::{Reader, STRING_BYTES_MAX};

/// The most elements that all arrays of one message may have together. An element of two bytes can
/// become an object of sixty, so that without a limit a frame of 100 MB could ask for gigabytes; a
/// Fetch of every partition of a large cluster stays far below.
const ELEMENTS_MAX: usize = 4 << 20;

/// Reads one message.
pub(super) struct Decoder<'a, 'py> {
    py: Python<'py>,
    input: &'a Input<'a, 'py>,
    reader: Reader<'a>,
    elements: usize,
}

impl<'a, 'py> Decoder<'a, 'py> {
    pub(super) fn new(input: &'a Input<'a, 'py>, offset: usize) -> Self {
        Self {
            py: input.py(),
            input,
            reader: Reader::new(input.bytes(), offset),
            elements: 0,
        }
    }

    /// The message that fills all bytes from the offset on.
    pub(super) fn message(mut self, plan: &StructPlan) -> Outcome<Bound<'py, PyAny>> {
        let message = self.structure(plan)?;
        match self.reader.remaining() {
            0 => Ok(message),
            more => Err(self
                .reader
                .fault(format!("{more} bytes after the end of the message"))),
        }
    }

    fn structure(&mut self, plan: &StructPlan) -> Outcome<Bound<'py, PyAny>> {
        let instance =
            allocate(plan.class.bind(self.py)).map_err(|error| Failure::raised(error, self.py))?;
        for field in &plan.fields {
            let value = self
                .field(field)
                .map_err(|failure| failure.within_field(&field.name))?;
            self.set(field, &instance, &value)?;
        }
        for field in &plan.absent {
            let default = field.default.bind(self.py);
            field
                .slot
                .set(&instance, default)
                .map_err(|error| Failure::raised(error, self.py))?;
        }
        if plan.flexible {
            self.tagged_fields(plan, &instance)?;
        }
        Ok(instance)
    }

    #[inline]
    fn set(
        &self,
        field: &FieldPlan,
        instance: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> Outcome<()> {
        field
            .slot
            .set(instance, value)
            .map_err(|error| Failure::raised(error, self.py))
    }

    /// A count, then for each field its tag, its size and its bytes. What is unknown is skipped.
    fn tagged_fields(&mut self, plan: &StructPlan, instance: &Bound<'py, PyAny>) -> Outcome<()> {
        for field in &plan.tagged {
            self.set(field, instance, field.default.bind(self.py))?;
        }
        let count = self.reader.unsigned_varint()? as usize;
        if count.saturating_mul(2) > self.reader.remaining() {
            return Err(self.reader.fault(format!(
                "{count} tagged fields cannot be in {} bytes",
                self.reader.remaining()
            )));
        }
        for _ in 0..count {
            let tag = self.reader.unsigned_varint()?;
            let size = self.reader.unsigned_varint()? as usize;
            let start = self.reader.position();
            if size > self.reader.remaining() {
                return Err(self.reader.fault(format!(
                    "tag {tag} of {size} bytes, {} there",
                    self.reader.remaining()
                )));
            }
            let Ok(index) = plan.tagged.binary_search_by_key(&tag, |field| field.tag) else {
                self.reader.take(size)?;
                continue;
            };
            let field = &plan.tagged[index];
            let value = self
                .field(field)
                .map_err(|failure| failure.within_field(&field.name))?;
            if self.reader.position() - start != size {
                let read = self.reader.position() - start;
                return Err(
                    Failure::at(start, format!("{size} bytes announced, {read} read"))
                        .within_field(&field.name),
                );
            }
            self.set(field, instance, &value)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldPlan) -> Outcome<Bound<'py, PyAny>> {
        if field.is_array {
            return self.array(field);
        }
        if field.nullable
            && let Element::Struct(plan) = &field.element
        {
            return match self.reader.array()? {
                [1] => self.structure(plan),
                [marker] if marker == field.null_marker => Ok(self.none()),
                [other] => Err(Failure::at(
                    self.reader.position() - 1,
                    format!("{other} is neither a struct nor null"),
                )),
            };
        }
        self.element(field, field.nullable)
    }

    fn array(&mut self, field: &FieldPlan) -> Outcome<Bound<'py, PyAny>> {
        let count = if field.compact {
            self.compact_length()?
        } else {
            self.int32_length()?
        };
        let Some(count) = count else {
            return self.null(field.nullable);
        };
        if count.saturating_mul(field.element_bytes_min) > self.reader.remaining() {
            return Err(self.reader.fault(format!(
                "{count} elements cannot be in {} bytes",
                self.reader.remaining()
            )));
        }
        self.elements += count;
        if self.elements > ELEMENTS_MAX {
            return Err(self
                .reader
                .fault(format!("more than {ELEMENTS_MAX} elements")));
        }
        // SAFETY: returns a new reference to a tuple of empty places, or null with an error set. A tuple that is dropped
        // half filled frees what it holds.
        let tuple = unsafe {
            Bound::from_owned_ptr_or_opt(self.py, ffi::PyTuple_New(count as ffi::Py_ssize_t))
        };
        let Some(tuple) = tuple else {
            return Err(Failure::fetched(self.py));
        };
        for index in 0..count {
            let element = self
                .element(field, false)
                .map_err(|failure| failure.within_element(index))?;
            // SAFETY: `index` is less than the size, and this thread alone knows the tuple; the reference is given away.
            unsafe {
                ffi::PyTuple_SetItem(tuple.as_ptr(), index as ffi::Py_ssize_t, element.into_ptr())
            };
        }
        Ok(tuple)
    }

    fn element(&mut self, field: &FieldPlan, nullable: bool) -> Outcome<Bound<'py, PyAny>> {
        match &field.element {
            Element::Bool => {
                let [byte] = self.reader.array()?;
                Ok(PyBool::new(self.py, byte != 0).to_owned().into_any())
            }
            Element::Int8 => self
                .reader
                .array()
                .map(i8::from_be_bytes)
                .and_then(|value| self.integer(value)),
            Element::Int16 => self
                .reader
                .array()
                .map(i16::from_be_bytes)
                .and_then(|value| self.integer(value)),
            Element::Int32 => self
                .reader
                .array()
                .map(i32::from_be_bytes)
                .and_then(|value| self.integer(value)),
            Element::Int64 => self
                .reader
                .array()
                .map(i64::from_be_bytes)
                .and_then(|value| self.integer(value)),
            Element::Uint16 => self
                .reader
                .array()
                .map(u16::from_be_bytes)
                .and_then(|value| self.integer(value)),
            Element::Uint32 => self
                .reader
                .array()
                .map(u32::from_be_bytes)
                .and_then(|value| self.integer(value)),
            Element::Float64 => {
                let value = f64::from_be_bytes(self.reader.array()?);
                Ok(PyFloat::new(self.py, value).into_any())
            }
            Element::Uuid => self.uuid(field),
            Element::String => self.string(field.compact, nullable),
            Element::Bytes => match self.bytes_length(field.compact)? {
                None => self.null(nullable),
                Some(size) => Ok(PyBytes::new(self.py, self.reader.take(size)?).into_any()),
            },
            Element::Records => match self.bytes_length(field.compact)? {
                None => self.null(nullable),
                Some(size) => self.records(size),
            },
            Element::Struct(plan) => self.structure(plan),
        }
    }

    #[inline]
    fn integer(&self, value: impl Into<i64>) -> Outcome<Bound<'py, PyAny>> {
        // SAFETY: returns a new reference, or null with an error set.
        let integer = unsafe {
            Bound::from_owned_ptr_or_opt(self.py, ffi::PyLong_FromLongLong(value.into()))
        };
        integer.ok_or_else(|| Failure::fetched(self.py))
    }

    /// The id of all zeros is the default of every id, so it is not made anew.
    fn uuid(&mut self, field: &FieldPlan) -> Outcome<Bound<'py, PyAny>> {
        let bytes = self.reader.array()?;
        if bytes == [0; 16] && !field.is_array {
            return Ok(field.default.bind(self.py).clone());
        }
        uuid::from_bytes(self.py, bytes).map_err(|error| Failure::raised(error, self.py))
    }

    fn string(&mut self, compact: bool, nullable: bool) -> Outcome<Bound<'py, PyAny>> {
        let length = if compact {
            self.compact_length()?
        } else {
            self.int16_length()?
        };
        let Some(size) = length else {
            return self.null(nullable);
        };
        if size > STRING_BYTES_MAX {
            return Err(self.reader.fault(format!(
                "a string of {size} bytes, {STRING_BYTES_MAX} at most"
            )));
        }
        let start = self.reader.position();
        let bytes = self.reader.take(size)?;
        // SAFETY: pointer and size are those of a slice; returns a new reference, or null with an error set when the
        // bytes are not UTF-8.
        let string = unsafe {
            let string = ffi::PyUnicode_FromStringAndSize(
                bytes.as_ptr().cast::<c_char>(),
                size as ffi::Py_ssize_t,
            );
            Bound::from_owned_ptr_or_err(self.py, string)
        };
        string.map_err(|error| {
            match error.is_instance_of::<pyo3::exceptions::PyUnicodeDecodeError>(self.py) {
                true => Failure::at(start, "the string is not UTF-8"),
                false => Failure::raised(error, self.py),
            }
        })
    }

    fn records(&mut self, size: usize) -> Outcome<Bound<'py, PyAny>> {
        let start = self.reader.position();
        self.reader.take(size)?;
        self.input
            .view(start, start + size)
            .map_err(|error| Failure::raised(error, self.py))
    }

    fn bytes_length(&mut self, compact: bool) -> Outcome<Option<usize>> {
        if compact {
            self.compact_length()
        } else {
            self.int32_length()
        }
    }

    fn compact_length(&mut self) -> Outcome<Option<usize>> {
        Ok((self.reader.unsigned_varint()? as usize).checked_sub(1))
    }

    fn int16_length(&mut self) -> Outcome<Option<usize>> {
        let length = i16::from_be_bytes(self.reader.array()?);
        self.length(i64::from(length), 2)
    }

    fn int32_length(&mut self) -> Outcome<Option<usize>> {
        let length = i32::from_be_bytes(self.reader.array()?);
        self.length(i64::from(length), 4)
    }

    /// -1 is null, less is nothing.
    fn length(&self, length: i64, width: usize) -> Outcome<Option<usize>> {
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(Failure::at(
                self.reader.position() - width,
                format!("a length of {length}"),
            )),
        }
    }

    fn null(&self, nullable: bool) -> Outcome<Bound<'py, PyAny>> {
        if nullable {
            Ok(self.none())
        } else {
            Err(self.reader.fault("null is not allowed here"))
        }
    }

    fn none(&self) -> Bound<'py, PyAny> {
        self.py.None().into_bound(self.py)
    }
}
