//! The thread: takes what has been submitted as one group, writes it, reports it, syncs it, reports that.
//!
//! ```text
//! event loop    append append append submit            append append submit        completions
//!                                      |                              |                 ^
//! thread                               +-> write  sync ............   +-> write  sync   |
//!                                              |      |                                 |
//!                                              +------+-- WRITTEN, SYNCED --------------+
//! ```
//!
//! While one group syncs the next one gathers: the slower the disk, the larger the groups.
//!
//! A small group that only writes may be carried out by the event loop itself while the thread has nothing to do (see
//! `Shared::claim`): the way to the thread and back costs several times as much as copying a few bytes to the page cache.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::file_table::FileTable;
use super::group::{Group, run_length};
use super::operation::{
    Append, Completion, Failure, Handle, Operation, Payload, STAGE_CLOSED, STAGE_FAILURE,
    STAGE_SYNCED, STAGE_WRITTEN,
};
use super::shared::{Shared, lock};
use super::sync_job::{SYNCS_AT_ONCE, sync_all};
use super::system::BUFFERS_PER_WRITE_MAX;

/// A write of the event loop that took longer than this was one too many.
const SLOW_WRITE: Duration = Duration::from_millis(1);
/// So many groups go to the thread after a slow write.
const GROUPS_AFTER_SLOW_WRITE: u32 = 1000;

/// Who carries out groups: the thread has one, the event loop another over the same files, and never both at a time.
pub struct Writer<T, P> {
    shared: Arc<Shared<T, P>>,
    files: Arc<Mutex<FileTable>>,
    done: Vec<Completion<T, P>>,
    /// Whether the notifier tells of what is done; the event loop knows what it did itself.
    notifies: bool,
    /// How many groups the event loop leaves to the thread before it tries again itself.
    groups_left_to_thread: u32,
}

impl<T: Send, P: Payload> Writer<T, P> {
    /// The thread's writer over `files`.
    pub fn of_thread(shared: Arc<Shared<T, P>>, files: Arc<Mutex<FileTable>>) -> Self {
        Writer {
            shared,
            files,
            done: Vec::new(),
            notifies: true,
            groups_left_to_thread: 0,
        }
    }

    /// The event loop's writer over `files`.
    pub fn of_event_loop(shared: Arc<Shared<T, P>>, files: Arc<Mutex<FileTable>>) -> Self {
        Writer {
            notifies: false,
            ..Writer::of_thread(shared, files)
        }
    }

    /// Carry out `operations` here if that cannot take long: they only write, to open files, at most `bytes_max` bytes,
    /// and the thread is idle. True when it is done and reported; otherwise `operations` is untouched.
    ///
    /// A write to the page cache can wait for the disk all the same (a full journal, too many dirty pages). When one
    /// does, the groups after it go to the thread for a while.
    pub fn carry_out_here(
        &mut self,
        operations: &mut Vec<Operation<T, P>>,
        bytes_max: usize,
    ) -> bool {
        if self.groups_left_to_thread > 0 {
            self.groups_left_to_thread -= 1;
            return false;
        }
        if !self.shared.claim() {
            return false;
        }
        if !self.is_quick(operations, bytes_max) {
            self.shared.release();
            return false;
        }
        let begun = Instant::now();
        self.run_group(std::mem::take(operations));
        self.shared.release();
        self.shared
            .counters
            .inline_groups
            .fetch_add(1, Ordering::Relaxed);
        if begun.elapsed() > SLOW_WRITE {
            self.groups_left_to_thread = GROUPS_AFTER_SLOW_WRITE;
        }
        true
    }

    /// Write `bytes` here as a group of their own, under the same conditions; false when they are not, or not all of
    /// them, in the file: whoever asks for that again in the ordinary way is told why, if there is more to it.
    pub fn write_here(
        &mut self,
        handle: Handle,
        position: u64,
        bytes: &[u8],
        bytes_max: usize,
    ) -> bool {
        // Those that are left to the thread are counted by `carry_out_here`, which is asked next.
        if self.groups_left_to_thread > 0 || bytes.len() > bytes_max || !self.shared.claim() {
            return false;
        }
        let written = catch_unwind(AssertUnwindSafe(|| {
            self.write_claimed(handle, position, bytes)
        }));
        self.shared.release();
        written.unwrap_or(false)
    }

    fn write_claimed(&mut self, handle: Handle, position: u64, bytes: &[u8]) -> bool {
        let size = bytes.len() as u64;
        let begun = Instant::now();
        let mut files = lock(&self.files);
        if self.shared.errno() != 0 || !files.is_quick(handle, size) {
            return false;
        }
        let Ok(calls) = files.write(handle, position, &[bytes]) else {
            return false;
        };
        drop(files);
        let elapsed = begun.elapsed();
        let (counters, trace) = (&self.shared.counters, &self.shared.trace);
        counters.groups.fetch_add(1, Ordering::Relaxed);
        counters.inline_groups.fetch_add(1, Ordering::Relaxed);
        counters.write_calls.fetch_add(calls, Ordering::Relaxed);
        counters.written_bytes.fetch_add(size, Ordering::Relaxed);
        trace.write.record_time(elapsed);
        trace.appends.record(1);
        trace.bytes.record(size);
        if elapsed > SLOW_WRITE {
            self.groups_left_to_thread = GROUPS_AFTER_SLOW_WRITE;
        }
        true
    }

    fn is_quick(&self, operations: &[Operation<T, P>], bytes_max: usize) -> bool {
        let mut bytes = 0;
        let files = lock(&self.files);
        operations.iter().all(|operation| match operation {
            Operation::Append(append) => {
                let size = append.payload.bytes().len();
                bytes += size;
                !append.sync && bytes <= bytes_max && files.is_quick(append.handle, bytes as u64)
            }
            _ => false,
        })
    }

    /// Work until the queue is closed and empty.
    pub fn run(mut self) {
        while let Some(operations) = self.shared.next_group() {
            self.run_group(operations);
        }
    }

    fn run_group(&mut self, operations: Vec<Operation<T, P>>) {
        self.shared.counters.groups.fetch_add(1, Ordering::Relaxed);
        // A mistake of ours must not leave the event loop waiting for ever: it fails the directory as a bad disk does.
        if catch_unwind(AssertUnwindSafe(|| self.carry_out(Group::plan(operations)))).is_err() {
            self.unless_failed(|_| {
                Err(Failure {
                    operation: "panic",
                    path: PathBuf::new(),
                    errno: libc::EIO,
                })
            });
            self.report();
        }
    }

    fn carry_out(&mut self, group: Group<T, P>) {
        for (handle, path, preallocate_bytes) in group.creates {
            self.unless_failed(|files| files.create(handle, path, preallocate_bytes));
        }
        let begun = Instant::now();
        let has_appends = !group.appends.is_empty();
        self.write(group.appends, &group.syncs);
        let written = Instant::now();
        if has_appends {
            self.shared.trace.write.record_time(written - begun);
        }
        self.report();
        if !group.syncs.is_empty() {
            self.shared.trace.files.record(group.syncs.len() as u64);
            self.sync(group.syncs);
            self.shared.trace.sync.record_time(written.elapsed());
        }
        for (handle, token) in group.closes {
            lock(&self.files).close(handle);
            if token.is_some() {
                self.complete(token, STAGE_CLOSED, self.shared.errno(), None);
            }
        }
        for token in group.resumes {
            self.shared.set_failure(None);
            self.complete(token, STAGE_CLOSED, 0, None);
        }
        self.report();
    }

    fn write(&mut self, appends: Vec<Append<T, P>>, syncs: &BTreeMap<Handle, Vec<T>>) {
        let written_count = self.write_runs(&appends, syncs);
        if !appends.is_empty() {
            self.shared.trace.appends.record(appends.len() as u64);
        }
        for (index, append) in appends.into_iter().enumerate() {
            let errno = if index < written_count {
                0
            } else {
                self.shared.errno()
            };
            self.complete(append.written, STAGE_WRITTEN, errno, Some(append.payload));
        }
    }

    /// Sync all files and report them in the order of their handles, some at a time.
    fn sync(&mut self, mut syncs: BTreeMap<Handle, Vec<T>>) {
        if syncs.len() > 1 {
            for &handle in syncs.keys() {
                self.unless_failed(|files| files.start_write_back(handle));
            }
        }
        while !syncs.is_empty() {
            let rest = match syncs.keys().nth(SYNCS_AT_ONCE) {
                Some(&handle) => syncs.split_off(&handle),
                None => BTreeMap::new(),
            };
            self.sync_at_once(std::mem::replace(&mut syncs, rest));
            self.report();
        }
    }

    fn sync_at_once(&mut self, syncs: BTreeMap<Handle, Vec<T>>) {
        self.shared
            .counters
            .sync_calls
            .fetch_add(syncs.len() as u64, Ordering::Relaxed);
        let mut jobs = Vec::with_capacity(syncs.len());
        for &handle in syncs.keys() {
            self.unless_failed(|files| {
                jobs.push(files.begin_sync(handle)?);
                Ok(())
            });
        }
        let outcome = sync_all(&jobs);
        self.unless_failed(|_| outcome);
        if self.shared.errno() == 0 {
            let mut files = lock(&self.files);
            syncs.keys().for_each(|&handle| files.synced(handle));
        }
        let errno = self.shared.errno();
        for token in syncs.into_values().flatten() {
            self.complete(Some(token), STAGE_SYNCED, errno, None);
        }
    }

    /// Write run after run until one fails; returns how many of `appends` are in their files.
    fn write_runs(&mut self, appends: &[Append<T, P>], syncs: &BTreeMap<Handle, Vec<T>>) -> usize {
        let mut written_count = 0;
        let mut written_bytes = 0;
        while written_count < appends.len() && self.shared.errno() == 0 {
            let rest = &appends[written_count..];
            let run = &rest[..run_length(rest, BUFFERS_PER_WRITE_MAX)];
            let buffers: Vec<&[u8]> = run.iter().map(|append| append.payload.bytes()).collect();
            let (handle, position) = (run[0].handle, run[0].position);
            let mut calls = 0;
            let synced = syncs.contains_key(&handle);
            self.unless_failed(|files| {
                calls = files.write(handle, position, &buffers)?;
                if synced {
                    Ok(())
                } else {
                    files.write_back_when_due(handle)
                }
            });
            if self.shared.errno() == 0 {
                self.shared
                    .counters
                    .write_calls
                    .fetch_add(calls, Ordering::Relaxed);
                written_count += run.len();
                written_bytes += buffers
                    .iter()
                    .map(|buffer| buffer.len() as u64)
                    .sum::<u64>();
            }
        }
        if written_bytes > 0 {
            self.shared.trace.bytes.record(written_bytes);
        }
        let all_bytes = appends
            .iter()
            .map(|append| append.payload.bytes().len() as u64)
            .sum();
        self.shared
            .counters
            .queued_bytes
            .fetch_sub(all_bytes, Ordering::Relaxed);
        self.shared
            .counters
            .written_bytes
            .fetch_add(written_bytes, Ordering::Relaxed);
        written_count
    }

    /// Do something to the files, unless something failed before: after that nothing is tried until somebody resumes.
    fn unless_failed(&mut self, action: impl FnOnce(&mut FileTable) -> Result<(), Failure>) {
        if self.shared.errno() != 0 {
            return;
        }
        let outcome = action(&mut lock(&self.files));
        if let Err(failure) = outcome {
            let errno = failure.errno;
            self.shared.set_failure(Some(failure));
            self.done.push(Completion {
                token: None,
                stage: STAGE_FAILURE,
                errno,
                payload: None,
            });
        }
    }

    fn complete(&mut self, token: Option<T>, stage: u8, errno: i32, payload: Option<P>) {
        self.done.push(Completion {
            token,
            stage,
            errno,
            payload,
        });
    }

    fn report(&mut self) {
        self.shared.report(&mut self.done, self.notifies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_io::operation::Handle;

    fn append(handle: Handle, position: u64, token: u32) -> Operation<u32, Vec<u8>> {
        Operation::Append(Append {
            handle,
            position,
            payload: vec![7; 10],
            written: Some(token),
            synced: Some(token),
            sync: true,
        })
    }

    /// Run the operations as one group on the calling thread; token, stage and errno of what was completed.
    fn carry_out(operations: Vec<Operation<u32, Vec<u8>>>) -> Vec<(Option<u32>, u8, i32)> {
        let shared = Arc::new(Shared::new().unwrap());
        let files = Arc::new(Mutex::new(FileTable::new(10, 0)));
        let writer = Writer::of_thread(shared.clone(), files);
        shared.submit(&mut { operations });
        shared.close();
        writer.run();
        shared
            .completions()
            .into_iter()
            .map(|done| (done.token, done.stage, done.errno))
            .collect()
    }

    #[test]
    fn a_group_is_written_then_synced_then_closed() {
        let path = std::env::temp_dir().join(format!("ottla-log-io-{}", std::process::id()));
        let create = Operation::Create {
            handle: 1,
            path: path.clone(),
            preallocate_bytes: 0,
        };
        let close = Operation::Close {
            handle: 1,
            token: Some(9),
        };
        let done = carry_out(vec![create, append(1, 0, 5), close, append(1, 10, 6)]);
        let size = std::fs::metadata(&path).unwrap().len();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(size, 20);
        let expected = [
            (Some(5), STAGE_WRITTEN, 0),
            (Some(6), STAGE_WRITTEN, 0),
            (Some(5), STAGE_SYNCED, 0),
            (Some(6), STAGE_SYNCED, 0),
            (Some(9), STAGE_CLOSED, 0),
        ];
        assert_eq!(done, expected);
    }

    type Idle = (
        Arc<Shared<u32, Vec<u8>>>,
        Arc<Mutex<FileTable>>,
        Writer<u32, Vec<u8>>,
    );

    fn idle() -> Idle {
        let shared = Arc::new(Shared::new().unwrap());
        let files = Arc::new(Mutex::new(FileTable::new(10, 0)));
        let here = Writer::of_event_loop(shared.clone(), files.clone());
        (shared, files, here)
    }

    fn write_only(handle: Handle, position: u64, token: u32) -> Operation<u32, Vec<u8>> {
        match append(handle, position, token) {
            Operation::Append(append) => Operation::Append(Append {
                synced: None,
                sync: false,
                ..append
            }),
            other => other,
        }
    }

    #[test]
    fn a_small_group_of_writes_is_carried_out_here_while_the_thread_is_idle() {
        let (shared, files, mut here) = idle();
        let path = std::env::temp_dir().join(format!("ottla-inline-{}", std::process::id()));
        lock(&files).create(1, path.clone(), 0).unwrap();
        assert!(here.carry_out_here(&mut vec![write_only(1, 0, 5)], 10));
        let done = shared.completions();
        let size = std::fs::metadata(&path).unwrap().len();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(size, 10);
        assert_eq!(done.len(), 1);
        assert_eq!(
            (done[0].token, done[0].stage, done[0].errno),
            (Some(5), STAGE_WRITTEN, 0)
        );
    }

    #[test]
    fn what_may_take_long_is_left_to_the_thread() {
        let (shared, files, mut here) = idle();
        let path = std::env::temp_dir().join(format!("ottla-not-inline-{}", std::process::id()));
        lock(&files).create(1, path.clone(), 0).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut left = |mut operations: Vec<Operation<u32, Vec<u8>>>, bytes_max| {
            let count = operations.len();
            !here.carry_out_here(&mut operations, bytes_max) && operations.len() == count
        };
        assert!(left(vec![write_only(1, 0, 5)], 9), "too many bytes");
        assert!(
            left(vec![write_only(1, 0, 5), write_only(1, 10, 6)], 19),
            "too many bytes in all"
        );
        assert!(left(vec![append(1, 0, 5)], 100), "a sync");
        assert!(
            left(vec![write_only(2, 0, 5)], 100),
            "a file that is not open"
        );
        let close = Operation::Close {
            handle: 1,
            token: None,
        };
        assert!(left(vec![write_only(1, 0, 5), close], 100), "a close");
        shared.submit(&mut vec![write_only(1, 0, 5)]);
        assert!(
            left(vec![write_only(1, 10, 6)], 100),
            "work that waits for the thread"
        );
        assert!(shared.next_group().is_some());
        assert!(left(vec![write_only(1, 10, 6)], 100), "work of the thread");
        assert!(!here.write_here(1, 10, &[7], 100), "work of the thread");
        assert!(shared.completions().is_empty());
    }

    #[test]
    fn what_comes_with_a_resume_still_fails_and_what_comes_after_it_does_not() {
        let path = std::env::temp_dir().join(format!("ottla-log-io-resume-{}", std::process::id()));
        let create = Operation::Create {
            handle: 2,
            path: path.clone(),
            preallocate_bytes: 0,
        };
        let shared = Arc::new(Shared::new().unwrap());
        let files = Arc::new(Mutex::new(FileTable::new(10, 0)));
        let mut writer = Writer::of_thread(shared.clone(), files);
        let resume = Operation::Resume { token: Some(9) };
        writer.carry_out(Group::plan(vec![append(1, 0, 5), resume, append(1, 10, 6)]));
        writer.carry_out(Group::plan(vec![create, append(2, 0, 7)]));
        std::fs::remove_file(&path).unwrap();
        let done: Vec<_> = shared.completions().into_iter().collect();
        let done: Vec<_> = done.iter().map(|d| (d.token, d.stage, d.errno)).collect();
        let expected = [
            (None, STAGE_FAILURE, libc::EBADF),
            (Some(5), STAGE_WRITTEN, libc::EBADF),
            (Some(6), STAGE_WRITTEN, libc::EBADF),
            (Some(5), STAGE_SYNCED, libc::EBADF),
            (Some(6), STAGE_SYNCED, libc::EBADF),
            (Some(9), STAGE_CLOSED, 0),
            (Some(7), STAGE_WRITTEN, 0),
            (Some(7), STAGE_SYNCED, 0),
        ];
        assert_eq!(done, expected);
        assert_eq!(shared.failure(), None);
    }

    #[test]
    fn a_panic_is_reported_as_a_failure() {
        let overflowing = append(1, u64::MAX - 3, 5);
        let done = carry_out(vec![overflowing, append(1, 0, 6)]);
        assert_eq!(done.first(), Some(&(None, STAGE_FAILURE, libc::EIO)));
    }
}
