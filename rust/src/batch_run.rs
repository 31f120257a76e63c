//! Runs of record batches, mostly without a look at the records: validate, walk, and assign offsets in place.

use crate::batch::{Batch, Batches};
use crate::batch_header::{
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BatchHeader, CONTROL, CRC_AT, DELETE_HORIZON, LEADER_EPOCH_AT,
    LOG_APPEND_TIME, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT, PRODUCER_ID_AT, TRANSACTIONAL, put,
};
use crate::batch_payload::record_error;
use crate::checksum::crc32c_of;
use crate::codec::Codec;
use crate::error::{BatchError, Fault};
use crate::record::{Records, glance};

/// What a broker asks of the batches that a producer sends.
#[derive(Clone, Copy)]
pub struct ProducerRules {
    /// The largest batch, in bytes; 0 is no limit.
    pub max_batch_bytes: usize,
    /// Whether a coordinator wrote them: control batches may come, and batches of producers without sequence numbers.
    pub allow_control: bool,
}

/// Checks all of one batch but its records against the rules for what a producer may write.
pub fn check_header(batch: &Batch<'_>, rules: ProducerRules) -> Result<Codec, BatchError> {
    let header = &batch.header;
    let size = batch.bytes.len();
    if rules.max_batch_bytes != 0 && size > rules.max_batch_bytes {
        return batch.error(
            Fault::BatchTooLarge,
            format!(
                "the batch has {size} bytes, more than {}",
                rules.max_batch_bytes
            ),
        );
    }
    batch.check_crc()?;
    let codec = batch.check_codec()?;
    let (count, delta) = (header.record_count, header.last_offset_delta);
    if count < 1 || delta != count - 1 {
        return batch.error(
            Fault::InvalidRecord,
            format!("{count} records do not go with the last offset delta {delta}"),
        );
    }
    let needs_sequence = header.producer_id >= 0 && !header.has(CONTROL) && !rules.allow_control;
    if needs_sequence && header.base_sequence < 0 {
        return batch.error(
            Fault::InvalidRecord,
            format!(
                "producer {} sent the sequence number {}",
                header.producer_id, header.base_sequence
            ),
        );
    }
    if header.has(CONTROL) && !rules.allow_control {
        return batch.error(
            Fault::InvalidRecord,
            "clients may not write control batches".to_string(),
        );
    }
    if header.has(DELETE_HORIZON) {
        return batch.error(
            Fault::InvalidRecord,
            "the delete horizon is the log cleaner's to set".to_string(),
        );
    }
    Ok(codec)
}

/// The fewest bytes of a record: five lengths or deltas, the attributes, and the count of headers.
const LEAST_RECORD_BYTES: u64 = 7;

/// A base timestamp below this and any delta of six bytes make a timestamp of 64 bits.
pub const TIMESTAMP_FITS: u64 = 1 << 62;

/// Refuses records that no reader could make sense of, which would stop every consumer at this batch.
///
/// What is not compressed is read through. What is compressed stays closed, as opening it would cost many times what
/// writing it does: it has to begin as the codec begins, and hold no more records than its bytes can expand to.
fn check_records(batch: &Batch<'_>, codec: Codec) -> Result<(), BatchError> {
    let payload = batch.payload();
    if codec != Codec::None {
        return check_closed(batch, codec);
    }
    let timestamps_fit = batch.header.base_timestamp.unsigned_abs() < TIMESTAMP_FITS;
    if timestamps_fit && glance(payload, batch.header.record_count).is_some() {
        return Ok(());
    }
    for (index, record) in Records::new(&batch.header, payload).enumerate() {
        record.map_err(|malformed| unreadable(record_error(batch, index, malformed)))?;
    }
    Ok(())
}

/// `error`, of records that no producer may write.
pub fn unreadable(error: BatchError) -> BatchError {
    BatchError {
        fault: Fault::InvalidRecord,
        ..error
    }
}

/// Refuses compressed records that do not begin as the codec begins, or of which the header says more than can be.
pub fn check_closed(batch: &Batch<'_>, codec: Codec) -> Result<(), BatchError> {
    let payload = batch.payload();
    if !codec.begins(payload) {
        return batch.error(
            Fault::InvalidRecord,
            format!("the records are not compressed with {codec:?}"),
        );
    }
    let count = batch.header.record_count;
    let most = payload.len() as u64 * codec.expansion_max() / LEAST_RECORD_BYTES;
    if count as u64 > most {
        return batch.error(
            Fault::InvalidRecord,
            format!(
                "{count} records cannot be in {} bytes compressed with {codec:?}",
                payload.len()
            ),
        );
    }
    Ok(())
}

/// The batches of a run in which every byte belongs to a batch that a producer may write.
pub fn validate(
    data: &[u8],
    rules: ProducerRules,
) -> Result<Vec<(usize, BatchHeader)>, BatchError> {
    let mut found = Vec::new();
    let mut batches = Batches::new(data);
    for batch in &mut batches {
        let batch = batch?;
        let codec = check_header(&batch, rules)?;
        check_records(&batch, codec)?;
        found.push((batch.position, batch.header));
    }
    batches.check_end()?;
    Ok(found)
}

/// What is good at the start of some bytes.
pub struct Walk {
    /// The good batches and where each starts.
    pub batches: Vec<(usize, BatchHeader)>,
    /// How many bytes they take.
    pub consumed: usize,
    /// Why it stopped; none when the rest is at most a part of a batch.
    pub stopped_by: Option<BatchError>,
}

/// The whole good batches at the start of `data`.
pub fn walk(data: &[u8], check_crc: bool) -> Walk {
    let mut found = Vec::new();
    let mut consumed = 0;
    let mut batches = Batches::new(data);
    let check = |batch: &Batch<'_>| {
        batch.check_counts()?;
        batch.check_codec()?;
        if check_crc { batch.check_crc() } else { Ok(()) }
    };
    while let Some(next) = batches.next() {
        match next.and_then(|batch| check(&batch).map(|()| batch)) {
            Ok(batch) => found.push((batch.position, batch.header)),
            Err(error) => {
                return Walk {
                    batches: found,
                    consumed,
                    stopped_by: Some(error),
                };
            }
        }
        consumed = batches.position();
    }
    Walk {
        batches: found,
        consumed,
        stopped_by: None,
    }
}

/// What the leader writes into the batches it appends.
#[derive(Clone, Copy)]
pub struct Assignment {
    /// The offset of the first record.
    pub base_offset: i64,
    /// The epoch of the leader.
    pub leader_epoch: i32,
    /// The time to give every record, in milliseconds; none keeps the producer's.
    pub log_append_time_ms: Option<i64>,
}

/// Writes consecutive base offsets and the leader epoch into a run of whole batches; returns the next offset.
///
/// Nothing is changed when the run is not made of whole batches or the offsets run out.
pub fn assign(data: &mut [u8], assignment: Assignment) -> Result<i64, BatchError> {
    let mut spans = Vec::new();
    let mut next_offset = assignment.base_offset;
    let mut batches = Batches::new(data);
    for batch in &mut batches {
        let batch = batch?;
        let delta = batch.header.last_offset_delta;
        spans.push((batch.position, batch.bytes.len(), next_offset));
        match next_offset.checked_add(i64::from(delta) + 1) {
            Some(offset) if delta >= 0 => next_offset = offset,
            _ => {
                return batch.error(
                    Fault::Corrupt,
                    format!(
                        "offsets cannot go on from {next_offset} by the last offset delta {delta}"
                    ),
                );
            }
        }
    }
    batches.check_end()?;
    for (position, size, base_offset) in spans {
        let batch = &mut data[position..position + size];
        put(batch, 0, base_offset.to_be_bytes());
        put(
            batch,
            LEADER_EPOCH_AT,
            assignment.leader_epoch.to_be_bytes(),
        );
        if let Some(time_ms) = assignment.log_append_time_ms {
            batch[ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME as u8;
            put(batch, MAX_TIMESTAMP_AT, time_ms.to_be_bytes());
            put_crc(batch);
        }
    }
    Ok(next_offset)
}

/// Who sent the batches of a run, and with which sequence number it begins.
#[derive(Clone, Copy)]
pub struct Producer {
    /// The producer's id.
    pub id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// The sequence number of the first record.
    pub base_sequence: i32,
    /// Whether the batches belong to a transaction.
    pub is_transactional: bool,
}

/// Writes the producer and consecutive sequence numbers into a run of whole batches; returns the next sequence number.
///
/// Nothing is changed when the run is not made of whole batches.
pub fn assign_producer(data: &mut [u8], producer: Producer) -> Result<i32, BatchError> {
    let mut spans = Vec::new();
    let mut next_sequence = producer.base_sequence;
    let mut batches = Batches::new(data);
    for batch in &mut batches {
        let batch = batch?;
        batch.check_counts()?;
        spans.push((batch.position, batch.bytes.len(), next_sequence));
        // After the largest number comes 0.
        next_sequence = next_sequence.wrapping_add(batch.header.record_count) & i32::MAX;
    }
    batches.check_end()?;
    for (position, size, base_sequence) in spans {
        let batch = &mut data[position..position + size];
        put(batch, PRODUCER_ID_AT, producer.id.to_be_bytes());
        put(batch, PRODUCER_EPOCH_AT, producer.epoch.to_be_bytes());
        put(batch, BASE_SEQUENCE_AT, base_sequence.to_be_bytes());
        if producer.is_transactional {
            batch[ATTRIBUTES_AT + 1] |= TRANSACTIONAL as u8;
        }
        put_crc(batch);
    }
    Ok(next_sequence)
}

/// Writes the checksum of a whole batch into it.
pub fn put_crc(batch: &mut [u8]) {
    let crc = crc32c_of(&batch[ATTRIBUTES_AT..]);
    put(batch, CRC_AT, crc.to_be_bytes());
}
