//! Bytes to instances.

use std::ffi::c_char;

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat};

use super::failure::{Failure, Outcome};
use super::input::Input;
use super::plan::{Element, FieldPlan, StructPlan};
use super::slot::allocate;
use super::uuid;
use super::wire::{Reader, STRING_BYTES_MAX};

/// Reads one message.
pub(super) struct Decoder<'a, 'py> {
    py: Python<'py>,
    input: &'a Input<'a, 'py>,
    reader: Reader<'a>,
    elements: usize,
    elements_max: usize,
}

impl<'a, 'py> Decoder<'a, 'py> {
    /// For a message at `offset` whose arrays have at most `elements_max` elements together.
    pub(super) fn new(input: &'a Input<'a, 'py>, offset: usize, elements_max: usize) -> Self {
        Self {
            py: input.py(),
            input,
            reader: Reader::new(input.bytes(), offset),
            elements: 0,
            elements_max,
        }
    }

    /// The message that fills all bytes from the offset on.
    pub(super) fn message(mut self, plan: &StructPlan) -> Outcome<Bound<'py, PyAny>> {
        let message = self.structure(plan)?;
        match self.reader.remaining() {
            0 => Ok(message),
            more => {
                let reason = format!("{more} bytes after the end of the message");
                Err(self.reader.fault(reason))
            }
        }
    }

    fn structure(&mut self, plan: &StructPlan) -> Outcome<Bound<'py, PyAny>> {
        let instance = allocate(plan.class.bind(self.py))?;
        for field in &plan.fields {
            let value = self.field(field);
            let value = value.map_err(|failure| failure.within_field(&field.name))?;
            field.slot.set(&instance, &value)?;
        }
        for field in &plan.absent {
            field.slot.set(&instance, field.default.bind(self.py))?;
        }
        if plan.flexible {
            self.tagged_fields(plan, &instance)?;
        }
        Ok(instance)
    }

    /// A count, then for each field its tag, its size and its bytes. What is unknown is skipped.
    fn tagged_fields(&mut self, plan: &StructPlan, instance: &Bound<'py, PyAny>) -> Outcome<()> {
        for field in &plan.tagged {
            field.slot.set(instance, field.default.bind(self.py))?;
        }
        for _ in 0..self.reader.tagged_field_count()? {
            let tag = self.reader.unsigned_varint()?;
            let size = self.reader.unsigned_varint()? as usize;
            let known = plan.tagged.binary_search_by_key(&tag, |field| field.tag);
            let Ok(index) = known else {
                self.reader.take(size)?;
                continue;
            };
            let field = &plan.tagged[index];
            let value = self.tagged_field(field, size);
            let value = value.map_err(|failure| failure.within_field(&field.name))?;
            field.slot.set(instance, &value)?;
        }
        Ok(())
    }

    fn tagged_field(&mut self, field: &FieldPlan, size: usize) -> Outcome<Bound<'py, PyAny>> {
        let start = self.reader.position();
        let value = self.field(field)?;
        match self.reader.position() - start {
            read if read == size => Ok(value),
            read => {
                let reason = format!("{size} bytes announced, {read} read");
                Err(Failure::at(start, reason))
            }
        }
    }

    fn field(&mut self, field: &FieldPlan) -> Outcome<Bound<'py, PyAny>> {
        if field.is_array {
            return self.array(field);
        }
        match &field.element {
            Element::Struct(plan) if field.nullable => self.nullable_structure(field, plan),
            _ => self.element(field, field.nullable),
        }
    }

    fn nullable_structure(
        &mut self,
        field: &FieldPlan,
        plan: &StructPlan,
    ) -> Outcome<Bound<'py, PyAny>> {
        let start = self.reader.position();
        match self.reader.array()? {
            [1] => self.structure(plan),
            [marker] if marker == field.null_marker => Ok(self.none()),
            [other] => {
                let reason = format!("{other} is neither a struct nor null");
                Err(Failure::at(start, reason))
            }
        }
    }

    fn array(&mut self, field: &FieldPlan) -> Outcome<Bound<'py, PyAny>> {
        let Some(count) = self.reader.length(field.compact)? else {
            return self.null(field.nullable);
        };
        self.reader
            .check_room(count, field.element_bytes_min, "elements")?;
        self.elements += count;
        if self.elements > self.elements_max {
            let reason = format!("more than {} elements", self.elements_max);
            return Err(self.reader.fault(reason));
        }
        // SAFETY: returns a new reference to a tuple of empty places, or null with an error set. A tuple that is dropped
        // half filled frees what it holds.
        let tuple = unsafe {
            let tuple = ffi::PyTuple_New(count as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(self.py, tuple)
        }?;
        for index in 0..count {
            let element = self.element(field, false);
            let element = element.map_err(|failure| failure.within_element(index))?;
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
            Element::Int8 => self.integer(i8::from_be_bytes),
            Element::Int16 => self.integer(i16::from_be_bytes),
            Element::Int32 => self.integer(i32::from_be_bytes),
            Element::Int64 => self.integer(i64::from_be_bytes),
            Element::Uint16 => self.integer(u16::from_be_bytes),
            Element::Uint32 => self.integer(u32::from_be_bytes),
            Element::Float64 => {
                let value = f64::from_be_bytes(self.reader.array()?);
                Ok(PyFloat::new(self.py, value).into_any())
            }
            Element::Uuid => self.uuid(field),
            Element::String => self.string(field.compact, nullable),
            Element::Bytes => match self.reader.length(field.compact)? {
                None => self.null(nullable),
                Some(size) => Ok(PyBytes::new(self.py, self.reader.take(size)?).into_any()),
            },
            Element::Records => match self.reader.length(field.compact)? {
                None => self.null(nullable),
                Some(size) => {
                    let start = self.reader.position();
                    self.reader.take(size)?;
                    Ok(self.input.view(start, start + size)?)
                }
            },
            Element::Struct(plan) => self.structure(plan),
        }
    }

    #[inline]
    fn integer<T: Into<i64>, const N: usize>(
        &mut self,
        from_bytes: fn([u8; N]) -> T,
    ) -> Outcome<Bound<'py, PyAny>> {
        let value = from_bytes(self.reader.array()?).into();
        // SAFETY: returns a new reference, or null with an error set.
        let integer =
            unsafe { Bound::from_owned_ptr_or_err(self.py, ffi::PyLong_FromLongLong(value)) };
        Ok(integer?)
    }

    /// The id of all zeros is the default of every id, so it is not made anew.
    fn uuid(&mut self, field: &FieldPlan) -> Outcome<Bound<'py, PyAny>> {
        let bytes = self.reader.array()?;
        if bytes == [0; 16] && !field.is_array {
            return Ok(field.default.bind(self.py).clone());
        }
        Ok(uuid::from_bytes(self.py, bytes)?)
    }

    fn string(&mut self, compact: bool, nullable: bool) -> Outcome<Bound<'py, PyAny>> {
        let Some(size) = self.reader.string_length(compact)? else {
            return self.null(nullable);
        };
        if size > STRING_BYTES_MAX {
            let reason = format!("a string of {size} bytes, {STRING_BYTES_MAX} at most");
            return Err(self.reader.fault(reason));
        }
        let start = self.reader.position();
        let text = self.reader.take(size)?.as_ptr().cast::<c_char>();
        // SAFETY: pointer and size are those of a slice; returns a new reference, or null with an error set when the
        // bytes are not UTF-8.
        let string = unsafe {
            let string = ffi::PyUnicode_FromStringAndSize(text, size as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(self.py, string)
        };
        string.map_err(|error| {
            if error.is_instance_of::<PyUnicodeDecodeError>(self.py) {
                return Failure::at(start, "the string is not UTF-8");
            }
            error.into()
        })
    }

    fn null(&self, nullable: bool) -> Outcome<Bound<'py, PyAny>> {
        if nullable {
            return Ok(self.none());
        }
        Err(self.reader.fault("null is not allowed here"))
    }

    fn none(&self) -> Bound<'py, PyAny> {
        self.py.None().into_bound(self.py)
    }
}
