//! Building a record batch: records are appended as they come, the header is written last.

use crate::batch_header::{
    ATTRIBUTES_AT, BatchHeader, CONTROL, CRC_AT, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL, put,
};
use crate::checksum::crc32c_of;
use crate::codec::Codec;
use crate::record::{HeaderRef, NewRecord};

/// What the header of a batch says that does not follow from its records.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct BatchFields {
    pub codec: Codec,
    pub level: Option<i32>,
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub is_transactional: bool,
    pub is_control: bool,
}

impl BatchFields {
    /// The fields of a batch of data from a producer without idempotence.
    pub fn of_records(codec: Codec, level: Option<i32>) -> Self {
        BatchFields {
            codec,
            level,
            base_offset: 0,
            leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            is_transactional: false,
            is_control: false,
        }
    }
}

/// A batch in the making. Its buffer starts with room for the header.
pub struct BatchBuilder {
    buffer: Vec<u8>,
    record_count: i32,
    last_offset_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    /// An empty batch, with room for about `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        let mut buffer = Vec::with_capacity(capacity.max(HEADER_BYTES));
        buffer.resize(HEADER_BYTES, 0);
        BatchBuilder {
            buffer,
            record_count: 0,
            last_offset_delta: -1,
            base_timestamp: 0,
            max_timestamp: i64::MIN,
        }
    }

    /// How many records it has.
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Its size before compression, in bytes.
    pub fn size(&self) -> usize {
        self.buffer.len()
    }

    /// Whether one more record like this would make it larger than `max_bytes` before compression.
    pub fn would_exceed(&self, max_bytes: usize, payload_bytes: usize) -> bool {
        // Lengths, deltas and attributes of a record take at most this much.
        const RECORD_OVERHEAD: usize = 36;
        self.record_count > 0 && self.buffer.len() + payload_bytes + RECORD_OVERHEAD > max_bytes
    }

    /// Appends a record with the offset after the last one's.
    #[inline]
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) -> Result<(), &'static str> {
        match self.last_offset_delta.checked_add(1) {
            Some(offset_delta) => self.append_at(offset_delta, timestamp, key, value, headers),
            None => Err("a batch cannot hold so many records"),
        }
    }

    /// Appends a record with an offset of its own, which must be larger than the last one's.
    #[inline]
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) -> Result<(), &'static str> {
        if offset_delta <= self.last_offset_delta {
            return Err("offsets must increase");
        }
        if self.record_count == 0 {
            self.base_timestamp = timestamp;
        }
        let Some(timestamp_delta) = timestamp.checked_sub(self.base_timestamp) else {
            return Err("the timestamp is too far from that of the first record");
        };
        let record = NewRecord {
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers,
        };
        let body_size = record.body_size();
        if self.buffer.len() + body_size + 5 > i32::MAX as usize {
            return Err("the batch would be larger than 2 GB");
        }
        self.buffer.reserve(body_size + 5);
        record.put(body_size, &mut self.buffer);
        self.record_count += 1;
        self.last_offset_delta = offset_delta;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        Ok(())
    }

    /// The finished batch. There must be at least one record.
    pub fn finish(mut self, fields: BatchFields) -> Result<Vec<u8>, String> {
        if fields.codec != Codec::None {
            let mut packed = Vec::with_capacity(HEADER_BYTES + self.buffer.len() / 2);
            packed.resize(HEADER_BYTES, 0);
            fields
                .codec
                .compress(fields.level, &self.buffer[HEADER_BYTES..], &mut packed)?;
            self.buffer = packed;
        }
        let mut attributes = fields.codec.id();
        if fields.is_transactional {
            attributes |= TRANSACTIONAL;
        }
        if fields.is_control {
            attributes |= CONTROL;
        }
        let batch_length = i32::try_from(self.buffer.len() - LOG_OVERHEAD)
            .map_err(|_| "the compressed batch is larger than 2 GB".to_string())?;
        let header = BatchHeader {
            base_offset: fields.base_offset,
            batch_length,
            leader_epoch: fields.leader_epoch,
            crc: 0,
            attributes,
            last_offset_delta: self.last_offset_delta,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: fields.producer_id,
            producer_epoch: fields.producer_epoch,
            base_sequence: fields.base_sequence,
            record_count: self.record_count,
        };
        self.buffer[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let crc = crc32c_of(&self.buffer[ATTRIBUTES_AT..]);
        put(&mut self.buffer, CRC_AT, crc.to_be_bytes());
        Ok(self.buffer)
    }
}
