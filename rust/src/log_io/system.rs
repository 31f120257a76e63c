//! The system calls of the log I/O thread, each with EINTR handled and errors as plain errno.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An error number of the operating system.
pub type Errno = i32;

/// How many buffers one `pwritev` takes: IOV_MAX of Linux and macOS.
pub const BUFFERS_PER_WRITE_MAX: usize = 1024;

fn errno() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

fn retry<R: Copy + PartialOrd + From<i8>>(mut call: impl FnMut() -> R) -> Result<R, Errno> {
    loop {
        let result = call();
        if result >= R::from(0) {
            return Ok(result);
        }
        match errno() {
            libc::EINTR => {}
            error => return Err(error),
        }
    }
}

fn open(path: &Path, flags: i32) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    // SAFETY: `path` is a C string that outlives the call; the new descriptor has no other owner.
    unsafe {
        let fd = retry(|| {
            libc::open(
                path.as_ptr(),
                flags | libc::O_CLOEXEC,
                0o644 as libc::c_uint,
            )
        })?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Open a file for writing, creating it when it is missing. What it holds stays.
pub fn open_or_create(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, libc::O_WRONLY | libc::O_CREAT)
}

/// Make the names in a directory durable.
pub fn sync_directory(path: &Path) -> Result<(), Errno> {
    let directory = open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
    // SAFETY: the descriptor is open.
    retry(|| unsafe { libc::fsync(directory.as_raw_fd()) }).map(|_| ())
}

/// Write `buffers` one after another at `position`, all of them. Returns how many system calls it took.
pub fn write_all(fd: BorrowedFd<'_>, mut position: u64, buffers: &[&[u8]]) -> Result<u64, Errno> {
    let mut vectors: Vec<libc::iovec> = buffers
        .iter()
        .filter(|buffer| !buffer.is_empty())
        .map(|buffer| libc::iovec {
            iov_base: buffer.as_ptr() as *mut _,
            iov_len: buffer.len(),
        })
        .collect();
    let mut rest = &mut vectors[..];
    let mut calls = 0;
    while !rest.is_empty() {
        let offset = libc::off_t::try_from(position).map_err(|_| libc::EFBIG)?;
        let count = rest.len().min(BUFFERS_PER_WRITE_MAX) as i32;
        // SAFETY: every vector describes bytes borrowed for the whole call; the kernel only reads them.
        let written =
            retry(|| unsafe { libc::pwritev(fd.as_raw_fd(), rest.as_ptr(), count, offset) })?
                as usize;
        calls += 1;
        if written == 0 {
            return Err(libc::EIO);
        }
        position += written as u64;
        rest = advance(rest, written);
    }
    Ok(calls)
}

/// Drop `count` bytes from the front of the vectors.
fn advance(mut vectors: &mut [libc::iovec], mut count: usize) -> &mut [libc::iovec] {
    while let Some(first) = vectors.first_mut() {
        if count < first.iov_len {
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(count).cast();
            first.iov_len -= count;
            break;
        }
        count -= first.iov_len;
        vectors = &mut vectors[1..];
    }
    vectors
}

/// Make a file's bytes durable, and as much of its metadata as is needed to read them back.
pub fn sync_data(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    #[cfg(target_os = "macos")]
    // SAFETY: the descriptor is open. fsync of macOS leaves the bytes in the drive's cache.
    let result = retry(|| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_FULLFSYNC) });
    #[cfg(not(target_os = "macos"))]
    // SAFETY: the descriptor is open.
    let result = retry(|| unsafe { libc::fdatasync(fd.as_raw_fd()) });
    result.map(|_| ())
}

/// See that what was synced can be on disk. EROFS or EIO when the journal of the file system is aborted.
///
/// Linux's ext4 may report a sync as done whose transaction was aborted by an error elsewhere in the file system: when
/// it looks for the transaction, that is over, and whether it failed is not asked (`jbd2_complete_transaction`). What
/// was synced is gone after the next mount. An aborted journal stays aborted, and nothing begins in it any more: the
/// removal of an attribute that is not there begins, and changes nothing.
pub fn require_journal(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    // SAFETY: the descriptor is open, fstatfs fills in the whole of `status` when it succeeds, and the name is a C string.
    unsafe {
        let mut status: libc::statfs = std::mem::zeroed();
        retry(|| libc::fstatfs(fd.as_raw_fd(), &mut status))?;
        if status.f_type != libc::EXT4_SUPER_MAGIC {
            return Ok(());
        }
        let name = c"user.ottla-journal";
        match retry(|| libc::fremovexattr(fd.as_raw_fd(), name.as_ptr())) {
            Err(error @ (libc::EROFS | libc::EIO)) => Err(error),
            _ => Ok(()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = fd;
        Ok(())
    }
}

/// Reserve `size` bytes for a file without changing the size it has.
pub fn preallocate(fd: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        let size = libc::off_t::try_from(size).map_err(|_| libc::EFBIG)?;
        // SAFETY: the descriptor is open.
        retry(|| unsafe { libc::fallocate(fd.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, size) })
            .map(|_| ())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (fd, size);
        Err(libc::ENOTSUP)
    }
}

/// Give back what was reserved for a file beyond its end.
pub fn release_beyond_end(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and fstat fills in the whole of `status` when it succeeds.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        retry(|| libc::fstat(fd.as_raw_fd(), &mut status))?;
        retry(|| libc::ftruncate(fd.as_raw_fd(), status.st_size)).map(|_| ())
    }
}

/// Ask the kernel to start writing back a range, without waiting for it. Where that cannot be asked nothing happens.
pub fn start_write_back(fd: BorrowedFd<'_>, position: u64, size: u64) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the descriptor is open.
        let result = retry(|| unsafe {
            libc::sync_file_range(
                fd.as_raw_fd(),
                position as i64,
                size as i64,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        });
        match result {
            Err(libc::ENOSYS | libc::ESPIPE | libc::EINVAL) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (fd, position, size);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(buffers: &[&[u8]]) -> Vec<libc::iovec> {
        buffers
            .iter()
            .map(|b| libc::iovec {
                iov_base: b.as_ptr() as *mut _,
                iov_len: b.len(),
            })
            .collect()
    }

    #[test]
    fn a_short_write_goes_on_where_it_stopped() {
        let (a, b, c) = ([1u8; 3], [2u8; 4], [3u8; 5]);
        for written in 0..=12 {
            let mut all = vectors(&[&a, &b, &c]);
            let rest = advance(&mut all, written);
            let left: usize = rest.iter().map(|v| v.iov_len).sum();
            assert_eq!(left, 12 - written);
            // SAFETY: the vectors still point into `a`, `b` and `c`.
            let bytes: Vec<u8> = rest
                .iter()
                .flat_map(|v| {
                    unsafe { std::slice::from_raw_parts(v.iov_base as *const u8, v.iov_len) }
                        .to_vec()
                })
                .collect();
            assert_eq!(bytes, [&a[..], &b[..], &c[..]].concat()[written..]);
        }
    }
}
