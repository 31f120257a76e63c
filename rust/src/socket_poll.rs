//! Many sockets at a time, as Python sees them: one call receives from all that are ready, one sends to many.

mod poll;
mod sending;
mod system;

use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::buffer::ByteViewMut;
#[cfg(any(test, feature = "fuzzing"))]
pub use poll::Ready;
pub use poll::{Poll, READABLE, RECEIVE, WRITABLE};
pub use sending::{Outgoing, VECTORS_MAX, send_all};

/// Whom a socket belongs to, and what of it was received: begin and end in the buffer.
type Arrival = (Py<PyAny>, usize, usize);

/// Whom a socket belongs to, and what it is ready for.
type Readiness = (Py<PyAny>, u8);

/// Whom a socket belongs to, and why it is lost.
type Loss = (Py<PyAny>, i32);

/// An epoll instance and the owners of the sockets in it. Belongs to the event loop that watches `fileno`.
#[pyclass(frozen, module = "ottla.native._kernel")]
struct SocketPoll {
    poll: Mutex<Option<Poll>>,
    /// By file descriptor.
    owners: Mutex<Vec<Option<Py<PyAny>>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn closed() -> std::io::Error {
    std::io::Error::from_raw_os_error(libc::EBADF)
}

impl SocketPoll {
    /// Give a socket an owner, or none. Returns the one it had, to be dropped without the lock: what Python does then
    /// may come back here.
    fn set_owner(&self, fd: RawFd, owner: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        let mut owners = locked(&self.owners);
        let index = fd as usize;
        if index >= owners.len() {
            owner.as_ref()?;
            owners.resize_with(index + 1, || None);
        }
        std::mem::replace(&mut owners[index], owner)
    }
}

#[pymethods]
impl SocketPoll {
    #[classattr]
    #[pyo3(name = "READABLE")]
    const READABLE_EVENT: u8 = READABLE;
    #[classattr]
    #[pyo3(name = "WRITABLE")]
    const WRITABLE_EVENT: u8 = WRITABLE;
    #[classattr]
    #[pyo3(name = "RECEIVE")]
    const RECEIVE_EVENT: u8 = RECEIVE;

    #[new]
    fn new() -> PyResult<Self> {
        Ok(SocketPoll {
            poll: Mutex::new(Some(Poll::new()?)),
            owners: Mutex::new(Vec::new()),
        })
    }

    fn fileno(&self) -> PyResult<RawFd> {
        Ok(locked(&self.poll).as_ref().ok_or_else(closed)?.fileno())
    }

    fn watch(&self, fd: RawFd, owner: Py<PyAny>, events: u8) -> PyResult<()> {
        if fd < 0 || events & !(READABLE | WRITABLE | RECEIVE) != 0 {
            return Err(PyValueError::new_err(format!(
                "a socket is watched for READABLE, WRITABLE and RECEIVE, not {fd} for {events}"
            )));
        }
        locked(&self.poll)
            .as_mut()
            .ok_or_else(closed)?
            .watch(fd, events)?;
        drop(self.set_owner(fd, (events != 0).then_some(owner)));
        Ok(())
    }

    fn receive(
        &self,
        py: Python<'_>,
        buffer: Option<ByteViewMut>,
        position: usize,
        share: usize,
    ) -> PyResult<(Vec<Arrival>, Vec<Readiness>, Vec<Loss>)> {
        let mut buffer = buffer;
        let window = buffer.as_mut().map(ByteViewMut::as_mut_slice);
        let turn = py.detach(|| {
            let mut poll = locked(&self.poll);
            poll.as_mut()
                .ok_or_else(closed)?
                .turn(window, position, share)
        })?;
        let owners = locked(&self.owners);
        let owner = |fd: RawFd| Some(owners.get(fd as usize)?.as_ref()?.clone_ref(py));
        let received = turn
            .received
            .iter()
            .filter_map(|each| Some((owner(each.fd)?, each.begin, each.end)))
            .collect();
        let ready = turn
            .ready
            .iter()
            .filter_map(|each| Some((owner(each.fd)?, each.events)))
            .collect();
        let lost = turn
            .lost
            .iter()
            .filter_map(|each| Some((owner(each.fd)?, each.errno)))
            .collect();
        Ok((received, ready, lost))
    }

    #[staticmethod]
    fn send(
        py: Python<'_>,
        sockets: Vec<RawFd>,
        outputs: Vec<Bound<'_, PyList>>,
    ) -> PyResult<Vec<(usize, usize)>> {
        if sockets.len() != outputs.len() {
            return Err(PyValueError::new_err("each socket has its output"));
        }
        // Kept until the bytes are sent, whatever becomes of the lists meanwhile.
        let mut held: Vec<Bound<'_, PyBytes>> = Vec::with_capacity(sockets.len());
        let mut outgoing = Outgoing::with_capacity(sockets.len());
        let mut are_bytes = Vec::with_capacity(sockets.len());
        for (fd, parts) in sockets.iter().zip(&outputs) {
            let begin = held.len();
            let is_bytes = parts.len() <= VECTORS_MAX
                && parts.iter().all(|part| match part.cast_into::<PyBytes>() {
                    Ok(bytes) => {
                        held.push(bytes);
                        true
                    }
                    Err(_) => false,
                });
            if !is_bytes {
                held.truncate(begin);
            }
            are_bytes.push(is_bytes);
            // SAFETY: bytes never change, and `held` keeps them beyond `send_all`.
            unsafe { outgoing.push(*fd, held[begin..].iter().map(|bytes| bytes.as_bytes())) };
        }
        let sent = py.detach(|| send_all(&outgoing));
        Ok(sent
            .into_iter()
            .zip(are_bytes)
            .enumerate()
            .filter(|(_, ((_, is_all), is_bytes))| !(*is_all && *is_bytes))
            .map(|(index, ((count, _), _))| (index, count))
            .collect())
    }

    fn close(&self) {
        drop(locked(&self.poll).take());
        let owners = std::mem::take(&mut *locked(&self.owners));
        drop(owners);
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SocketPoll>()
}
