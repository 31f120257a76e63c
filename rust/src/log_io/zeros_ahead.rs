//! Zeros written ahead of a log's end, so that the next small appends only overwrite what the file has.
//!
//! ```text
//! [ batch ][ batch ][ batch ]0000000000000000000000000000
//!                           ^ end                        ^ the size of the file
//! ```
//!
//! To sync bytes that made a file grow, a journalling file system commits its journal, and with it whatever else waits to
//! be committed; to sync bytes that were overwritten it writes these bytes. The zeros are no part of the log: nobody
//! counts, reads or sends them, they are cut off when the file is closed, and recovery takes them for the end.
//!
//! They cost a write of their own, so large appends have none; and a file has no more of them than bytes that were
//! appended to it, so that thousands of logs with little in them take no more room than before.

/// How many there are at most, and the source of all.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
/// Less is not worth a write.
const LEAST: u64 = 64 << 10;
/// An append is small when so many of it fit the zeros.
const SMALL_SHARE: u64 = 8;

/// How far one file is filled with zeros.
pub struct ZerosAhead {
    max: u64,
    /// Where the log ends, as far as it was written here.
    end: u64,
    /// Where the file ends; never before the log.
    filled: u64,
    /// Bytes of the log that were written here.
    appended: u64,
}

impl ZerosAhead {
    /// Of a file that is to have `max` of them at most.
    pub fn new(max: u64) -> Self {
        ZerosAhead {
            max: max.min(ZEROS.len() as u64),
            end: 0,
            filled: 0,
            appended: 0,
        }
    }

    /// What is to be written behind an append of `size` bytes at `position`.
    pub fn wanted(&self, position: u64, size: u64) -> &'static [u8] {
        let count = self.max.min(self.appended);
        if position + size <= self.filled || count < LEAST || size > count / SMALL_SHARE {
            return &[];
        }
        &ZEROS[..count as usize]
    }

    /// `size` bytes were appended at `position`, and `zeros` behind them.
    pub fn written(&mut self, position: u64, size: u64, zeros: u64) {
        self.appended += size;
        self.end = self.end.max(position + size);
        self.filled = self.filled.max(position + size + zeros);
    }

    /// Where the file is to be cut, if there are zeros behind the log.
    pub fn cut(&self) -> Option<u64> {
        (self.filled > self.end).then_some(self.end)
    }

    /// It was cut there.
    pub fn cut_off(&mut self) {
        self.filled = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(zeros: &mut ZerosAhead, size: u64) -> usize {
        let position = zeros.end;
        let wanted = zeros.wanted(position, size).len();
        zeros.written(position, size, wanted as u64);
        wanted
    }

    #[test]
    fn there_are_never_more_than_was_appended_and_none_for_large_appends() {
        let mut zeros = ZerosAhead::new(256 << 10);
        let mut appended = 0;
        let mut fills = Vec::new();
        while appended < 2 << 20 {
            let wanted = append(&mut zeros, 1000) as u64;
            assert!(wanted <= appended, "{wanted} after {appended}");
            appended += 1000;
            fills.extend((wanted > 0).then_some(wanted));
        }
        assert!(fills.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(fills.last(), Some(&(256 << 10)));
        let filled = zeros.filled;
        assert_eq!(append(&mut zeros, 1 << 20), 0);
        assert!(zeros.filled > filled);
        assert_eq!(zeros.cut(), None);
    }

    #[test]
    fn what_was_filled_is_used_up_before_more_is() {
        let mut zeros = ZerosAhead::new(64 << 10);
        append(&mut zeros, 100_000);
        assert_eq!(append(&mut zeros, 1000), 64 << 10);
        for _ in 0..65 {
            assert_eq!(append(&mut zeros, 1000), 0);
        }
        assert_eq!(zeros.cut(), Some(100_000 + 66_000));
        assert_eq!(append(&mut zeros, 1000), 64 << 10);
    }

    #[test]
    fn a_file_that_is_to_have_none_has_none() {
        let mut zeros = ZerosAhead::new(0);
        append(&mut zeros, 1 << 30);
        assert_eq!(append(&mut zeros, 1), 0);
        assert_eq!(zeros.cut(), None);
    }
}
