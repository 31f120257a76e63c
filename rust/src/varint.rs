//! Zig-zag varints, as records use them: seven bits a byte, the lowest first, the top bit says that more follow.
//!
//! ```text
//! value     0  -1   1  -2   2  ...   63   -64         64
//! zig-zag   0   1   2   3   4  ...  126   127        128
//! bytes    00  01  02  03  04  ...   7e    7f      80 01
//! ```

/// Malformed bytes: what is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong, for a person.
    pub what: &'static str,
    /// The byte it was found at.
    pub position: usize,
}

/// Reads the parts of records from a slice, one after the other.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, position: 0 }
    }

    /// The next byte to read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The failure `what`, here.
    pub fn malformed<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed {
            what,
            position: self.position,
        })
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        match self.bytes.get(self.position) {
            Some(byte) => {
                self.position += 1;
                Ok(*byte)
            }
            None => self.malformed("the bytes end inside a record"),
        }
    }

    /// A varint of at most 32 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<i32, Malformed> {
        let raw = self.unsigned(u64::from(u32::MAX))? as u32;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A varint of at most 64 bits.
    #[inline]
    pub fn varlong(&mut self) -> Result<i64, Malformed> {
        let raw = self.unsigned(u64::MAX)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    #[inline]
    fn unsigned(&mut self, max: u64) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // Bytes beyond the width are refused even when they add nothing, as the Java client does.
            let most = max >> shift;
            if most == 0 || bits > most {
                return self.malformed("a varint is too large");
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.malformed("a varint is too long")
    }

    /// The next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        if length > self.remaining() {
            return self.malformed("a length is larger than what is left");
        }
        let taken = &self.bytes[self.position..self.position + length];
        self.position += length;
        Ok(taken)
    }

    /// Bytes after their length; a length of -1 is null, any other negative one is `what` went wrong.
    #[inline]
    pub fn nullable(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
        match self.varint()? {
            -1 => Ok(None),
            length if length < 0 => self.malformed(what),
            length => self.take(length as usize).map(Some),
        }
    }
}

/// How many bytes the varint of `value` takes, 1 to 10.
#[inline]
pub fn varint_size(value: i64) -> usize {
    let bits = 64 - (zig_zag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends the varint of `value`. A value of 32 bits has the same bytes as a 32-bit varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = zig_zag(value);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline]
fn zig_zag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(value: i64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_size(value));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varlong(), Ok(value));
            prop_assert_eq!(reader.remaining(), 0);
            prop_assert_eq!(Reader::new(&bytes).varint().ok(), i32::try_from(value).ok());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Reader::new(&bytes).varint();
            let _ = Reader::new(&bytes).varlong();
            let _ = Reader::new(&bytes).nullable("negative");
        }
    }

    #[test]
    fn the_limits_of_both_widths() {
        for value in [i32::MIN, -1, 0, 1, i32::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, i64::from(value));
            assert_eq!(Reader::new(&bytes).varint(), Ok(value));
        }
        assert!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x10])
                .varint()
                .is_err()
        );
        assert!(
            Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0])
                .varint()
                .is_err()
        );
        assert_eq!(Reader::new(&[0x80, 0x80, 0x80, 0x80, 0]).varint(), Ok(0));
        assert!(Reader::new(&[0xff; 11]).varlong().is_err());
    }
}
