//! What waits in a partition of a delay topic: when each record is due, and where it lies. `ottla.native.DelayIndex`.
//!
//! ```text
//! moved by then          waiting, in memory                      far: counted, read again when they are near
//! ... (due, offset) |    heap of (due, offset, hash of key)      | horizon ...
//! ```

use crate::batch_payload::{Opener, batches_from, record_error};
use crate::buffer::{ByteView, on_bytes};
use crate::error::BatchError;
use crate::record::Record;
use pyo3::prelude::*;
use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasher;

const DELIVER_AT: &[u8] = b"ottla-deliver-at";
const DELAY: &[u8] = b"ottla-delay";
const CANCEL: &[u8] = b"ottla-cancel";
const DELAY_MAX_MS: i64 = 3_653 * 86_400_000;
const CANCELS_MIN: usize = 1 << 16;

/// When a record is due, and its offset: the order in which records are moved.
type Due = (i64, i64);

/// A number of milliseconds in decimal digits, which are nothing but digits.
fn milliseconds(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What a record asks for.
enum Wish {
    /// To be moved at a time.
    At(i64),
    /// That what waits with its key is not moved.
    Cancel,
    /// Something that cannot be: it is moved at once, to the letters.
    Bad,
}

fn wish(record: &Record<'_>, default_delay_ms: i64) -> Wish {
    let (mut at, mut delay) = (None, None);
    for (key, value) in record.headers.iter() {
        match key {
            CANCEL => {
                return if record.key.is_some() {
                    Wish::Cancel
                } else {
                    Wish::Bad
                };
            }
            DELIVER_AT => at = Some(value),
            DELAY => delay = Some(value),
            _ => {}
        }
    }
    let wanted = match (at, delay) {
        (Some(at), _) => at.and_then(milliseconds),
        (None, Some(delay)) => delay
            .and_then(milliseconds)
            .and_then(|delay| record.timestamp.checked_add(delay)),
        (None, None) => record.timestamp.checked_add(default_delay_ms),
    };
    match wanted {
        Some(due) if due <= record.timestamp.saturating_add(DELAY_MAX_MS) => Wish::At(due),
        _ => Wish::Bad,
    }
}

/// When the records of a partition are due.
#[pyclass(module = "ottla.native._kernel")]
struct DelayIndex {
    default_delay_ms: i64,
    entries_max: usize,
    moved: Due,
    moved_end: i64,
    heap: BinaryHeap<Reverse<(i64, i64, u64)>>,
    cancels: HashMap<u64, i64>,
    hasher: RandomState,
    horizon: Due,
    far_count: u64,
    far_oldest: i64,
}

impl DelayIndex {
    fn is_cancelled(&self, offset: i64, key: u64) -> bool {
        key != 0
            && self
                .cancels
                .get(&key)
                .is_some_and(|&cancel| cancel > offset)
    }

    fn hash_of(&self, key: Option<&[u8]>) -> u64 {
        key.map_or(0, |key| self.hasher.hash_one(key) | 1)
    }

    fn take(&mut self, record: &Record<'_>) {
        let key = self.hash_of(record.key);
        let due = match wish(record, self.default_delay_ms) {
            Wish::At(due) => due,
            Wish::Bad => i64::MIN,
            Wish::Cancel => {
                self.cancels.insert(key, record.offset);
                if self.cancels.len() > CANCELS_MIN.max(self.heap.len() / 8) {
                    self.settle_cancels();
                }
                return;
            }
        };
        if record.offset < self.moved_end && (due, record.offset) <= self.moved {
            return;
        }
        if (due, record.offset) >= self.horizon {
            self.leave_far(record.offset);
            return;
        }
        if self.heap.len() >= self.entries_max {
            self.narrow();
            if (due, record.offset) >= self.horizon {
                self.leave_far(record.offset);
                return;
            }
        }
        self.heap.push(Reverse((due, record.offset, key)));
    }

    fn leave_far(&mut self, offset: i64) {
        self.far_count += 1;
        self.far_oldest = self.far_oldest.min(offset);
    }

    /// Drop what is cancelled: the cancellations concern nothing that comes later.
    fn settle_cancels(&mut self) {
        let cancels = std::mem::take(&mut self.cancels);
        self.heap.retain(|Reverse((_, offset, key))| {
            *key == 0 || cancels.get(key).is_none_or(|cancel| cancel <= offset)
        });
    }

    /// Keep the nearer half.
    fn narrow(&mut self) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        let half = entries.len() / 2;
        // Reverse sorts the latest first.
        entries.select_nth_unstable_by(half, |one, other| other.cmp(one));
        for Reverse((_, offset, _)) in entries.drain(half + 1..) {
            self.far_count += 1;
            self.far_oldest = self.far_oldest.min(offset);
        }
        if let Some(Reverse((due, offset, _))) = entries.pop() {
            self.leave_far(offset);
            self.horizon = (due, offset);
        }
        self.heap = entries.into();
    }

    fn scan(
        &mut self,
        data: &[u8],
        start_offset: i64,
        passed_over: &[i64],
        max_decompressed_bytes: usize,
    ) -> Result<(), BatchError> {
        let mut opener = Opener::new(max_decompressed_bytes);
        for batch in batches_from(data, start_offset, false) {
            let batch = batch?;
            if passed_over.contains(&batch.header.base_offset) {
                continue;
            }
            opener.renew(max_decompressed_bytes);
            for (index, record) in opener.open(&batch)?.enumerate() {
                let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
                if record.offset >= start_offset {
                    self.take(&record);
                }
            }
        }
        Ok(())
    }
}

#[pymethods]
impl DelayIndex {
    #[new]
    #[pyo3(signature = (*, default_delay_ms, entries_max, moved_due, moved_offset, moved_end))]
    fn new(
        default_delay_ms: i64,
        entries_max: usize,
        moved_due: i64,
        moved_offset: i64,
        moved_end: i64,
    ) -> Self {
        DelayIndex {
            default_delay_ms,
            entries_max: entries_max.max(2),
            moved: (moved_due, moved_offset),
            moved_end,
            heap: BinaryHeap::new(),
            cancels: HashMap::new(),
            hasher: RandomState::new(),
            horizon: (i64::MAX, i64::MAX),
            far_count: 0,
            far_oldest: i64::MAX,
        }
    }

    fn __len__(&self) -> usize {
        self.heap.len()
    }

    #[getter]
    fn far_count(&self) -> u64 {
        self.far_count
    }

    #[getter]
    fn horizon_ms(&self) -> i64 {
        self.horizon.0
    }

    /// About the memory of it all.
    #[getter]
    fn bytes(&self) -> usize {
        self.heap.capacity() * 24 + self.cancels.capacity() * 17
    }

    #[pyo3(signature = (data, start_offset, passed_over, max_decompressed_bytes))]
    fn add(
        &mut self,
        py: Python<'_>,
        data: ByteView<'_>,
        start_offset: i64,
        passed_over: Vec<i64>,
        max_decompressed_bytes: usize,
    ) -> PyResult<()> {
        Ok(on_bytes(py, data.as_slice(), |bytes| {
            self.scan(bytes, start_offset, &passed_over, max_decompressed_bytes)
        })?)
    }

    /// When the next one is due, None when nothing waits.
    fn next_due(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((due, _, _))| *due)
    }

    fn pop(
        &mut self,
        now_ms: i64,
        moved_due: i64,
        moved_offset: i64,
        records_max: usize,
    ) -> Vec<Due> {
        let moved = (moved_due, moved_offset);
        let mut found = Vec::new();
        while let Some(&Reverse((due, offset, key))) = self.heap.peek() {
            if (due, offset) > moved && (due > now_ms || found.len() >= records_max) {
                break;
            }
            self.heap.pop();
            if !self.is_cancelled(offset, key) {
                found.push((due, offset));
            }
        }
        found
    }

    /// The first offset of what waits, None when nothing does.
    fn oldest(&mut self) -> Option<i64> {
        self.settle_cancels();
        let near = self
            .heap
            .iter()
            .map(|Reverse((_, offset, _))| *offset)
            .min();
        let oldest = near.unwrap_or(i64::MAX).min(self.far_oldest);
        (oldest < i64::MAX).then_some(oldest)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DelayIndex>()
}
