//! Changes of a ledger that are to be written first: pending until they are committed or rolled back.

use super::lease::Lease;
use super::ledger::Ledger;
use super::page::{Entry, NO_LEASE, State};
use super::run::{Run, push_run, push_step};

/// How a holder settles records. The numbers are those of the acknowledge types of ShareAcknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// There is no record at this offset.
    Gap,
    /// It is done.
    Accept,
    /// It is to be delivered again, unless it was delivered too often.
    Release,
    /// It is never to be delivered again.
    Reject,
}

impl Settlement {
    /// The settlement of a number.
    pub fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Gap),
            1 => Some(Self::Accept),
            2 => Some(Self::Release),
            3 => Some(Self::Reject),
            _ => None,
        }
    }
}

/// Why records cannot be settled or extended; the offset is the first of which it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The run ends before it begins, or lies beyond what was delivered.
    OutOfRange(i64),
    /// The record is not held by this owner, or its change is pending.
    NotHeld(i64),
}

/// A change that is not written yet.
pub struct Change {
    /// What the records are until then, and what they become.
    pub steps: Vec<(Run, Entry)>,
    /// From when on released records are delivered; 0 for at once.
    pub not_before_ms: i64,
}

/// What a change does, to be written.
pub struct Settled {
    /// By which it is committed or rolled back; 0 when nothing changes.
    pub change: u64,
    /// What records become.
    pub runs: Vec<Run>,
}

impl Ledger {
    /// Where the start will be once these changes are committed: what is to be stored with them.
    pub fn start_after(&self, changes: &[u64]) -> i64 {
        let mut final_runs: Vec<(i64, i64)> = changes
            .iter()
            .filter_map(|change| self.changes.get(change))
            .flat_map(|change| &change.steps)
            .filter(|(_, after)| after.state.is_final())
            .map(|(run, _)| (run.first, run.last))
            .collect();
        final_runs.sort_unstable();
        let mut offset = self.pages.start();
        while offset < self.pages.end() {
            let (entry, next) = self.pages.alike(offset, self.pages.end());
            if entry.is_done() {
                offset = next;
                continue;
            }
            let index = final_runs.partition_point(|run| run.0 <= offset);
            match index.checked_sub(1).map(|index| final_runs[index]) {
                Some((_, last)) if entry.is_pending && last >= offset => offset = last + 1,
                _ => break,
            }
        }
        offset
    }

    /// A change is written: it holds from now on. Gives the id of the lease by which released records wait, or 0.
    pub fn commit(&mut self, change: u64) -> u64 {
        let Some(Change {
            steps,
            not_before_ms,
        }) = self.changes.remove(&change)
        else {
            return 0;
        };
        let mut wait = None;
        for (run, after) in &steps {
            for offset in run.first.max(self.pages.start())..=run.last {
                self.leave_holder(offset);
                let mut entry = *after;
                if not_before_ms > 0 && entry.state == State::Available {
                    let slot = *wait.get_or_insert_with(|| {
                        self.leases.add(Lease::new(0, not_before_ms, run.first))
                    });
                    self.leases.hold_one(slot, offset);
                    entry.slot = slot;
                    self.waiting += 1;
                }
                self.pages.put(offset, entry);
                self.follow(offset);
            }
        }
        let id = wait.map_or(0, |slot| self.leases.id(slot));
        if let Some(slot) = wait {
            self.leases.let_go(slot);
        }
        self.pages.advance();
        id
    }

    /// A change could not be written: records are as before, and those whose lease has ended meanwhile are released.
    ///
    /// Gives what was released.
    pub fn roll_back(&mut self, change: u64, limit: u16) -> Vec<Run> {
        let Some(Change { steps, .. }) = self.changes.remove(&change) else {
            return Vec::new();
        };
        let mut released = Vec::new();
        for (run, _) in &steps {
            for offset in run.first.max(self.pages.start())..=run.last {
                let has_ended = self
                    .leases
                    .get(run.entry.slot)
                    .is_some_and(|lease| lease.has_ended);
                if has_ended {
                    self.leave_holder(offset);
                    let entry = settled(run.entry, Settlement::Release, limit);
                    self.pages.put(offset, entry);
                    self.follow(offset);
                    push_run(&mut released, offset, entry);
                } else {
                    self.pages.put(offset, run.entry);
                }
            }
        }
        self.pages.advance();
        released
    }

    /// Marks the records of a run as pending, and notes what they are and what they become.
    pub(super) fn mark(
        &mut self,
        owner: u32,
        first: i64,
        last: i64,
        steps: &mut Vec<(Run, Entry)>,
        becomes: impl Fn(Entry) -> Entry,
        after: &mut Vec<Run>,
    ) -> Result<(), Refusal> {
        if last < first || last >= self.pages.end() {
            return Err(Refusal::OutOfRange(first));
        }
        for offset in first.max(self.pages.start())..=last {
            let entry = self.pages.get(offset);
            let is_held = entry.state == State::Acquired
                && !entry.is_pending
                && self
                    .leases
                    .get(entry.slot)
                    .is_some_and(|lease| lease.owner == owner && !lease.has_ended);
            if !is_held {
                return Err(Refusal::NotHeld(offset));
            }
            let next = becomes(entry);
            self.pages.put(
                offset,
                Entry {
                    is_pending: true,
                    ..entry
                },
            );
            push_step(steps, offset, entry, next);
            push_run(after, offset, next);
        }
        Ok(())
    }

    /// Records are as they were before they were marked.
    pub(super) fn unmark(&mut self, steps: &[(Run, Entry)]) {
        for (run, _) in steps {
            for offset in run.first..=run.last {
                self.pages.put(offset, run.entry);
            }
        }
    }

    /// Keeps the marked records until `commit` or `roll_back`.
    pub(super) fn keep_change(
        &mut self,
        steps: Vec<(Run, Entry)>,
        runs: Vec<Run>,
        not_before_ms: i64,
    ) -> Settled {
        if steps.is_empty() {
            return Settled { change: 0, runs };
        }
        let change = self.next_change;
        self.next_change += 1;
        self.changes.insert(
            change,
            Change {
                steps,
                not_before_ms,
            },
        );
        Settled { change, runs }
    }
}

/// What a held record becomes.
pub fn settled(entry: Entry, settlement: Settlement, limit: u16) -> Entry {
    let state = match settlement {
        Settlement::Accept => State::Acknowledged,
        Settlement::Gap | Settlement::Reject => State::Archived,
        Settlement::Release if limit > 0 && entry.count >= limit => State::Archived,
        Settlement::Release => State::Available,
    };
    Entry {
        state,
        is_pending: false,
        count: entry.count,
        slot: NO_LEASE,
    }
}
