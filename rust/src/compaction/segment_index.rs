//! The indexes of a segment that is written batch by batch, as `SegmentIndexer` makes them for one that grows.
//!
//! ```text
//! .index      relative offset int32 | position int32      the last offset of a batch, and where it lies
//! .timeindex  timestamp int64 | relative offset int32     the greatest timestamp so far, and its batch's last offset
//! ```

/// Both indexes, and what the next entry depends on.
pub struct SegmentIndex {
    base_offset: i64,
    interval_bytes: u64,
    bytes_since_entry: u64,
    position: u64,
    largest: (i64, i64),
    entered: i64,
    /// The offset index.
    pub offsets: Vec<u8>,
    /// The time index.
    pub times: Vec<u8>,
}

impl SegmentIndex {
    /// The indexes of an empty segment: an entry comes before the first batch after more than `interval_bytes` without.
    pub fn new(base_offset: i64, interval_bytes: u64) -> Self {
        SegmentIndex {
            base_offset,
            interval_bytes,
            bytes_since_entry: 0,
            position: 0,
            largest: (-1, base_offset),
            entered: -1,
            offsets: Vec::new(),
            times: Vec::new(),
        }
    }

    /// A batch of `size` bytes follows that ends at `last_offset`.
    pub fn add(&mut self, size: usize, last_offset: i64, max_timestamp: i64) {
        if max_timestamp > self.largest.0 {
            self.largest = (max_timestamp, last_offset);
        }
        if self.bytes_since_entry > self.interval_bytes {
            let relative = (last_offset - self.base_offset) as u32;
            self.offsets.extend_from_slice(&relative.to_be_bytes());
            self.offsets
                .extend_from_slice(&(self.position as u32).to_be_bytes());
            self.complete();
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += size as u64;
        self.position += size as u64;
    }

    /// Enters the greatest timestamp so far, if it is not there.
    pub fn complete(&mut self) {
        let (timestamp, offset) = self.largest;
        if timestamp > self.entered {
            self.entered = timestamp;
            let relative = (offset - self.base_offset) as u32;
            self.times.extend_from_slice(&timestamp.to_be_bytes());
            self.times.extend_from_slice(&relative.to_be_bytes());
        }
    }

    /// The greatest timestamp and the last offset of its batch; (-1, base offset) without.
    pub fn largest_timestamp(&self) -> (i64, i64) {
        self.largest
    }
}
