//! What a leader does with the one batch that a producer sends to a partition.
//!
//! ```text
//! check   header, size, checksum --> not compressed: each record is looked at --> append
//!                                --> compressed: the header counts            --> append, or it must be opened
//! open    decompress, bounded    --> each record is looked at --> append as it came, or compressed as the topic asks
//! ```
//!
//! `check` touches each byte at most twice; `open` costs many times that and is for a thread.

use crate::batch::{Batch, Batches};
use crate::batch_header::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, BatchHeader, CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME,
    LOG_OVERHEAD, MAX_TIMESTAMP_AT, array, put,
};
use crate::batch_payload::{Opener, record_error};
use crate::batch_run::{
    ProducerRules, TIMESTAMP_FITS, check_closed, check_header, put_crc, unreadable,
};
use crate::codec::Codec;
use crate::error::{BatchError, Fault, RecordError};
use crate::record::{Records, glance};
use std::ops::RangeInclusive;

/// So many records of a batch are named when they are refused: an answer is not to be many times its request.
pub const RECORD_ERRORS_MAX: usize = 1_000;

/// Records beyond this are not compressed by the hardest levels of zstd: at 22, 64 MiB of them would take 640 MiB more.
const HARD_BYTES_MAX: usize = 4 << 20;

/// The hardest level of zstd for more records than that; its tables take 11 MiB, those of 22 for so few records 65 MiB.
const LARGE_ZSTD_LEVEL_MAX: i32 = 9;

/// Decompressed records take at most twice their size while their buffer grows; then comes what they are compressed to.
const OPEN_RATIO: usize = 3;

/// What a producer sends that gives a record no time; it is within every limit.
const NO_TIMESTAMP: i64 = -1;

/// The header of the records that the broker itself writes to the topic of a stream of Redis.
const STREAM_HEADER: &[u8] = b"redis";

/// What a topic asks of the batches that producers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicRules {
    /// The largest batch, in bytes, as it came and as it is kept.
    pub max_batch_bytes: usize,
    /// How far timestamps may be from now; none where the broker sets them.
    pub timestamps: Option<TimestampLimits>,
    /// Whether every record must have a key.
    pub keys_required: bool,
    /// Whether records with the header of a stream's own records are refused.
    pub stream_records_refused: bool,
    /// The codec that batches are kept in; none for the one they came in.
    pub codec: Option<Codec>,
    /// How hard that codec is to try.
    pub level: Option<i32>,
    /// Whether compressed batches are opened even if nothing in their header asks for it.
    pub opens_compressed: bool,
    /// The most that a batch may expand to when it is opened.
    pub max_decompressed_bytes: usize,
}

/// How far a timestamp may be from now, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimestampLimits {
    /// How much earlier.
    pub before_max_ms: i64,
    /// How much later.
    pub after_max_ms: i64,
}

impl TimestampLimits {
    fn around(self, now_ms: i64) -> RangeInclusive<i64> {
        now_ms.saturating_sub(self.before_max_ms)..=now_ms.saturating_add(self.after_max_ms)
    }
}

/// What `check` says of a batch that is not refused.
pub struct Checked {
    /// The header; its largest timestamp is right where records were looked at.
    pub header: BatchHeader,
    /// Whether `open` has the last word.
    pub must_be_opened: bool,
}

/// What `open` says of a batch that is not refused.
pub struct Opened {
    /// The header of the batch that is to be kept.
    pub header: BatchHeader,
    /// The batch that is to be kept; none if it is the one that came.
    pub rewritten: Option<Vec<u8>>,
}

/// Checks the one batch that `data` has to be. A largest timestamp that is not that of the records is put right.
pub fn check(data: &mut [u8], rules: &TopicRules, now_ms: i64) -> Result<Checked, BatchError> {
    let batch = only_batch(data)?;
    let codec = check_batch(&batch, rules)?;
    let converts = rules.codec.is_some_and(|target| target != codec);
    if codec == Codec::None && !converts {
        let latest = look_at_records(&batch, batch.payload(), rules, now_ms)?;
        return Ok(Checked {
            header: with_max_timestamp(data, rules, latest),
            must_be_opened: false,
        });
    }
    check_closed(&batch, codec)?;
    let header = batch.header;
    let seems_timely = match rules.timestamps {
        None => true,
        Some(limits) => {
            let allowed = limits.around(now_ms);
            [header.base_timestamp, header.max_timestamp]
                .iter()
                .all(|time| *time == NO_TIMESTAMP || allowed.contains(time))
        }
    };
    Ok(Checked {
        header,
        must_be_opened: converts || rules.opens_compressed || !seems_timely,
    })
}

/// How much memory `open` takes for `data` at most, without the tables of the codecs.
pub fn open_bytes_max(data: &[u8], rules: &TopicRules) -> usize {
    let payload = data.len().saturating_sub(HEADER_BYTES);
    let id = data
        .get(ATTRIBUTES_AT + 1)
        .map_or(0, |byte| i16::from(*byte) & CODEC_MASK);
    let most = match Codec::from_id(id) {
        None | Some(Codec::None) => payload,
        Some(codec) => payload
            .saturating_mul(codec.expansion_max() as usize)
            .min(rules.max_decompressed_bytes),
    };
    OPEN_RATIO.saturating_mul(most)
}

/// Opens a batch and looks at each record; writes it anew where the topic asks for another codec.
pub fn open(data: &mut [u8], rules: &TopicRules, now_ms: i64) -> Result<Opened, BatchError> {
    let batch = only_batch(data)?;
    let codec = check_batch(&batch, rules)?;
    let mut opener = Opener::new(rules.max_decompressed_bytes);
    let records = opener.bytes(&batch).map_err(|error| match error.fault {
        Fault::DecompressionLimit => BatchError {
            what: format!(
                "the records expand beyond {} bytes, the most that is opened",
                rules.max_decompressed_bytes
            ),
            ..error
        },
        _ => unreadable(error),
    })?;
    let latest = look_at_records(&batch, records, rules, now_ms)?;
    match rules.codec {
        Some(target) if target != codec => {
            let mut rewritten = written_anew(&batch, records, rules, target)?;
            Ok(Opened {
                header: with_max_timestamp(&mut rewritten, rules, latest),
                rewritten: Some(rewritten),
            })
        }
        _ => Ok(Opened {
            header: with_max_timestamp(data, rules, latest),
            rewritten: None,
        }),
    }
}

fn only_batch(data: &[u8]) -> Result<Batch<'_>, BatchError> {
    let mut batches = Batches::new(data);
    let Some(batch) = batches.next().transpose()? else {
        batches.check_end()?;
        return Err(batches.error(Fault::InvalidRecord, "there is no batch".to_string()));
    };
    if let Some(next) = batches.next() {
        return next?.error(
            Fault::InvalidRecord,
            "a request holds one batch for a partition, not more".to_string(),
        );
    }
    batches.check_end()?;
    Ok(batch)
}

fn check_batch(batch: &Batch<'_>, rules: &TopicRules) -> Result<Codec, BatchError> {
    let header = &batch.header;
    let size = batch.bytes.len();
    if size > rules.max_batch_bytes {
        return batch.error(
            Fault::BatchTooLarge,
            format!(
                "the batch has {size} bytes, more than {}",
                rules.max_batch_bytes
            ),
        );
    }
    let producer_rules = ProducerRules {
        max_batch_bytes: 0,
        allow_control: false,
    };
    let codec = check_header(batch, producer_rules)?;
    if header.base_offset != 0 {
        return batch.error(
            Fault::InvalidRecord,
            format!(
                "a producer's batch begins at offset 0, not at {}",
                header.base_offset
            ),
        );
    }
    if header.has(LOG_APPEND_TIME) {
        let mut refused = RefusedRecords::default();
        for index in 0..header.record_count.min(RECORD_ERRORS_MAX as i32) {
            refused.timestamp(index, || {
                "a producer must not say that its timestamps are the broker's (LogAppendTime)"
                    .to_string()
            });
        }
        refused.verdict(batch)?;
    }
    Ok(codec)
}

/// Looks at each of the decompressed records; returns the largest timestamp.
fn look_at_records(
    batch: &Batch<'_>,
    bytes: &[u8],
    rules: &TopicRules,
    now_ms: i64,
) -> Result<i64, BatchError> {
    let header = &batch.header;
    let allowed = match rules.timestamps {
        Some(limits) => limits.around(now_ms),
        None => i64::MIN..=i64::MAX,
    };
    if !rules.stream_records_refused
        && header.base_timestamp.unsigned_abs() < TIMESTAMP_FITS
        && let Some(seen) = glance(bytes, header.record_count)
    {
        let earliest = header.base_timestamp + seen.min_delta;
        let latest = header.base_timestamp + seen.max_delta;
        if allowed.contains(&earliest)
            && allowed.contains(&latest)
            && (seen.all_have_keys || !rules.keys_required)
        {
            return Ok(latest.max(NO_TIMESTAMP));
        }
    }
    let mut refused = RefusedRecords::default();
    let mut latest = NO_TIMESTAMP;
    for (index, record) in Records::new(header, bytes).enumerate() {
        let record =
            record.map_err(|malformed| unreadable(record_error(batch, index, malformed)))?;
        let time = record.timestamp;
        latest = latest.max(time);
        if rules.keys_required && record.key.is_none() {
            refused.key(index as i32);
        } else if rules.stream_records_refused
            && record.headers.iter().any(|(name, _)| name == STREAM_HEADER)
        {
            refused.add(index as i32, || {
                "the header redis is for the stream's own records, which the broker writes"
                    .to_string()
            });
        } else if time != NO_TIMESTAMP && !allowed.contains(&time) {
            refused.timestamp(index as i32, || {
                format!(
                    "the timestamp {time} is not between {} and {}",
                    allowed.start(),
                    allowed.end()
                )
            });
        }
    }
    refused.verdict(batch)?;
    Ok(latest)
}

/// The records of a batch that may not be written.
#[derive(Default)]
struct RefusedRecords {
    errors: Vec<RecordError>,
    count: usize,
    has_wrong_time: bool,
}

impl RefusedRecords {
    fn key(&mut self, index: i32) {
        self.add(index, || {
            "a record of a compacted topic needs a key".to_string()
        });
    }

    fn timestamp(&mut self, index: i32, what: impl FnOnce() -> String) {
        self.has_wrong_time = true;
        self.add(index, what);
    }

    fn add(&mut self, index: i32, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.errors.len() < RECORD_ERRORS_MAX {
            let what = what();
            self.errors.push(RecordError { index, what });
        }
    }

    /// The failure of the whole batch, if there is one: one record that is refused has all of them refused.
    fn verdict(self, batch: &Batch<'_>) -> Result<(), BatchError> {
        let Some(first) = self.errors.first() else {
            return Ok(());
        };
        let fault = if self.has_wrong_time {
            Fault::InvalidTimestamp
        } else {
            Fault::InvalidRecord
        };
        let what = format!(
            "{} of {} records are refused, the first of them is record {}: {}",
            self.count, batch.header.record_count, first.index, first.what
        );
        let error: Result<(), BatchError> = batch.error(fault, what);
        error.map_err(|error| BatchError {
            record_errors: self.errors,
            ..error
        })
    }
}

/// The batch with its records, which are `records` when decompressed, in another codec.
fn written_anew(
    batch: &Batch<'_>,
    records: &[u8],
    rules: &TopicRules,
    target: Codec,
) -> Result<Vec<u8>, BatchError> {
    let too_large = |size: usize| {
        batch.error(
            Fault::BatchTooLarge,
            format!(
                "the batch has {size} bytes once it is written with the topic's codec, {target:?}, more than {}",
                rules.max_batch_bytes
            ),
        )
    };
    if target == Codec::None && HEADER_BYTES + records.len() > rules.max_batch_bytes {
        return too_large(HEADER_BYTES + records.len());
    }
    let mut rewritten = Vec::with_capacity(HEADER_BYTES + records.len() / 2);
    rewritten.extend_from_slice(&batch.bytes[..HEADER_BYTES]);
    let level = match target {
        Codec::Zstd if records.len() > HARD_BYTES_MAX => {
            rules.level.map(|level| level.min(LARGE_ZSTD_LEVEL_MAX))
        }
        _ => rules.level,
    };
    if let Err(what) = target.compress(level, records, &mut rewritten) {
        return batch.error(Fault::InvalidRecord, what);
    }
    if rewritten.len() > rules.max_batch_bytes {
        return too_large(rewritten.len());
    }
    let length = (rewritten.len() - LOG_OVERHEAD) as i32;
    put(&mut rewritten, BATCH_LENGTH_AT, length.to_be_bytes());
    let attributes = batch.header.attributes & !CODEC_MASK | target.id();
    put(&mut rewritten, ATTRIBUTES_AT, attributes.to_be_bytes());
    put_crc(&mut rewritten);
    Ok(rewritten)
}

/// The header of the batch that fills `data`, whose largest timestamp is `latest` from now on unless the broker sets it.
fn with_max_timestamp(data: &mut [u8], rules: &TopicRules, latest: i64) -> BatchHeader {
    let header = BatchHeader::parse(&array(data, 0));
    if rules.timestamps.is_none() || header.max_timestamp == latest {
        return header;
    }
    put(data, MAX_TIMESTAMP_AT, latest.to_be_bytes());
    put_crc(data);
    BatchHeader::parse(&array(data, 0))
}
