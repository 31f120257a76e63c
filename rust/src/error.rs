//! What can be wrong with a run of record batches, and how Python hears of it.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::fmt;

/// The kinds of failure; each is an exception class of `ottla.native.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Lengths, counts or checksums contradict each other.
    Corrupt,
    /// The batch is intact, but no producer may write it.
    InvalidRecord,
    /// A record's timestamp is not one that may be written.
    InvalidTimestamp,
    /// The batch is longer than the caller allows.
    BatchTooLarge,
    /// The message format is not version 2.
    UnsupportedMagic,
    /// The compression codec does not exist.
    UnsupportedCodec,
    /// The records would expand beyond what the caller allows.
    DecompressionLimit,
    /// The buffer ends inside a batch.
    Truncated,
}

impl Fault {
    fn class_name(self) -> &'static str {
        match self {
            Fault::Corrupt => "CorruptRecordError",
            Fault::InvalidRecord => "InvalidRecordError",
            Fault::InvalidTimestamp => "InvalidTimestampError",
            Fault::BatchTooLarge => "BatchTooLargeError",
            Fault::UnsupportedMagic => "UnsupportedMagicError",
            Fault::UnsupportedCodec => "UnsupportedCodecError",
            Fault::DecompressionLimit => "DecompressionLimitError",
            Fault::Truncated => "TruncatedError",
        }
    }
}

/// A record that may not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The record's place in its batch, from 0.
    pub index: i32,
    /// What is wrong with it, for a person.
    pub what: String,
}

/// One failure, with the place of the batch it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// The kind of failure.
    pub fault: Fault,
    /// What was wrong, for a person.
    pub what: String,
    /// Where the batch starts in the buffer, in bytes.
    pub position: usize,
    /// The batch's place in the run, from 0.
    pub batch_index: usize,
    /// The batch's base offset, when enough of it was there to read it.
    pub base_offset: Option<i64>,
    /// The records that were the reason, the first of them at least.
    pub record_errors: Vec<RecordError>,
}

impl fmt::Display for BatchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} (batch {} at byte {}",
            self.what, self.batch_index, self.position
        )?;
        if let Some(base_offset) = self.base_offset {
            write!(out, ", base offset {base_offset}")?;
        }
        out.write_str(")")
    }
}

impl BatchError {
    /// The exception object, an instance of a class of `ottla.native.errors`.
    pub fn to_exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let exception = py
            .import("ottla.native.errors")?
            .getattr(self.fault.class_name())?
            .cast_into::<PyType>()?
            .call1((
                self.to_string(),
                self.position,
                self.batch_index,
                self.base_offset,
            ))?;
        if !self.record_errors.is_empty() {
            let errors = self.record_errors.iter();
            let pairs = errors.map(|error| (error.index, error.what.as_str()));
            exception.setattr("record_errors", PyTuple::new(py, pairs)?)?;
        }
        Ok(exception)
    }
}

impl From<BatchError> for PyErr {
    fn from(error: BatchError) -> PyErr {
        Python::attach(|py| match error.to_exception(py) {
            Ok(exception) => PyErr::from_value(exception),
            Err(failure) => failure,
        })
    }
}
