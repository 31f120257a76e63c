//! Reading a file into the page cache; a little at a time while somebody waits for syncs, which go first.
//!
//! ```text
//! asked for    |--- step ---|--- step ---|
//! waited for   |--- step ---|              then the third is asked for
//! ```

use std::collections::VecDeque;
use std::io::Result;
use std::os::fd::RawFd;
use std::time::Duration;

use pyo3::prelude::*;

use crate::disk_turns::{DISK, now};

/// What is asked for at a time.
const STEP_BYTES: u64 = 512 << 10;

/// The same while syncs go on, between them.
const SMALL_STEP_BYTES: u64 = 128 << 10;

/// Steps that the disk has to do then: with one it would wait for the next to be asked for. The sync that comes next
/// stands behind so much.
const SMALL_STEPS_UNDER_WAY: usize = 2;

/// Syncs go on while one has begun within this time.
const SYNCING: Duration = Duration::from_secs(1);

/// Ask for the bytes from `position` to `end`, step by step. While there are syncs, wait for what was asked for, until it
/// is beyond the end of the file.
fn step_by_step(
    position: u64,
    end: u64,
    has_syncs: impl Fn() -> bool,
    mut ask: impl FnMut(u64, u64),
    mut wait: impl FnMut(u64) -> Result<bool>,
) -> Result<()> {
    let mut asked = position;
    let mut under_way = VecDeque::new();
    while asked < end || !under_way.is_empty() {
        let is_slow = has_syncs();
        if asked < end && !(is_slow && under_way.len() >= SMALL_STEPS_UNDER_WAY) {
            let begin = asked;
            let step = if is_slow {
                SMALL_STEP_BYTES
            } else {
                STEP_BYTES
            };
            asked = end.min(begin.saturating_add(step));
            ask(begin, asked);
            under_way.push_back(asked);
        } else if !is_slow {
            break;
        } else if let Some(there) = under_way.pop_front()
            && !wait(there)?
        {
            break;
        }
    }
    Ok(())
}

/// Have the system read a range in the background, where it can be asked.
fn advise(fd: RawFd, position: libc::off_t, size: libc::off_t) {
    #[cfg(target_os = "linux")]
    // SAFETY: no memory is involved. What cannot be asked for comes when it is read.
    unsafe {
        libc::posix_fadvise(fd, position, size, libc::POSIX_FADV_WILLNEED)
    };
    #[cfg(not(target_os = "linux"))]
    let _ = (fd, position, size);
}

fn read(fd: RawFd, position: u64, size: u64) -> Result<()> {
    use std::io::Error;
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let offset = |at: u64| libc::off_t::try_from(at).unwrap_or(libc::off_t::MAX);
    let ask = |begin, end: u64| {
        DISK.let_sync_go_first(now, std::thread::sleep);
        advise(fd, offset(begin), offset(end - begin));
    };
    let wait = |end: u64| {
        let mut last = 0u8;
        loop {
            // SAFETY: there is room for one byte.
            match unsafe { libc::pread(fd, (&raw mut last).cast(), 1, offset(end - 1)) } {
                -1 => match Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::EINTR) => {}
                    error => return Err(error),
                },
                count => return Ok(count == 1),
            }
        }
    };
    let end = position.saturating_add(size);
    let has_syncs = || DISK.has_synced_within(SYNCING, now());
    step_by_step(position, end, has_syncs, ask, wait)
}

#[pyfunction]
#[pyo3(signature = (fd, position, size, /))]
fn read_ahead(py: Python<'_>, fd: RawFd, position: u64, size: u64) -> PyResult<()> {
    Ok(py.detach(|| read(fd, position, size))?)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_ahead, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn while_there_are_syncs_two_small_steps_are_under_way_and_all_is_there_at_the_end() {
        for size in [
            0,
            1,
            SMALL_STEP_BYTES,
            SMALL_STEP_BYTES + 1,
            9 * SMALL_STEP_BYTES + 5,
        ] {
            let (asked, there) = (Cell::new(7), Cell::new(7));
            let ask = |begin, end| {
                assert_eq!(begin, asked.get());
                asked.set(end);
                assert!(end - there.get() <= 2 * SMALL_STEP_BYTES);
            };
            let wait = |end| {
                assert!(there.get() < end && end <= asked.get());
                // Another step is under way, unless this is the last.
                assert!(asked.get() > end || end == 7 + size);
                there.set(end);
                Ok(true)
            };
            step_by_step(7, 7 + size, || true, ask, wait).unwrap();
            assert_eq!((asked.get(), there.get()), (7 + size, 7 + size));
        }
    }

    #[test]
    fn without_syncs_all_is_asked_for_at_once_and_not_waited_for() {
        let asked = RefCell::new(Vec::new());
        let ask = |begin, end| asked.borrow_mut().push((begin, end));
        step_by_step(
            3,
            3 + STEP_BYTES + 1,
            || false,
            ask,
            |_| panic!("nobody waits"),
        )
        .unwrap();
        let middle = 3 + STEP_BYTES;
        assert_eq!(*asked.borrow(), [(3, middle), (middle, middle + 1)]);
    }

    #[test]
    fn when_syncs_begin_what_was_asked_for_is_waited_for_first() {
        let (asked, waited) = (Cell::new(0), Cell::new(0));
        let ask = |begin, end| {
            assert!(begin < 4 * STEP_BYTES || waited.get() >= 3 * STEP_BYTES);
            asked.set(end);
        };
        let wait = |end| {
            waited.set(end);
            Ok(true)
        };
        step_by_step(
            0,
            9 * STEP_BYTES,
            || asked.get() >= 4 * STEP_BYTES,
            ask,
            wait,
        )
        .unwrap();
        assert_eq!(
            (asked.get(), waited.get()),
            (9 * STEP_BYTES, 9 * STEP_BYTES)
        );
    }

    #[test]
    fn it_ends_where_the_file_ends_or_fails() {
        let asked = Cell::new(0);
        let ask = |_, end| asked.set(end);
        let end_of_file = 3 * SMALL_STEP_BYTES;
        step_by_step(0, u64::MAX, || true, ask, |end| Ok(end <= end_of_file)).unwrap();
        assert_eq!(asked.get(), end_of_file + 2 * SMALL_STEP_BYTES);
        let failing = |_| Err(std::io::Error::from_raw_os_error(libc::EIO));
        let error = step_by_step(0, u64::MAX, || true, |_, _| {}, failing).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}
