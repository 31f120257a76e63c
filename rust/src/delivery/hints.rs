//! What the records of some batches ask of their delivery: `ottla.native.DeliveryHints`.

use crate::batch::Batches;
use crate::batch_header::CONTROL;
use crate::batch_payload::Opener;
use crate::buffer::{ByteView, on_bytes};
use pyo3::prelude::*;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

/// What one record asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The record.
    pub offset: i64,
    /// A hash of its key, never 0.
    pub key: u64,
}

/// The records from `start` up to `end`; those that ask for nothing are left out.
#[pyclass(module = "ottla.native._kernel", frozen)]
pub struct DeliveryHints {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) hints: Vec<Hint>,
}

/// Nobody outside can find keys whose hashes are equal: the hash differs from process to process.
fn hash_of(key: &[u8]) -> u64 {
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::new).hash_one(key) | 1
}

impl DeliveryHints {
    /// Reads up to `max` records that ask for something. Batches that cannot be opened ask for nothing.
    fn read(data: &[u8], start: i64, max: usize, max_decompressed_bytes: usize) -> Self {
        let mut found = Self {
            start,
            end: start,
            hints: Vec::new(),
        };
        let mut opener = Opener::new(max_decompressed_bytes);
        for batch in Batches::new(data).map_while(Result::ok) {
            let next = batch.header.last_offset().saturating_add(1);
            if next <= start {
                continue;
            }
            if !batch.header.has(CONTROL) {
                opener.renew(max_decompressed_bytes);
                if let Ok(records) = opener.open(&batch) {
                    for record in records.map_while(Result::ok) {
                        let Some(key) = record.key else { continue };
                        if record.offset < start {
                            continue;
                        }
                        if found.hints.len() >= max {
                            found.end = record.offset;
                            return found;
                        }
                        found.hints.push(Hint {
                            offset: record.offset,
                            key: hash_of(key),
                        });
                    }
                }
            }
            found.end = next;
        }
        found
    }

    /// The hints from an offset on.
    pub(super) fn from(&self, offset: i64) -> &[Hint] {
        &self.hints[self.hints.partition_point(|hint| hint.offset < offset)..]
    }
}

#[pymethods]
impl DeliveryHints {
    #[new]
    #[pyo3(signature = (data, start_offset, records_max, *, max_decompressed_bytes))]
    fn new(
        py: Python<'_>,
        data: ByteView<'_>,
        start_offset: i64,
        records_max: usize,
        max_decompressed_bytes: usize,
    ) -> Self {
        on_bytes(py, data.as_slice(), |bytes| {
            Self::read(
                bytes,
                start_offset,
                records_max.max(1),
                max_decompressed_bytes,
            )
        })
    }

    #[getter]
    fn start_offset(&self) -> i64 {
        self.start
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.end
    }

    fn __len__(&self) -> usize {
        self.hints.len()
    }
}
