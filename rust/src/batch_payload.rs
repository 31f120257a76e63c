//! The records of the batches of a buffer, opened: checksum verified and decompressed within a budget.

use crate::batch_header::{Batch, Batches, CONTROL};
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

    /// The records of `batch`, after its checksum and counts were found right.
    pub fn open<'a>(&'a mut self, batch: &Batch<'a>) -> Result<Records<'a>, BatchError> {
        batch.check_crc()?;
        batch.check_counts()?;
        let codec = batch.check_codec()?;
        let payload = batch.payload();
        // A batch that compaction emptied keeps its header, and nothing was compressed.
        if codec == Codec::None || payload.is_empty() {
            return Ok(Records::new(&batch.header, payload));
        }
        match codec.decompress(payload, self.budget, &mut self.scratch) {
            Ok(()) => {
                self.budget -= self.scratch.len();
                Ok(Records::new(&batch.header, &self.scratch))
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
    }
}
