//! The bytes a message is read from, and views of them.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

/// A contiguous buffer of bytes, held for as long as this lives.
pub(super) struct Input<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    buffer: Option<PyBuffer<u8>>,
}

impl<'a, 'py> Input<'a, 'py> {
    pub(super) fn new(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyBytes>() {
            return Ok(Self {
                object,
                buffer: None,
            });
        }
        let buffer = PyBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the bytes of a message must be contiguous",
            ));
        }
        Ok(Self {
            object,
            buffer: Some(buffer),
        })
    }

    pub(super) fn py(&self) -> Python<'py> {
        self.object.py()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.buffer {
            None => self
                .object
                .cast::<PyBytes>()
                .map_or(&[], |bytes| bytes.as_bytes()),
            Some(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: the buffer is contiguous, and its memory cannot move while it is held. Whoever writes to it during
            // a call gets another message; no length is read twice, so nothing is read outside.
            Some(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes())
            },
        }
    }

    /// A memoryview of `start..end`, which keeps the whole buffer alive.
    pub(super) fn view(&self, start: usize, end: usize) -> PyResult<Bound<'py, PyAny>> {
        let (start, end) = (isize::try_from(start)?, isize::try_from(end)?);
        let piece = PySlice::new(self.py(), start, end, 1);
        if self.object.is_instance_of::<PyMemoryView>() {
            return self.object.get_item(piece);
        }
        PyMemoryView::from(self.object)?.get_item(piece)
    }
}
