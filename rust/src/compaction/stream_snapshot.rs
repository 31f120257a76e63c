//! The snapshots in the log of a stream of Redis, and which entries before one it still has.
//!
//! ```text
//! header `redis`   E or N and an id of 16 bytes: an entry      M: a mark, MessagePack
//! marks            ["snapshot", parts, names, cleans]  part  part ..      a part may be ["nodes", [row, ..]]
//! row              [first id, last id, _, _, _, offset, floor, [deleted id, ..], ..]
//! ```
//!
//! Of what lies before a snapshot stay the entries that its nodes have, and the records of other writers. The marks are
//! what Python writes in `ottla.gateways.redis.stream_records`.

use crate::batch::Batches;
use crate::batch_header::CONTROL;
use crate::batch_payload::{Opener, record_error};
use crate::error::BatchError;
use crate::record::Record;

const HEADER: &[u8] = b"redis";
const MARK: &[u8] = b"M";
const DROPPED: &[u8] = b"dropped";
const ID_BYTES: usize = 16;
const DEPTH_MAX: usize = 16;

/// A node of a snapshot: which ids its entries have, and which of them are gone.
struct Node {
    first_id: u128,
    last_id: u128,
    offset: i64,
    floor: u128,
    removed: Vec<u128>,
}

/// A snapshot all parts of which are there.
pub struct Snapshot {
    /// The offset of its first record.
    pub offset: i64,
    /// The offset behind its last record.
    pub end_offset: i64,
    begin_offset: i64,
    nodes: Vec<Node>,
}

impl Snapshot {
    /// Whether a record is of use to whoever reads the log.
    pub fn keeps(&self, record: &Record<'_>) -> bool {
        if record.offset >= self.offset || record.offset < self.begin_offset {
            return true;
        }
        match kind_of(record) {
            None => true,
            Some(MARK) => record
                .value
                .is_some_and(|value| tag_of(value) == Some(DROPPED)),
            Some(kind) => match kind[1..].try_into() {
                Ok(id) => self.has(u128::from_be_bytes(id), record.offset),
                Err(_) => true,
            },
        }
    }

    fn has(&self, id: u128, offset: i64) -> bool {
        let after = self.nodes.partition_point(|node| node.first_id <= id);
        let Some(node) = after.checked_sub(1).map(|at| &self.nodes[at]) else {
            return false;
        };
        id <= node.last_id
            && id >= node.floor
            && offset >= node.offset
            && node.removed.binary_search(&id).is_err()
    }
}

/// A snapshot that is being read.
struct Gathering {
    offset: i64,
    left: u64,
    nodes: Vec<Node>,
    is_sound: bool,
}

/// Looks for the newest snapshot of a log. One that says that the log is not worth being cleaned is passed over.
pub struct Search {
    /// The newest that was found.
    pub found: Option<Snapshot>,
    memory_bytes: usize,
    begin_offset: i64,
    gathering: Option<Gathering>,
}

impl Search {
    /// A search for snapshots whose nodes take no more than `memory_bytes`. Records below `begin_offset` are of other
    /// writers, whatever they look like.
    pub fn new(memory_bytes: usize, begin_offset: i64) -> Self {
        Search {
            found: None,
            memory_bytes,
            begin_offset,
            gathering: None,
        }
    }

    /// Looks at the whole batches of `data` that end before `end_offset`; returns the bytes they take.
    pub fn search(
        &mut self,
        data: &[u8],
        end_offset: i64,
        max_decompressed_bytes: usize,
    ) -> Result<usize, BatchError> {
        let mut batches = Batches::new(data);
        let mut consumed = 0;
        let mut opener = Opener::new(max_decompressed_bytes);
        while let Some(batch) = batches.next() {
            let batch = batch?;
            if batch.header.last_offset() >= end_offset {
                break;
            }
            opener.renew(max_decompressed_bytes);
            if !batch.header.has(CONTROL) {
                for (at, record) in opener.open(&batch)?.enumerate() {
                    self.note(&record.map_err(|malformed| record_error(&batch, at, malformed))?);
                }
            }
            consumed = batches.position();
        }
        Ok(consumed)
    }

    fn note(&mut self, record: &Record<'_>) {
        if record.offset < self.begin_offset {
            return;
        }
        match (kind_of(record), record.value) {
            (Some(MARK), Some(value)) => self.note_mark(record.offset, value),
            (None, _) => {} // of another writer, and passed over by whoever reads the stream
            _ => self.gathering = None,
        }
    }

    fn note_mark(&mut self, offset: i64, value: &[u8]) {
        if let Some((parts, cleans)) = head_of(value) {
            self.gathering = cleans.then(|| Gathering {
                offset,
                left: parts,
                nodes: Vec::new(),
                is_sound: true,
            });
            return;
        }
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        gathering.left = gathering.left.saturating_sub(1);
        if tag_of(value) == Some(b"nodes") {
            let is_read = nodes_of(value, &mut gathering.nodes).is_some();
            let held = gathering
                .nodes
                .iter()
                .map(|node| size_of::<Node>() + node.removed.len() * ID_BYTES);
            gathering.is_sound &= is_read && held.sum::<usize>() <= self.memory_bytes;
            if !gathering.is_sound {
                gathering.nodes = Vec::new();
            }
        }
        if gathering.left == 0
            && let Some(whole) = self.gathering.take()
        {
            let is_sorted = whole.nodes.is_sorted_by_key(|node| node.first_id);
            if whole.is_sound && is_sorted {
                self.found = Some(Snapshot {
                    offset: whole.offset,
                    end_offset: offset + 1,
                    begin_offset: self.begin_offset,
                    nodes: whole.nodes,
                });
            }
        }
    }
}

/// The `redis` header of a record: a mark, or an entry with its id; none for a record of another writer.
fn kind_of<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    record
        .headers
        .iter()
        .find(|(name, _)| *name == HEADER)
        .and_then(|(_, value)| value)
        .filter(|value| *value == MARK || value.len() == 1 + ID_BYTES)
}

/// The tag of a mark.
fn tag_of(value: &[u8]) -> Option<&[u8]> {
    let mut reader = MessagePack(value);
    reader.array()?;
    reader.bytes()
}

/// How many parts a snapshot has, and whether the log is to be cleaned; none for another mark.
fn head_of(value: &[u8]) -> Option<(u64, bool)> {
    let mut reader = MessagePack(value);
    if reader.array()? < 4 || reader.bytes()? != b"snapshot" {
        return None;
    }
    let parts = reader.unsigned()?;
    reader.skip(0)?;
    Some((parts, reader.byte()? == 0xc3))
}

fn nodes_of(value: &[u8], nodes: &mut Vec<Node>) -> Option<()> {
    let mut reader = MessagePack(value);
    reader.array()?;
    reader.bytes()?;
    for _ in 0..reader.array()? {
        let fields = reader.array()?;
        if fields < 8 {
            return None;
        }
        let (first_id, last_id) = (reader.id()?, reader.id()?);
        for _ in 0..3 {
            reader.skip(0)?;
        }
        let offset = i64::try_from(reader.unsigned()?).ok()?;
        let floor = reader.id()?;
        let mut removed = Vec::new();
        for _ in 0..reader.array()? {
            removed.push(reader.id()?);
        }
        removed.sort_unstable();
        for _ in 8..fields {
            reader.skip(0)?;
        }
        nodes.push(Node {
            first_id,
            last_id,
            offset,
            floor,
            removed,
        });
    }
    Some(())
}

/// Reads MessagePack; none for what is torn, or of another type.
struct MessagePack<'a>(&'a [u8]);

impl<'a> MessagePack<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        )
    }

    fn unsigned(&mut self) -> Option<u64> {
        match self.byte()? {
            small @ 0..=0x7f => Some(u64::from(small)),
            width @ 0xcc..=0xcf => self.number(1 << (width - 0xcc)),
            _ => None,
        }
    }

    fn array(&mut self) -> Option<u64> {
        match self.byte()? {
            short @ 0x90..=0x9f => Some(u64::from(short & 0xf)),
            0xdc => self.number(2),
            0xdd => self.number(4),
            _ => None,
        }
    }

    /// The bytes of a string or of binary data.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = match self.byte()? {
            short @ 0xa0..=0xbf => u64::from(short & 0x1f),
            0xc4 | 0xd9 => self.number(1)?,
            0xc5 | 0xda => self.number(2)?,
            0xc6 | 0xdb => self.number(4)?,
            _ => return None,
        };
        self.take(usize::try_from(length).ok()?)
    }

    fn id(&mut self) -> Option<u128> {
        Some(u128::from_be_bytes(self.bytes()?.try_into().ok()?))
    }

    fn skip(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (bytes, values) = match self.byte()? {
            0..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (0, 0),
            short @ 0x80..=0x8f => (0, 2 * u64::from(short & 0xf)),
            short @ 0x90..=0x9f => (0, u64::from(short & 0xf)),
            short @ 0xa0..=0xbf => (u64::from(short & 0x1f), 0),
            0xc4 | 0xd9 => (self.number(1)?, 0),
            0xc5 | 0xda => (self.number(2)?, 0),
            0xc6 | 0xdb => (self.number(4)?, 0),
            0xcc | 0xd0 => (1, 0),
            0xcd | 0xd1 => (2, 0),
            0xca | 0xce | 0xd2 => (4, 0),
            0xcb | 0xcf | 0xd3 => (8, 0),
            0xdc => (0, self.number(2)?),
            0xdd => (0, self.number(4)?),
            0xde => (0, 2 * self.number(2)?),
            0xdf => (0, 2 * self.number(4)?),
            _ => return None,
        };
        self.take(usize::try_from(bytes).ok()?)?;
        for _ in 0..values {
            self.skip(depth + 1)?;
        }
        Some(())
    }
}
