//! The log I/O thread as Python sees it: appends go in without blocking, completions come out through a descriptor.

mod file_table;
mod group;
mod notifier;
mod operation;
mod shared;
mod sync_job;
mod system;
mod trace;
mod writer;

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use file_table::FileTable;
use operation::{
    Append, Completion, Handle, Operation, Payload, STAGE_CLOSED, STAGE_FAILURE, STAGE_SYNCED,
    STAGE_WRITTEN,
};
use shared::Shared;
use trace::Reading;
use writer::Writer;

/// Up to this size bytes are copied, which is cheaper than holding on to the Python object: index entries.
const COPIED_BYTES_MAX: usize = 64;

type Token = Py<PyAny>;

/// Bytes of a Python object, or a copy of a few.
enum Bytes {
    Held(PyBuffer<u8>),
    Copied(Vec<u8>),
}

impl Payload for Bytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Bytes::Copied(bytes) => bytes,
            Bytes::Held(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: the buffer is contiguous (checked when it was taken) and held until after the last use; whoever
            // gave it leaves it untouched until the completion, as the contract of `append` says.
            Bytes::Held(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes())
            },
        }
    }
}

/// What one call of `completions` reports of one operation: token, stage, errno.
type Report = (Option<Token>, u8, i32);

/// The log I/O thread of one log directory.
#[pyclass(frozen, module = "ottla.native._kernel")]
struct LogIo {
    /// What was asked for since the last `submit`.
    gathered: Mutex<Vec<Operation<Token, Bytes>>>,
    next_handle: AtomicU64,
    shared: Arc<Shared<Token, Bytes>>,
    /// Carries out small groups on the event loop.
    here: Mutex<Writer<Token, Bytes>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LogIo {
    fn gathered(&self) -> MutexGuard<'_, Vec<Operation<Token, Bytes>>> {
        self.gathered
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn carry_out_here(
        &self,
        operations: &mut Vec<Operation<Token, Bytes>>,
        bytes_max: usize,
    ) -> bool {
        self.here
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .carry_out_here(operations, bytes_max)
    }

    fn stop(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        if let Some(thread) = thread {
            self.shared.close();
            // A panic of the thread has been printed already; there is nobody to hand it to.
            let _ = thread.join();
        }
    }
}

#[pymethods]
impl LogIo {
    #[classattr]
    const FAILURE: u8 = STAGE_FAILURE;
    #[classattr]
    const WRITTEN: u8 = STAGE_WRITTEN;
    #[classattr]
    const SYNC: u8 = STAGE_SYNCED;
    #[classattr]
    const CLOSED: u8 = STAGE_CLOSED;

    #[new]
    #[pyo3(signature = (*, open_files_max = 1024, early_write_back_bytes = 8 << 20))]
    fn new(open_files_max: usize, early_write_back_bytes: u64) -> PyResult<Self> {
        let shared = Arc::new(Shared::new()?);
        let files = FileTable::new(open_files_max, early_write_back_bytes);
        let files = Arc::new(Mutex::new(files));
        let here = Writer::of_event_loop(shared.clone(), files.clone());
        let writer = Writer::of_thread(shared.clone(), files);
        let thread = std::thread::Builder::new()
            .name("log-io".into())
            .spawn(move || writer.run())?;
        Ok(LogIo {
            gathered: Mutex::new(Vec::new()),
            next_handle: AtomicU64::new(1),
            shared,
            here: Mutex::new(here),
            thread: Mutex::new(Some(thread)),
        })
    }

    fn fileno(&self) -> RawFd {
        self.shared.notifier.fileno()
    }

    #[pyo3(signature = (path, preallocate_bytes = 0))]
    fn create(&self, path: PathBuf, preallocate_bytes: u64) -> Handle {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.gathered().push(Operation::Create {
            handle,
            path,
            preallocate_bytes,
        });
        handle
    }

    fn append(
        &self,
        py: Python<'_>,
        handle: Handle,
        position: u64,
        data: &Bound<'_, PyAny>,
        token: Option<Token>,
        flags: u8,
    ) -> PyResult<()> {
        if flags & !(STAGE_WRITTEN | STAGE_SYNCED) != 0 {
            return Err(PyValueError::new_err(format!(
                "flags are WRITTEN, SYNC or both, not {flags}"
            )));
        }
        let buffer = PyBuffer::<u8>::get(data)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the bytes to write must lie in one piece",
            ));
        }
        let size = buffer.len_bytes();
        let payload = if size <= COPIED_BYTES_MAX {
            Bytes::Copied(buffer.to_vec(py)?)
        } else {
            Bytes::Held(buffer)
        };
        let sync = flags & STAGE_SYNCED != 0;
        let (written, synced) = match token {
            Some(token) if flags == STAGE_WRITTEN | STAGE_SYNCED => {
                (Some(token.clone_ref(py)), Some(token))
            }
            Some(token) if sync => (None, Some(token)),
            Some(token) if flags == STAGE_WRITTEN => (Some(token), None),
            _ => (None, None),
        };
        self.shared
            .counters
            .queued_bytes
            .fetch_add(size as u64, Ordering::Relaxed);
        let append = Append {
            handle,
            position,
            payload,
            written,
            synced,
            sync,
        };
        self.gathered().push(Operation::Append(append));
        Ok(())
    }

    #[pyo3(signature = (handle, token = None))]
    fn sync(&self, handle: Handle, token: Option<Token>) {
        self.gathered().push(Operation::Sync { handle, token });
    }

    #[pyo3(signature = (handle, token = None))]
    fn close_handle(&self, handle: Handle, token: Option<Token>) {
        self.gathered().push(Operation::Close { handle, token });
    }

    #[pyo3(signature = (token = None))]
    fn resume(&self, token: Option<Token>) {
        self.gathered().push(Operation::Resume { token });
    }

    #[pyo3(signature = (inline_bytes_max = 0))]
    fn submit(&self, py: Python<'_>, inline_bytes_max: usize) -> bool {
        if inline_bytes_max > 0 && self.submit_here(py, inline_bytes_max) {
            return true;
        }
        let mut operations = std::mem::take(&mut *self.gathered());
        if !operations.is_empty() {
            self.shared.submit(&mut operations);
        }
        false
    }

    fn submit_here(&self, py: Python<'_>, bytes_max: usize) -> bool {
        let mut operations = std::mem::take(&mut *self.gathered());
        if operations.is_empty() {
            return false;
        }
        if operations.iter().all(Operation::only_writes)
            && py.detach(|| self.carry_out_here(&mut operations, bytes_max))
        {
            return true;
        }
        let mut gathered = self.gathered();
        operations.append(&mut gathered);
        *gathered = operations;
        false
    }

    fn write_here(
        &self,
        py: Python<'_>,
        handle: Handle,
        position: u64,
        data: &Bound<'_, PyBytes>,
        bytes_max: usize,
    ) -> bool {
        if !self.gathered().is_empty() {
            return false;
        }
        let bytes = data.as_bytes();
        py.detach(|| {
            self.here
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .write_here(handle, position, bytes, bytes_max)
        })
    }

    fn completions(&self) -> Vec<Report> {
        // Dropping the completions releases the payloads, here where the interpreter is attached.
        let completions = self.shared.completions();
        completions
            .into_iter()
            .filter(Completion::is_awaited)
            .map(
                |Completion {
                     token,
                     stage,
                     errno,
                     ..
                 }| (token, stage, errno),
            )
            .collect()
    }

    fn close(&self, py: Python<'_>) {
        self.submit(py, 0);
        py.detach(|| self.stop());
    }

    #[getter]
    fn failure(&self) -> Option<(String, PathBuf, i32)> {
        let failure = self.shared.failure()?;
        Some((failure.operation.to_owned(), failure.path, failure.errno))
    }

    #[getter]
    fn queued_bytes(&self) -> u64 {
        self.shared.counters.queued_bytes.load(Ordering::Relaxed)
    }

    #[getter]
    fn written_bytes(&self) -> u64 {
        self.shared.counters.written_bytes.load(Ordering::Relaxed)
    }

    #[getter]
    fn groups(&self) -> u64 {
        self.shared.counters.groups.load(Ordering::Relaxed)
    }

    #[getter]
    fn inline_groups(&self) -> u64 {
        self.shared.counters.inline_groups.load(Ordering::Relaxed)
    }

    #[getter]
    fn write_calls(&self) -> u64 {
        self.shared.counters.write_calls.load(Ordering::Relaxed)
    }

    #[getter]
    fn sync_calls(&self) -> u64 {
        self.shared.counters.sync_calls.load(Ordering::Relaxed)
    }

    fn trace(&self) -> Vec<(&'static str, Reading)> {
        self.shared.trace.read()
    }
}

impl Drop for LogIo {
    fn drop(&mut self) {
        // The thread never attaches to the interpreter, so waiting for it here cannot deadlock.
        self.stop();
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LogIo>()
}
