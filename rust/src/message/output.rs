//! The bytes of a message while it is written, and what stands between them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::failure::{Failure, Outcome};
use super::wire::put_unsigned_varint;

/// The size of the length in front of a frame.
const FRAME_LENGTH_BYTES: usize = 4;

/// A run of bytes or, when it may have splices, runs of bytes with objects between them.
///
/// A Fetch response in parts: the objects are pieces of files, which go to the socket on their own.
/// ```text
/// bytes    [length, header, fields up to the first records][fields between][fields after]
/// splices                                                  ^ slices        ^ slices
/// ```
pub(super) struct Output<'py> {
    pub(super) bytes: Vec<u8>,
    /// None when everything must be in `bytes`.
    splices: Option<Vec<Splice<'py>>>,
}

/// Objects that stand before the position `at` of the bytes.
struct Splice<'py> {
    at: usize,
    size: usize,
    objects: Vec<Bound<'py, PyAny>>,
}

impl<'py> Output<'py> {
    /// For a message alone.
    pub(super) fn whole() -> Self {
        Self {
            bytes: Vec::with_capacity(256),
            splices: None,
        }
    }

    /// For a message after a header, with room for the length in front.
    pub(super) fn framed(header: &[u8]) -> Self {
        let mut output = Self::whole();
        output.bytes.extend_from_slice(&[0; FRAME_LENGTH_BYTES]);
        output.bytes.extend_from_slice(header);
        output
    }

    /// The same, with splices.
    pub(super) fn framed_in_parts(header: &[u8]) -> Self {
        Self {
            splices: Some(Vec::new()),
            ..Self::framed(header)
        }
    }

    pub(super) fn may_splice(&self) -> bool {
        self.splices.is_some()
    }

    /// Lets `objects`, which are `size` bytes together, stand here.
    pub(super) fn splice(&mut self, size: usize, objects: Vec<Bound<'py, PyAny>>) {
        let at = self.bytes.len();
        if let Some(splices) = &mut self.splices {
            splices.push(Splice { at, size, objects });
        }
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The length of an array, of bytes or of a compact string.
    pub(super) fn put_length(&mut self, length: usize, compact: bool) -> Outcome<()> {
        let length = i32::try_from(length)
            .map_err(|_| Failure::of(format!("a length of {length}, {} at most", i32::MAX)))?;
        if compact {
            put_unsigned_varint(&mut self.bytes, length.unsigned_abs() + 1);
        } else {
            self.put(&length.to_be_bytes());
        }
        Ok(())
    }

    /// Writes the length of the frame into its place.
    pub(super) fn put_frame_length(&mut self) -> Outcome<()> {
        let splices = self.splices.iter().flatten();
        let spliced: usize = splices.map(|splice| splice.size).sum();
        let size = i32::try_from(self.bytes.len() - FRAME_LENGTH_BYTES + spliced)
            .map_err(|_| Failure::of("the frame is larger than 2 GiB"))?;
        self.bytes[..FRAME_LENGTH_BYTES].copy_from_slice(&size.to_be_bytes());
        Ok(())
    }

    /// The bytes and what stands between them, in order.
    pub(super) fn into_parts(self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let parts = PyList::empty(py);
        let mut start = 0;
        for splice in self.splices.into_iter().flatten() {
            if splice.at > start {
                parts.append(PyBytes::new(py, &self.bytes[start..splice.at]))?;
                start = splice.at;
            }
            for object in splice.objects {
                parts.append(object)?;
            }
        }
        if self.bytes.len() > start {
            parts.append(PyBytes::new(py, &self.bytes[start..]))?;
        }
        Ok(parts)
    }
}
