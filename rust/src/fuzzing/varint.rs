//! Varints, beside a reader that works with numbers too wide to overflow.

use crate::varint::{Malformed, Reader, put_varint, varint_size};

/// The same number and the same end as the plain reader says, and the number comes back when it is written.
pub fn check(data: &[u8]) {
    let mut reader = Reader::new(data);
    agree(reader.varint().map(i64::from), &reader, plain(data, 32));
    let mut reader = Reader::new(data);
    agree(reader.varlong(), &reader, plain(data, 64));
    let mut reader = Reader::new(data);
    if let Ok(Some(bytes)) = reader.nullable("negative") {
        assert!(data.ends_with(&data[data.len() - reader.remaining()..]));
        assert!(bytes.len() < data.len());
    }
}

fn agree(read: Result<i64, Malformed>, reader: &Reader<'_>, expected: Option<(i64, usize)>) {
    match (read, expected) {
        (Ok(value), Some((plain, end))) => {
            assert_eq!((value, reader.position()), (plain, end));
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert!(bytes.len() <= end && bytes.len() == varint_size(value));
            assert_eq!(Reader::new(&bytes).varlong(), Ok(value));
        }
        (Err(_), None) => {}
        (read, expected) => panic!("{read:?}, the plain reader says {expected:?}"),
    }
}

/// The number of at most `width` bits at the start of `data`, and where it ends.
fn plain(data: &[u8], width: u32) -> Option<(i64, usize)> {
    let most = width.div_ceil(7) as usize;
    let mut raw = 0u128;
    for (index, byte) in data.iter().take(most).enumerate() {
        raw |= u128::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let magnitude = (raw >> 1) as i128;
            let value = if raw & 1 == 1 {
                -magnitude - 1
            } else {
                magnitude
            };
            return (raw >> width == 0).then_some((value as i64, index + 1));
        }
    }
    None
}
