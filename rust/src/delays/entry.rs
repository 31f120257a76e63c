//! A record that waits, as it is kept in memory and in bucket files.
//!
//! ```text
//! length u32 | due i64 | offset i64 | place i64 | key hash u64 | timestamp i64 | key | value | headers
//!            |---------------- length bytes, little endian; the last three as in a record batch ----------|
//! ```

use crate::record::{Headers, Record, put_nullable};
use crate::varint::{Malformed, Reader, put_varint};

/// When a record is due, and its offset: the order in which records are moved.
pub type Due = (i64, i64);

const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = LENGTH_BYTES + 40;

/// A record as it was put.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// When it is due, and its offset.
    pub due: Due,
    /// The offset that it counts as where records are cancelled.
    pub place: i64,
    /// Of its key; 0 without one.
    pub key_hash: u64,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

/// Appends a record.
pub fn put_entry(out: &mut Vec<u8>, due: i64, place: i64, key_hash: u64, record: &Record<'_>) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    for field in [due, record.offset, place, key_hash as i64, record.timestamp] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    put_nullable(out, record.key);
    put_nullable(out, record.value);
    put_varint(out, record.headers.iter().count() as i64);
    for (key, value) in record.headers.iter() {
        put_nullable(out, Some(key));
        put_nullable(out, value);
    }
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

fn field(bytes: &[u8], at: usize) -> i64 {
    let mut found = [0; 8];
    found.copy_from_slice(&bytes[at..at + 8]);
    i64::from_le_bytes(found)
}

/// The entry at the start of some bytes, None when there is no whole one.
pub fn entry_at(bytes: &[u8]) -> Option<Entry<'_>> {
    if bytes.len() < HEAD_BYTES {
        return None;
    }
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let end = LENGTH_BYTES.checked_add(length)?;
    if end < HEAD_BYTES || end > bytes.len() {
        return None;
    }
    Some(Entry {
        due: (field(bytes, 4), field(bytes, 12)),
        place: field(bytes, 20),
        key_hash: field(bytes, 28) as u64,
        timestamp: field(bytes, 36),
        bytes: &bytes[..end],
    })
}

impl<'a> Entry<'a> {
    /// The record that it is.
    pub fn record(&self) -> Result<Record<'a>, Malformed> {
        let mut reader = Reader::new(&self.bytes[HEAD_BYTES..]);
        let key = reader.nullable("a key's length is negative")?;
        let value = reader.nullable("a value's length is negative")?;
        let headers = Headers::read(&mut reader)?;
        Ok(Record {
            offset: self.due.1,
            timestamp: self.timestamp,
            key,
            value,
            headers,
        })
    }
}
