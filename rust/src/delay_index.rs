//! What waits in a partition of a delay topic. `ottla.native.DelayIndex`, `BucketMerge`.
//!
//! ```text
//! the log  ......................................................... position
//!          | run: bucket files | run: bucket files | run |  gathered |        each of a range of offsets
//! next     the first of all their heads, by (due, offset)
//! ```

use crate::batch_payload::{Opener, batches_from, record_error};
use crate::buffer::{ByteView, on_bytes};
use crate::delays::bucket::{Bucket, BucketWriter};
use crate::delays::cancels::Cancels;
use crate::delays::crossings::Crossings;
use crate::delays::entry::{Due, entry_at};
use crate::delays::gathered::Gathered;
use crate::delays::merge::{BucketMerge, open_files};
use crate::delays::run::{Moved, NOTHING, Run};
use crate::delays::wish::{DefaultDelays, Wish, wish};
use crate::error::BatchError;
use crate::record::Record;
use crate::records::to_tuple;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use siphasher::sip::SipHasher13;
use std::io;
use std::path::PathBuf;

/// So many records become Python objects at a time, so that others get the interpreter between.
const TURN_RECORDS: usize = 128;

/// A run, its number, and where the range of offsets ends that it is of.
struct RunOf {
    number: u64,
    end: i64,
    run: Run,
}

/// What waits in a partition.
#[pyclass(module = "ottla.native._kernel")]
struct DelayIndex {
    default_delays: DefaultDelays,
    seed: (u64, u64),
    moved: Due,
    moved_end: i64,
    gathered: Gathered,
    gathered_from: i64,
    runs: Vec<RunOf>,
    cancels: Cancels,
    crossings: Crossings,
    point: Due,
    late_bytes: usize,
    failed_run: Option<u64>,
}

impl DelayIndex {
    fn hash_of(&self, key: Option<&[u8]>) -> u64 {
        let hasher = || SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        key.map_or(0, |key| hasher().hash(key) | 1)
    }

    fn take(&mut self, record: &Record<'_>) {
        let key_hash = self.hash_of(record.key);
        match wish(record, &self.default_delays) {
            Wish::Cancel { place } => self.cancels.add((key_hash, place, record.offset)),
            Wish::At { due, place } => {
                let at = (due, record.offset);
                let was_moved = record.offset < self.moved_end && at <= self.moved;
                if was_moved {
                    return;
                }
                if let Some(cancel) = self.cancels.over(key_hash, place) {
                    self.crossings.add(cancel, record.offset);
                } else {
                    let before = self.gathered.bytes();
                    self.gathered.put(due, place, key_hash, record);
                    if at <= self.point {
                        self.late_bytes += self.gathered.bytes() - before;
                    }
                }
            }
        }
    }

    fn scan(
        &mut self,
        data: &[u8],
        start_offset: i64,
        passed_over: &[i64],
        max_decompressed_bytes: usize,
    ) -> Result<(), BatchError> {
        let mut opener = Opener::new(max_decompressed_bytes);
        for batch in batches_from(data, start_offset, false) {
            let batch = batch?;
            if passed_over.contains(&batch.header.base_offset) {
                continue;
            }
            opener.renew(max_decompressed_bytes);
            for (index, record) in opener.open(&batch)?.enumerate() {
                let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
                if record.offset >= start_offset {
                    self.take(&record);
                }
            }
        }
        Ok(())
    }

    /// The first head: its time and offset, and the index of its run, None for what is gathered.
    fn head(&self) -> Option<(Due, Option<usize>)> {
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(index, each)| each.run.head().map(|head| (head, Some(index))))
            .chain(self.gathered.head().map(|head| (head, None)))
            .min()
    }

    fn pass(&mut self, of: Option<usize>) -> io::Result<()> {
        let Some(index) = of else {
            self.gathered.pass();
            return Ok(());
        };
        let each = &mut self.runs[index];
        each.run
            .pass()
            .inspect_err(|_| self.failed_run = Some(each.number))
    }

    /// The bytes of the entries that are due, one after the other.
    fn take_due(
        &mut self,
        now_ms: i64,
        moved: Due,
        records_max: usize,
        bytes_max: usize,
        log_start: i64,
    ) -> io::Result<Vec<u8>> {
        let (mut taken, mut count) = (Vec::new(), 0);
        self.point = self.point.max(moved);
        while let Some((due, of)) = self.head() {
            let is_enough = count >= records_max || taken.len() >= bytes_max;
            if due > moved && (due.0 > now_ms || is_enough) {
                break;
            }
            let entry = match of {
                Some(index) => self.runs[index].run.entry(),
                None => self.gathered.entry(),
            };
            if let Some(entry) = entry
                && due.1 >= log_start
                && !self.cancels.has(entry.key_hash, entry.place)
            {
                taken.extend_from_slice(entry.bytes);
                count += 1;
                self.point = self.point.max(due);
            }
            self.pass(of)?;
        }
        self.late_bytes = 0;
        Ok(taken)
    }

    fn write_gathered(&self, path: PathBuf, cancels_from: i64) -> io::Result<Vec<PathBuf>> {
        let cancels = self.cancels.since(cancels_from);
        if self.gathered.len() == 0 && cancels.is_empty() {
            return Ok(Vec::new());
        }
        let mut writer = BucketWriter::create(&path)?;
        for entry in self.gathered.sorted() {
            if !self.cancels.has(entry.key_hash, entry.place) {
                writer.put(entry.due, entry.bytes)?;
            }
        }
        Ok(vec![writer.finish(&cancels)?])
    }

    /// The files of a run that are still needed. What waits in an earlier run may be cancelled by this one.
    fn in_use(&self, number: u64) -> Option<impl Iterator<Item = &Bucket>> {
        let at = self.runs.iter().position(|each| each.number == number)?;
        let end = self.runs[at].end;
        let is_asked = self.runs[..at].iter().any(|each| each.run.head().is_some())
            || self.crossings.cancels_from(end) < end;
        Some(self.runs[at].run.in_use(is_asked))
    }

    fn range_of(&self, numbers: &[u64]) -> PyResult<std::ops::Range<usize>> {
        let found = numbers.first().and_then(|first| {
            let start = self.runs.iter().position(|each| each.number == *first)?;
            let end = start + numbers.len();
            let of = self.runs.get(start..end)?.iter().map(|each| each.number);
            of.eq(numbers.iter().copied()).then_some(start..end)
        });
        found.ok_or_else(|| PyValueError::new_err("these are not runs that follow one another"))
    }
}

#[pymethods]
impl DelayIndex {
    #[new]
    #[pyo3(signature = (*, default_delays, seed, moved_due, moved_offset, moved_end))]
    fn new(
        default_delays: Vec<(i64, i64)>,
        seed: (u64, u64),
        moved_due: i64,
        moved_offset: i64,
        moved_end: i64,
    ) -> Self {
        DelayIndex {
            default_delays: DefaultDelays::new(default_delays),
            seed,
            moved: (moved_due, moved_offset),
            moved_end,
            gathered: Gathered::default(),
            gathered_from: i64::MIN,
            runs: Vec::new(),
            cancels: Cancels::default(),
            crossings: Crossings::default(),
            point: (moved_due, moved_offset),
            late_bytes: 0,
            failed_run: None,
        }
    }

    fn __len__(&self) -> usize {
        let far: u64 = self
            .runs
            .iter()
            .map(|each| each.run.entries - each.run.passed)
            .sum();
        self.gathered.len() + far as usize
    }

    #[getter]
    fn bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|each| each.run.memory()).sum();
        self.gathered.memory() + self.cancels.memory() + runs
    }

    #[getter]
    fn gathered_bytes(&self) -> usize {
        self.gathered.bytes()
    }

    #[getter]
    fn live_bytes(&self) -> usize {
        self.gathered.live_bytes()
    }

    #[getter]
    fn late_bytes(&self) -> usize {
        self.late_bytes
    }

    #[getter]
    fn cancel_count(&self) -> usize {
        self.cancels.len()
    }

    fn cancels_since(&self, py: Python<'_>, offset: i64) -> usize {
        py.detach(|| self.cancels.count_since(offset))
    }

    #[getter]
    fn failed_run(&self) -> Option<u64> {
        self.failed_run
    }

    #[pyo3(signature = (data, start_offset, passed_over, max_decompressed_bytes))]
    fn add(
        &mut self,
        py: Python<'_>,
        data: ByteView<'_>,
        start_offset: i64,
        passed_over: Vec<i64>,
        max_decompressed_bytes: usize,
    ) -> PyResult<()> {
        Ok(on_bytes(py, data.as_slice(), |bytes| {
            self.scan(bytes, start_offset, &passed_over, max_decompressed_bytes)
        })?)
    }

    fn next_due(&self) -> Option<i64> {
        self.head().map(|((due, _), _)| due)
    }

    #[pyo3(signature = (now_ms, moved_due, moved_offset, *, records_max, bytes_max, log_start))]
    #[allow(clippy::too_many_arguments)]
    fn pop<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: i64,
        moved_due: i64,
        moved_offset: i64,
        records_max: usize,
        bytes_max: usize,
        log_start: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let moved = (moved_due, moved_offset);
        let taken =
            py.detach(|| self.take_due(now_ms, moved, records_max, bytes_max, log_start))?;
        let found = PyList::empty(py);
        let mut rest = &taken[..];
        while let Some(entry) = entry_at(rest) {
            let record = entry
                .record()
                .map_err(|malformed| PyValueError::new_err(malformed.what))?;
            let (offset, timestamp, key, value, headers): (
                i64,
                i64,
                Bound<'py, PyAny>,
                Bound<'py, PyAny>,
                Bound<'py, PyAny>,
            ) = to_tuple(py, &record)?.extract()?;
            found.append(PyTuple::new(
                py,
                [
                    entry.due.0.into_pyobject(py)?.into_any(),
                    offset.into_pyobject(py)?.into_any(),
                    timestamp.into_pyobject(py)?.into_any(),
                    key,
                    value,
                    headers,
                    entry.place.into_pyobject(py)?.into_any(),
                ],
            )?)?;
            rest = &rest[entry.bytes.len()..];
            if found.len() % TURN_RECORDS == 0 {
                py.detach(std::thread::yield_now);
            }
        }
        Ok(found)
    }

    fn oldest(&mut self, py: Python<'_>) -> Option<i64> {
        py.detach(|| {
            let runs = self.runs.iter().map(|each| each.run.oldest()).min();
            let oldest = self.gathered.oldest().min(runs.unwrap_or(i64::MAX));
            (oldest < i64::MAX).then_some(oldest)
        })
    }

    fn cancels_from(&self, start: i64) -> i64 {
        self.crossings.cancels_from(start)
    }

    fn read_from(&mut self, start: i64) -> i64 {
        let from = self.crossings.read_from(start);
        self.crossings.drop_before(from);
        from
    }

    fn settle(&mut self, py: Python<'_>, safe_offset: i64) {
        py.detach(|| {
            self.gathered.settle(&self.cancels);
            if self.runs.iter().all(|each| each.run.head().is_none()) {
                self.cancels.drop_before(safe_offset);
            }
        });
    }

    fn flush(
        &mut self,
        py: Python<'_>,
        number: u64,
        path: PathBuf,
        end: i64,
    ) -> PyResult<Vec<PathBuf>> {
        Ok(py.detach(|| -> io::Result<Vec<PathBuf>> {
            let written = self.write_gathered(path, self.gathered_from)?;
            let mut run = Run::new(open_files(&written)?, Vec::new())?;
            run.forget_cancels();
            self.runs.push(RunOf { number, end, run });
            self.gathered.clear();
            self.gathered_from = end;
            self.late_bytes = 0;
            Ok(written)
        })?)
    }

    fn open_run(
        &mut self,
        py: Python<'_>,
        number: u64,
        paths: Vec<PathBuf>,
        end: i64,
    ) -> PyResult<()> {
        let moved: Vec<Moved> = vec![(self.moved_end, self.moved), (i64::MAX, NOTHING)];
        let mut run = py.detach(|| Run::new(open_files(&paths)?, moved))?;
        run.cancels().for_each(|cancel| self.cancels.add(*cancel));
        run.forget_cancels();
        self.gathered_from = end;
        self.runs.push(RunOf { number, end, run });
        Ok(())
    }

    fn merge(
        &self,
        py: Python<'_>,
        numbers: Vec<u64>,
        name: String,
        cancels_from: i64,
    ) -> PyResult<BucketMerge> {
        let range = self.range_of(&numbers)?;
        Ok(py.detach(|| -> io::Result<BucketMerge> {
            let mut kept = Cancels::default();
            let mut cursors = Vec::new();
            for each in &self.runs[range] {
                let paths: Vec<PathBuf> = each.run.paths().cloned().collect();
                let moved = each.run.moved_parts();
                // A file whose cancellations concern nothing that waits may have been removed.
                let in_use = self.in_use(each.number).into_iter().flatten();
                let with_cancels: Vec<PathBuf> = in_use
                    .filter(|file| file.has_cancels)
                    .map(|file| file.path.clone())
                    .collect();
                let of_files = open_files(&with_cancels)?.into_iter();
                of_files
                    .flat_map(|file| file.cancels)
                    .filter(|cancel| cancel.2 >= cancels_from)
                    .for_each(|cancel| kept.add(cancel));
                let mut cursor = Run::new(open_files(&paths)?, moved)?;
                cursor.forget_cancels();
                cursors.push(cursor);
            }
            let kept = kept.since(i64::MIN);
            Ok(BucketMerge::new(cursors, self.cancels.clone(), kept, name))
        })?)
    }

    fn replace(
        &mut self,
        py: Python<'_>,
        numbers: Vec<u64>,
        number: u64,
        paths: Vec<PathBuf>,
        cancels_from: i64,
    ) -> PyResult<()> {
        let range = self.range_of(&numbers)?;
        Ok(py.detach(|| -> io::Result<()> {
            let (mut moved, mut start) = (Vec::new(), i64::MIN);
            for each in &self.runs[range.clone()] {
                let parts = each.run.moved_parts().into_iter();
                let own = parts.filter(|(below, _)| *below > start);
                moved.extend(own.map(|(below, until)| (below.min(each.end), until)));
                start = each.end;
            }
            let end = self.runs[range.end - 1].end;
            let mut run = Run::new(open_files(&paths)?, moved)?;
            run.forget_cancels();
            self.runs.splice(range, [RunOf { number, end, run }]);
            self.cancels.drop_before(cancels_from);
            Ok(())
        })?)
    }

    fn left(&self, number: u64) -> Option<Vec<PathBuf>> {
        let paths = self.in_use(number)?.map(|file| file.path.clone());
        Some(paths.collect())
    }

    fn left_size(&self, number: u64) -> Option<(usize, u64)> {
        let each = self.runs.iter().find(|each| each.number == number)?;
        Some((self.in_use(number)?.count(), each.run.bytes_left()))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DelayIndex>()?;
    module.add_class::<BucketMerge>()
}
