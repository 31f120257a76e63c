//! Where the time of appends goes, counted in few fixed buckets: always on, at the price of a few clock readings a group.
//!
//! ```text
//! submit ...... the thread looks ...... written ...... synced ...... the event loop fetches it
//!        queue                   write          sync          fetch
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many buckets a histogram has.
pub const BUCKETS: usize = 16;

/// Counts by powers of two.
///
/// ```text
/// smallest_bits = 6     [0, 64) [64, 128) [128, 256) ... [524288, 1048576) [1048576, ...)
/// ```
pub struct Histogram {
    /// The first bucket holds what has at most so many bits.
    smallest_bits: u32,
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// What a histogram holds: the upper bounds of all buckets but the last, the counts, and the sum of all values.
pub type Reading = (Vec<u64>, Vec<u64>, u64);

impl Histogram {
    fn new(smallest_bits: u32) -> Self {
        Histogram {
            smallest_bits,
            counts: Default::default(),
            sum: AtomicU64::new(0),
        }
    }

    /// Count a value.
    pub fn record(&self, value: u64) {
        let bits = u64::BITS - value.leading_zeros();
        let bucket = bits.saturating_sub(self.smallest_bits) as usize;
        self.counts[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Count a time in microseconds.
    pub fn record_time(&self, time: Duration) {
        self.record(time.as_micros() as u64);
    }

    /// What was counted so far.
    pub fn read(&self) -> Reading {
        let bounds = (0..BUCKETS as u32 - 1).map(|bucket| 1 << (self.smallest_bits + bucket));
        let counts = self.counts.iter().map(|each| each.load(Ordering::Relaxed));
        (
            bounds.collect(),
            counts.collect(),
            self.sum.load(Ordering::Relaxed),
        )
    }
}

/// The histograms of one log directory; times in microseconds, one value a group.
pub struct Trace {
    /// From the first submission of a group to the moment the thread takes it.
    pub queue: Histogram,
    /// To write all of a group.
    pub write: Histogram,
    /// To sync the files of a group that has any to sync.
    pub sync: Histogram,
    /// From the first completion to the moment the event loop fetches it.
    pub fetch: Histogram,
    /// Appends of a group.
    pub appends: Histogram,
    /// Bytes of a group.
    pub bytes: Histogram,
    /// Files of a group that are synced.
    pub files: Histogram,
}

impl Trace {
    /// Nothing counted.
    pub fn new() -> Self {
        Trace {
            queue: Histogram::new(6),
            write: Histogram::new(6),
            sync: Histogram::new(6),
            fetch: Histogram::new(6),
            appends: Histogram::new(1),
            bytes: Histogram::new(8),
            files: Histogram::new(1),
        }
    }

    /// All histograms by name.
    pub fn read(&self) -> Vec<(&'static str, Reading)> {
        vec![
            ("queue_us", self.queue.read()),
            ("write_us", self.write.read()),
            ("sync_us", self.sync.read()),
            ("fetch_us", self.fetch.read()),
            ("appends", self.appends.read()),
            ("bytes", self.bytes.read()),
            ("files", self.files.read()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_in_the_bucket_whose_bounds_hold_it() {
        for value in [
            0,
            1,
            63,
            64,
            127,
            128,
            (1 << 20) - 1,
            1 << 20,
            1 << 40,
            u64::MAX >> 1,
        ] {
            let histogram = Histogram::new(6);
            histogram.record(value);
            let (bounds, counts, sum) = histogram.read();
            let bucket = counts.iter().position(|&count| count == 1).unwrap();
            assert_eq!(sum, value);
            assert_eq!((bounds.len(), counts.len()), (BUCKETS - 1, BUCKETS));
            assert!(bucket == BUCKETS - 1 || value < bounds[bucket], "{value}");
            assert!(bucket == 0 || value >= bounds[bucket - 1], "{value}");
        }
    }
}
