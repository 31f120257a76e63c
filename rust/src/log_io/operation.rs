//! What the event loop asks of the log I/O thread, and what it hears back.

use std::path::PathBuf;

/// Names a file in the thread's table. Handles only grow and are never used twice.
pub type Handle = u64;

/// The stage of a completion that reports a failure no operation was waiting for.
pub const STAGE_FAILURE: u8 = 0;
/// The bytes are in the file as the operating system sees it.
pub const STAGE_WRITTEN: u8 = 1;
/// The bytes, and the name of the file, survive a power cut.
pub const STAGE_SYNCED: u8 = 2;
/// The handle is closed and the thread will not touch its file again.
pub const STAGE_CLOSED: u8 = 4;

/// Bytes to write that stay where they are until the thread gives them back.
pub trait Payload: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

impl Payload for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// One positioned write. `written` and `synced` are tokens, present when that stage is to be reported.
pub struct Append<T, P> {
    pub handle: Handle,
    pub position: u64,
    pub payload: P,
    pub written: Option<T>,
    pub synced: Option<T>,
    /// Whether the file must be synced in this group; a `synced` token implies it.
    pub sync: bool,
}

impl<T, P: Payload> Append<T, P> {
    /// Where the next neighbour would start.
    pub fn end(&self) -> u64 {
        self.position + self.payload.bytes().len() as u64
    }
}

/// One thing for the thread to do.
pub enum Operation<T, P> {
    /// Open `path`, creating it when it is missing, and know it as `handle`.
    Create {
        handle: Handle,
        path: PathBuf,
        preallocate_bytes: u64,
    },
    /// Write bytes.
    Append(Append<T, P>),
    /// Make what was written to a file durable.
    Sync { handle: Handle, token: Option<T> },
    /// Forget a file.
    Close { handle: Handle, token: Option<T> },
    /// Try again what comes after this, although something failed before.
    Resume { token: Option<T> },
}

impl<T, P> Operation<T, P> {
    /// Whether it is a write that nobody wants synced.
    pub fn only_writes(&self) -> bool {
        matches!(self, Operation::Append(append) if !append.sync)
    }
}

/// One thing the thread is done with.
pub struct Completion<T, P> {
    pub token: Option<T>,
    pub stage: u8,
    pub errno: i32,
    /// Comes back only to be dropped on the event loop's side, which may release Python objects.
    #[allow(dead_code)]
    pub payload: Option<P>,
}

impl<T, P> Completion<T, P> {
    /// Whether anybody is to be told of it.
    pub fn is_awaited(&self) -> bool {
        self.token.is_some() || self.stage == STAGE_FAILURE
    }
}

/// The first thing that went wrong. Everything after it fails with the same `errno`, until somebody resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub operation: &'static str,
    pub path: PathBuf,
    pub errno: i32,
}
