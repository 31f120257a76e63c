//! The 61 bytes in front of every record batch (message format 2).
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

use crate::codec::Codec;

/// Bytes in front of the records.
pub const HEADER_BYTES: usize = 61;
/// Bytes that `batchLength` does not count.
pub const LOG_OVERHEAD: usize = 12;
/// Where the leader epoch stands.
pub const LEADER_EPOCH_AT: usize = 12;
/// Where the length of what follows it stands.
pub const BATCH_LENGTH_AT: usize = 8;
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
            batch_length: i32::from_be_bytes(array(bytes, BATCH_LENGTH_AT)),
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
        put(&mut bytes, BATCH_LENGTH_AT, self.batch_length.to_be_bytes());
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

/// The `N` bytes of `bytes` from `at` on, which must be there.
#[inline]
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Writes `value` into `bytes` at `at`.
#[inline]
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
