//! What the records of some batches ask of their delivery: `ottla.native.DeliveryHints`.

use crate::batch::Batches;
use crate::batch_header::CONTROL;
use crate::batch_payload::Opener;
use crate::buffer::{ByteView, on_bytes};
use crate::record::Record;
use pyo3::prelude::*;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

const PRIORITY: &[u8] = b"ottla-priority";
const TTL: &[u8] = b"ottla-ttl";

/// What one record asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The record.
    pub offset: i64,
    /// A hash of its key, 0 for none.
    pub key: u64,
    /// From when on it is not delivered any more, `i64::MAX` for never.
    pub expires_ms: i64,
    /// Its priority, 0 for the lowest.
    pub lane: u8,
}

impl Hint {
    /// A record that asks for nothing.
    pub fn none(offset: i64) -> Self {
        Self {
            offset,
            key: 0,
            expires_ms: i64::MAX,
            lane: 0,
        }
    }
}

/// What is looked for in records.
#[derive(Clone, Copy)]
struct Wanted {
    keys: bool,
    lanes: u8,
    ttl: bool,
}

impl Wanted {
    /// What a record asks for; None for nothing.
    fn hint(&self, record: &Record<'_>) -> Option<Hint> {
        let mut hint = Hint::none(record.offset);
        if self.keys {
            hint.key = record.key.map_or(0, hash_of);
        }
        if self.ttl || self.lanes > 1 {
            for (name, value) in record.headers.iter() {
                let Some(number) = value.and_then(number_of) else {
                    continue;
                };
                if self.ttl && name == TTL {
                    hint.expires_ms = record.timestamp.saturating_add(number);
                } else if self.lanes > 1 && name == PRIORITY {
                    hint.lane = number.min(i64::from(self.lanes) - 1) as u8;
                }
            }
        }
        (hint != Hint::none(record.offset)).then_some(hint)
    }
}

/// A number in decimal digits, which are nothing but digits.
fn number_of(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Nobody outside can find keys whose hashes are equal: the hash differs from process to process.
fn hash_of(key: &[u8]) -> u64 {
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::new).hash_one(key) | 1
}

/// The records from `start` up to `end`; those that ask for nothing are left out.
#[pyclass(module = "ottla.native._kernel", frozen)]
pub struct DeliveryHints {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) hints: Vec<Hint>,
}

impl DeliveryHints {
    /// Reads up to `max` records that ask for something. Batches that cannot be opened ask for nothing.
    fn read(data: &[u8], start: i64, max: usize, wanted: Wanted, decompressed_max: usize) -> Self {
        let mut found = Self {
            start,
            end: start,
            hints: Vec::new(),
        };
        let mut opener = Opener::new(decompressed_max);
        for batch in Batches::new(data).map_while(Result::ok) {
            let next = batch.header.last_offset().saturating_add(1);
            if next <= start {
                continue;
            }
            if !batch.header.has(CONTROL) {
                opener.renew(decompressed_max);
                if let Ok(records) = opener.open(&batch) {
                    for record in records.map_while(Result::ok) {
                        let Some(hint) = wanted.hint(&record) else {
                            continue;
                        };
                        if record.offset < start {
                            continue;
                        }
                        if found.hints.len() >= max {
                            found.end = record.offset;
                            return found;
                        }
                        found.hints.push(hint);
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
    #[pyo3(signature = (data, start_offset, records_max, *, keys = false, lanes = 0, ttl = false, max_decompressed_bytes))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        data: ByteView<'_>,
        start_offset: i64,
        records_max: usize,
        keys: bool,
        lanes: u8,
        ttl: bool,
        max_decompressed_bytes: usize,
    ) -> Self {
        let wanted = Wanted { keys, lanes, ttl };
        on_bytes(py, data.as_slice(), |bytes| {
            Self::read(
                bytes,
                start_offset,
                records_max.max(1),
                wanted,
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

    /// Runs of records of first..last whose time is over.
    fn expired(&self, first: i64, last: i64, now_ms: i64) -> Vec<(i64, i64)> {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for hint in self.from(first) {
            if hint.offset > last {
                break;
            }
            if hint.expires_ms > now_ms {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.1 + 1 == hint.offset => run.1 = hint.offset,
                _ => runs.push((hint.offset, hint.offset)),
            }
        }
        runs
    }
}
