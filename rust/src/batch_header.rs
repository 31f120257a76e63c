//! The 61 bytes in front of every record batch (message format 2), and finding the batches of a run.
//!
//! ```text
//!  0 baseOffset int64          16 magic int8 (2)          35 maxTimestamp int64
//!  8 batchLength int32         17 crc uint32              43 producerId int64
//! 12 partitionLeaderEpoch      21 attributes int16        51 producerEpoch int16
//!    int32                     23 lastOffsetDelta int32   53 baseSequence int32
//!                              27 baseTimestamp int64     57 recordCount int32    61 records
//! ```
//!
//! `batchLength` counts what follows it; the CRC covers everything from the attributes on, so that a broker can set base
//! offset and leader epoch without computing it again. Integers are big-endian.
//! Source: <https://kafka.apache.org/documentation/#recordbatch>.

use crate::checksum::crc32c_of;
use crate::codec::Codec;
use crate::error::{BatchError, Fault};

/// Bytes in front of the records.
pub const HEADER_BYTES: usize = 61;
/// Bytes that `batchLength` does not count.
pub const LOG_OVERHEAD: usize = 12;
/// Where the leader epoch stands.
pub const LEADER_EPOCH_AT: usize = 12;
/// Where the magic stands, in every message format.
pub const MAGIC_AT: usize = 16;
/// Where the CRC stands.
pub const CRC_AT: usize = 17;
/// Where the attributes stand; the CRC covers everything from here on.
pub const ATTRIBUTES_AT: usize = 21;
/// Where the largest timestamp stands.
pub const MAX_TIMESTAMP_AT: usize = 35;
/// Where the producer's id stands.
pub const PRODUCER_ID_AT: usize = 43;
/// Where the producer's epoch stands.
pub const PRODUCER_EPOCH_AT: usize = 51;
/// Where the first record's sequence number stands.
pub const BASE_SEQUENCE_AT: usize = 53;

/// The only message format there is.
pub const MAGIC: i8 = 2;

/// Attributes: the codec.
pub const CODEC_MASK: i16 = 0x07;
/// Attributes: the timestamps are the broker's, not the producer's.
pub const LOG_APPEND_TIME: i16 = 0x08;
/// Attributes: part of a transaction.
pub const TRANSACTIONAL: i16 = 0x10;
/// Attributes: holds control records, not data.
pub const CONTROL: i16 = 0x20;
/// Attributes: `baseTimestamp` is when tombstones may be removed.
pub const DELETE_HORIZON: i16 = 0x40;

/// The least a batch of the oldest format can be after its length: what is shorter is no batch at all.
const LEAST_BATCH_LENGTH: i32 = 14;

/// The fields of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BatchHeader {
    pub base_offset: i64,
    pub batch_length: i32,
    pub leader_epoch: i32,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// The header in the first bytes of a batch.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        BatchHeader {
            base_offset: i64::from_be_bytes(array(bytes, 0)),
            batch_length: i32::from_be_bytes(array(bytes, 8)),
            leader_epoch: i32::from_be_bytes(array(bytes, LEADER_EPOCH_AT)),
            crc: u32::from_be_bytes(array(bytes, CRC_AT)),
            attributes: i16::from_be_bytes(array(bytes, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(array(bytes, 23)),
            base_timestamp: i64::from_be_bytes(array(bytes, 27)),
            max_timestamp: i64::from_be_bytes(array(bytes, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(array(bytes, PRODUCER_ID_AT)),
            producer_epoch: i16::from_be_bytes(array(bytes, PRODUCER_EPOCH_AT)),
            base_sequence: i32::from_be_bytes(array(bytes, BASE_SEQUENCE_AT)),
            record_count: i32::from_be_bytes(array(bytes, 57)),
        }
    }

    /// The header as bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, self.base_offset.to_be_bytes());
        put(&mut bytes, 8, self.batch_length.to_be_bytes());
        put(&mut bytes, LEADER_EPOCH_AT, self.leader_epoch.to_be_bytes());
        put(&mut bytes, MAGIC_AT, MAGIC.to_be_bytes());
        put(&mut bytes, CRC_AT, self.crc.to_be_bytes());
        put(&mut bytes, ATTRIBUTES_AT, self.attributes.to_be_bytes());
        put(&mut bytes, 23, self.last_offset_delta.to_be_bytes());
        put(&mut bytes, 27, self.base_timestamp.to_be_bytes());
        put(
            &mut bytes,
            MAX_TIMESTAMP_AT,
            self.max_timestamp.to_be_bytes(),
        );
        put(&mut bytes, PRODUCER_ID_AT, self.producer_id.to_be_bytes());
        put(
            &mut bytes,
            PRODUCER_EPOCH_AT,
            self.producer_epoch.to_be_bytes(),
        );
        put(
            &mut bytes,
            BASE_SEQUENCE_AT,
            self.base_sequence.to_be_bytes(),
        );
        put(&mut bytes, 57, self.record_count.to_be_bytes());
        bytes
    }

    /// The codec, when its id exists.
    pub fn codec(&self) -> Option<Codec> {
        Codec::from_id(self.attributes & CODEC_MASK)
    }

    /// Whether all of `flag` is set.
    pub fn has(&self, flag: i16) -> bool {
        self.attributes & flag == flag
    }

    /// The offset of the last record; of a header that was not checked it may be capped at the largest offset.
    pub fn last_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(i64::from(self.last_offset_delta))
    }

    /// The sequence number of the last record: it goes on from 0 after the largest; -1 when there is none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        self.base_sequence.wrapping_add(self.last_offset_delta) & i32::MAX
    }
}

/// A whole batch within a buffer.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Its header, of which only the length is known to be right.
    pub header: BatchHeader,
    /// All its bytes.
    pub bytes: &'a [u8],
    /// Where it starts in the buffer.
    pub position: usize,
    /// Its place in the run, from 0.
    pub index: usize,
}

impl<'a> Batch<'a> {
    /// A failure of this batch.
    pub fn error<T>(&self, fault: Fault, what: String) -> Result<T, BatchError> {
        Err(BatchError {
            fault,
            what,
            position: self.position,
            batch_index: self.index,
            base_offset: Some(self.header.base_offset),
        })
    }

    /// The bytes after the header, compressed or not.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Whether the bytes are those the checksum was made of.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let computed = crc32c_of(&self.bytes[ATTRIBUTES_AT..]);
        if computed == self.header.crc {
            return Ok(());
        }
        let stored = self.header.crc;
        self.error(
            Fault::Corrupt,
            format!("the CRC is {stored:#010x} but the bytes have {computed:#010x}"),
        )
    }

    /// The codec.
    pub fn check_codec(&self) -> Result<Codec, BatchError> {
        match self.header.codec() {
            Some(codec) => Ok(codec),
            None => self.error(
                Fault::UnsupportedCodec,
                format!(
                    "there is no compression codec {}",
                    self.header.attributes & CODEC_MASK
                ),
            ),
        }
    }

    /// Whether offsets and counts make sense, as they must in every batch, also a compacted one with gaps.
    pub fn check_counts(&self) -> Result<(), BatchError> {
        let header = &self.header;
        let delta = header.last_offset_delta;
        let count = header.record_count;
        if delta < 0 {
            return self.error(Fault::Corrupt, format!("the last offset delta is {delta}"));
        }
        if count < 0 || i64::from(count) > i64::from(delta) + 1 {
            return self.error(
                Fault::Corrupt,
                format!("there cannot be {count} records up to the last offset delta {delta}"),
            );
        }
        if header.base_offset < 0 || header.base_offset.checked_add(i64::from(delta)).is_none() {
            return self.error(
                Fault::Corrupt,
                format!("the base offset {} is out of range", header.base_offset),
            );
        }
        Ok(())
    }
}

/// The batches of a run, one after the other; ends after the last whole one.
///
/// Lengths and magic are checked; after a failure it ends.
pub struct Batches<'a> {
    data: &'a [u8],
    position: usize,
    index: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    /// The batches of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Batches {
            data,
            position: 0,
            index: 0,
            failed: false,
        }
    }

    /// Where the next batch starts.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The failure that the buffer ends inside a batch, if it does.
    pub fn check_end(&self) -> Result<(), BatchError> {
        let left = self.data.len() - self.position;
        if self.failed || left == 0 {
            return Ok(());
        }
        Err(self.error(
            Fault::Truncated,
            format!("the last {left} bytes are not a whole batch"),
        ))
    }

    fn error(&self, fault: Fault, what: String) -> BatchError {
        BatchError {
            fault,
            what,
            position: self.position,
            batch_index: self.index,
            base_offset: self.data[self.position..]
                .first_chunk()
                .map(|bytes| i64::from_be_bytes(*bytes)),
        }
    }

    fn read(&mut self) -> Result<Option<Batch<'a>>, BatchError> {
        let rest = &self.data[self.position..];
        if rest.len() < LOG_OVERHEAD {
            return Ok(None);
        }
        let length = i32::from_be_bytes(array(rest, 8));
        if length < LEAST_BATCH_LENGTH {
            return Err(self.error(Fault::Corrupt, format!("the batch length is {length}")));
        }
        match rest.get(MAGIC_AT).map(|magic| *magic as i8) {
            None => return Ok(None),
            Some(MAGIC) => {}
            Some(magic) => {
                let what = format!("message format {magic} is not supported, only {MAGIC}");
                return Err(self.error(Fault::UnsupportedMagic, what));
            }
        }
        let size = LOG_OVERHEAD + length as usize;
        if size < HEADER_BYTES {
            return Err(self.error(Fault::Corrupt, format!("the batch length is {length}")));
        }
        let Some(bytes) = rest.get(..size) else {
            return Ok(None);
        };
        let batch = Batch {
            header: BatchHeader::parse(&array(bytes, 0)),
            bytes,
            position: self.position,
            index: self.index,
        };
        self.position += size;
        self.index += 1;
        Ok(Some(batch))
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// The `N` bytes of `bytes` from `at` on, which must be there.
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Writes `value` into `bytes` at `at`.
#[inline]
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
