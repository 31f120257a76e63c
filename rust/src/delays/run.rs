//! A run: all records of a range of offsets that waited when it was written, sorted, in bucket files that follow one
//! another. A cursor goes through it once.
//!
//! ```text
//! files     [due 100 .. 250] [due 250 .. 900] [due 900 .. 5000]
//!                 ^ head: the next record; what is before it was moved
//! ```

use crate::delays::bucket::Bucket;
use crate::delays::cancels::Cancel;
use crate::delays::entry::{Due, Entry, entry_at};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// The point up to which records have been moved of those below an offset, and not in an earlier part.
pub type Moved = (i64, Due);

/// Before all points.
pub const NOTHING: Due = (i64::MIN, i64::MIN);

/// A cursor in a run.
pub struct Run {
    files: Vec<Bucket>,
    moved: Vec<Moved>,
    file_at: usize,
    file: Option<File>,
    block_at: usize,
    block: Vec<u8>,
    at: usize,
    head: Option<Due>,
    /// How many entries were gone past.
    pub passed: u64,
    /// The entries of all files.
    pub entries: u64,
}

impl Run {
    /// Go to the first entry that was not moved. The parts of `moved` are in the order of offsets; records beyond the
    /// last of them were not moved.
    pub fn new(files: Vec<Bucket>, moved: Vec<Moved>) -> io::Result<Self> {
        let entries = files.iter().map(|file| file.entries).sum();
        let mut run = Run {
            files,
            moved,
            file_at: 0,
            file: None,
            block_at: 0,
            block: Vec::new(),
            at: 0,
            head: None,
            passed: 0,
            entries,
        };
        run.load()?;
        run.pass_moved()?;
        Ok(run)
    }

    /// The next entry's time and offset, None at the end.
    pub fn head(&self) -> Option<Due> {
        self.head
    }

    /// The next entry; there must be one.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.head.and_then(|_| entry_at(&self.block[self.at..]))
    }

    /// Go past the next entry.
    pub fn pass(&mut self) -> io::Result<()> {
        self.step()?;
        self.pass_moved()
    }

    fn pass_moved(&mut self) -> io::Result<()> {
        while let Some(head) = self.head {
            let part = self.moved.partition_point(|(below, _)| *below <= head.1);
            let part = self.moved.get(part);
            if part.is_none_or(|(_, until)| head > *until) {
                break;
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        let length = entry_at(&self.block[self.at..]).map_or(0, |entry| entry.bytes.len());
        self.at += length;
        self.passed += 1;
        if self.at < self.block.len() {
            return self.look();
        }
        self.block_at += 1;
        self.load()
    }

    fn look(&mut self) -> io::Result<()> {
        let before = self.head;
        self.head = entry_at(&self.block[self.at..]).map(|entry| entry.due);
        if self.head.is_none() || before.is_some_and(|before| Some(before) > self.head) {
            let path = self.files[self.file_at].path.display();
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{path}: a block is damaged"),
            ));
        }
        Ok(())
    }

    fn load(&mut self) -> io::Result<()> {
        while self.file_at < self.files.len() {
            let bucket = &self.files[self.file_at];
            if self.block_at < bucket.index.len() {
                if self.file.is_none() {
                    self.file = Some(File::open(&bucket.path)?);
                }
                if let Some(file) = &self.file {
                    bucket.read(file, self.block_at, &mut self.block)?;
                }
                self.at = 0;
                return self.look();
            }
            self.file = None;
            self.file_at += 1;
            self.block_at = 0;
        }
        self.block = Vec::new();
        self.head = None;
        Ok(())
    }

    /// What has been moved of it, for another cursor in the same entries: everything before the head, and behind it
    /// what was moved before it was opened.
    pub fn moved_parts(&self) -> Vec<Moved> {
        let before_head = self
            .head
            .map_or((i64::MAX, i64::MAX), |(due, offset)| (due, offset - 1));
        let mut parts: Vec<Moved> = Vec::new();
        for (below, until) in self.moved.iter().copied().chain([(i64::MAX, before_head)]) {
            let until = until.max(before_head);
            match parts.last_mut() {
                Some(last) if last.1 == until => last.0 = below,
                _ => parts.push((below, until)),
            }
        }
        parts
    }

    /// The cancellations that its files have.
    pub fn cancels(&self) -> impl Iterator<Item = &Cancel> {
        self.files.iter().flat_map(|file| &file.cancels)
    }

    /// Keep the cancellations in the files only.
    pub fn forget_cancels(&mut self) {
        self.files
            .iter_mut()
            .for_each(|file| file.cancels = Vec::new());
    }

    /// The smallest offset of what is left, block by block: one that was moved may be named.
    pub fn oldest(&self) -> i64 {
        let Some(current) = self.files.get(self.file_at) else {
            return i64::MAX;
        };
        let after = self.files[self.file_at + 1..].iter();
        after
            .filter_map(|file| file.oldest_from.first().copied())
            .chain(current.oldest_from.get(self.block_at).copied())
            .min()
            .unwrap_or(i64::MAX)
    }

    /// The bytes of the files that have something left.
    pub fn bytes_left(&self) -> u64 {
        self.files[self.file_at..]
            .iter()
            .map(|file| file.bytes)
            .sum()
    }

    /// The files of which something is left, or with `cancels` those that have cancellations too.
    pub fn in_use(&self, cancels: bool) -> impl Iterator<Item = &Bucket> {
        let files = self.files.iter().enumerate();
        files
            .filter(move |(at, file)| *at >= self.file_at || cancels && file.has_cancels)
            .map(|(_, file)| file)
    }

    /// The files of which something is left.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files[self.file_at..].iter().map(|file| &file.path)
    }

    /// About its memory.
    pub fn memory(&self) -> usize {
        let blocks: usize = self.files.iter().map(|file| file.index.len()).sum();
        blocks * 48 + self.block.capacity()
    }
}
