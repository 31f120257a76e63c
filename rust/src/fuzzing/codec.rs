//! The compression codecs: the limit is kept in bytes and in memory, and what is compressed comes back.
//!
//! ```text
//! how, 1 byte: bits 0-2 the codec, bit 3 compress instead | limit, 2 bytes, times 16 | data
//! ```

use super::allocation::bounded;
use crate::codec::{Codec, DecompressError};

/// Room that a codec may use beside its output: tables, windows and the text of an error.
const WORKSPACE: usize = 1 << 20;

/// See the top of the file.
pub fn check(data: &[u8]) {
    let Some((&[how, high, low], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let Some(codec) = Codec::from_id(i16::from(how & 7)) else {
        return;
    };
    if how & 8 != 0 {
        return comes_back(codec, rest);
    }
    let limit = usize::from(u16::from_be_bytes([high, low])) * 16;
    let mut out = vec![0xaa; 3];
    let verdict = bounded(2 * limit + WORKSPACE, || {
        codec.decompress(rest, limit, &mut out)
    });
    assert!(out.len() <= limit, "{} bytes, {limit} allowed", out.len());
    if verdict.is_ok() {
        let mut again = Vec::new();
        assert_eq!(codec.decompress(rest, out.len(), &mut again), Ok(()));
        assert!(again == out, "two results of the same bytes");
        comes_back(codec, &out);
    }
}

/// What `codec` makes of `plain` is read as `plain`, within its size and no less.
fn comes_back(codec: Codec, plain: &[u8]) {
    let mut packed = Vec::new();
    codec.compress(None, plain, &mut packed).unwrap();
    let mut out = Vec::new();
    assert_eq!(codec.decompress(&packed, plain.len(), &mut out), Ok(()));
    assert!(out == plain, "changed by {codec:?}");
    if let Some(less) = plain.len().checked_sub(1) {
        let verdict = codec.decompress(&packed, less, &mut out);
        assert_eq!(verdict, Err(DecompressError::LimitExceeded));
    }
}
