//! The files the thread writes: by handle, opened when needed, the least recently used closed when there are too many.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::operation::{Failure, Handle};
use super::sync_job::SyncJob;
use super::system::{self, Errno};

struct File {
    path: Arc<Path>,
    /// Shared with a sync that is under way, which may outlast the place in this table.
    fd: Option<Arc<OwnedFd>>,
    /// Whether the directory is known to hold the file's name durably, and the directory above it its own.
    name_durable: bool,
    /// Whether the file has room beyond its end that is given back when it is closed.
    preallocated: bool,
    /// When it was used last, in uses of the table.
    used: u64,
    /// Bytes written since write-back was asked for or the file was synced, and where they start.
    unwritten_back: u64,
    write_back_from: u64,
}

/// Files by handle.
pub struct FileTable {
    files: HashMap<Handle, File>,
    open_count: usize,
    open_max: usize,
    write_back_bytes: u64,
    uses: u64,
}

impl FileTable {
    /// A table that keeps at most `open_max` files open and asks for write-back every `write_back_bytes` of a file
    /// that nobody syncs; 0 never asks.
    pub fn new(open_max: usize, write_back_bytes: u64) -> Self {
        FileTable {
            files: HashMap::new(),
            open_count: 0,
            open_max: open_max.max(1),
            write_back_bytes,
            uses: 0,
        }
    }

    /// Know `path` as `handle` and create the file when it is missing; reserve room for it when that is asked and works.
    pub fn create(
        &mut self,
        handle: Handle,
        path: PathBuf,
        preallocate_bytes: u64,
    ) -> Result<(), Failure> {
        let file = File {
            path: path.into(),
            fd: None,
            name_durable: false,
            preallocated: false,
            used: 0,
            unwritten_back: 0,
            write_back_from: u64::MAX,
        };
        self.files.insert(handle, file);
        let file = self.open(handle)?;
        if preallocate_bytes > 0 {
            let fd = file.fd.as_ref().expect("open() opened it");
            file.preallocated = system::preallocate(fd.as_fd(), preallocate_bytes).is_ok();
        }
        Ok(())
    }

    /// Forget a handle and close its file.
    pub fn close(&mut self, handle: Handle) {
        if self
            .files
            .get(&handle)
            .is_some_and(|file| file.preallocated)
        {
            // Nothing is lost when the room cannot be given back.
            let _ = self.open(handle).map(|file| {
                let fd = file.fd.as_ref().expect("open() opened it");
                system::release_beyond_end(fd.as_fd())
            });
        }
        if self
            .files
            .remove(&handle)
            .is_some_and(|file| file.fd.is_some())
        {
            self.open_count -= 1;
        }
    }

    /// Write all buffers at `position`; returns the number of system calls.
    pub fn write(
        &mut self,
        handle: Handle,
        position: u64,
        buffers: &[&[u8]],
    ) -> Result<u64, Failure> {
        let file = self.open(handle)?;
        let fd = file.fd.as_ref().expect("open() opened it");
        let calls = system::write_all(fd.as_fd(), position, buffers)
            .map_err(|errno| failed("write", &file.path, errno))?;
        file.unwritten_back += buffers
            .iter()
            .map(|buffer| buffer.len() as u64)
            .sum::<u64>();
        file.write_back_from = file.write_back_from.min(position);
        Ok(calls)
    }

    /// Whether `size` more bytes go to a file without opening it or asking for write-back.
    pub fn is_quick(&self, handle: Handle, size: u64) -> bool {
        let due = self.write_back_bytes;
        self.files
            .get(&handle)
            .is_some_and(|file| file.fd.is_some() && (due == 0 || file.unwritten_back + size < due))
    }

    /// Ask for the write-back of a file that nobody syncs when enough has gathered.
    pub fn write_back_when_due(&mut self, handle: Handle) -> Result<(), Failure> {
        let due = self.write_back_bytes;
        match self.files.get(&handle) {
            Some(file) if due > 0 && file.unwritten_back >= due => self.start_write_back(handle),
            _ => Ok(()),
        }
    }

    /// Have the kernel start writing a file back, without waiting.
    pub fn start_write_back(&mut self, handle: Handle) -> Result<(), Failure> {
        let file = self.open(handle)?;
        if file.unwritten_back > 0 {
            let fd = file.fd.as_ref().expect("open() opened it");
            system::start_write_back(fd.as_fd(), file.write_back_from, file.unwritten_back)
                .map_err(|errno| failed("write back", &file.path, errno))?;
            file.unwritten_back = 0;
            file.write_back_from = u64::MAX;
        }
        Ok(())
    }

    /// What has to be done to make a file's content durable, and its name when that is new.
    pub fn begin_sync(&mut self, handle: Handle) -> Result<SyncJob, Failure> {
        let file = self.open(handle)?;
        let fd = file.fd.as_ref().expect("open() opened it");
        Ok(SyncJob {
            path: file.path.clone(),
            fd: fd.clone(),
            name_is_new: !file.name_durable,
        })
    }

    /// That has been done.
    pub fn synced(&mut self, handle: Handle) {
        if let Some(file) = self.files.get_mut(&handle) {
            file.unwritten_back = 0;
            file.write_back_from = u64::MAX;
            file.name_durable = true;
        }
    }

    fn open(&mut self, handle: Handle) -> Result<&mut File, Failure> {
        self.uses += 1;
        let uses = self.uses;
        let Some(file) = self.files.get(&handle) else {
            return Err(Failure {
                operation: "use of a closed handle",
                path: PathBuf::new(),
                errno: libc::EBADF,
            });
        };
        if file.fd.is_none() {
            let path = file.path.clone();
            self.make_room();
            let opened = system::open_or_create(&path).or_else(|errno| match errno {
                libc::EMFILE | libc::ENFILE => {
                    self.close_oldest(self.open_count / 2 + 1);
                    system::open_or_create(&path)
                }
                errno => Err(errno),
            });
            let fd = opened.map_err(|errno| failed("open", &path, errno))?;
            self.open_count += 1;
            self.files.get_mut(&handle).expect("found above").fd = Some(Arc::new(fd));
        }
        let file = self.files.get_mut(&handle).expect("found above");
        file.used = uses;
        Ok(file)
    }

    fn make_room(&mut self) {
        if self.open_count >= self.open_max {
            self.close_oldest(self.open_max / 4 + 1);
        }
    }

    /// Close the descriptors used longest ago. What was written through them stays in the page cache and is synced
    /// through the next descriptor; Linux reports a write-back error nobody has seen to that one (errseq_t).
    fn close_oldest(&mut self, count: usize) {
        let mut open: Vec<_> = self
            .files
            .iter()
            .filter(|(_, f)| f.fd.is_some())
            .map(|(handle, f)| (f.used, *handle))
            .collect();
        open.sort_unstable();
        for (_, handle) in open.into_iter().take(count) {
            self.files.get_mut(&handle).expect("listed above").fd = None;
            self.open_count -= 1;
        }
    }
}

pub(super) fn failed(operation: &'static str, path: &Path, errno: Errno) -> Failure {
    Failure {
        operation,
        path: path.to_path_buf(),
        errno,
    }
}
