//! Making many files durable at once.
//!
//! A journalling file system merges what is asked for while it commits: sixteen syncs that wait together cost about as
//! much as two that come one after the other.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::file_table::failed;
use super::operation::Failure;
use super::system;
use crate::disk_turns::{DISK, now};

/// So many files of a group are synced before they are reported; each needs a descriptor of its own for the while.
pub const SYNCS_AT_ONCE: usize = 256;
/// So many syncs wait together, the one of the calling thread included.
const THREADS_MAX: usize = 16;

/// A file to be made durable, with the names that lead to it when they are new.
pub struct SyncJob {
    pub path: Arc<Path>,
    pub fd: Arc<OwnedFd>,
    pub name_is_new: bool,
}

/// Make all files durable: contents, then their names, then the names of their directories. They share a file system.
pub fn sync_all(jobs: &[SyncJob]) -> Result<(), Failure> {
    let _sync = (!jobs.is_empty()).then(|| DISK.sync(now()));
    at_once(jobs, |job| {
        system::sync_data(job.fd.as_fd()).map_err(|errno| failed("sync", &job.path, errno))
    })?;
    // A directory may be new as well: its own name lies in its parent.
    let mut directories: BTreeSet<&Path> = BTreeSet::new();
    for job in jobs.iter().filter(|job| job.name_is_new) {
        directories.extend(job.path.ancestors().skip(1).take(2));
    }
    let directories: Vec<_> = directories.into_iter().collect();
    at_once(&directories, |directory| {
        system::sync_directory(directory)
            .map_err(|errno| failed("sync directory", directory, errno))
    })?;
    jobs.last().map_or(Ok(()), |job| {
        system::require_journal(job.fd.as_fd()).map_err(|errno| failed("sync", &job.path, errno))
    })
}

/// Do something for each item, several at a time; the first failure in the order of the items.
fn at_once<I: Sync>(
    items: &[I],
    action: impl Fn(&I) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    if let [item] = items {
        return action(item);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut first: Option<(usize, Failure)> = None;
        while let Some(item) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).map(|item| (index, item))
        } {
            if let Err(failure) = action(item.1) {
                first.get_or_insert((item.0, failure));
            }
        }
        first
    };
    let helpers = items.len().min(THREADS_MAX).saturating_sub(1);
    let failures: Vec<_> = std::thread::scope(|scope| {
        // Where no thread is to be had, the others do its part.
        let helpers: Vec<_> = (0..helpers)
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let own = work();
        let others = helpers.into_iter().map(|helper| {
            helper
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        others.chain([own]).flatten().collect()
    });
    match failures.into_iter().min_by_key(|(index, _)| *index) {
        Some((_, failure)) => Err(failure),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(item: &i32) -> Failure {
        failed("sync", Path::new("file"), *item)
    }

    #[test]
    fn every_item_has_its_turn_once() {
        let seen: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        let items: Vec<usize> = (0..1000).collect();
        let done = at_once(&items, |&item| {
            seen[item].fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        assert_eq!(done, Ok(()));
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn the_first_failure_in_order_is_told_and_the_rest_is_tried() {
        let tried = AtomicUsize::new(0);
        let items: Vec<i32> = (0..100).collect();
        let done = at_once(&items, |item| {
            tried.fetch_add(1, Ordering::Relaxed);
            if *item >= 30 {
                Err(failing(item))
            } else {
                Ok(())
            }
        });
        assert_eq!(done, Err(failing(&30)));
        assert_eq!(tried.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn nothing_to_do_is_done() {
        assert_eq!(sync_all(&[]), Ok(()));
    }
}
