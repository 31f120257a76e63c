//! The system calls of the poll; elsewhere than on Linux there is none, and `epoll_create` says so.

use std::io::Error;
use std::os::fd::RawFd;

/// How many bytes were received, or the errno.
pub fn receive(fd: RawFd, window: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: the window has room for its length.
    let count = unsafe {
        libc::recv(
            fd,
            window.as_mut_ptr().cast(),
            window.len(),
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(count).map_err(|_| Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(target_os = "linux")]
pub use epoll::*;
#[cfg(not(target_os = "linux"))]
pub use nothing::*;

#[cfg(target_os = "linux")]
mod epoll {
    use super::super::poll::{EVENTS_MAX, READABLE, RECEIVE, WRITABLE};
    use std::io::{Error, Result};
    use std::os::fd::RawFd;

    pub type Event = libc::epoll_event;

    /// Room for one event.
    pub const NO_EVENT: Event = libc::epoll_event { events: 0, u64: 0 };

    const GONE: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

    pub fn epoll_create() -> Result<RawFd> {
        // SAFETY: no memory is involved.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => Err(Error::last_os_error()),
            fd => Ok(fd),
        }
    }

    /// What epoll's bits mean. A socket whose peer is gone is ready for everything.
    pub fn readiness(bits: u32) -> u8 {
        let mut ready = 0;
        if bits & (libc::EPOLLIN as u32 | GONE) != 0 {
            ready |= READABLE;
        }
        if bits & (libc::EPOLLOUT as u32 | GONE) != 0 {
            ready |= WRITABLE;
        }
        ready
    }

    /// Whether a socket may hold more than a receive took that had room for more, as far as epoll's bits say: they do
    /// where RECEIVE was asked for. An end is behind the bytes before it, and no receive goes beyond an urgent byte.
    pub fn may_hold_more(bits: u32) -> bool {
        bits & ((libc::EPOLLRDHUP | libc::EPOLLPRI) as u32 | GONE) != 0
    }

    /// Ask for other events of a socket, or for the same ones anew: with RECEIVE once for all that there is.
    pub fn epoll_change(epoll: RawFd, fd: RawFd, before: u8, after: u8) -> Result<()> {
        let operation = match (before, after) {
            (0, 0) => return Ok(()),
            (0, _) => libc::EPOLL_CTL_ADD,
            (_, 0) => libc::EPOLL_CTL_DEL,
            _ => libc::EPOLL_CTL_MOD,
        };
        let mut events = 0;
        if after & READABLE != 0 {
            events |= libc::EPOLLIN as u32;
        }
        if after & WRITABLE != 0 {
            events |= libc::EPOLLOUT as u32;
        }
        if after & RECEIVE != 0 {
            events |= (libc::EPOLLET | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
        }
        let mut event = libc::epoll_event {
            events,
            u64: fd as u64,
        };
        // SAFETY: `event` lives through the call.
        match unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// How many sockets are ready now, and which.
    pub fn epoll_look(epoll: RawFd, events: &mut [Event; EVENTS_MAX]) -> Result<usize> {
        // SAFETY: there is room for EVENTS_MAX events.
        match unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), EVENTS_MAX as i32, 0) } {
            -1 => match Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => Ok(0),
                error => Err(error),
            },
            count => Ok(count as usize),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod nothing {
    use super::super::poll::EVENTS_MAX;
    use std::io::{Error, Result};
    use std::os::fd::RawFd;

    #[derive(Clone, Copy)]
    pub struct Event {
        pub events: u32,
        pub u64: u64,
    }

    pub const NO_EVENT: Event = Event { events: 0, u64: 0 };

    fn missing<T>() -> Result<T> {
        Err(Error::from_raw_os_error(libc::ENOSYS))
    }

    pub fn epoll_create() -> Result<RawFd> {
        missing()
    }

    pub fn readiness(_bits: u32) -> u8 {
        0
    }

    pub fn may_hold_more(_bits: u32) -> bool {
        false
    }

    pub fn epoll_change(_epoll: RawFd, _fd: RawFd, _before: u8, _after: u8) -> Result<()> {
        missing()
    }

    pub fn epoll_look(_epoll: RawFd, _events: &mut [Event; EVENTS_MAX]) -> Result<usize> {
        missing()
    }
}
