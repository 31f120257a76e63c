//! A bucket file: records that wait, in the order in which they are due.
//!
//! ```text
//! block...                                    | index              | cancels        | trailer
//! entries, of at least BLOCK_BYTES            | BlockInfo of each  | hash and places| counts, checksum, magic
//! ```
//!
//! Each block has a checksum in the index, and the trailer one of all that follows the blocks.

use crate::checksum::crc32c_of;
use crate::delays::cancels::Cancel;
use crate::delays::entry::{Due, entry_at};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A block is closed when it has so many bytes.
pub const BLOCK_BYTES: usize = 128 << 10;

const MAGIC: &[u8; 8] = b"OTLBCKT1";
const BLOCK_INFO_BYTES: usize = 40;
const CANCEL_BYTES: usize = 24;
const TRAILER_BYTES: usize = 40;

/// Where a block lies and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// The first entry.
    pub first: Due,
    /// The smallest offset.
    pub oldest: i64,
    position: u64,
    length: u32,
    checksum: u32,
}

fn corrupt(path: &Path, what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}: {what}", path.display()),
    )
}

/// Writes a file, in order.
pub struct BucketWriter {
    path: PathBuf,
    file: File,
    block: Vec<u8>,
    first: Due,
    oldest: i64,
    index: Vec<BlockInfo>,
    position: u64,
    entries: u64,
}

impl BucketWriter {
    /// Begin a file, in the place of one of that name.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(BucketWriter {
            path: path.to_owned(),
            file: File::create(path)?,
            block: Vec::with_capacity(BLOCK_BYTES + 4096),
            first: (0, 0),
            oldest: i64::MAX,
            index: Vec::new(),
            position: 0,
            entries: 0,
        })
    }

    /// The bytes so far.
    pub fn size(&self) -> u64 {
        self.position + self.block.len() as u64
    }

    /// Add the next entry.
    pub fn put(&mut self, due: Due, bytes: &[u8]) -> io::Result<()> {
        if self.block.is_empty() {
            self.first = due;
        }
        self.oldest = self.oldest.min(due.1);
        self.block.extend_from_slice(bytes);
        self.entries += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(self.block.len())
            .map_err(|_| corrupt(&self.path, "a block is too large"))?;
        self.file.write_all(&self.block)?;
        self.index.push(BlockInfo {
            first: self.first,
            oldest: self.oldest,
            position: self.position,
            length,
            checksum: crc32c_of(&self.block),
        });
        self.position += u64::from(length);
        self.oldest = i64::MAX;
        self.block.clear();
        Ok(())
    }

    /// Write what is left and have it on the disk.
    pub fn finish(mut self, cancels: &[Cancel]) -> io::Result<PathBuf> {
        self.end_block()?;
        let mut end = Vec::with_capacity(
            self.index.len() * BLOCK_INFO_BYTES + cancels.len() * CANCEL_BYTES + TRAILER_BYTES,
        );
        for block in &self.index {
            for number in [block.first.0, block.first.1, block.oldest] {
                end.extend_from_slice(&number.to_le_bytes());
            }
            end.extend_from_slice(&block.position.to_le_bytes());
            end.extend_from_slice(&block.length.to_le_bytes());
            end.extend_from_slice(&block.checksum.to_le_bytes());
        }
        for (key_hash, place, offset) in cancels {
            end.extend_from_slice(&key_hash.to_le_bytes());
            end.extend_from_slice(&place.to_le_bytes());
            end.extend_from_slice(&offset.to_le_bytes());
        }
        end.extend_from_slice(&(self.index.len() as u64).to_le_bytes());
        end.extend_from_slice(&(cancels.len() as u64).to_le_bytes());
        end.extend_from_slice(&self.entries.to_le_bytes());
        let checksum = u64::from(crc32c_of(&end));
        end.extend_from_slice(&checksum.to_le_bytes());
        end.extend_from_slice(MAGIC);
        self.file.write_all(&end)?;
        self.file.sync_data()?;
        Ok(self.path)
    }
}

/// A file to be read. It is open only while it is read.
pub struct Bucket {
    /// Where it is.
    pub path: PathBuf,
    /// Its blocks, in order.
    pub index: Vec<BlockInfo>,
    /// The entries that it was written with.
    pub entries: u64,
    /// The bytes of all blocks.
    pub bytes: u64,
    /// For each block the smallest offset of it and of those after it.
    pub oldest_from: Vec<i64>,
    /// The cancellations that were read with the records; they may be forgotten.
    pub cancels: Vec<Cancel>,
    /// Whether the file has cancellations.
    pub has_cancels: bool,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut found = [0; 8];
    found.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(found)
}

impl Bucket {
    /// Read what a file has besides its blocks. InvalidData for one that is damaged.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        if size < TRAILER_BYTES as u64 {
            return Err(corrupt(path, "it is too short for a bucket file"));
        }
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, size - TRAILER_BYTES as u64)?;
        let (blocks, cancels) = (number(&trailer, 0), number(&trailer, 8));
        let end = blocks
            .checked_mul(BLOCK_INFO_BYTES as u64)
            .zip(cancels.checked_mul(CANCEL_BYTES as u64))
            .and_then(|(blocks, cancels)| blocks.checked_add(cancels))
            .filter(|end| *end <= size - TRAILER_BYTES as u64);
        let Some(end) = end.filter(|_| trailer[32..] == MAGIC[..]) else {
            return Err(corrupt(path, "it does not end as a bucket file does"));
        };
        let bytes = size - TRAILER_BYTES as u64 - end;
        let mut found = vec![0; end as usize];
        file.read_exact_at(&mut found, bytes)?;
        let at_cancels = blocks as usize * BLOCK_INFO_BYTES;
        found.extend_from_slice(&trailer[..24]);
        if u64::from(crc32c_of(&found)) != number(&trailer, 24) {
            return Err(corrupt(path, "the checksum of its index is wrong"));
        }
        let index: Vec<BlockInfo> = found[..at_cancels]
            .chunks_exact(BLOCK_INFO_BYTES)
            .map(|each| BlockInfo {
                first: (number(each, 0) as i64, number(each, 8) as i64),
                oldest: number(each, 16) as i64,
                position: number(each, 24),
                length: number(each, 32) as u32,
                checksum: (number(each, 32) >> 32) as u32,
            })
            .collect();
        let cancels: Vec<Cancel> = found[at_cancels..end as usize]
            .chunks_exact(CANCEL_BYTES)
            .map(|each| {
                (
                    number(each, 0),
                    number(each, 8) as i64,
                    number(each, 16) as i64,
                )
            })
            .collect();
        let mut oldest_from: Vec<i64> = index.iter().map(|block| block.oldest).collect();
        for at in (1..oldest_from.len()).rev() {
            oldest_from[at - 1] = oldest_from[at - 1].min(oldest_from[at]);
        }
        Ok(Bucket {
            path: path.to_owned(),
            index,
            entries: number(&trailer, 16),
            bytes,
            oldest_from,
            has_cancels: !cancels.is_empty(),
            cancels,
        })
    }

    /// Read a block into `out`. InvalidData for one that is damaged.
    pub fn read(&self, file: &File, block: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let info = &self.index[block];
        out.resize(info.length as usize, 0);
        file.read_exact_at(out, info.position)?;
        if crc32c_of(out) != info.checksum {
            return Err(corrupt(&self.path, "the checksum of a block is wrong"));
        }
        if entry_at(out).is_none_or(|entry| entry.due != info.first) {
            return Err(corrupt(
                &self.path,
                "a block does not begin as its index says",
            ));
        }
        Ok(())
    }
}
