//! How far the indexes of a segment that grows have got, and when the next entry is due.

use pyo3::prelude::*;

/// Bytes since the last entry, and the largest timestamp with the last offset of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) bytes_since_entry: u64,
    pub(crate) max_timestamp: i64,
    pub(crate) max_timestamp_offset: i64,
}

impl Indexed {
    /// Takes a batch into account. Whether an entry comes before it: as in Kafka before the first batch after more than
    /// `interval_bytes` without one.
    pub(crate) fn add(
        &mut self,
        size: u64,
        last_offset: i64,
        timestamp: i64,
        interval_bytes: u64,
    ) -> bool {
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_offset = last_offset;
        }
        let is_due = self.bytes_since_entry > interval_bytes;
        if is_due {
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry = self.bytes_since_entry.saturating_add(size);
        is_due
    }
}

/// `Indexed`, as Python sees it.
#[pyclass(module = "ottla.native._kernel")]
pub(crate) struct IndexProgress {
    pub(crate) indexed: Indexed,
}

#[pymethods]
impl IndexProgress {
    #[new]
    fn new(bytes_since_entry: u64, max_timestamp: i64, max_timestamp_offset: i64) -> Self {
        let indexed = Indexed {
            bytes_since_entry,
            max_timestamp,
            max_timestamp_offset,
        };
        Self { indexed }
    }

    #[getter]
    fn max_timestamp(&self) -> (i64, i64) {
        (
            self.indexed.max_timestamp,
            self.indexed.max_timestamp_offset,
        )
    }

    fn add(&mut self, size: u64, last_offset: i64, timestamp: i64, interval_bytes: u64) -> bool {
        self.indexed
            .add(size, last_offset, timestamp, interval_bytes)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<IndexProgress>()
}
