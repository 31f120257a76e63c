//! Who has the disk: a log that is made durable goes before those who read ahead.
//!
//! ```text
//! syncs            ------|=======|-----------|=======|------|==================|---
//! what is read     |==|==|       |==|==|==|==|==|    |==|==||    |==|==|==|==|==|==
//! ```
//!
//! A disk does what it is asked for in order, so a sync stands behind all that was asked for before it, and again with
//! each of the requests that it is made of. So nothing is asked for while a sync is under way. But readers are not left with
//! nothing: what they ask for waits for one sync at most, and no longer than its head start.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So long a sync has the disk for itself. On a fast disk it is done by then; one that takes longer waits for something
/// else, or for a slow disk, of which readers want their share.
const HEAD_START: Duration = Duration::from_millis(1);

/// How often a reader looks whether a sync is done. To tell it would cost every sync a system call.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// The disks of this process, taken for one.
pub static DISK: DiskTurns = DiskTurns::new();

/// The time since this was first called.
pub fn now() -> Duration {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed()
}

/// The syncs of a disk.
pub struct DiskTurns {
    under_way: AtomicUsize,
    /// When the last one began, in microseconds, and one; 0 for never.
    last: AtomicU64,
}

/// A sync is under way until this is dropped.
pub struct Sync<'a>(&'a DiskTurns);

impl DiskTurns {
    pub const fn new() -> Self {
        DiskTurns {
            under_way: AtomicUsize::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// A sync begins.
    pub fn sync(&self, now: Duration) -> Sync<'_> {
        self.last.store(now.as_micros() as u64 + 1, Relaxed);
        self.under_way.fetch_add(1, Relaxed);
        Sync(self)
    }

    /// Whether one has begun so short a time ago.
    pub fn has_synced_within(&self, time: Duration, now: Duration) -> bool {
        let last = self.last.load(Relaxed);
        last > 0 && since(last, now) < time
    }

    /// Let the sync go first that is under way, if there is one.
    pub fn let_sync_go_first(&self, now: impl Fn() -> Duration, mut sleep: impl FnMut(Duration)) {
        let sync = self.last.load(Relaxed);
        while self.under_way.load(Relaxed) > 0
            && self.last.load(Relaxed) == sync
            && since(sync, now()) < HEAD_START
        {
            sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Sync<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

fn since(last: u64, now: Duration) -> Duration {
    now.saturating_sub(Duration::from_micros(last.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const BEGIN: Duration = Duration::from_secs(5);

    /// How long a reader waits; `meanwhile` happens whenever it sleeps.
    fn waited(disk: &DiskTurns, mut meanwhile: impl FnMut(Duration)) -> Duration {
        let now = Cell::new(BEGIN);
        disk.let_sync_go_first(
            || now.get(),
            |time| {
                now.set(now.get() + time);
                meanwhile(now.get());
            },
        );
        now.get() - BEGIN
    }

    #[test]
    fn without_a_sync_nobody_waits() {
        let disk = DiskTurns::new();
        assert!(!disk.has_synced_within(Duration::MAX, BEGIN));
        assert_eq!(waited(&disk, |_| {}), Duration::ZERO);
        drop(disk.sync(BEGIN));
        assert_eq!(waited(&disk, |_| {}), Duration::ZERO);
    }

    #[test]
    fn syncs_go_on_for_a_while_after_one_has_begun() {
        let disk = DiskTurns::new();
        drop(disk.sync(BEGIN));
        let time = Duration::from_secs(1);
        assert!(disk.has_synced_within(time, BEGIN));
        assert!(disk.has_synced_within(time, BEGIN + time - Duration::from_micros(1)));
        assert!(!disk.has_synced_within(time, BEGIN + time));
    }

    #[test]
    fn a_sync_goes_first_until_it_is_done() {
        let disk = DiskTurns::new();
        let mut sync = Some(disk.sync(BEGIN));
        let done = 5 * LOOK_AGAIN;
        let time = waited(&disk, |now| {
            if now - BEGIN == done {
                sync = None;
            }
        });
        assert_eq!(time, done);
    }

    #[test]
    fn the_sync_behind_it_is_not_waited_for() {
        let disk = DiskTurns::new();
        let mut syncs = vec![disk.sync(BEGIN)];
        let time = waited(&disk, |now| syncs.push(disk.sync(now)));
        assert_eq!(time, LOOK_AGAIN);
    }

    #[test]
    fn a_long_sync_has_a_head_start_from_its_beginning() {
        let disk = DiskTurns::new();
        let earlier = Duration::from_micros(700);
        let _sync = disk.sync(BEGIN - earlier);
        assert_eq!(waited(&disk, |_| {}), HEAD_START - earlier);
        let _sync = disk.sync(BEGIN - HEAD_START);
        assert_eq!(waited(&disk, |_| {}), Duration::ZERO);
    }
}
