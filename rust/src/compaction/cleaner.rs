//! The two passes of compaction over the batches of a log: noting the newest offset of each key, and leaving out what is
//! superseded.
//!
//! ```text
//! before    0:a  1:b  2:a | 3:c  4:b | 5:a                 | batch borders
//! table     a 5, b 4, c 3
//! after     [0..2] gone   | 3:c  4:b | 5:a                 offsets stay, with gaps
//! ```
//!
//! A batch that loses records keeps base offset, last offset and sequence numbers. The first time a batch with a
//! tombstone is cleaned, the time at which the tombstone may go is put in the place of its base timestamp (the delete
//! horizon, KIP-534). Source: the log cleaner of Apache Kafka and `MemoryRecords.filterTo`.

use crate::batch::{Batch, Batches};
use crate::batch_header::{
    ATTRIBUTES_AT, BatchHeader, CODEC_MASK, CONTROL, CRC_AT, DELETE_HORIZON, HEADER_BYTES,
    LOG_APPEND_TIME, LOG_OVERHEAD, array, put,
};
use crate::batch_payload::{Opener, record_error};
use crate::checksum::crc32c_of;
use crate::compaction::key_offsets::KeyOffsets;
use crate::compaction::segment_index::SegmentIndex;
use crate::compaction::stream_snapshot::Snapshot;
use crate::compaction::transactions::Transactions;
use crate::error::{BatchError, Fault};
use crate::record::{HeaderRef, NewRecord, Record};
use std::collections::HashMap;

/// How much of a buffer was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Bytes of whole batches.
    pub consumed: usize,
    /// The table had no room for the next key; the batch it is in was looked at in part.
    pub is_full: bool,
}

/// First pass: puts the keys of the whole batches of `data`, from `start_offset` on, into `offsets`.
pub fn index(
    data: &[u8],
    start_offset: i64,
    offsets: &mut KeyOffsets,
    transactions: &mut Transactions,
    max_decompressed_bytes: usize,
) -> Result<Indexed, BatchError> {
    let mut batches = Batches::new(data);
    let mut consumed = 0;
    let mut opener = Opener::new(max_decompressed_bytes);
    while let Some(batch) = batches.next() {
        let batch = batch?;
        opener.renew(max_decompressed_bytes);
        if batch.header.has(CONTROL) {
            transactions.marks_nothing(&batch.header, marker_key(&batch, &mut opener)?.as_deref());
        } else if !transactions.is_aborted(&batch.header)
            && batch.header.last_offset() >= start_offset
        {
            for (at, record) in opener.open(&batch)?.enumerate() {
                let record = record.map_err(|malformed| record_error(&batch, at, malformed))?;
                let Some(key) = record.key else { continue };
                if record.offset < start_offset {
                    continue;
                }
                if !offsets.put(key, record.offset) {
                    return Ok(Indexed {
                        consumed,
                        is_full: true,
                    });
                }
                offsets.latest_offset = record.offset;
            }
        }
        if batch.header.last_offset() >= start_offset {
            offsets.latest_offset = batch.header.last_offset();
        }
        consumed = batches.position();
    }
    Ok(Indexed {
        consumed,
        is_full: false,
    })
}

/// The key of the only record of a marker; none when it was emptied.
fn marker_key(batch: &Batch<'_>, opener: &mut Opener) -> Result<Option<Vec<u8>>, BatchError> {
    match opener.open(batch)?.next() {
        None => Ok(None),
        Some(Err(malformed)) => Err(record_error(batch, 0, malformed)),
        Some(Ok(record)) => Ok(Some(record.key.unwrap_or_default().to_vec())),
    }
}

/// The newest batch of a producer that may still come back with a repeated batch or its next one.
#[derive(Clone, Copy, Debug)]
pub struct LastBatch {
    /// The last offset of its newest data; none when it only has a marker.
    pub data_offset: Option<i64>,
    /// Its epoch.
    pub epoch: i16,
}

/// What decides which records stay.
#[derive(Clone, Copy)]
pub enum Rule<'a> {
    /// The newest of each key.
    Keys(&'a KeyOffsets),
    /// What a snapshot of a stream still has.
    Stream(&'a Snapshot),
}

/// What holds for the whole round.
pub struct Round {
    /// Now, in milliseconds.
    pub now_ms: i64,
    /// How long tombstones and markers stay after they were first cleaned (`delete.retention.ms`).
    pub delete_retention_ms: i64,
    /// The offset after the last batch of the round: this batch stays, emptied if need be, so that the log has no end before it.
    pub end_offset: i64,
    /// The newest batch of each live producer: it stays, emptied if need be.
    pub last_batches: HashMap<i64, LastBatch>,
    /// What one batch may expand to.
    pub max_decompressed_bytes: usize,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records looked at.
    pub records_read: u64,
    /// Records kept.
    pub records_kept: u64,
}

/// Second pass: appends what is to stay of the whole batches of `data` to `out`; returns the bytes it looked at.
#[allow(clippy::too_many_arguments)]
pub fn clean(
    data: &[u8],
    rule: Rule<'_>,
    transactions: &mut Transactions,
    round: &Round,
    counts: &mut Counts,
    segment: &mut SegmentIndex,
    out: &mut Vec<u8>,
) -> Result<usize, BatchError> {
    let mut batches = Batches::new(data);
    let mut consumed = 0;
    let mut opener = Opener::new(round.max_decompressed_bytes);
    let mut bench = Workbench::default();
    while let Some(batch) = batches.next() {
        let batch = batch?;
        opener.renew(round.max_decompressed_bytes);
        let cleaning = Cleaning {
            batch: &batch,
            fate: fate_of(&batch, transactions, round, &mut opener)?,
            rule,
            round,
        };
        let start = out.len();
        cleaning.clean(&mut opener, &mut bench, counts, out)?;
        if out.len() > start {
            let header = BatchHeader::parse(&array(out, start));
            segment.add(
                out.len() - start,
                header.last_offset(),
                header.max_timestamp,
            );
        }
        consumed = batches.position();
    }
    Ok(consumed)
}

/// What becomes of a batch whatever its records are.
#[derive(Clone, Copy)]
struct Fate {
    /// None of its records stays.
    drops_records: bool,
    /// Its header stays when no record does.
    keeps_header: bool,
    /// It is a marker of a transaction of which nothing is left.
    marks_nothing: bool,
}

fn fate_of(
    batch: &Batch<'_>,
    transactions: &mut Transactions,
    round: &Round,
    opener: &mut Opener,
) -> Result<Fate, BatchError> {
    let header = &batch.header;
    let is_control = header.has(CONTROL);
    let (drops_records, marks_nothing) = if is_control {
        let marks_nothing =
            transactions.marks_nothing(header, marker_key(batch, opener)?.as_deref());
        let is_over = header.has(DELETE_HORIZON) && header.base_timestamp <= round.now_ms;
        (marks_nothing && is_over, marks_nothing)
    } else {
        (transactions.is_aborted(header), false)
    };
    let is_last_of_producer = header.producer_id >= 0
        && round
            .last_batches
            .get(&header.producer_id)
            .is_some_and(|last| match last.data_offset {
                Some(offset) => header.last_offset() == offset,
                None => is_control && header.producer_epoch == last.epoch,
            });
    Ok(Fate {
        drops_records,
        keeps_header: is_last_of_producer
            || header.last_offset().checked_add(1) == Some(round.end_offset),
        marks_nothing,
    })
}

/// Where the parts of cleaned batches are put together.
#[derive(Default)]
struct Workbench {
    /// Where each record that stays lies in its batch's records.
    spans: Vec<(usize, usize)>,
    /// The records of a batch before they are compressed.
    records: Vec<u8>,
}

/// One batch with what decides about it.
struct Cleaning<'a, 'b> {
    batch: &'a Batch<'b>,
    fate: Fate,
    rule: Rule<'a>,
    round: &'a Round,
}

impl Cleaning<'_, '_> {
    fn clean(
        &self,
        opener: &mut Opener,
        bench: &mut Workbench,
        counts: &mut Counts,
        out: &mut Vec<u8>,
    ) -> Result<(), BatchError> {
        let (batch, header, fate) = (self.batch, &self.batch.header, self.fate);
        counts.records_read += u64::from(header.record_count.max(0).unsigned_abs());
        bench.spans.clear();
        let kept = self.select(opener, &mut bench.spans)?;
        counts.records_kept += u64::from(kept.count.unsigned_abs());
        if kept.count == 0 {
            if fate.keeps_header {
                put_emptied(header, out);
            }
            return Ok(());
        }
        let has_tombstone = kept.has_tombstone && matches!(self.rule, Rule::Keys(_));
        let sets_horizon = !header.has(DELETE_HORIZON) && (has_tombstone || fate.marks_nothing);
        if kept.count == header.record_count && !sets_horizon {
            out.extend_from_slice(batch.bytes);
            return Ok(());
        }
        let mut new_header = *header;
        new_header.record_count = kept.count;
        if !header.has(LOG_APPEND_TIME) {
            new_header.max_timestamp = kept.max_timestamp;
        }
        if sets_horizon {
            let horizon = self
                .round
                .now_ms
                .saturating_add(self.round.delete_retention_ms);
            new_header.attributes |= DELETE_HORIZON;
            new_header.base_timestamp = horizon;
        }
        bench.records.clear();
        if sets_horizon && !header.has(LOG_APPEND_TIME) {
            for record in opener.opened(batch).flatten() {
                if self.keeps(&record) {
                    put_record(&record, &new_header, batch, &mut bench.records)?;
                }
            }
        } else {
            let records = opener.opened_bytes(batch);
            for (start, end) in &bench.spans {
                bench.records.extend_from_slice(&records[*start..*end]);
            }
        }
        seal(batch, new_header, &bench.records, out)
    }

    /// Which records stay, and where they lie.
    fn select(
        &self,
        opener: &mut Opener,
        spans: &mut Vec<(usize, usize)>,
    ) -> Result<Kept, BatchError> {
        let mut kept = Kept::default();
        if self.fate.drops_records {
            return Ok(kept);
        }
        let mut records = opener.open(self.batch)?;
        let mut index = 0;
        loop {
            let start = records.position();
            let Some(record) = records.next() else {
                return Ok(kept);
            };
            let record = record.map_err(|malformed| record_error(self.batch, index, malformed))?;
            if self.keeps(&record) {
                kept.note(&record);
                spans.push((start, records.position()));
            }
            index += 1;
        }
    }

    /// Whether a record stays: it is the newest of its key and no tombstone whose time is over, or it is a marker's.
    fn keeps(&self, record: &Record<'_>) -> bool {
        let header = &self.batch.header;
        let offsets = match self.rule {
            Rule::Keys(offsets) => offsets,
            Rule::Stream(snapshot) => return header.has(CONTROL) || snapshot.keeps(record),
        };
        if header.has(CONTROL) || record.offset > offsets.latest_offset {
            return true;
        }
        let Some(key) = record.key else { return false };
        if offsets
            .get(key)
            .is_some_and(|newest| record.offset < newest)
        {
            return false;
        }
        record.value.is_some()
            || !header.has(DELETE_HORIZON)
            || self.round.now_ms < header.base_timestamp
    }
}

/// What is known of the records that stay.
struct Kept {
    count: i32,
    max_timestamp: i64,
    has_tombstone: bool,
}

impl Default for Kept {
    fn default() -> Self {
        Kept {
            count: 0,
            max_timestamp: i64::MIN,
            has_tombstone: false,
        }
    }
}

impl Kept {
    fn note(&mut self, record: &Record<'_>) {
        self.count += 1;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.has_tombstone |= record.value.is_none();
    }
}

fn put_record(
    record: &Record<'_>,
    header: &BatchHeader,
    batch: &Batch<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    let headers: Vec<HeaderRef<'_>> = record.headers.iter().collect();
    let timestamp_delta = if header.has(LOG_APPEND_TIME) {
        0
    } else {
        match record.timestamp.checked_sub(header.base_timestamp) {
            Some(delta) => delta,
            None => {
                return batch.error(
                    Fault::Corrupt,
                    format!("the timestamp {} is out of range", record.timestamp),
                );
            }
        }
    };
    let record = NewRecord {
        timestamp_delta,
        offset_delta: (record.offset - header.base_offset) as i32,
        key: record.key,
        value: record.value,
        headers: &headers,
    };
    record.put(record.body_size(), out);
    Ok(())
}

/// Appends the batch of `header` and `records`, compressed as the batch was that it comes from.
fn seal(
    batch: &Batch<'_>,
    header: BatchHeader,
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    let codec = batch.check_codec()?;
    if let Err(what) = codec.compress(None, records, out) {
        return batch.error(
            Fault::Corrupt,
            format!("the records cannot be compressed again: {what}"),
        );
    }
    finish(header, start, out);
    Ok(())
}

/// Appends a batch without records: it says who wrote up to which offset and sequence number.
fn put_emptied(header: &BatchHeader, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    let mut header = *header;
    header.record_count = 0;
    header.attributes &= !(DELETE_HORIZON | CODEC_MASK);
    header.base_timestamp = -1;
    finish(header, start, out);
}

/// Writes the header of the batch that begins at `start` and ends with `out`.
fn finish(mut header: BatchHeader, start: usize, out: &mut [u8]) {
    header.batch_length = (out.len() - start - LOG_OVERHEAD) as i32;
    let bytes = &mut out[start..];
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let crc = crc32c_of(&bytes[ATTRIBUTES_AT..]);
    put(bytes, CRC_AT, crc.to_be_bytes());
}
