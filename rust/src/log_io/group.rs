//! Everything that was waiting when the thread looked: one group, put into the order in which it is carried out.
//!
//! ```text
//! submitted      a@0 b@0 a@100 SYNC(b) c.create a@300 c@0 CLOSE(b)
//! creates        c
//! runs           a: [0,100) [100,200)   a: [300,...)   b: [0,...)   c: [0,...)     one pwritev each
//! syncs          b
//! closes         b
//! ```
//!
//! Handles are never used twice and nothing is written to a closed one, so this order means the same as the order of
//! submission. Files are synced together and reported in the order of their handles: a log's older segment before its
//! newer, so that nobody hears of a record as durable before those in front of it are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::operation::{Append, Handle, Operation, Payload};

/// A group in the order of its execution.
pub struct Group<T, P> {
    pub creates: Vec<(Handle, PathBuf, u64)>,
    /// Sorted by handle; within one handle in the order of submission.
    pub appends: Vec<Append<T, P>>,
    /// Which files to sync, with the tokens that want to know, in the order of submission.
    pub syncs: BTreeMap<Handle, Vec<T>>,
    pub closes: Vec<(Handle, Option<T>)>,
    /// Who wants to go on after a failure. That comes last: what came with it still fails.
    pub resumes: Vec<Option<T>>,
}

impl<T, P: Payload> Group<T, P> {
    /// Sort what was submitted.
    pub fn plan(operations: Vec<Operation<T, P>>) -> Self {
        let mut group = Group {
            creates: Vec::new(),
            appends: Vec::with_capacity(operations.len()),
            syncs: BTreeMap::new(),
            closes: Vec::new(),
            resumes: Vec::new(),
        };
        for operation in operations {
            match operation {
                Operation::Create {
                    handle,
                    path,
                    preallocate_bytes,
                } => {
                    group.creates.push((handle, path, preallocate_bytes));
                }
                Operation::Append(mut append) => {
                    if append.sync {
                        let waiting = group.syncs.entry(append.handle).or_default();
                        waiting.extend(append.synced.take());
                    }
                    group.appends.push(append);
                }
                Operation::Sync { handle, token } => {
                    group.syncs.entry(handle).or_default().extend(token)
                }
                Operation::Close { handle, token } => group.closes.push((handle, token)),
                Operation::Resume { token } => group.resumes.push(token),
            }
        }
        group.appends.sort_by_key(|append| append.handle);
        group
    }
}

/// The length of the run at the front of `appends`: neighbours in one file, at most `count_max` of them.
pub fn run_length<T, P: Payload>(appends: &[Append<T, P>], count_max: usize) -> usize {
    let Some(first) = appends.first() else {
        return 0;
    };
    let mut end = first.end();
    let mut length = 1;
    while length < appends.len().min(count_max) {
        let next = &appends[length];
        if next.handle != first.handle || next.position != end {
            break;
        }
        end = next.end();
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(handle: Handle, position: u64, size: usize, sync: bool) -> Operation<u32, Vec<u8>> {
        Operation::Append(Append {
            handle,
            position,
            payload: vec![0; size],
            written: None,
            synced: None,
            sync,
        })
    }

    #[test]
    fn appends_of_one_file_come_together_in_their_order() {
        let group = Group::plan(vec![
            append(2, 0, 5, false),
            append(1, 0, 10, false),
            append(2, 5, 5, false),
            append(1, 10, 10, false),
        ]);
        let order: Vec<_> = group
            .appends
            .iter()
            .map(|a| (a.handle, a.position))
            .collect();
        assert_eq!(order, [(1, 0), (1, 10), (2, 0), (2, 5)]);
    }

    #[test]
    fn a_run_ends_at_a_gap_at_another_file_and_at_the_limit() {
        let group = Group::plan(vec![
            append(1, 0, 10, false),
            append(1, 10, 10, false),
            append(1, 21, 10, false),
            append(3, 31, 1, false),
        ]);
        assert_eq!(run_length(&group.appends, 100), 2);
        assert_eq!(run_length(&group.appends[2..], 100), 1);
        assert_eq!(run_length(&group.appends, 1), 1);
        assert_eq!(run_length(&group.appends[4..], 1), 0);
    }

    #[test]
    fn a_rewrite_of_the_same_bytes_is_not_reordered() {
        let group = Group::plan(vec![append(1, 50, 1, false), append(1, 0, 1, false)]);
        let order: Vec<_> = group.appends.iter().map(|a| a.position).collect();
        assert_eq!(order, [50, 0]);
    }

    #[test]
    fn each_touched_file_is_synced_once() {
        let group = Group::plan(vec![
            append(9, 0, 1, true),
            append(9, 1, 1, true),
            append(4, 0, 1, false),
            Operation::Sync {
                handle: 3,
                token: Some(7),
            },
            Operation::Sync {
                handle: 9,
                token: Some(8),
            },
        ]);
        let syncs: Vec<_> = group.syncs.into_iter().collect();
        assert_eq!(syncs, [(3, vec![7]), (9, vec![8])]);
    }
}
