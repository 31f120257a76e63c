//! Where the latest batches of the active segment lie, so that readers at the tail need no look at the disk.
//!
//! ```text
//! batches   (700, 0) (750, 16000) (751, 16100) (790, 40000)    and the end, 61000: the batch of 760 lies at 16100
//! ```

use pyo3::prelude::*;

/// How many are kept at least, once there have been so many; twice as many at most.
const BATCHES_MAX: usize = 1024;

/// The base offsets and positions of up to about two thousand batches, the latest of one segment.
#[pyclass(module = "ottla.native._kernel")]
pub(crate) struct RecentBatches {
    batches: Vec<(i64, u64)>,
    end: u64,
}

impl RecentBatches {
    /// None so far, of a segment that ends there.
    pub(crate) fn from(end: u64) -> Self {
        Self {
            batches: Vec::new(),
            end,
        }
    }

    /// Where the last one ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// A batch of `size` bytes was appended.
    pub(crate) fn push(&mut self, base_offset: i64, size: u64) {
        if self.batches.len() == 2 * BATCHES_MAX {
            self.batches.drain(..BATCHES_MAX);
        }
        self.batches.push((base_offset, self.end));
        self.end = self.end.saturating_add(size);
    }

    /// How many begin at or before an offset.
    fn up_to_offset(&self, offset: i64) -> usize {
        self.batches.partition_point(|batch| batch.0 <= offset)
    }
}

#[pymethods]
impl RecentBatches {
    #[new]
    fn new(end_position: u64) -> Self {
        Self::from(end_position)
    }

    #[getter]
    fn end_position(&self) -> u64 {
        self.end
    }

    fn add(&mut self, base_offset: i64, size: u64) {
        self.push(base_offset, size);
    }

    fn containing(&self, offset: i64) -> Option<(u64, u64)> {
        let next = self.up_to_offset(offset);
        let (_, position) = *self.batches.get(next.checked_sub(1)?)?;
        let end = self.batches.get(next).map_or(self.end, |batch| batch.1);
        Some((position, end - position))
    }

    fn position_from(&self, offset: i64) -> Option<u64> {
        let first = self.batches.first()?;
        if offset < first.0 {
            return None;
        }
        let index = self.batches.partition_point(|batch| batch.0 < offset);
        Some(self.batches.get(index).map_or(self.end, |batch| batch.1))
    }

    fn position_at(&self, position: u64) -> Option<u64> {
        let next = self.batches.partition_point(|batch| batch.1 <= position);
        Some(self.batches.get(next.checked_sub(1)?)?.1)
    }

    fn offset_from(&self, position: u64) -> Option<i64> {
        let first = self.batches.first()?;
        if position < first.1 {
            return None;
        }
        let index = self.batches.partition_point(|batch| batch.1 < position);
        self.batches.get(index).map(|batch| batch.0)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecentBatches>()
}
