//! gzip, RFC 1952. Members that follow each other are read as one, as Java's `GZIPInputStream` does.

use super::DecompressError;
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};

pub fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let level = level.map_or(Compression::default(), |level| {
        Compression::new(level as u32)
    });
    let mut encoder = GzEncoder::new(out, level);
    encoder
        .write_all(input)
        .and_then(|()| encoder.try_finish())
        .map_err(|error| error.to_string())
}

pub fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    out.reserve(limit.min(input.len().saturating_mul(4)));
    let mut bounded = MultiGzDecoder::new(input).take((limit as u64).saturating_add(1));
    bounded
        .read_to_end(out)
        .map_err(DecompressError::malformed)?;
    if out.len() > limit {
        out.truncate(limit);
        return Err(DecompressError::LimitExceeded);
    }
    Ok(())
}
