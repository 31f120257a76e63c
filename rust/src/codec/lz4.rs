//! The LZ4 frame format (version 1.6.x of its description) around LZ4 blocks, as the Java client writes it.
//!
//! ```text
//! 04 22 4d 18 | FLG | BD | [content size, 8] | [dictionary id, 4] | HC | block... | 00 00 00 00 | [content checksum, 4]
//! block: size, 4 bytes, the top bit says stored | data | [checksum, 4]          (integers little-endian)
//! ```
//!
//! Written are independent blocks of 64 KB without checksums; the batch's own CRC covers them. Read is every frame that
//! the description allows, also with linked blocks, except those that need a dictionary.

use super::DecompressError;
use lz4_flex::block::{
    CompressTable, DecompressError as BlockError, compress_into_with_table,
    decompress_into_with_dict, get_maximum_output_size,
};
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = 0x184D_2204u32.to_le_bytes();
const VERSION: u8 = 0x40;
const VERSION_MASK: u8 = 0xC0;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY: u8 = 0x01;
const BLOCK_64_KB: u8 = 0x40;
const BLOCK_BYTES: usize = 64 * 1024;
const STORED: u32 = 0x8000_0000;
/// How far back a linked block may refer.
const WINDOW_BYTES: usize = 64 * 1024;
/// A byte of a match length stands for at most 255: no block expands further than this.
const MAX_RATIO: usize = 255;

pub fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let descriptor = [VERSION | INDEPENDENT, BLOCK_64_KB];
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&descriptor);
    out.push(header_checksum(&descriptor));
    let mut table = CompressTable::default();
    for block in input.chunks(BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + get_maximum_output_size(block.len()), 0);
        let length = compress_into_with_table(block, &mut out[start + 4..], &mut table)
            .map_err(|error| error.to_string())?;
        let size = if length < block.len() {
            out.truncate(start + 4 + length);
            length as u32
        } else {
            out.truncate(start + 4);
            out.extend_from_slice(block);
            block.len() as u32 | STORED
        };
        out[start..start + 4].copy_from_slice(&size.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}

pub fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let mut rest = input;
    while !rest.is_empty() {
        rest = decompress_frame(rest, limit, out)?;
    }
    Ok(())
}

/// What a frame's descriptor says about its blocks.
struct Descriptor {
    independent: bool,
    block_checksums: bool,
    content_checksum: bool,
    block_bytes: usize,
}

fn decompress_frame<'a>(
    input: &'a [u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], DecompressError> {
    let (descriptor, mut rest) = read_descriptor(input)?;
    let frame_start = out.len();
    loop {
        let size = read_u32(&mut rest)?;
        if size == 0 {
            break;
        }
        let length = (size & !STORED) as usize;
        if length > descriptor.block_bytes {
            return Err(DecompressError::malformed(
                "an lz4 block is larger than the frame allows",
            ));
        }
        let block = take(&mut rest, length)?;
        if descriptor.block_checksums && read_u32(&mut rest)? != XxHash32::oneshot(0, block) {
            return Err(DecompressError::malformed(
                "the checksum of an lz4 block is wrong",
            ));
        }
        if size & STORED != 0 {
            if length > limit - out.len() {
                return Err(DecompressError::LimitExceeded);
            }
            out.extend_from_slice(block);
        } else {
            let window = if descriptor.independent {
                out.len()
            } else {
                frame_start.max(out.len().saturating_sub(WINDOW_BYTES))
            };
            decompress_block(block, descriptor.block_bytes, window, limit, out)?;
        }
    }
    if descriptor.content_checksum
        && read_u32(&mut rest)? != XxHash32::oneshot(0, &out[frame_start..])
    {
        return Err(DecompressError::malformed(
            "the checksum of an lz4 frame is wrong",
        ));
    }
    Ok(rest)
}

fn read_descriptor(input: &[u8]) -> Result<(Descriptor, &[u8]), DecompressError> {
    let mut rest = input;
    if take(&mut rest, 4)? != MAGIC {
        return Err(DecompressError::malformed("this is not an lz4 frame"));
    }
    let body = rest;
    let flags = take(&mut rest, 1)?[0];
    let block_code = take(&mut rest, 1)?[0];
    if flags & VERSION_MASK != VERSION || flags & DICTIONARY != 0 {
        return Err(DecompressError::malformed(
            "this kind of lz4 frame is not supported",
        ));
    }
    if flags & CONTENT_SIZE != 0 {
        take(&mut rest, 8)?;
    }
    let covered = &body[..body.len() - rest.len()];
    if take(&mut rest, 1)?[0] != header_checksum(covered) {
        return Err(DecompressError::malformed(
            "the checksum of the lz4 frame header is wrong",
        ));
    }
    let block_bytes = match block_code >> 4 & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => {
            return Err(DecompressError::malformed(
                "the block size of the lz4 frame does not exist",
            ));
        }
    };
    let descriptor = Descriptor {
        independent: flags & INDEPENDENT != 0,
        block_checksums: flags & BLOCK_CHECKSUM != 0,
        content_checksum: flags & CONTENT_CHECKSUM != 0,
        block_bytes,
    };
    Ok((descriptor, rest))
}

/// Appends one block to `out`, of which the bytes from `window` on may be referred to.
fn decompress_block(
    block: &[u8],
    block_bytes: usize,
    window: usize,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    let start = out.len();
    let largest = block_bytes.min(block.len().saturating_mul(MAX_RATIO));
    let room = largest.min(limit - start);
    out.resize(start + room, 0);
    let (before, target) = out.split_at_mut(start);
    match decompress_into_with_dict(block, target, &before[window..]) {
        Ok(length) => {
            out.truncate(start + length);
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            match error {
                BlockError::OutputTooSmall { .. } if room < largest => {
                    Err(DecompressError::LimitExceeded)
                }
                error => Err(DecompressError::malformed(error)),
            }
        }
    }
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    (XxHash32::oneshot(0, descriptor) >> 8) as u8
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], DecompressError> {
    let (taken, after) = rest
        .split_at_checked(length)
        .ok_or_else(|| DecompressError::malformed("the lz4 frame is cut short"))?;
    *rest = after;
    Ok(taken)
}

fn read_u32(rest: &mut &[u8]) -> Result<u32, DecompressError> {
    let (word, after) = rest
        .split_first_chunk::<4>()
        .ok_or_else(|| DecompressError::malformed("the lz4 frame is cut short"))?;
    *rest = after;
    Ok(u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One frame with everything that the format allows and `compress` does not write.
    fn elaborate_frame(content: &[u8]) -> Vec<u8> {
        let mut descriptor = vec![
            VERSION | INDEPENDENT | BLOCK_CHECKSUM | CONTENT_SIZE | CONTENT_CHECKSUM,
            BLOCK_64_KB,
        ];
        descriptor.extend_from_slice(&(content.len() as u64).to_le_bytes());
        let mut frame = MAGIC.to_vec();
        frame.extend_from_slice(&descriptor);
        frame.push(header_checksum(&descriptor));
        for block in content.chunks(BLOCK_BYTES) {
            frame.extend_from_slice(&(block.len() as u32 | STORED).to_le_bytes());
            frame.extend_from_slice(block);
            frame.extend_from_slice(&XxHash32::oneshot(0, block).to_le_bytes());
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&XxHash32::oneshot(0, content).to_le_bytes());
        frame
    }

    #[test]
    fn checksums_are_read_and_checked() {
        let content: Vec<u8> = (0..100_000u32)
            .map(|i| (i.wrapping_mul(i) >> 7) as u8)
            .collect();
        let frame = elaborate_frame(&content);
        let mut out = Vec::new();
        assert_eq!(decompress(&frame, content.len(), &mut out), Ok(()));
        assert!(out == content);
        for at in [0, 4, 5, 14, 50, 20 + BLOCK_BYTES, frame.len() - 1] {
            let mut changed = frame.clone();
            changed[at] ^= 2;
            out.clear();
            assert!(
                decompress(&changed, content.len(), &mut out).is_err(),
                "byte {at}"
            );
        }
    }

    #[test]
    fn frames_that_follow_each_other_are_one_payload() {
        let mut frames = elaborate_frame(b"one ");
        compress(b"two", &mut frames).unwrap();
        let mut out = Vec::new();
        assert_eq!(decompress(&frames, 7, &mut out), Ok(()));
        assert_eq!(out, b"one two");
    }
}
