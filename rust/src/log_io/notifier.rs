//! A file descriptor that becomes readable when there is something to fetch.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An eventfd on Linux, a non-blocking pipe elsewhere.
pub struct Notifier {
    read_end: OwnedFd,
    /// The same eventfd is both ends.
    #[cfg(not(target_os = "linux"))]
    write_end: OwnedFd,
}

impl Notifier {
    /// A notifier that is not readable yet.
    #[cfg(target_os = "linux")]
    pub fn new() -> std::io::Result<Self> {
        // SAFETY: the new descriptor has no other owner.
        unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
                -1 => Err(std::io::Error::last_os_error()),
                fd => Ok(Notifier {
                    read_end: OwnedFd::from_raw_fd(fd),
                }),
            }
        }
    }

    /// A notifier that is not readable yet.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> std::io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for both descriptors, and they have no other owner.
        unsafe {
            if libc::pipe(ends.as_mut_ptr()) == -1 {
                return Err(std::io::Error::last_os_error());
            }
            for fd in ends {
                libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            Ok(Notifier {
                read_end: OwnedFd::from_raw_fd(ends[0]),
                write_end: OwnedFd::from_raw_fd(ends[1]),
            })
        }
    }

    /// The descriptor to watch.
    pub fn fileno(&self) -> RawFd {
        self.read_end.as_raw_fd()
    }

    /// Make it readable.
    pub fn notify(&self) {
        #[cfg(target_os = "linux")]
        let fd = self.read_end.as_raw_fd();
        #[cfg(not(target_os = "linux"))]
        let fd = self.write_end.as_raw_fd();
        // An eventfd takes exactly eight bytes. A write can only fail because it is readable already.
        let one = 1u64.to_ne_bytes();
        // SAFETY: the descriptor is open and `one` has eight bytes.
        unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    }

    /// Make it not readable; returns whether it was.
    pub fn clear(&self) -> bool {
        let mut buffer = [0u8; 8];
        // SAFETY: the descriptor is open and the buffer has room for what is asked.
        let size = unsafe {
            libc::read(
                self.read_end.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
            )
        };
        size > 0
    }
}
