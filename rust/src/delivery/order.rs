//! Order by key and priorities: which of the records that were looked at may be delivered, and which of them first.
//!
//! By key, no record is delivered before those of its key that lie before it are done:
//!
//! ```text
//! offset      10   11   12   13   14   15         queues    a: 10 -> 12 -> 15
//! key          a    b    a    -    b    a                   b: 11 -> 14
//! may go      yes  yes   no  yes   no   no        10 done:  a: 12 -> 15, and 12 may go
//! ```
//!
//! A record that has to wait for another has the slot `BLOCKED`, so nothing delivers it. With priorities, each lane has
//! the records that may go, and records are looked at before any is delivered; else a new record that may go is looked
//! at when it is delivered.

use super::hints::{DeliveryHints, Hint};
use super::lease::Lease;
use super::ledger::Ledger;
use super::page::{BLOCKED, Entry as Record, NEW, NO_LEASE, State};
use super::run::{Run, push_run};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
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

/// The bytes of a record in the table, its queue and its lane.
const RECORD_BYTES: usize = 25 + 16 + 16;
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
    by_key: bool,
    /// Of each lane the records that may be delivered; empty without priorities.
    lanes: Vec<BTreeSet<i64>>,
    /// What each record that is kept asks for.
    hints: Numbered<i64, (u64, u8)>,
    queues: Numbered<u64, Queue>,
    /// Records that were looked at and never delivered, of those that are in a lane or blocked.
    ahead: u64,
    /// Up to where records were looked at; below the end of the ledger when it has to catch up.
    known_to: i64,
}

impl Order {
    fn new(known_to: i64, by_key: bool, lanes: u8) -> Self {
        Self {
            by_key,
            lanes: vec![BTreeSet::new(); usize::from(lanes)],
            hints: Numbered::default(),
            queues: Numbered::default(),
            ahead: 0,
            known_to,
        }
    }

    /// Keeps a record behind all of its key. Returns whether it is the first.
    fn add(&mut self, hint: Hint) -> bool {
        if hint.key == 0 && self.lanes.is_empty() {
            return true;
        }
        self.hints.insert(hint.offset, (hint.key, hint.lane));
        if hint.key == 0 {
            return true;
        }
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
        key != 0 && self.queues.contains_key(&key)
    }

    /// Whether a record is kept and not the first of its key.
    fn is_behind(&self, offset: i64) -> bool {
        self.hints
            .get(&offset)
            .and_then(|(key, _)| self.queues.get(key))
            .is_some_and(|queue| queue.first != offset)
    }

    /// A record is done. Gives the one that is the first of its key now, if there is another.
    fn remove(&mut self, offset: i64) -> Option<i64> {
        let (key, _) = self.hints.remove(&offset)?;
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

    fn is_ahead(&self, record: Record) -> bool {
        record.slot == BLOCKED
            || (record.count == 0 && record.is_deliverable() && !self.lanes.is_empty())
    }

    /// A record is no longer what it was; what it becomes is `came`'s to say.
    fn went(&mut self, offset: i64, was: Record) {
        self.ahead -= u64::from(self.is_ahead(was));
        if was.is_deliverable() {
            self.lane_of(offset, |lane| lane.remove(&offset));
        }
    }

    /// A record became what it is.
    fn came(&mut self, offset: i64, is: Record) {
        self.ahead += u64::from(self.is_ahead(is));
        if is.is_deliverable() {
            self.lane_of(offset, |lane| lane.insert(offset));
        }
    }

    fn lane_of(&mut self, offset: i64, change: impl FnOnce(&mut BTreeSet<i64>) -> bool) {
        if self.lanes.is_empty() {
            return;
        }
        let lane = self.hints.get(&offset).map_or(0, |&(_, lane)| lane);
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            change(lane);
        }
    }

    /// About the bytes of it.
    fn bytes(&self) -> usize {
        self.hints.capacity() * RECORD_BYTES + self.queues.capacity() * KEY_BYTES
    }
}

/// What an acquisition in order may have.
pub struct Allowance {
    /// Records in all.
    pub records: u32,
    /// Records that were never delivered before.
    pub new: u64,
    /// How many may be looked at ahead at most, with those that are.
    pub ahead: u64,
}

impl Ledger {
    /// Orders by key, or by so many priorities, or both, or neither, from now on.
    pub fn set_order(&mut self, by_key: bool, lanes: u8) {
        let lanes = if lanes > 1 { lanes } else { 0 };
        let is_set = match &self.order {
            Some(order) => order.by_key == by_key && order.lanes.len() == usize::from(lanes),
            None => !by_key && lanes == 0,
        };
        if is_set {
            return;
        }
        if let Some(order) = self.order.take() {
            for &offset in order.hints.keys() {
                self.put_slot(offset, BLOCKED, NO_LEASE);
            }
        }
        if by_key || lanes > 0 {
            self.order = Some(Order::new(self.pages.start(), by_key, lanes));
        }
    }

    /// Up to where records were looked at; the end when there is no order.
    pub fn known_to(&self) -> i64 {
        self.order.as_ref().map_or(self.pages.end(), |order| {
            order.known_to.clamp(self.pages.start(), self.pages.end())
        })
    }

    /// Records that were looked at and never delivered.
    pub fn ahead(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.ahead)
    }

    /// About the bytes of the order.
    pub fn order_bytes(&self) -> usize {
        self.order.as_ref().map_or(0, Order::bytes)
    }

    /// Looks at records that were delivered before there was an order, or by another leader.
    pub fn learn(&mut self, hints: &DeliveryHints) {
        let known_to = self.known_to();
        let to = hints.end.min(self.pages.end());
        if self.order.is_none() || hints.start > known_to || to <= known_to {
            return;
        }
        let mut left = hints.from(known_to).iter().copied().peekable();
        let mut offset = known_to;
        while offset < to {
            let (entry, next) = self.pages.alike(offset, to);
            if entry.is_done() {
                offset = next;
                while left.next_if(|hint| hint.offset < offset).is_some() {}
                continue;
            }
            let hint = left
                .next_if(|hint| hint.offset == offset)
                .unwrap_or(Hint::none(offset));
            self.take_in(hint, entry);
            offset += 1;
        }
        if let Some(order) = &mut self.order {
            order.known_to = to;
        }
    }

    /// A record that lies before the end is looked at.
    fn take_in(&mut self, hint: Hint, entry: Record) {
        let Some(order) = &mut self.order else { return };
        let is_first = order.add(hint);
        let mut is = entry;
        if !is_first && entry.is_deliverable() {
            is.slot = BLOCKED;
            self.pages.put(hint.offset, is);
        }
        order.came(hint.offset, is);
    }

    /// Looks at records of `first..=last`, from the end on, which come into their lanes or are blocked.
    ///
    /// The end stays before the first one that is not in the hints, or would be one too many ahead.
    pub fn look_ahead(&mut self, hints: &DeliveryHints, first: i64, last: i64, ahead_max: u64) {
        if self.known_to() < self.pages.end() {
            return;
        }
        if first > self.pages.end() {
            self.pages.skip_to(first);
        }
        let end = self.pages.end();
        let mut left = hints.from(end).iter().copied().peekable();
        let mut offset = end;
        while offset <= last && offset >= hints.start && offset < hints.end {
            if self.ahead() >= ahead_max {
                break;
            }
            let hint = left
                .next_if(|hint| hint.offset == offset)
                .unwrap_or(Hint::none(offset));
            self.pages.grow_by_one();
            self.take_in(hint, NEW);
            offset += 1;
        }
        self.grown(end);
    }

    /// The first record of each lane that may be delivered; -1 for none.
    pub fn lane_heads(&self) -> Vec<i64> {
        let lanes = self.order.as_ref().map_or(&[][..], |order| &order.lanes);
        lanes
            .iter()
            .map(|lane| lane.first().copied().unwrap_or(-1))
            .collect()
    }

    /// Delivers what may be delivered of a lane's records of `first..=last`, as `acquire`. None of them is new to the
    /// ledger.
    pub fn acquire_lane(
        &mut self,
        owner: u32,
        lane: u8,
        first: i64,
        last: i64,
        allowance: Allowance,
        deadline_ms: i64,
    ) -> (u64, Vec<Run>) {
        let offsets: Vec<i64> = match self.order.as_ref() {
            Some(order) if first <= last => order
                .lanes
                .get(usize::from(lane))
                .map(|lane| {
                    lane.range(first..=last)
                        .take(allowance.records as usize)
                        .copied()
                        .collect()
                })
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        let slot = self.leases.add(Lease::new(owner, deadline_ms, first));
        let mut runs: Vec<Run> = Vec::new();
        let (mut taken, mut new, mut end) = (0, 0, first);
        for offset in offsets {
            let was = self.pages.get(offset);
            if was.count == 0 {
                if new >= allowance.new {
                    continue;
                }
                new += 1;
            }
            if let Some(order) = &mut self.order {
                order.went(offset, was);
            }
            self.hand_out(offset, was, slot, &mut runs);
            taken += 1;
            end = offset + 1;
        }
        self.acquired += u64::from(taken);
        let id = self.leases.id(slot);
        self.leases.hold(slot, taken, first, end);
        (if taken == 0 { 0 } else { id }, runs)
    }

    fn hand_out(&mut self, offset: i64, was: Record, slot: u32, runs: &mut Vec<Run>) {
        let entry = Record {
            state: State::Acquired,
            count: was.count.saturating_add(1),
            slot,
            ..was
        };
        self.pages.put(offset, entry);
        push_run(runs, offset, entry);
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
        if self.known_to() < self.pages.end() || self.order.is_none() {
            return (0, Vec::new());
        }
        if first > self.pages.end() {
            self.pages.skip_to(first);
        }
        let slot = self.leases.add(Lease::new(owner, deadline_ms, first));
        let mut left = hints.from(self.pages.end()).iter().copied().peekable();
        let mut runs: Vec<Run> = Vec::new();
        let (mut taken, mut new) = (0, 0);
        let mut offset = first.max(self.pages.start());
        while taken < allowance.records {
            offset = self.pages.next_deliverable(offset);
            if offset > last {
                break;
            }
            let Some(order) = &mut self.order else { break };
            let mut was = NEW;
            if offset == self.pages.end() {
                if offset < hints.start || offset >= hints.end {
                    break;
                }
                let hint = left
                    .next_if(|hint| hint.offset == offset)
                    .unwrap_or(Hint::none(offset));
                if order.has(hint.key) {
                    if order.ahead >= allowance.ahead {
                        break;
                    }
                    self.pages.grow_by_one();
                    self.take_in(hint, NEW);
                    offset += 1;
                    continue;
                }
                if new >= allowance.new {
                    break;
                }
                new += 1;
                order.add(hint);
                self.pages.grow_by_one();
            } else {
                was = self.pages.get(offset);
                order.went(offset, was);
            }
            self.hand_out(offset, was, slot, &mut runs);
            taken += 1;
            offset += 1;
        }
        if let Some(order) = &mut self.order {
            order.known_to = self.pages.end();
        }
        self.acquired += u64::from(taken);
        let id = self.leases.id(slot);
        self.leases.hold(slot, taken, first, offset);
        (if taken == 0 { 0 } else { id }, runs)
    }

    /// Has records be delivered by `acquire`, whatever is before them: for those that are to be given up.
    pub fn give_up(&mut self, first: i64, last: i64) {
        if self.order.is_none() {
            return;
        }
        for offset in first.max(self.pages.start())..(last + 1).min(self.pages.end()) {
            let was = self.pages.get(offset);
            if was.is_deliverable() || was.slot == BLOCKED {
                if let Some(order) = &mut self.order {
                    order.went(offset, was);
                }
                self.put_slot(offset, BLOCKED, NO_LEASE);
            }
        }
    }

    /// A record that has one slot gets another.
    fn put_slot(&mut self, offset: i64, from: u32, to: u32) {
        let entry = self.pages.get(offset);
        if entry.slot == from {
            self.pages.put(offset, Record { slot: to, ..entry });
        }
    }

    /// A record is the first of its key now.
    fn unblock(&mut self, offset: i64) {
        let was = self.pages.get(offset);
        let Some(order) = &mut self.order else { return };
        if was.slot == BLOCKED {
            let is = Record {
                slot: NO_LEASE,
                ..was
            };
            order.went(offset, was);
            order.came(offset, is);
            self.pages.put(offset, is);
        }
    }

    /// The ledger has grown over records that nobody has to look at.
    pub(super) fn grown(&mut self, from: i64) {
        let (start, end) = (self.pages.start(), self.pages.end());
        if let Some(order) = &mut self.order
            && order.known_to.max(start) >= from
        {
            order.known_to = end;
        }
    }

    /// A record that was held, or waited, became what it is now: one that is done lets the next of its key go, and one
    /// that was given back is blocked if it is not the first.
    pub(super) fn follow(&mut self, offset: i64) {
        let Some(order) = &mut self.order else { return };
        if offset >= order.known_to {
            return; // it is looked at later
        }
        let mut entry = self.pages.get(offset);
        if entry.is_done() {
            if let Some(next) = order.remove(offset) {
                self.unblock(next);
            }
        } else if entry.is_deliverable() {
            if order.is_behind(offset) {
                entry.slot = BLOCKED;
                self.pages.put(offset, entry);
            }
            order.came(offset, entry);
        }
    }

    /// Everything below an offset is about to be over.
    pub(super) fn leave_order_below(&mut self, to: i64) {
        let Some(order) = &mut self.order else { return };
        let mut below: Vec<i64> = order
            .hints
            .keys()
            .copied()
            .filter(|&offset| offset < to)
            .collect();
        below.sort_unstable();
        order.known_to = order.known_to.max(to);
        for offset in below {
            let was = self.pages.get(offset);
            let Some(order) = &mut self.order else { return };
            order.went(offset, was);
            if let Some(next) = order.remove(offset)
                && next >= to
            {
                self.unblock(next);
            }
        }
    }
}
