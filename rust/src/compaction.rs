//! Compaction of logs, as Python sees it: two passes over the whole batches of buffers, without the GIL.

mod cleaner;
mod key_offsets;
mod segment_index;
mod stream_snapshot;
mod transactions;

use crate::buffer::{ByteView, on_bytes};
use cleaner::{Counts, LastBatch, Round, Rule, clean, index};
use key_offsets::KeyOffsets;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use segment_index::SegmentIndex;
use std::collections::HashMap;
use stream_snapshot::Search;
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

/// First pass over the log of a stream of Redis: the newest snapshot in it.
#[pyclass(module = "ottla.native", name = "StreamSnapshots")]
struct PyStreamSnapshots {
    search: Search,
    max_decompressed_bytes: usize,
}

#[pymethods]
impl PyStreamSnapshots {
    #[new]
    #[pyo3(signature = (*, memory_bytes, max_decompressed_bytes, begin_offset = 0))]
    fn new(memory_bytes: usize, max_decompressed_bytes: usize, begin_offset: i64) -> Self {
        PyStreamSnapshots {
            search: Search::new(memory_bytes, begin_offset),
            max_decompressed_bytes,
        }
    }

    #[getter]
    fn newest(&self) -> Option<(i64, i64)> {
        let found = self.search.found.as_ref()?;
        Some((found.offset, found.end_offset))
    }

    fn search(&mut self, py: Python<'_>, data: ByteView<'_>, end_offset: i64) -> PyResult<usize> {
        let (search, max) = (&mut self.search, self.max_decompressed_bytes);
        Ok(on_bytes(py, data.as_slice(), |bytes| {
            search.search(bytes, end_offset, max)
        })?)
    }
}

/// What decides which records stay, as Python has it.
#[derive(FromPyObject)]
enum PyRule {
    Keys(Py<PyDirtyKeys>),
    Stream(Py<PyStreamSnapshots>),
}

/// Offset index, time index, the largest timestamp and the last offset of its batch.
type SegmentEnd<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, (i64, i64));

/// Second pass: what stays of a log.
#[pyclass(module = "ottla.native", name = "Compaction")]
struct PyCompaction {
    rule: PyRule,
    transactions: Transactions,
    round: Round,
    counts: Counts,
    segment: SegmentIndex,
}

#[pymethods]
impl PyCompaction {
    #[new]
    #[pyo3(signature = (rule, *, now_ms, delete_retention_ms, end_offset, last_batches, aborted, max_decompressed_bytes))]
    fn new(
        rule: PyRule,
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
            rule,
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
        let (transactions, round) = (&mut self.transactions, &self.round);
        let (counts, segment) = (&mut self.counts, &mut self.segment);
        let mut out = Vec::new();
        let mut run = |rule: Rule<'_>| {
            on_bytes(py, data.as_slice(), |bytes| {
                clean(bytes, rule, transactions, round, counts, segment, &mut out)
            })
        };
        let consumed = match &self.rule {
            PyRule::Keys(keys) => run(Rule::Keys(&keys.borrow(py).offsets))?,
            PyRule::Stream(snapshots) => match &snapshots.borrow(py).search.found {
                Some(snapshot) => run(Rule::Stream(snapshot))?,
                None => return Err(PyValueError::new_err("no snapshot was found")),
            },
        };
        Ok((consumed, PyBytes::new(py, &out)))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDirtyKeys>()?;
    module.add_class::<PyStreamSnapshots>()?;
    module.add_class::<PyCompaction>()
}
