//! Compaction of logs, as Python sees it: two passes over the whole batches of buffers, without the GIL.

mod cleaner;
mod key_offsets;
mod segment_index;
mod transactions;

use crate::buffer::{ByteView, on_bytes};
use cleaner::{Counts, LastBatch, Round, clean, index};
use key_offsets::KeyOffsets;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use segment_index::SegmentIndex;
use std::collections::HashMap;
use transactions::{Aborted, Transactions};

fn transactions_of(aborted: Vec<(i64, i64)>) -> Transactions {
    Transactions::new(
        aborted
            .into_iter()
            .map(|(producer_id, first_offset)| Aborted {
                producer_id,
                first_offset,
            }),
    )
}

/// First pass: the newest offset of each key of the dirty part of a log.
#[pyclass(module = "ottla.native", name = "DirtyKeys")]
struct PyDirtyKeys {
    offsets: KeyOffsets,
    transactions: Transactions,
    start_offset: i64,
    max_decompressed_bytes: usize,
}

#[pymethods]
impl PyDirtyKeys {
    #[new]
    #[pyo3(signature = (*, start_offset, keys_max, memory_bytes, secret, aborted, max_decompressed_bytes))]
    fn new(
        start_offset: i64,
        keys_max: usize,
        memory_bytes: usize,
        secret: &[u8],
        aborted: Vec<(i64, i64)>,
        max_decompressed_bytes: usize,
    ) -> PyResult<Self> {
        let secret: &[u8; 16] = secret
            .try_into()
            .map_err(|_| PyValueError::new_err("the secret has 16 bytes"))?;
        Ok(PyDirtyKeys {
            offsets: KeyOffsets::new(keys_max, memory_bytes, secret),
            transactions: transactions_of(aborted),
            start_offset,
            max_decompressed_bytes,
        })
    }

    fn __len__(&self) -> usize {
        self.offsets.len()
    }

    #[getter]
    fn latest_offset(&self) -> i64 {
        self.offsets.latest_offset
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.offsets.memory_bytes()
    }

    fn add(&mut self, py: Python<'_>, data: ByteView<'_>) -> PyResult<(usize, bool)> {
        let indexed = on_bytes(py, data.as_slice(), |bytes| {
            index(
                bytes,
                self.start_offset,
                &mut self.offsets,
                &mut self.transactions,
                self.max_decompressed_bytes,
            )
        })?;
        Ok((indexed.consumed, indexed.is_full))
    }
}

/// Offset index, time index, the largest timestamp and the last offset of its batch.
type SegmentEnd<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, (i64, i64));

/// Second pass: what stays of a log.
#[pyclass(module = "ottla.native", name = "Compaction")]
struct PyCompaction {
    keys: Py<PyDirtyKeys>,
    transactions: Transactions,
    round: Round,
    counts: Counts,
    segment: SegmentIndex,
}

#[pymethods]
impl PyCompaction {
    #[new]
    #[pyo3(signature = (keys, *, now_ms, delete_retention_ms, end_offset, last_batches, aborted, max_decompressed_bytes))]
    fn new(
        keys: Py<PyDirtyKeys>,
        now_ms: i64,
        delete_retention_ms: i64,
        end_offset: i64,
        last_batches: HashMap<i64, (Option<i64>, i16)>,
        aborted: Vec<(i64, i64)>,
        max_decompressed_bytes: usize,
    ) -> Self {
        let last_batches = last_batches
            .into_iter()
            .map(|(producer_id, (data_offset, epoch))| {
                (producer_id, LastBatch { data_offset, epoch })
            })
            .collect();
        PyCompaction {
            keys,
            transactions: transactions_of(aborted),
            round: Round {
                now_ms,
                delete_retention_ms,
                end_offset,
                last_batches,
                max_decompressed_bytes,
            },
            counts: Counts::default(),
            segment: SegmentIndex::new(0, 0),
        }
    }

    #[getter]
    fn records_read(&self) -> u64 {
        self.counts.records_read
    }

    #[getter]
    fn records_kept(&self) -> u64 {
        self.counts.records_kept
    }

    #[getter]
    fn aborted_kept(&self) -> Vec<usize> {
        self.transactions.kept.clone()
    }

    fn begin_segment(&mut self, base_offset: i64, index_interval_bytes: u64) {
        self.segment = SegmentIndex::new(base_offset, index_interval_bytes);
    }

    fn end_segment<'py>(&mut self, py: Python<'py>) -> SegmentEnd<'py> {
        self.segment.complete();
        (
            PyBytes::new(py, &self.segment.offsets),
            PyBytes::new(py, &self.segment.times),
            self.segment.largest_timestamp(),
        )
    }

    fn clean<'py>(
        &mut self,
        py: Python<'py>,
        data: ByteView<'py>,
    ) -> PyResult<(usize, Bound<'py, PyBytes>)> {
        let keys = self.keys.borrow(py);
        let offsets = &keys.offsets;
        let (transactions, round) = (&mut self.transactions, &self.round);
        let (counts, segment) = (&mut self.counts, &mut self.segment);
        let mut out = Vec::new();
        let consumed = on_bytes(py, data.as_slice(), |bytes| {
            clean(
                bytes,
                offsets,
                transactions,
                round,
                counts,
                segment,
                &mut out,
            )
        })?;
        Ok((consumed, PyBytes::new(py, &out)))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDirtyKeys>()?;
    module.add_class::<PyCompaction>()
}
