//! Any bytes as a run of batches whose lengths, magic and checksums are right, so that what lies behind them is reached.

use crate::batch_header::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, CRC_AT, HEADER_BYTES, LOG_OVERHEAD, MAGIC, MAGIC_AT, array, put,
};
use crate::checksum::crc32c_of;

/// `bytes` cut into batches where their own lengths say so, each with its length, magic and checksum set right.
pub fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut run = bytes.to_vec();
    let mut position = 0;
    while run.len() - position >= HEADER_BYTES {
        let rest = &mut run[position..];
        let claimed = i32::from_be_bytes(array(rest, BATCH_LENGTH_AT));
        let size = usize::try_from(claimed)
            .map(|length| length + LOG_OVERHEAD)
            .ok()
            .filter(|size| (HEADER_BYTES..=rest.len()).contains(size))
            .unwrap_or(rest.len());
        seal_one(&mut rest[..size]);
        position += size;
    }
    run
}

/// Sets length, magic and checksum of the batch that fills `batch`.
pub fn seal_one(batch: &mut [u8]) {
    let length = (batch.len() - LOG_OVERHEAD) as i32;
    put(batch, BATCH_LENGTH_AT, length.to_be_bytes());
    batch[MAGIC_AT] = MAGIC as u8;
    let crc = crc32c_of(&batch[ATTRIBUTES_AT..]);
    put(batch, CRC_AT, crc.to_be_bytes());
}
