//! How the records of a ledger stand, in numbers.

use super::ledger::Ledger;
use super::page::{NO_LEASE, State};

/// Counts of the records between start and end that are not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records that were given back and can be delivered now.
    pub returned: u64,
    /// Records that were delivered more than once.
    pub redelivered: u64,
    /// How often the record that was delivered most often was.
    pub deliveries_most: u16,
    /// The first record that is not done; -1 for none.
    pub oldest: i64,
    /// How often it was delivered.
    pub oldest_deliveries: u16,
}

impl Summary {
    /// The summary of a ledger, in one pass over its records; those of pages that are alike count at once.
    pub fn of(ledger: &Ledger) -> Self {
        let mut summary = Self {
            oldest: -1,
            ..Self::default()
        };
        let mut next = ledger.start();
        while next < ledger.end() {
            let offset = next;
            let entry;
            (entry, next) = ledger.alike(offset);
            if entry.is_done() {
                continue;
            }
            if summary.oldest < 0 {
                summary.oldest = offset;
                summary.oldest_deliveries = entry.count;
            }
            let is_returned = entry.state == State::Available && entry.slot == NO_LEASE;
            let records = (next - offset) as u64;
            summary.returned += records * u64::from(is_returned && entry.count > 0);
            summary.redelivered += records * u64::from(entry.count > 1);
            summary.deliveries_most = summary.deliveries_most.max(entry.count);
        }
        summary
    }
}
