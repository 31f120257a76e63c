//! Records in a row that are alike.

use super::page::Entry;

/// Records in a row that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first record.
    pub first: i64,
    /// The last record, included.
    pub last: i64,
    /// What each of them is.
    pub entry: Entry,
}

/// Adds a record to the last of the runs, or begins another.
pub fn push_run(runs: &mut Vec<Run>, offset: i64, entry: Entry) {
    match runs.last_mut() {
        Some(run) if run.last + 1 == offset && run.entry == entry => run.last = offset,
        _ => runs.push(Run {
            first: offset,
            last: offset,
            entry,
        }),
    }
}

/// Adds a record to the last of the steps, or begins another.
pub fn push_step(steps: &mut Vec<(Run, Entry)>, offset: i64, before: Entry, after: Entry) {
    match steps.last_mut() {
        Some((run, next)) if run.last + 1 == offset && run.entry == before && *next == after => {
            run.last = offset
        }
        _ => steps.push((
            Run {
                first: offset,
                last: offset,
                entry: before,
            },
            after,
        )),
    }
}
