//! What was delivered to whom, of one group in one partition.
//!
//! ```text
//!         start                        end
//!  done   |  A   D2  D1  d   D1  A     |   never delivered      A available again, d done
//!         |      \___ lease 7 ___/     |                        D2 delivered twice, and held
//! ```
//!
//! Everything below `start` is done, nothing from `end` on was delivered. A change that has to be written first is
//! *pending*: its records are as before, but nobody can deliver or change them until `commit` or `roll_back`.

use super::changes::{Change, Refusal, Settled, Settlement, settled};
use super::lease::{Lease, Leases};
use super::order::Order;
use super::page::{BLOCKED, DONE, Entry, NEW, NO_LEASE, State};
use super::pages::{OFFSET_MAX, Pages};
use super::run::{Run, push_run, push_step};
use std::collections::HashMap;

/// See the module.
pub struct Ledger {
    pub(super) pages: Pages,
    pub(super) leases: Leases,
    pub(super) changes: HashMap<u64, Change>,
    pub(super) next_change: u64,
    pub(super) acquired: u64,
    pub(super) waiting: u64,
    pub(super) order: Option<Order>,
}

impl Ledger {
    /// A ledger of which nothing was delivered, from an offset on.
    pub fn new(start: i64) -> Self {
        Self {
            pages: Pages::new(start),
            leases: Leases::default(),
            changes: HashMap::new(),
            next_change: 1,
            acquired: 0,
            waiting: 0,
            order: None,
        }
    }

    /// The record at an offset between start and end, and the first offset behind it that may be another.
    pub fn alike(&self, offset: i64) -> (Entry, i64) {
        self.pages.alike(offset, self.pages.end())
    }

    /// The ids of the leases that ended since this was last asked.
    pub fn take_ended(&mut self) -> Vec<u64> {
        self.leases.take_ended()
    }

    /// The first offset that is not done.
    pub fn start(&self) -> i64 {
        self.pages.start()
    }

    /// The first offset that was never delivered.
    pub fn end(&self) -> i64 {
        self.pages.end()
    }

    /// Records that somebody holds, those with a pending change included.
    pub fn acquired(&self) -> u64 {
        self.acquired
    }

    /// Released records that wait for their time.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Records between start and end that are not done.
    pub fn unfinished(&self) -> u64 {
        self.pages.unfinished()
    }

    /// Acquisitions and waits that have not ended.
    pub fn lease_count(&self) -> usize {
        self.leases.len()
    }

    /// Changes that are neither committed nor rolled back.
    pub fn change_count(&self) -> usize {
        self.changes.len()
    }

    /// The first offset from `from` on that can be delivered now; `end` where none was given back.
    pub fn next_deliverable(&self, from: i64) -> i64 {
        self.pages.next_deliverable(from)
    }

    /// About the bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.pages.bytes() + self.leases.bytes() + self.order_bytes()
    }

    /// Delivers up to `max` records of `first..=last` to an owner, which is not 0.
    ///
    /// Records between the end and `first` are taken not to exist. Gives the id of the lease, 0 without records, and
    /// runs of equal delivery count.
    pub fn acquire(
        &mut self,
        owner: u32,
        first: i64,
        last: i64,
        max: u32,
        deadline_ms: i64,
    ) -> (u64, Vec<Run>) {
        let end = self.pages.end();
        if first > end {
            self.pages.skip_to(first);
        }
        let slot = self.leases.add(Lease::new(owner, deadline_ms, first));
        let mut runs: Vec<Run> = Vec::new();
        let mut taken = 0;
        let mut offset = first.max(self.pages.start());
        while taken < max {
            offset = self.pages.next_deliverable(offset);
            if offset > last {
                break;
            }
            if offset == self.pages.end() {
                self.pages.grow_by_one();
            }
            let mut entry = self.pages.get(offset);
            entry.state = State::Acquired;
            entry.count = entry.count.saturating_add(1);
            entry.slot = slot;
            self.pages.put(offset, entry);
            push_run(&mut runs, offset, entry);
            taken += 1;
            offset += 1;
        }
        self.grown(end);
        self.acquired += u64::from(taken);
        let id = self.leases.id(slot);
        self.leases.hold(slot, taken, first, offset);
        (if taken == 0 { 0 } else { id }, runs)
    }

    /// Settles records that an owner holds, all of them or none; pending until `commit`.
    ///
    /// What lies below the start counts as settled. A released record is archived when it was delivered `limit` times
    /// (0 for no limit); with `not_before_ms` above 0 it is not delivered before then.
    pub fn settle(
        &mut self,
        owner: u32,
        runs: &[(i64, i64, Settlement)],
        limit: u16,
        not_before_ms: i64,
    ) -> Result<Settled, Refusal> {
        let mut steps = Vec::new();
        let mut after = Vec::new();
        for &(first, last, settlement) in runs {
            let result = self.mark(
                owner,
                first,
                last,
                &mut steps,
                |entry| settled(entry, settlement, limit),
                &mut after,
            );
            if let Err(refusal) = result {
                self.unmark(&steps);
                return Err(refusal);
            }
        }
        Ok(self.keep_change(steps, after, not_before_ms))
    }

    /// Gives records that an owner holds another deadline, all of them or none. Gives the id of their new lease.
    pub fn extend(
        &mut self,
        owner: u32,
        runs: &[(i64, i64)],
        deadline_ms: i64,
    ) -> Result<u64, Refusal> {
        let mut steps = Vec::new();
        for &(first, last) in runs {
            let result = self.mark(
                owner,
                first,
                last,
                &mut steps,
                |entry| entry,
                &mut Vec::new(),
            );
            if let Err(refusal) = result {
                self.unmark(&steps);
                return Err(refusal);
            }
        }
        self.unmark(&steps);
        Ok(self.move_to_lease(&steps, owner, deadline_ms, 0))
    }

    /// Takes records over from whoever holds them, or from nobody: to `owner`, with `raise` more deliveries.
    ///
    /// Records that are done, never delivered or pending are left out, and so are those of leases that began less
    /// than a caller's idle time ago, which the caller sees to. Gives the id of the lease and what was taken over.
    pub fn claim(
        &mut self,
        owner: u32,
        offsets: &[i64],
        deadline_ms: i64,
        raise: u16,
    ) -> (u64, Vec<Run>) {
        let mut steps: Vec<(Run, Entry)> = Vec::new();
        for &offset in offsets {
            let entry = self.pages.get(offset);
            if offset < self.pages.start()
                || offset >= self.pages.end()
                || entry.state.is_final()
                || entry.is_pending
            {
                continue;
            }
            if steps.last().is_some_and(|(run, _)| offset <= run.last) {
                continue;
            }
            push_step(&mut steps, offset, entry, entry);
        }
        let id = self.move_to_lease(&steps, owner, deadline_ms, raise);
        let mut runs = Vec::new();
        for (run, _) in &steps {
            for offset in run.first..=run.last {
                push_run(&mut runs, offset, self.pages.get(offset));
            }
        }
        (id, runs)
    }

    /// A lease is over: what it still holds is released, or no longer waits. Gives what was released, to be written.
    ///
    /// Records with a pending change stay with it. The id of a lease that is gone does nothing.
    pub fn end_lease(&mut self, id: u64, limit: u16) -> Vec<Run> {
        let Some(slot) = self.leases.slot(id) else {
            return Vec::new();
        };
        let mut released = Vec::new();
        self.end_slot(slot, limit, usize::MAX, &mut released);
        self.pages.advance();
        released
    }

    /// An owner is gone: what it holds is released, in slices of up to `max` records that are looked at.
    ///
    /// Gives what was released, to be written, and whether that was all: the caller goes on until it is.
    pub fn release_owner(&mut self, owner: u32, limit: u16, max: usize) -> (Vec<Run>, bool) {
        let mut released = Vec::new();
        let mut left = max.max(1);
        let mut next = self.leases.next_of_owner(owner, 0);
        while let Some(slot) = next
            && left > 0
        {
            left -= self.end_slot(slot, limit, left, &mut released);
            next = self.leases.next_of_owner(owner, slot);
        }
        released.sort_unstable_by_key(|run: &Run| run.first);
        self.pages.advance();
        (released, next.is_none())
    }

    /// The log begins at an offset: what lies below is done, whoever holds it.
    pub fn move_start(&mut self, to: i64) {
        if to <= self.pages.start() {
            return;
        }
        self.leave_order_below(to);
        if to > self.pages.end() {
            self.forget_below(self.pages.end());
            self.pages.restart_at(to);
        } else {
            self.forget_below(to);
            self.pages.advance();
        }
    }

    /// Takes over a run of a stored state. Runs come in the order of their offsets; what lies between is available.
    ///
    /// Returns false for a run that does not fit.
    pub fn load(&mut self, first: i64, last: i64, state: State, count: u16) -> bool {
        if last < first || first < self.pages.end() || last > OFFSET_MAX {
            return false;
        }
        let state = match state {
            State::Acquired => State::Available,
            other => other,
        };
        self.pages.load(
            first,
            last,
            Entry {
                state,
                count,
                ..NEW
            },
        );
        true
    }

    /// Moves the start over what is done. For after the last `load`.
    pub fn settle_start(&mut self) {
        self.pages.advance();
    }

    /// Runs from an offset on, up to `max` of them: all of it, what was never given back too.
    pub fn runs(&self, from: i64, max: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut offset = from.max(self.pages.start());
        while offset < self.pages.end() {
            let (entry, next) = self.pages.alike(offset, self.pages.end());
            let last = next - 1;
            match runs.last_mut() {
                Some(run) if run.entry == entry => run.last = last,
                _ => runs.push(Run {
                    first: offset,
                    last,
                    entry,
                }),
            }
            if runs.len() > max {
                runs.pop();
                break;
            }
            offset = next;
        }
        runs
    }

    /// The owner and the deadline of a record that is held, or the deadline of one that waits.
    pub fn holder(&self, offset: i64) -> Option<(u32, i64)> {
        let entry = self.pages.get(offset);
        let lease = self.leases.get(entry.slot)?;
        Some((lease.owner, lease.deadline_ms))
    }

    /// Everything below an offset is over, whoever holds it.
    fn forget_below(&mut self, to: i64) {
        let mut offset = self.pages.start();
        while offset < to {
            let (entry, next) = self.pages.alike(offset, to);
            if entry.slot != NO_LEASE || entry.is_pending {
                self.leave_holder(offset);
                self.pages.put(offset, DONE);
            }
            offset = next;
        }
        self.pages.forget_below(to);
        for change in self.changes.values_mut() {
            change.steps.retain_mut(|(run, _)| {
                run.first = run.first.max(to);
                run.first <= run.last
            });
        }
    }

    /// The record is no longer held, or no longer waits; its entry is the caller's to replace.
    pub(super) fn leave_holder(&mut self, offset: i64) {
        let entry = self.pages.get(offset);
        if entry.slot == NO_LEASE || entry.slot == BLOCKED {
            return;
        }
        match entry.state {
            State::Acquired => self.acquired -= 1,
            _ => self.waiting -= 1,
        }
        self.leases.let_go(entry.slot);
    }

    fn move_to_lease(
        &mut self,
        steps: &[(Run, Entry)],
        owner: u32,
        deadline_ms: i64,
        raise: u16,
    ) -> u64 {
        let Some((first, _)) = steps.first() else {
            return 0;
        };
        let slot = self.leases.add(Lease::new(owner, deadline_ms, first.first));
        for (run, _) in steps {
            for offset in run.first..=run.last {
                self.give_up(offset, offset);
                self.leave_holder(offset);
                let count = run.entry.count.saturating_add(raise);
                self.pages.put(
                    offset,
                    Entry {
                        state: State::Acquired,
                        is_pending: false,
                        count,
                        slot,
                    },
                );
                self.leases.hold_one(slot, offset);
                self.acquired += 1;
            }
        }
        let id = self.leases.id(slot);
        self.leases.let_go(slot);
        id
    }

    /// A lease is over: what it holds of the next `max` records is released. Gives how many were looked at.
    fn end_slot(&mut self, slot: u32, limit: u16, max: usize, released: &mut Vec<Run>) -> usize {
        let Some(lease) = self.leases.get_mut(slot) else {
            return 0;
        };
        lease.has_ended = true;
        let mut next = lease.first.max(self.pages.start());
        let stop = (lease.last + 1).min(self.pages.end());
        let mut looked = 0;
        while next < stop && looked < max {
            looked += 1;
            let offset = next;
            let entry;
            (entry, next) = self.pages.alike(offset, stop);
            if entry.slot != slot || entry.is_pending {
                continue;
            }
            self.leave_holder(offset);
            let free = if entry.state == State::Acquired {
                let free = settled(entry, Settlement::Release, limit);
                push_run(released, offset, free);
                free
            } else {
                Entry {
                    slot: NO_LEASE,
                    ..entry
                }
            };
            self.pages.put(offset, free);
            self.follow(offset);
        }
        self.leases
            .go_on_at(slot, if next < stop { next } else { i64::MAX });
        looked
    }
}
