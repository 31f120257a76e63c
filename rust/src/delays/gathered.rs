//! The records that wait and are in no bucket file yet: in memory, whole.

use crate::delays::cancels::Cancels;
use crate::delays::entry::{Due, Entry, entry_at, put_entry};
use crate::record::Record;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A heap of (due time, offset, where the entry lies).
#[derive(Default)]
pub struct Gathered {
    bytes: Vec<u8>,
    heap: BinaryHeap<Reverse<(i64, i64, usize)>>,
    live_bytes: usize,
}

impl Gathered {
    /// Take a record.
    pub fn put(&mut self, due: i64, place: i64, key_hash: u64, record: &Record<'_>) {
        let at = self.bytes.len();
        put_entry(&mut self.bytes, due, place, key_hash, record);
        self.live_bytes += self.bytes.len() - at;
        self.heap.push(Reverse((due, record.offset, at)));
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The bytes of those that wait.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// The time and offset of the next one.
    pub fn head(&self) -> Option<Due> {
        self.heap
            .peek()
            .map(|Reverse((due, offset, _))| (*due, *offset))
    }

    /// The next one.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.heap
            .peek()
            .and_then(|Reverse((_, _, at))| entry_at(&self.bytes[*at..]))
    }

    /// Let go of the next one.
    pub fn pass(&mut self) {
        if let Some(entry) = self.entry() {
            self.live_bytes -= entry.bytes.len();
        }
        self.heap.pop();
        if self.heap.is_empty() {
            self.bytes.clear();
        }
    }

    /// Drop what is cancelled, and the bytes of what is gone.
    pub fn settle(&mut self, cancels: &Cancels) {
        let bytes = &self.bytes;
        self.heap.retain(|Reverse((_, _, at))| {
            entry_at(&bytes[*at..]).is_some_and(|entry| !cancels.has(entry.key_hash, entry.place))
        });
        let mut order: Vec<_> = std::mem::take(&mut self.heap).into_vec();
        order.sort_unstable_by_key(|Reverse((_, _, at))| *at);
        let mut end = 0;
        for Reverse((_, _, at)) in &mut order {
            let length = entry_at(&self.bytes[*at..]).map_or(0, |entry| entry.bytes.len());
            self.bytes.copy_within(*at..*at + length, end);
            *at = end;
            end += length;
        }
        self.bytes.truncate(end);
        self.live_bytes = end;
        self.heap = order.into();
    }

    /// All of them, in order.
    pub fn sorted(&self) -> Vec<Entry<'_>> {
        let mut order: Vec<(i64, i64, usize)> =
            self.heap.iter().map(|Reverse(each)| *each).collect();
        order.sort_unstable();
        order
            .iter()
            .filter_map(|(_, _, at)| entry_at(&self.bytes[*at..]))
            .collect()
    }

    /// Nothing waits here any more.
    pub fn clear(&mut self) {
        self.heap = BinaryHeap::new();
        self.bytes.clear();
        self.live_bytes = 0;
    }

    /// The first offset.
    pub fn oldest(&self) -> i64 {
        let offsets = self.heap.iter().map(|Reverse((_, offset, _))| *offset);
        offsets.min().unwrap_or(i64::MAX)
    }

    /// The bytes that the entries take, with those that are gone.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// About its memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.heap.capacity() * 24
    }
}
