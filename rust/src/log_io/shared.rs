//! What the event loop and the log I/O thread share: what has been submitted, what is done, what went wrong.
//!
//! ```text
//! event loop   submit                 claim, release                    completions
//!                |                                                           ^
//!              queue: operations, whether somebody carries some out     done: completions, whether the notifier tells
//!                |                                                           ^
//! thread       next_group  ......................................... >    report
//! ```

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::notifier::Notifier;
use super::operation::{Completion, Failure, Operation, Payload};
use super::trace::Trace;

/// So many completions that nobody waits for are kept until the event loop comes by for another: they only give their
/// payloads back.
const UNTOLD_MAX: usize = 1024;

/// What the thread has done so far.
#[derive(Default)]
pub struct Counters {
    pub groups: AtomicU64,
    pub write_calls: AtomicU64,
    pub sync_calls: AtomicU64,
    pub written_bytes: AtomicU64,
    /// Groups that the event loop carried out itself.
    pub inline_groups: AtomicU64,
    /// Bytes submitted or gathered and not yet written.
    pub queued_bytes: AtomicU64,
}

struct Queue<T, P> {
    operations: Vec<Operation<T, P>>,
    /// When the first of them was submitted.
    since: Option<Instant>,
    /// Whether the thread, or the event loop in its place, is carrying out a group.
    busy: bool,
    closing: bool,
}

struct Done<T, P> {
    completions: Vec<Completion<T, P>>,
    /// When the first of them came.
    since: Option<Instant>,
    /// Whether the notifier was made readable for them.
    notified: bool,
}

/// What the event loop and the thread share.
pub struct Shared<T, P> {
    queue: Mutex<Queue<T, P>>,
    work: Condvar,
    done: Mutex<Done<T, P>>,
    pub notifier: Notifier,
    pub counters: Counters,
    pub trace: Trace,
    failure: Mutex<Option<Failure>>,
    /// The errno of the failure, 0 while there is none.
    errno: AtomicI32,
}

/// The data, also after a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is a list that is only pushed to and taken whole: it is sound even after a panic.
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<T: Send, P: Payload> Shared<T, P> {
    /// Nothing queued, nothing done.
    pub fn new() -> std::io::Result<Self> {
        Ok(Shared {
            queue: Mutex::new(Queue {
                operations: Vec::new(),
                since: None,
                busy: false,
                closing: false,
            }),
            work: Condvar::new(),
            done: Mutex::new(Done {
                completions: Vec::new(),
                since: None,
                notified: false,
            }),
            notifier: Notifier::new()?,
            counters: Counters::default(),
            trace: Trace::new(),
            failure: Mutex::new(None),
            errno: AtomicI32::new(0),
        })
    }

    /// Hand operations to the thread.
    pub fn submit(&self, operations: &mut Vec<Operation<T, P>>) {
        let mut queue = lock(&self.queue);
        if queue.operations.is_empty() {
            std::mem::swap(&mut queue.operations, operations);
            queue.since = Some(Instant::now());
        } else {
            queue.operations.append(operations);
        }
        drop(queue);
        self.work.notify_one();
    }

    /// Take the place of the thread for one group, if it has nothing to do. `release` gives it back.
    pub(super) fn claim(&self) -> bool {
        let mut queue = lock(&self.queue);
        let is_idle = !queue.busy && queue.operations.is_empty() && !queue.closing;
        queue.busy |= is_idle;
        is_idle
    }

    /// The group is carried out that was claimed.
    pub(super) fn release(&self) {
        let mut queue = lock(&self.queue);
        queue.busy = false;
        let has_work = !queue.operations.is_empty() || queue.closing;
        drop(queue);
        if has_work {
            self.work.notify_one();
        }
    }

    /// Have the thread end once the queue is empty.
    pub fn close(&self) {
        lock(&self.queue).closing = true;
        self.work.notify_one();
    }

    /// Everything that was completed since the last call, in order.
    pub fn completions(&self) -> Vec<Completion<T, P>> {
        let mut done = lock(&self.done);
        if let Some(since) = done.since.take() {
            self.trace.fetch.record_time(since.elapsed());
        }
        // Where it is not readable yet it is about to be, and the event loop comes by once more.
        done.notified = done.notified && !self.notifier.clear();
        std::mem::take(&mut done.completions)
    }

    /// What went wrong first, unless the thread resumed since.
    pub fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }

    /// That of the failure, 0 while there is none.
    pub(super) fn errno(&self) -> i32 {
        self.errno.load(Ordering::Relaxed)
    }

    /// What has gone wrong; none when the thread resumes.
    pub(super) fn set_failure(&self, failure: Option<Failure>) {
        let errno = failure.as_ref().map_or(0, |failure| failure.errno);
        *lock(&self.failure) = failure;
        self.errno.store(errno, Ordering::Relaxed);
    }

    /// Wait for what has been submitted; none when that is nothing more.
    pub(super) fn next_group(&self) -> Option<Vec<Operation<T, P>>> {
        let mut queue = lock(&self.queue);
        queue.busy = false;
        while queue.busy || queue.operations.is_empty() {
            if queue.closing && !queue.busy {
                return None;
            }
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        queue.busy = true;
        if let Some(since) = queue.since.take() {
            self.trace.queue.record_time(since.elapsed());
        }
        Some(std::mem::take(&mut queue.operations))
    }

    /// These are done; `notify` tells the event loop, when there is somebody who waits to be told of one.
    pub(super) fn report(&self, new: &mut Vec<Completion<T, P>>, notify: bool) {
        if new.is_empty() {
            return;
        }
        let is_news = new.iter().any(Completion::is_awaited);
        let mut done = lock(&self.done);
        done.completions.append(new);
        if !notify || !(is_news || done.completions.len() > UNTOLD_MAX) {
            return;
        }
        done.since.get_or_insert_with(Instant::now);
        let is_first = !std::mem::replace(&mut done.notified, true);
        drop(done);
        if is_first {
            // Not while the lock is held: the event loop would wake to wait for it. Nobody else notifies meanwhile, for
            // only the thread does.
            self.notifier.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_io::operation::{STAGE_FAILURE, STAGE_WRITTEN};

    fn done(token: Option<u32>, stage: u8) -> Completion<u32, Vec<u8>> {
        Completion {
            token,
            stage,
            errno: 0,
            payload: None,
        }
    }

    /// Whether the event loop is woken for one of these.
    fn is_told(shared: &Shared<u32, Vec<u8>>, new: Completion<u32, Vec<u8>>) -> bool {
        shared.report(&mut vec![new], true);
        lock(&shared.done).notified
    }

    #[test]
    fn who_looks_before_it_is_woken_is_woken_once_for_that() {
        let shared = Shared::new().unwrap();
        // What the thread does up to the moment in which it wakes the loop.
        let mut state = lock(&shared.done);
        state.completions.push(done(Some(1), STAGE_WRITTEN));
        state.notified = true;
        drop(state);
        assert_eq!(shared.completions().len(), 1);
        assert!(lock(&shared.done).notified, "it is about to be woken");
        shared.notifier.notify();
        assert_eq!(shared.completions().len(), 0);
        assert!(!lock(&shared.done).notified);
        assert!(!shared.notifier.clear(), "nothing is left that wakes it");
        assert!(is_told(&shared, done(Some(2), STAGE_WRITTEN)));
    }

    #[test]
    fn the_loop_is_woken_for_somebody_who_waits_and_before_too_much_is_kept_for_nobody() {
        let shared = Shared::new().unwrap();
        for awaited in [done(Some(1), STAGE_WRITTEN), done(None, STAGE_FAILURE)] {
            assert!(!is_told(&shared, done(None, STAGE_WRITTEN)));
            assert!(is_told(&shared, awaited));
            assert_eq!(shared.completions().len(), 2);
        }
        for _ in 0..UNTOLD_MAX {
            assert!(!is_told(&shared, done(None, STAGE_WRITTEN)));
        }
        assert!(is_told(&shared, done(None, STAGE_WRITTEN)));
        assert_eq!(shared.completions().len(), UNTOLD_MAX + 1);
    }
}
