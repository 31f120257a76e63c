//! Zstandard, RFC 8878.
//!
//! The streaming decoder would allocate the window that a frame asks for, up to 128 MB for a frame of 16 bytes. So
//! frames are decoded in one piece into room that grows from the size of the input to the limit.

use super::DecompressError;
use std::cell::RefCell;
use zstd::zstd_safe::{CCtx, DCtx, compress_bound, get_error_name};

const DEFAULT_LEVEL: i32 = 3;
/// The room to begin with: a multiple of the input, because most batches compress less than this.
const FIRST_RATIO: usize = 8;
const FIRST_ROOM: usize = 64 * 1024;
const GROWTH: usize = 4;
/// `ZSTD_error_dstSize_tooSmall` as the library returns it.
const TARGET_TOO_SMALL: usize = 0usize.wrapping_sub(70);

thread_local! {
    // A context costs more to make than a small batch to compress.
    static COMPRESSOR: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

pub fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    out.resize(start + compress_bound(input.len()), 0);
    let length = COMPRESSOR
        .with_borrow_mut(|context| {
            context.compress(&mut out[start..], input, level.unwrap_or(DEFAULT_LEVEL))
        })
        .map_err(|code| get_error_name(code).to_string())?;
    out.truncate(start + length);
    Ok(())
}

pub fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let mut room = limit.min(FIRST_ROOM.max(input.len().saturating_mul(FIRST_RATIO)));
    loop {
        out.clear();
        out.reserve_exact(room);
        // The decoder writes up to the capacity, which may be more than was asked for.
        match DECOMPRESSOR.with_borrow_mut(|context| context.decompress(out, input)) {
            Ok(_) if out.len() <= limit => return Ok(()),
            Err(TARGET_TOO_SMALL) if room < limit => room = limit.min(room.saturating_mul(GROWTH)),
            Ok(_) | Err(TARGET_TOO_SMALL) => {
                out.clear();
                return Err(DecompressError::LimitExceeded);
            }
            Err(code) => {
                out.clear();
                return Err(DecompressError::malformed(get_error_name(code)));
            }
        }
    }
}
