//! The records of the batches of a buffer, opened: checksum verified and decompressed within a budget.

use crate::batch::{Batch, Batches};
use crate::batch_header::CONTROL;
use crate::codec::{Codec, DecompressError};
use crate::error::{BatchError, Fault};
use crate::record::Records;
use crate::varint::Malformed;

/// Opens batches one by one; all that they expand to together is bounded.
pub struct Opener {
    budget: usize,
    scratch: Vec<u8>,
}

impl Opener {
    /// An opener for batches that may expand to `max_decompressed_bytes` together; uncompressed ones are not counted.
    pub fn new(max_decompressed_bytes: usize) -> Self {
        Opener {
            budget: max_decompressed_bytes,
            scratch: Vec::new(),
        }
    }

    /// The batches opened from now on may expand to `max_decompressed_bytes` together.
    pub fn renew(&mut self, max_decompressed_bytes: usize) {
        self.budget = max_decompressed_bytes;
    }

    /// The bytes of the records of `batch`, which was opened last.
    pub fn opened_bytes<'a>(&'a self, batch: &Batch<'a>) -> &'a [u8] {
        let payload = batch.payload();
        if payload.is_empty() || batch.header.codec() == Some(Codec::None) {
            payload
        } else {
            &self.scratch
        }
    }

    /// The records of `batch`, which was opened last, once more.
    pub fn opened<'a>(&'a self, batch: &Batch<'a>) -> Records<'a> {
        Records::new(&batch.header, self.opened_bytes(batch))
    }

    /// The records of `batch`, after its checksum and counts were found right.
    pub fn open<'a>(&'a mut self, batch: &Batch<'a>) -> Result<Records<'a>, BatchError> {
        Ok(Records::new(&batch.header, self.bytes(batch)?))
    }

    /// The bytes of the records of `batch`, after its checksum and counts were found right.
    pub fn bytes<'a>(&'a mut self, batch: &Batch<'a>) -> Result<&'a [u8], BatchError> {
        batch.check_crc()?;
        batch.check_counts()?;
        let codec = batch.check_codec()?;
        let payload = batch.payload();
        // A batch that compaction emptied keeps its header, and nothing was compressed.
        if codec == Codec::None || payload.is_empty() {
            return Ok(payload);
        }
        match codec.decompress(payload, self.budget, &mut self.scratch) {
            Ok(()) => {
                self.budget -= self.scratch.len();
                Ok(&self.scratch)
            }
            Err(DecompressError::Malformed(what)) => batch.error(
                Fault::Corrupt,
                format!("the records cannot be decompressed: {what}"),
            ),
            Err(DecompressError::LimitExceeded) => batch.error(
                Fault::DecompressionLimit,
                format!(
                    "the records expand beyond the {} bytes that are left of the limit",
                    self.budget
                ),
            ),
        }
    }
}

/// The batches of `data` that may hold offsets from `start_offset` on; control batches only when they are wanted.
pub fn batches_from(
    data: &[u8],
    start_offset: i64,
    include_control: bool,
) -> impl Iterator<Item = Result<Batch<'_>, BatchError>> {
    Batches::new(data).filter(move |batch| match batch {
        Ok(batch) => {
            (include_control || !batch.header.has(CONTROL))
                && batch.header.last_offset() >= start_offset
        }
        Err(_) => true,
    })
}

/// The failure of the record at `record_index` of `batch`.
pub fn record_error(batch: &Batch<'_>, record_index: usize, malformed: Malformed) -> BatchError {
    BatchError {
        fault: Fault::Corrupt,
        what: format!(
            "record {record_index}: {}, at byte {} of the records",
            malformed.what, malformed.position
        ),
        position: batch.position,
        batch_index: batch.index,
        base_offset: Some(batch.header.base_offset),
        record_errors: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_builder::{BatchBuilder, BatchFields};
    use crate::batch_header::{
        ATTRIBUTES_AT, BATCH_LENGTH_AT, CRC_AT, HEADER_BYTES, LOG_OVERHEAD, put,
    };
    use crate::checksum::crc32c_of;
    use proptest::prelude::*;

    /// Everything that `data` holds, until the first failure.
    fn drain(data: &[u8], limit: usize) -> Result<usize, BatchError> {
        let mut opener = Opener::new(limit);
        let mut count = 0;
        for batch in batches_from(data, 0, true) {
            let batch = batch?;
            for (index, record) in opener.open(&batch)?.enumerate() {
                let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
                count += 1 + record.headers.iter().count();
            }
        }
        Ok(count)
    }

    /// A batch of `records` records with `payload` for them, its length and checksum right.
    fn sealed(attributes: u8, records: i32, payload: &[u8]) -> Vec<u8> {
        let mut batch = vec![0; HEADER_BYTES];
        batch.extend_from_slice(payload);
        let length = (batch.len() - LOG_OVERHEAD) as i32;
        put(&mut batch, BATCH_LENGTH_AT, length.to_be_bytes());
        batch[16] = 2;
        batch[ATTRIBUTES_AT + 1] = attributes;
        put(&mut batch, 23, i32::MAX.to_be_bytes());
        put(&mut batch, 57, records.to_be_bytes());
        let crc = crc32c_of(&batch[ATTRIBUTES_AT..]);
        put(&mut batch, CRC_AT, crc.to_be_bytes());
        batch
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = drain(&bytes, 1000);
        }

        #[test]
        fn no_payload_makes_it_panic(attributes in 0u8..16, records in -1..20i32, payload: Vec<u8>) {
            let _ = drain(&sealed(attributes, records, &payload), 1000);
        }

        #[test]
        fn a_changed_byte_of_real_records_does_not_make_it_panic(
            values: Vec<Option<Vec<u8>>>, at: prop::sample::Index, with: u8,
        ) {
            prop_assume!(!values.is_empty());
            let mut builder = BatchBuilder::new(0);
            for value in &values {
                builder.append(7, value.as_deref(), value.as_deref(), &[(b"h", value.as_deref())]).unwrap();
            }
            let mut payload = builder.finish(BatchFields::of_records(Codec::None, None)).unwrap();
            payload.drain(..HEADER_BYTES);
            let count = values.len() as i32;
            prop_assert_eq!(drain(&sealed(0, count, &payload), 0), Ok(2 * values.len()));
            let index = at.index(payload.len());
            payload[index] = with;
            let _ = drain(&sealed(0, count, &payload), 0);
        }
    }
}
