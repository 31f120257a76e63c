//! A record batch within a buffer, and the batches of a run, one after the other.

use crate::batch_header::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, BatchHeader, CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD, MAGIC,
    MAGIC_AT, array,
};
use crate::checksum::crc32c_of;
use crate::codec::Codec;
use crate::error::{BatchError, Fault};

/// The least a batch of the oldest format can be after its length: what is shorter is no batch at all.
const LEAST_BATCH_LENGTH: i32 = 14;

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
            record_errors: Vec::new(),
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

    /// A failure where the next batch would start.
    pub fn error(&self, fault: Fault, what: String) -> BatchError {
        BatchError {
            fault,
            what,
            position: self.position,
            batch_index: self.index,
            base_offset: self.data[self.position..]
                .first_chunk()
                .map(|bytes| i64::from_be_bytes(*bytes)),
            record_errors: Vec::new(),
        }
    }

    fn read(&mut self) -> Result<Option<Batch<'a>>, BatchError> {
        let rest = &self.data[self.position..];
        if rest.len() < LOG_OVERHEAD {
            return Ok(None);
        }
        let length = i32::from_be_bytes(array(rest, BATCH_LENGTH_AT));
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
