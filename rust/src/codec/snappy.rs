//! Snappy as the Java client writes it: the framing of snappy-java ("xerial") around snappy blocks.
//!
//! ```text
//! 82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | version, 4 bytes | lowest compatible version, 4 bytes | block...
//! block: length, 4 bytes | snappy data          (integers big-endian)
//! ```
//!
//! Bytes without that header are one bare snappy block, which is what librdkafka writes.

use super::DecompressError;
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_BYTES: usize = 16;
const VERSION: [u8; 4] = 1u32.to_be_bytes();
const BLOCK_BYTES: usize = 32 * 1024;
/// A copy element makes at most 64 bytes out of 3: no block expands further than this.
const MAX_RATIO: usize = 22;

pub fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION);
    out.extend_from_slice(&VERSION);
    let mut encoder = Encoder::new();
    for block in input.chunks(BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + max_compress_len(block.len()), 0);
        let length = encoder
            .compress(block, &mut out[start + 4..])
            .map_err(|error| error.to_string())?;
        out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
        out.truncate(start + 4 + length);
    }
    Ok(())
}

pub fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let mut decoder = Decoder::new();
    if !input.starts_with(&MAGIC) {
        return decompress_block(&mut decoder, input, limit, out);
    }
    let mut rest = input
        .get(HEADER_BYTES..)
        .ok_or_else(|| DecompressError::malformed("the snappy header is cut short"))?;
    while !rest.is_empty() {
        let (length, after) = rest
            .split_first_chunk::<4>()
            .ok_or_else(|| DecompressError::malformed("a snappy block length is cut short"))?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > after.len() {
            return Err(DecompressError::malformed(
                "a snappy block is longer than what is left",
            ));
        }
        let (block, next) = after.split_at(length);
        decompress_block(&mut decoder, block, limit, out)?;
        rest = next;
    }
    Ok(())
}

fn decompress_block(
    decoder: &mut Decoder,
    block: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    let length = decompress_len(block).map_err(DecompressError::malformed)?;
    if length > block.len().saturating_mul(MAX_RATIO) {
        return Err(DecompressError::malformed(
            "a snappy block claims more than it can hold",
        ));
    }
    let start = out.len();
    if length > limit - start {
        return Err(DecompressError::LimitExceeded);
    }
    out.resize(start + length, 0);
    match decoder.decompress(block, &mut out[start..]) {
        Ok(written) if written == length => Ok(()),
        Ok(_) => Err(DecompressError::malformed(
            "a snappy block is shorter than it claims",
        )),
        Err(error) => Err(DecompressError::malformed(error)),
    }
}
