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

    /// The length of an array or of bytes; None is null.
    #[inline]
    pub(super) fn length(&mut self, compact: bool) -> Outcome<Option<usize>> {
        if compact {
            return self.compact_length();
        }
        let length = i32::from_be_bytes(self.array()?);
        self.checked_length(length, 4)
    }

    /// The length of a string in bytes; None is null.
    #[inline]
    pub(super) fn string_length(&mut self, compact: bool) -> Outcome<Option<usize>> {
        if compact {
            return self.compact_length();
        }
        let length = i16::from_be_bytes(self.array()?);
        self.checked_length(i32::from(length), 2)
    }

    fn compact_length(&mut self) -> Outcome<Option<usize>> {
        Ok((self.unsigned_varint()? as usize).checked_sub(1))
    }

    /// -1 is null, less is nothing. `width` bytes were read for the length.
    fn checked_length(&self, length: i32, width: usize) -> Outcome<Option<usize>> {
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => {
                let reason = format!("a length of {length}");
                Err(Failure::at(self.position - width, reason))
            }
        }
    }

    /// How many tagged fields follow: each takes two bytes at least.
    pub(super) fn tagged_field_count(&mut self) -> Outcome<usize> {
        let count = self.unsigned_varint()? as usize;
        self.check_room(count, 2, "tagged fields")?;
        Ok(count)
    }

    /// Refuses a count of things that the bytes that are left cannot hold.
    #[inline]
    pub(super) fn check_room(&self, count: usize, bytes_min: usize, things: &str) -> Outcome<()> {
        if count.saturating_mul(bytes_min) <= self.remaining() {
            return Ok(());
        }
        let reason = format!("{count} {things} cannot be in {} bytes", self.remaining());
        Err(self.fault(reason))
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
