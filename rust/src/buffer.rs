//! Python's byte buffers as slices.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Work on more bytes than this is done without the GIL; for less, giving it up costs more than it frees.
pub const DETACH_BYTES: usize = 64 * 1024;

/// A contiguous buffer of bytes that stays where it is for as long as this value lives.
///
/// Nobody may write to the memory meanwhile: Python does not prevent it for a `bytearray`, the callers do.
pub enum ByteView<'py> {
    /// `bytes`, without the cost of the buffer protocol.
    Bytes(Bound<'py, PyBytes>),
    /// Anything else that exports contiguous bytes.
    Buffer(PyBuffer<u8>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for ByteView<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(ByteView::Bytes(bytes.to_owned()));
        }
        Ok(ByteView::Buffer(contiguous(&object)?))
    }
}

impl ByteView<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            ByteView::Bytes(bytes) => bytes.as_bytes(),
            ByteView::Buffer(buffer) => {
                let length = buffer.len_bytes();
                if length == 0 {
                    return &[];
                }
                // SAFETY: a contiguous export of `length` bytes, kept alive and in place by `buffer`.
                unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), length) }
            }
        }
    }
}

/// A contiguous buffer of bytes that may be changed in place.
pub struct ByteViewMut(PyBuffer<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for ByteViewMut {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let buffer = contiguous(&object)?;
        if buffer.readonly() {
            return Err(PyTypeError::new_err(
                "a writable buffer is needed, such as a bytearray",
            ));
        }
        Ok(ByteViewMut(buffer))
    }
}

impl ByteViewMut {
    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &mut [];
        }
        // SAFETY: a contiguous, writable export of `length` bytes, kept alive and in place by the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast::<u8>(), length) }
    }
}

fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    let buffer = PyBuffer::<u8>::get(object)?;
    if buffer.is_c_contiguous() {
        Ok(buffer)
    } else {
        Err(PyBufferError::new_err(
            "the buffer is not one contiguous run of bytes",
        ))
    }
}

/// Runs `work` on `data`, without the GIL when there is much of it.
pub fn on_bytes<'a, T, F>(py: Python<'_>, data: &'a [u8], work: F) -> T
where
    T: Send,
    F: FnOnce(&'a [u8]) -> T + Send,
{
    if data.len() > DETACH_BYTES {
        py.detach(|| work(data))
    } else {
        work(data)
    }
}
