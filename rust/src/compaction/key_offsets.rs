//! The newest offset of each key of the dirty part of a log, in a table whose size is known beforehand.
//!
//! ```text
//! slot      | digest of the key, 16 bytes | offset + 1, 8 bytes |     0: the slot is free
//! look-up   digest * slots / 2^64, then the next slots until the digest or a free one is found
//! ```
//!
//! Keys are not kept, only their SipHash-1-3 of 128 bits under a secret of this run: nobody can make up two keys of one
//! digest, and by chance it does not happen. Three slots of four are used at most, so a look-up tries few of them.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// Bytes a slot takes.
pub const SLOT_BYTES: usize = 24;

/// Two halves of a digest, and the offset + 1. Plain numbers: a table of zeros is had from the system without touching it.
type Slot = [u64; 3];

const FREE: Slot = [0; 3];

/// The newest offset of each key.
pub struct KeyOffsets {
    slots: Vec<Slot>,
    hasher: SipHasher13,
    count: usize,
    count_max: usize,
    /// The last offset of the last batch that was looked at; -1 before the first.
    pub latest_offset: i64,
}

impl KeyOffsets {
    /// A table for `keys` keys, or for as many as `memory_bytes` have room for; at least one.
    pub fn new(keys: usize, memory_bytes: usize, secret: &[u8; 16]) -> Self {
        let wanted = keys.saturating_add(keys / 3).saturating_add(2);
        let slots = wanted.min(memory_bytes / SLOT_BYTES).max(2);
        KeyOffsets {
            slots: vec![FREE; slots],
            hasher: SipHasher13::new_with_key(secret),
            count: 0,
            count_max: (slots - slots.div_ceil(4)).max(1),
            latest_offset: -1,
        }
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Bytes the table takes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    /// Remembers that `key` was written at `offset`, after all offsets before. False when there is no room for a new key.
    pub fn put(&mut self, key: &[u8], offset: i64) -> bool {
        let digest = self.digest(key);
        let at = self.find(digest);
        if self.slots[at][2] == 0 {
            if self.count == self.count_max {
                return false;
            }
            self.count += 1;
        }
        self.slots[at] = [digest[0], digest[1], offset as u64 + 1];
        true
    }

    /// The newest offset of `key`.
    pub fn get(&self, key: &[u8]) -> Option<i64> {
        let [_, _, offset_after] = self.slots[self.find(self.digest(key))];
        (offset_after != 0).then(|| offset_after as i64 - 1)
    }

    fn digest(&self, key: &[u8]) -> [u64; 2] {
        let mut hasher = self.hasher;
        hasher.write(key);
        let digest = hasher.finish128();
        [digest.h1, digest.h2]
    }

    /// The slot that holds the digest, or the free one where it would be put.
    fn find(&self, digest: [u64; 2]) -> usize {
        let slots = self.slots.len();
        let mut at = ((u128::from(digest[0]) * slots as u128) >> 64) as usize;
        loop {
            let [first, second, offset_after] = self.slots[at];
            if offset_after == 0 || [first, second] == digest {
                return at;
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SECRET: [u8; 16] = [7; 16];

    #[test]
    fn a_full_table_takes_known_keys_and_refuses_new_ones() {
        let mut table = KeyOffsets::new(1_000_000, 8 * SLOT_BYTES, &SECRET);
        assert_eq!(table.memory_bytes(), 8 * SLOT_BYTES);
        for key in 0..6u8 {
            assert!(table.put(&[key], i64::from(key)));
        }
        assert!(!table.put(&[6], 6));
        assert!(table.put(&[3], 7));
        assert_eq!(
            (table.len(), table.get(&[3]), table.get(&[6])),
            (6, Some(7), None)
        );
    }

    #[test]
    fn there_is_always_room_for_one_key() {
        let mut table = KeyOffsets::new(0, 0, &SECRET);
        assert!(table.put(b"a", 0));
        assert!(!table.put(b"b", 1));
        assert_eq!(table.get(b"b"), None);
    }

    proptest! {
        #[test]
        fn it_is_a_map(keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..4), 0..200)) {
            let mut table = KeyOffsets::new(keys.len(), usize::MAX, &SECRET);
            let mut model = HashMap::new();
            for (offset, key) in keys.iter().enumerate() {
                prop_assert!(table.put(key, offset as i64));
                model.insert(key.clone(), offset as i64);
            }
            prop_assert_eq!(table.len(), model.len());
            for (key, offset) in &model {
                prop_assert_eq!(table.get(key), Some(*offset));
            }
            prop_assert_eq!(table.get(b"another"), None);
        }
    }
}
