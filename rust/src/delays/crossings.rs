//! Cancellations that lie before what they cancel: a time of a schedule may have been written by a broker that had not
//! read the cancellation. Who reads the log again from in between would not know that it is cancelled.
//!
//! ```text
//! offset   100 begins a schedule    200 cancels it    300 was written in its place by a broker that had not read 200
//! ```

/// So many are told apart; with more the oldest count as one.
const MAX: usize = 1_024;

/// Pairs of a cancellation and the record behind it; both grow.
#[derive(Default)]
pub struct Crossings(Vec<(i64, i64)>);

impl Crossings {
    /// A record that lies behind all others here is cancelled by what lies at `cancel`.
    pub fn add(&mut self, cancel: i64, record: i64) {
        // Who reads an earlier record reads this one too, and needs the earlier cancellation of both.
        while self.0.last().is_some_and(|(last, _)| *last >= cancel) {
            self.0.pop();
        }
        self.0.push((cancel, record));
        if self.0.len() > MAX {
            let (oldest, _) = self.0.remove(0);
            self.0[0].0 = oldest;
        }
    }

    /// From where on cancellations are needed by who reads from `start` on.
    pub fn cancels_from(&self, start: i64) -> i64 {
        let at = self.0.partition_point(|(_, record)| *record < start);
        self.0
            .get(at)
            .map_or(start, |(cancel, _)| start.min(*cancel))
    }

    /// At or before `start`, from where on the log has to be read so that all cancellations are read that are needed.
    pub fn read_from(&self, start: i64) -> i64 {
        let mut from = start;
        loop {
            let needed = self.cancels_from(from);
            if needed == from {
                return from;
            }
            from = needed;
        }
    }

    /// Records before `end` are not read again.
    pub fn drop_before(&mut self, end: i64) {
        let at = self.0.partition_point(|(_, record)| *record < end);
        self.0.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use super::{Crossings, MAX};

    #[test]
    fn the_log_is_read_from_the_first_cancellation_of_what_is_read() {
        let mut crossings = Crossings::default();
        assert_eq!(crossings.read_from(7), 7);
        crossings.add(10, 15);
        crossings.add(14, 30);
        assert_eq!(crossings.read_from(31), 31);
        assert_eq!(crossings.cancels_from(20), 14);
        assert_eq!(
            crossings.read_from(20),
            10,
            "14 has 15 read, which needs 10"
        );
        crossings.drop_before(16);
        assert_eq!(crossings.read_from(20), 14);
        crossings.add(12, 40);
        assert_eq!(crossings.cancels_from(25), 12);
    }

    #[test]
    fn there_is_a_limit_beyond_which_more_is_read() {
        let mut crossings = Crossings::default();
        for number in 0..3 * MAX as i64 {
            crossings.add(10 * number, 10 * number + 5);
        }
        assert_eq!(crossings.0.len(), MAX);
        assert_eq!(crossings.cancels_from(1), 0);
        assert_eq!(
            crossings.read_from(30 * MAX as i64 - 5),
            30 * MAX as i64 - 10
        );
    }
}
