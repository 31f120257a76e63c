//! Which waiting records are cancelled: by key, what has a place before the last cancellation.

use std::collections::HashMap;

/// A cancellation: the hash of the key, the place before which it cancels, and its own offset.
pub type Cancel = (u64, i64, i64);

/// Cancellations that may still concern something. At most 50 bytes each.
#[derive(Clone, Default)]
pub struct Cancels(HashMap<u64, (i64, i64)>);

impl Cancels {
    /// Add one.
    pub fn add(&mut self, (key_hash, place, offset): Cancel) {
        let last = self.0.entry(key_hash).or_insert((place, offset));
        *last = (last.0.max(place), last.1.max(offset));
    }

    /// Whether a record is cancelled. One without a key has the hash 0.
    pub fn has(&self, key_hash: u64, place: i64) -> bool {
        self.over(key_hash, place).is_some()
    }

    /// The place of what cancels a record.
    pub fn over(&self, key_hash: u64, place: i64) -> Option<i64> {
        if key_hash == 0 || self.0.is_empty() {
            return None;
        }
        let (cancel, _) = self.0.get(&key_hash)?;
        (place < *cancel).then_some(*cancel)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many have an own offset of at least this one.
    pub fn count_since(&self, from: i64) -> usize {
        let offsets = self.0.values().map(|(_, offset)| *offset);
        offsets.filter(|offset| *offset >= from).count()
    }

    /// Those whose own offset is at least this one.
    pub fn since(&self, from: i64) -> Vec<Cancel> {
        self.0
            .iter()
            .filter(|(_, (_, offset))| *offset >= from)
            .map(|(key_hash, (place, offset))| (*key_hash, *place, *offset))
            .collect()
    }

    /// Drop those whose own offset is below this one.
    pub fn drop_before(&mut self, end: i64) {
        if !self.0.is_empty() {
            self.0.retain(|_, (_, offset)| *offset >= end);
            self.0.shrink_to_fit();
        }
    }

    /// About its memory.
    pub fn memory(&self) -> usize {
        self.0.capacity() * 25
    }
}
