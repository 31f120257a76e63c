//! Order by key: no record is delivered before those of its key that lie before it are done.
//!
//! ```text
//! offset      10   11   12   13   14   15         queues    a: 10 -> 12 -> 15
//! key          a    b    a    -    b    a                   b: 11 -> 14
//! may go      yes  yes   no  yes   no   no        10 done:  a: 12 -> 15, and 12 may go
//! ```
//!
//! A record that has to wait for another has the slot `BLOCKED`, so nothing delivers it. Only records that are held, that
//! were given back, or that are blocked are kept here: a new one that could be delivered is looked at when it is.

use super::hints::{DeliveryHints, Hint};
use super::lease::Lease;
use super::ledger::Ledger;
use super::page::{BLOCKED, Entry as Record, NEW, NO_LEASE, State};
use super::run::{Run, push_run};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Of numbers: hashes of keys are hashes already, and offsets differ in their low bits.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }
}

type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The bytes of a record in the table and in its queue.
const RECORD_BYTES: usize = 17 + 16;
/// The bytes of a key in the table.
const KEY_BYTES: usize = 49;

/// The records of a key in the order of their offsets. Most keys have one, which needs no memory of its own.
struct Queue {
    /// It may be delivered.
    first: i64,
    behind: VecDeque<i64>,
}

/// See the module.
pub struct Order {
    /// The key of each record that is kept.
    keys: Numbered<i64, u64>,
    queues: Numbered<u64, Queue>,
    blocked: u64,
    /// Up to where records were looked at; below the end of the ledger when it has to catch up.
    known_to: i64,
}

impl Order {
    fn new(known_to: i64) -> Self {
        Self {
            keys: Numbered::default(),
            queues: Numbered::default(),
            blocked: 0,
            known_to,
        }
    }

    /// Keeps a record behind all of its key. Returns whether it is the first.
    fn add(&mut self, hint: Hint) -> bool {
        self.keys.insert(hint.offset, hint.key);
        match self.queues.entry(hint.key) {
            Entry::Vacant(place) => {
                place.insert(Queue {
                    first: hint.offset,
                    behind: VecDeque::new(),
                });
                true
            }
            Entry::Occupied(mut place) => {
                place.get_mut().behind.push_back(hint.offset);
                false
            }
        }
    }

    /// Whether records of a key are kept.
    fn has(&self, key: u64) -> bool {
        self.queues.contains_key(&key)
    }

    /// Whether a record is kept and not the first of its key.
    fn is_behind(&self, offset: i64) -> bool {
        self.keys
            .get(&offset)
            .and_then(|key| self.queues.get(key))
            .is_some_and(|queue| queue.first != offset)
    }

    /// A record is done. Gives the one that is the first of its key now, if there is another.
    fn remove(&mut self, offset: i64) -> Option<i64> {
        let key = self.keys.remove(&offset)?;
        let Entry::Occupied(mut place) = self.queues.entry(key) else {
            return None;
        };
        let queue = place.get_mut();
        if queue.first != offset {
            if let Ok(index) = queue.behind.binary_search(&offset) {
                queue.behind.remove(index);
            }
            return None;
        }
        match queue.behind.pop_front() {
            Some(next) => {
                queue.first = next;
                Some(next)
            }
            None => {
                place.remove();
                None
            }
        }
    }

    /// About the bytes of it.
    fn bytes(&self) -> usize {
        self.keys.capacity() * RECORD_BYTES + self.queues.capacity() * KEY_BYTES
    }
}

/// What an acquisition in order may have.
pub struct Allowance {
    /// Records in all.
    pub records: u32,
    /// Records that were never delivered before.
    pub new: u64,
    /// How many may be blocked at most, with those that are.
    pub blocked: u64,
}

impl Ledger {
    /// Orders by key from now on, or no longer.
    pub fn order_by_key(&mut self, is_ordered: bool) {
        if is_ordered && self.order.is_none() {
            self.order = Some(Order::new(self.pages.start()));
        } else if !is_ordered && let Some(order) = self.order.take() {
            for &offset in order.keys.keys() {
                self.unblock(offset);
            }
        }
    }

    /// Up to where records were looked at; the end when there is no order.
    pub fn known_to(&self) -> i64 {
        self.order.as_ref().map_or(self.pages.end(), |order| {
            order.known_to.clamp(self.pages.start(), self.pages.end())
        })
    }

    /// Records that wait for another of their key.
    pub fn blocked(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.blocked)
    }

    /// About the bytes of the order.
    pub fn order_bytes(&self) -> usize {
        self.order.as_ref().map_or(0, Order::bytes)
    }

    /// Looks at records that were delivered before there was an order, or by another leader.
    pub fn learn(&mut self, hints: &DeliveryHints) {
        let known_to = self.known_to();
        let to = hints.end.min(self.pages.end());
        let Some(order) = &mut self.order else { return };
        if hints.start > known_to || to <= known_to {
            return;
        }
        for hint in hints.from(known_to) {
            if hint.offset >= to {
                break;
            }
            let entry = self.pages.get(hint.offset);
            if !entry.is_done() && !order.add(*hint) && entry.is_deliverable() {
                order.blocked += 1;
                self.pages.put(
                    hint.offset,
                    Record {
                        slot: BLOCKED,
                        ..entry
                    },
                );
            }
        }
        order.known_to = to;
    }

    /// Delivers what may be delivered of `first..=last` in order, as `acquire`. New records have to lie in the hints.
    ///
    /// Nothing is delivered while the ledger has to catch up. The end is moved over records that are blocked, and stays
    /// before the first one that could be delivered, or would be blocked, and is not allowed.
    pub fn acquire_in_order(
        &mut self,
        owner: u32,
        hints: &DeliveryHints,
        first: i64,
        last: i64,
        allowance: Allowance,
        deadline_ms: i64,
    ) -> (u64, Vec<Run>) {
        if self.known_to() < self.pages.end() {
            return (0, Vec::new());
        }
        if first > self.pages.end() {
            self.pages.skip_to(first);
        }
        let Some(order) = &mut self.order else {
            return (0, Vec::new());
        };
        let slot = self.leases.add(Lease::new(owner, deadline_ms, first));
        let mut ahead = hints.from(self.pages.end()).iter().copied().peekable();
        let mut runs: Vec<Run> = Vec::new();
        let (mut taken, mut new) = (0, 0);
        let mut offset = first.max(self.pages.start());
        while taken < allowance.records {
            offset = self.pages.next_deliverable(offset);
            if offset > last {
                break;
            }
            let mut entry = NEW;
            if offset == self.pages.end() {
                if offset < hints.start || offset >= hints.end {
                    break;
                }
                let hint = ahead.next_if(|hint| hint.offset == offset);
                if let Some(hint) = hint
                    && order.has(hint.key)
                {
                    if order.blocked >= allowance.blocked {
                        break;
                    }
                    order.add(hint);
                    order.blocked += 1;
                    self.pages.grow_by_one();
                    entry.slot = BLOCKED;
                    self.pages.put(offset, entry);
                    offset += 1;
                    continue;
                }
                if new >= allowance.new {
                    break;
                }
                new += 1;
                if let Some(hint) = hint {
                    order.add(hint);
                }
                self.pages.grow_by_one();
            } else {
                entry = self.pages.get(offset);
            }
            entry.state = State::Acquired;
            entry.count = entry.count.saturating_add(1);
            entry.slot = slot;
            self.pages.put(offset, entry);
            push_run(&mut runs, offset, entry);
            taken += 1;
            offset += 1;
        }
        order.known_to = self.pages.end();
        self.acquired += u64::from(taken);
        let id = self.leases.id(slot);
        self.leases.hold(slot, taken, first, offset);
        (if taken == 0 { 0 } else { id }, runs)
    }

    /// Has records be delivered whatever lies before them: for those that are to be given up.
    pub fn unblock_all(&mut self, first: i64, last: i64) {
        if self.order.is_some() {
            for offset in first.max(self.pages.start())..(last + 1).min(self.pages.end()) {
                self.unblock(offset);
            }
        }
    }

    /// A record no longer waits for another.
    pub(super) fn unblock(&mut self, offset: i64) {
        let entry = self.pages.get(offset);
        if entry.slot != BLOCKED {
            return;
        }
        if let Some(order) = &mut self.order {
            order.blocked -= 1;
        }
        self.pages.put(
            offset,
            Record {
                slot: NO_LEASE,
                ..entry
            },
        );
    }

    /// The ledger has grown over records that nobody has to look at.
    pub(super) fn grown(&mut self, from: i64) {
        let end = self.pages.end();
        if let Some(order) = &mut self.order
            && order.known_to >= from
        {
            order.known_to = end;
        }
    }

    /// A record became what it is now: one that is done lets the next of its key go, and one that was given back is
    /// blocked if it is not the first.
    pub(super) fn follow(&mut self, offset: i64) {
        let Some(order) = &mut self.order else { return };
        let entry = self.pages.get(offset);
        if entry.is_done() {
            if let Some(next) = order.remove(offset) {
                self.unblock(next);
            }
        } else if entry.is_deliverable() && order.is_behind(offset) {
            order.blocked += 1;
            self.pages.put(
                offset,
                Record {
                    slot: BLOCKED,
                    ..entry
                },
            );
        }
    }

    /// Everything below the start is over.
    pub(super) fn follow_start(&mut self) {
        let start = self.pages.start();
        let Some(order) = &mut self.order else { return };
        let mut below: Vec<i64> = order
            .keys
            .keys()
            .copied()
            .filter(|&offset| offset < start)
            .collect();
        below.sort_unstable();
        order.known_to = order.known_to.max(start);
        for offset in below {
            let Some(order) = &mut self.order else { return };
            if let Some(next) = order.remove(offset)
                && next >= start
            {
                self.unblock(next);
            }
        }
    }
}
