//! The primitives of the wire: big-endian integers and unsigned varints, read within bounds.

use super::failure::{Failure, Outcome};

/// The longest string, in bytes of UTF-8. The form with two bytes of length cannot say more, and Kafka refuses more in the
/// compact form too.
pub(super) const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Bytes and a position that never leaves them.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at `position`, which may lie behind the end: then the first read fails.
    pub(super) fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    #[inline]
    pub(super) fn take(&mut self, size: usize) -> Outcome<&'a [u8]> {
        if size > self.remaining() {
            return Err(self.fault(format!("{size} bytes expected, {} there", self.remaining())));
        }
        let start = self.position;
        self.position += size;
        Ok(&self.bytes[start..self.position])
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// An unsigned varint of at most five bytes that fits 32 bits.
    #[inline]
    pub(super) fn unsigned_varint(&mut self) -> Outcome<u32> {
        let start = self.position;
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value)
                    .map_err(|_| Failure::at(start, "a varint larger than 32 bits"));
            }
        }
        Err(Failure::at(start, "a varint longer than five bytes"))
    }

    #[cold]
    pub(super) fn fault(&self, reason: impl Into<String>) -> Box<Failure> {
        Failure::at(self.position, reason)
    }
}

/// Appends an unsigned varint.
#[inline]
pub(super) fn put_unsigned_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_reads_back_as_it_was_written(value: u32) {
            let mut bytes = Vec::new();
            put_unsigned_varint(&mut bytes, value);
            let mut reader = Reader::new(&bytes, 0);
            prop_assert_eq!(reader.unsigned_varint().ok(), Some(value));
            prop_assert_eq!(reader.remaining(), 0);
        }

        #[test]
        fn reading_never_leaves_the_bytes(bytes: Vec<u8>, start: usize, size: usize) {
            let mut reader = Reader::new(&bytes, start);
            let taken = reader.take(size).is_ok();
            prop_assert_eq!(taken, start.saturating_add(size) <= bytes.len() || size == 0);
        }
    }

    #[test]
    fn a_varint_of_more_than_32_bits_is_refused() {
        assert!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f], 0)
                .unsigned_varint()
                .is_err()
        );
        assert!(
            Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 0)
                .unsigned_varint()
                .is_err()
        );
    }
}
