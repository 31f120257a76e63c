//! One record of a batch, and the records of a batch's decompressed bytes.
//!
//! ```text
//! length varint | attributes int8 (0) | timestampDelta varlong | offsetDelta varint
//! keyLength varint | key | valueLength varint | value | headerCount varint | header...
//! header: keyLength varint | key (UTF-8) | valueLength varint | value          (length -1: null)
//! ```

use crate::batch_header::{BatchHeader, LOG_APPEND_TIME};
use crate::varint::{Malformed, Reader, put_varint, varint_size};

/// A header to be written: its key and its value.
pub type HeaderRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record as it lies in its batch.
#[derive(Clone)]
pub struct Record<'a> {
    /// Its offset in the partition.
    pub offset: i64,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// The headers of a record that was checked.
#[derive(Clone)]
pub struct Headers<'a> {
    count: usize,
    reader: Reader<'a>,
}

impl<'a> Headers<'a> {
    /// The headers that begin with their count.
    #[inline]
    pub fn read(reader: &mut Reader<'a>) -> Result<Headers<'a>, Malformed> {
        read_headers(reader)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers, each with its key and its value.
    pub fn iter(&self) -> impl Iterator<Item = HeaderRef<'a>> + use<'a> {
        let mut reader = self.reader.clone();
        (0..self.count).map_while(move |_| read_header(&mut reader).ok())
    }
}

fn read_header<'a>(reader: &mut Reader<'a>) -> Result<HeaderRef<'a>, Malformed> {
    let Some(key) = reader.nullable("a header's key length is negative")? else {
        return reader.malformed("a header has no key");
    };
    Ok((key, reader.nullable("a header's value length is negative")?))
}

/// The records of a batch: yields each, then at most one failure.
pub struct Records<'a> {
    reader: Reader<'a>,
    left: i32,
    least_delta: i32,
    header: BatchHeader,
    failed: bool,
}

impl<'a> Records<'a> {
    /// The records of `bytes`, which is the decompressed payload of the batch with `header`.
    pub fn new(header: &BatchHeader, bytes: &'a [u8]) -> Self {
        Records {
            reader: Reader::new(bytes),
            left: header.record_count,
            least_delta: 0,
            header: *header,
            failed: false,
        }
    }

    /// Where the next record begins in the bytes.
    pub fn position(&self) -> usize {
        self.reader.position()
    }

    #[inline]
    fn read(&mut self) -> Result<Record<'a>, Malformed> {
        let reader = &mut self.reader;
        let length = reader.varint()?;
        let end = match usize::try_from(length) {
            Ok(length) if length <= reader.remaining() => reader.position() + length,
            Ok(_) => return reader.malformed("a record is longer than what is left"),
            Err(_) => return reader.malformed("a record's length is negative"),
        };
        reader.byte()?;
        let timestamp_delta = reader.varlong()?;
        let offset_delta = reader.varint()?;
        let key = reader.nullable("a key's length is negative")?;
        let value = reader.nullable("a value's length is negative")?;
        let headers = read_headers(reader)?;
        if reader.position() != end {
            return reader.malformed("a record's length is not that of its fields");
        }
        if offset_delta < self.least_delta || offset_delta > self.header.last_offset_delta {
            return reader
                .malformed("a record's offset is not between that before it and the batch's last");
        }
        self.least_delta = offset_delta.saturating_add(1);
        let timestamp = if self.header.has(LOG_APPEND_TIME) {
            self.header.max_timestamp
        } else {
            match self.header.base_timestamp.checked_add(timestamp_delta) {
                Some(timestamp) => timestamp,
                None => return reader.malformed("a record's timestamp is out of range"),
            }
        };
        let Some(offset) = self.header.base_offset.checked_add(i64::from(offset_delta)) else {
            return reader.malformed("a record's offset is out of range");
        };
        Ok(Record {
            offset,
            timestamp,
            key,
            value,
            headers,
        })
    }
}

#[inline]
fn read_headers<'a>(reader: &mut Reader<'a>) -> Result<Headers<'a>, Malformed> {
    let count = reader.varint()?;
    // A header takes at least two bytes: its two lengths.
    let count = match usize::try_from(count) {
        Ok(count) if count <= reader.remaining() / 2 => count,
        _ => {
            return reader
                .malformed("the count of headers does not go with the bytes that are left");
        }
    };
    let start = reader.clone();
    for _ in 0..count {
        read_header(reader)?;
    }
    Ok(Headers {
        count,
        reader: start,
    })
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.left <= 0 {
            self.failed = true;
            return match self.reader.remaining() {
                0 => None,
                _ => Some(self.reader.malformed("bytes follow the last record")),
            };
        }
        self.left -= 1;
        let next = self.read();
        self.failed = next.is_err();
        Some(next)
    }
}

/// What a quick look at the records of a batch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The smallest timestamp delta.
    pub min_delta: i64,
    /// The largest timestamp delta.
    pub max_delta: i64,
    /// Whether every record has a key.
    pub all_have_keys: bool,
}

/// What `bytes` hold if they are `count` records, at least one, whose offsets follow one another; found at a tenth of
/// the cost of `Records`.
///
/// Some is certain. None says to look again with `Records`, which takes varints of every length and says what is wrong.
pub fn glance(bytes: &[u8], count: i32) -> Option<Glance> {
    let mut seen = Glance {
        min_delta: i64::MAX,
        max_delta: i64::MIN,
        all_have_keys: true,
    };
    let mut left = bytes;
    for offset_delta in 0..count as u64 {
        left = after_plain_record(left, offset_delta, &mut seen)?;
    }
    (left.is_empty() && count > 0).then_some(seen)
}

/// What follows the record at the start of `bytes`, if that is sound and has the offset delta.
#[inline(always)]
fn after_plain_record<'a>(
    bytes: &'a [u8],
    offset_delta: u64,
    seen: &mut Glance,
) -> Option<&'a [u8]> {
    let mut at = 0;
    let length = plain_length(bytes, &mut at)?;
    let (body, rest) = bytes[at..].split_at_checked(length)?;
    let mut at = 1; // after the attributes
    let timestamp_delta = plain_timestamp_delta(body, &mut at)?;
    seen.min_delta = seen.min_delta.min(timestamp_delta);
    seen.max_delta = seen.max_delta.max(timestamp_delta);
    if plain_varint(body, &mut at)? != offset_delta << 1 {
        return None;
    }
    seen.all_have_keys &= plain_nullable(body, &mut at)?;
    plain_nullable(body, &mut at)?;
    for _ in 0..plain_length(body, &mut at)? {
        at += plain_length(body, &mut at)?;
        plain_nullable(body, &mut at)?;
    }
    (at == body.len()).then_some(rest)
}

/// A timestamp delta of at most six bytes: two hundred days in five of them, seventy years in six.
#[inline(always)]
fn plain_timestamp_delta(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut raw = 0;
    for shift in [0, 7, 14, 21, 28, 35] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((raw >> 1) as i64 ^ -((raw & 1) as i64));
        }
    }
    None
}

/// The zig-zag of a varint of at most four bytes.
#[inline(always)]
fn plain_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in [0, 7, 14, 21] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A varint of at most four bytes that is not negative.
#[inline(always)]
fn plain_length(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let raw = plain_varint(bytes, at)?;
    (raw & 1 == 0).then_some((raw >> 1) as usize)
}

/// Goes past a length and as many bytes; -1 stands for null, of which it says false.
#[inline(always)]
fn plain_nullable(bytes: &[u8], at: &mut usize) -> Option<bool> {
    match plain_varint(bytes, at)? {
        1 => Some(false),
        raw if raw & 1 == 0 => {
            *at += (raw >> 1) as usize;
            Some(true)
        }
        _ => None,
    }
}

/// The parts of a record to be written.
#[derive(Clone, Copy)]
pub struct NewRecord<'a> {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offsets after the batch's base offset.
    pub offset_delta: i32,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [HeaderRef<'a>],
}

impl NewRecord<'_> {
    /// The bytes after the length.
    #[inline]
    pub fn body_size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(key, value)| nullable_size(Some(key)) + nullable_size(*value))
            .sum();
        1 + varint_size(self.timestamp_delta)
            + varint_size(i64::from(self.offset_delta))
            + nullable_size(self.key)
            + nullable_size(self.value)
            + varint_size(self.headers.len() as i64)
            + headers
    }

    /// Appends the record, whose body has `body_size` bytes, to `out`.
    #[inline]
    pub fn put(&self, body_size: usize, out: &mut Vec<u8>) {
        put_varint(out, body_size as i64);
        out.push(0);
        put_varint(out, self.timestamp_delta);
        put_varint(out, i64::from(self.offset_delta));
        put_nullable(out, self.key);
        put_nullable(out, self.value);
        put_varint(out, self.headers.len() as i64);
        for (key, value) in self.headers {
            put_nullable(out, Some(key));
            put_nullable(out, *value);
        }
    }
}

#[inline]
fn nullable_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint_size(bytes.len() as i64) + bytes.len())
}

/// Appends the length of `bytes` and the bytes; -1 for null.
#[inline]
pub fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Timestamp delta, key, value, keys of headers.
    type Parts = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<Vec<u8>>);

    fn header(count: i32) -> BatchHeader {
        let mut header = BatchHeader::parse(&[0; 61]);
        header.record_count = count;
        header.last_offset_delta = count - 1;
        header
    }

    fn written(records: &[Parts]) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, (timestamp_delta, key, value, keys)) in records.iter().enumerate() {
            let headers: Vec<HeaderRef<'_>> = keys.iter().map(|key| (&key[..], None)).collect();
            let record = NewRecord {
                timestamp_delta: *timestamp_delta,
                offset_delta: index as i32,
                key: key.as_deref(),
                value: value.as_deref(),
                headers: &headers,
            };
            record.put(record.body_size(), &mut out);
        }
        out
    }

    fn blob() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    fn records() -> impl Strategy<Value = Vec<Parts>> {
        let record = (
            -1_000_000_i64..1_000_000,
            proptest::option::of(blob()),
            proptest::option::of(blob()),
            proptest::collection::vec(blob(), 0..3),
        );
        proptest::collection::vec(record, 1..80)
    }

    proptest! {
        #[test]
        fn what_is_written_is_understood_at_a_glance(records in records()) {
            let deltas = || records.iter().map(|record| record.0);
            let seen = Glance {
                min_delta: deltas().min().unwrap(),
                max_delta: deltas().max().unwrap(),
                all_have_keys: records.iter().all(|record| record.1.is_some()),
            };
            prop_assert_eq!(glance(&written(&records), records.len() as i32), Some(seen));
        }

        #[test]
        fn what_is_understood_at_a_glance_is_read_the_same(
            records in records(), at: prop::sample::Index, byte: u8, count in 0_i32..90, use_count: bool
        ) {
            let mut bytes = written(&records);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let count = if use_count { count } else { records.len() as i32 };
            if let Some(seen) = glance(&bytes, count) {
                let read: Result<Vec<_>, _> = Records::new(&header(count), &bytes).collect();
                let read = read.expect("it was sound");
                let offsets: Vec<_> = read.iter().map(|record| record.offset).collect();
                prop_assert_eq!(offsets, (0..i64::from(count)).collect::<Vec<_>>());
                prop_assert_eq!(read.iter().map(|record| record.timestamp).min(), Some(seen.min_delta));
                prop_assert_eq!(read.iter().map(|record| record.timestamp).max(), Some(seen.max_delta));
                prop_assert_eq!(read.iter().all(|record| record.key.is_some()), seen.all_have_keys);
            }
        }
    }
}
