//! Several runs that follow one another in the log become one, in steps, while the runs are read by others.

use crate::delays::bucket::{Bucket, BucketWriter};
use crate::delays::cancels::{Cancel, Cancels};
use crate::delays::entry::Due;
use crate::delays::run::Run;
use pyo3::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::PathBuf;

/// What a file of the result has at most, by a block.
const FILE_BYTES: u64 = 64 << 20;

/// Open the files of a run.
pub fn open_files(paths: &[PathBuf]) -> io::Result<Vec<Bucket>> {
    paths.iter().map(|path| Bucket::open(path)).collect()
}

/// A merge under way.
#[pyclass(module = "ottla.native._kernel")]
pub struct BucketMerge {
    runs: Vec<Run>,
    order: BinaryHeap<Reverse<(Due, usize)>>,
    dropped: Cancels,
    kept_cancels: Vec<Cancel>,
    name: String,
    writer: Option<BucketWriter>,
    written: Vec<PathBuf>,
    is_unreadable: bool,
}

impl BucketMerge {
    /// `runs` are cursors of their own. What `dropped` cancels is left out; `kept_cancels` go into the last file. The
    /// files are `name` and a number.
    pub fn new(runs: Vec<Run>, dropped: Cancels, kept_cancels: Vec<Cancel>, name: String) -> Self {
        let heads = runs.iter().enumerate();
        let order = heads
            .filter_map(|(index, run)| run.head().map(|head| Reverse((head, index))))
            .collect();
        BucketMerge {
            runs,
            order,
            dropped,
            kept_cancels,
            name,
            writer: None,
            written: Vec::new(),
            is_unreadable: false,
        }
    }

    fn open_writer(&mut self) -> io::Result<&mut BucketWriter> {
        let full = self
            .writer
            .take_if(|writer| writer.size() >= FILE_BYTES)
            .map(|writer| writer.finish(&[]));
        if let Some(path) = full {
            self.written.push(path?);
        }
        match &mut self.writer {
            Some(writer) => Ok(writer),
            empty => {
                let path = format!("{}.{}", self.name, self.written.len());
                Ok(empty.insert(BucketWriter::create(path.as_ref())?))
            }
        }
    }

    fn work(&mut self, bytes: usize) -> io::Result<bool> {
        let mut done = 0;
        while done < bytes {
            let Some(Reverse((due, index))) = self.order.pop() else {
                return self.end();
            };
            if let Some(entry) = self.runs[index].entry() {
                done += entry.bytes.len();
                if !self.dropped.has(entry.key_hash, entry.place) {
                    let bytes: *const [u8] = entry.bytes;
                    let writer = self.open_writer()?;
                    // SAFETY: they lie in the block of the run, which nothing changes before `pass` below.
                    writer.put(due, unsafe { &*bytes })?;
                }
            }
            self.runs[index]
                .pass()
                .inspect_err(|_| self.is_unreadable = true)?;
            if let Some(head) = self.runs[index].head() {
                self.order.push(Reverse((head, index)));
            }
        }
        Ok(false)
    }

    fn end(&mut self) -> io::Result<bool> {
        let cancels = std::mem::take(&mut self.kept_cancels);
        if !cancels.is_empty() {
            self.open_writer()?;
        }
        if let Some(writer) = self.writer.take() {
            self.written.push(writer.finish(&cancels)?);
        }
        self.runs.clear();
        Ok(true)
    }
}

#[pymethods]
impl BucketMerge {
    /// Go on, with about so many bytes; True when all is written.
    fn step(&mut self, py: Python<'_>, bytes_max: usize) -> PyResult<bool> {
        Ok(py.detach(|| self.work(bytes_max))?)
    }

    /// Whether `step` failed because of what it reads, not of what it writes.
    #[getter]
    fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// The files that were written.
    #[getter]
    fn paths(&self) -> Vec<PathBuf> {
        self.written.clone()
    }
}
