//! Which batches belong to aborted transactions, and which markers have nothing left to mark.
//!
//! Both follow from reading a log in order, with the list of its aborted transactions at hand: a marker may go once no
//! batch of its transaction was seen before it. Source: `CleanedTransactionMetadata` of Apache Kafka's log cleaner.

use crate::batch_header::{BatchHeader, TRANSACTIONAL, array};
use std::collections::{HashMap, HashSet, VecDeque};

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// An aborted transaction, as the transaction index has it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Aborted {
    pub producer_id: i64,
    pub first_offset: i64,
}

/// What was learned of transactions on the way through a log.
pub struct Transactions {
    /// Those that are still ahead, by their first offset, with their place in the list they came in.
    ahead: VecDeque<(usize, Aborted)>,
    aborting: HashMap<i64, (usize, bool)>,
    committing: HashSet<i64>,
    /// The places of the aborted transactions of which something is left.
    pub kept: Vec<usize>,
}

impl Transactions {
    /// Reads from the start of the log; `aborted` are the aborted transactions in it.
    pub fn new(aborted: impl IntoIterator<Item = Aborted>) -> Self {
        let mut ahead: Vec<_> = aborted.into_iter().enumerate().collect();
        ahead.sort_by_key(|(_, each)| each.first_offset);
        Transactions {
            ahead: ahead.into(),
            aborting: HashMap::new(),
            committing: HashSet::new(),
            kept: Vec::new(),
        }
    }

    /// The next batch holds data: whether it belongs to an aborted transaction.
    pub fn is_aborted(&mut self, header: &BatchHeader) -> bool {
        self.reach(header.last_offset());
        if !header.has(TRANSACTIONAL) {
            return false;
        }
        match self.aborting.get_mut(&header.producer_id) {
            Some((_, has_batches)) => {
                *has_batches = true;
                true
            }
            None => {
                self.committing.insert(header.producer_id);
                false
            }
        }
    }

    /// The next batch is a marker, whose record has `key`, or nothing is left in it: whether nothing is left that it marks.
    pub fn marks_nothing(&mut self, header: &BatchHeader, key: Option<&[u8]>) -> bool {
        self.reach(header.last_offset());
        let Some(key) = key else { return true };
        if key.len() < 4 {
            return false;
        }
        match i16::from_be_bytes(array(key, 2)) {
            ABORT => match self.aborting.remove(&header.producer_id) {
                Some((place, true)) => {
                    self.kept.push(place);
                    false
                }
                _ => true,
            },
            COMMIT => !self.committing.remove(&header.producer_id),
            _ => false,
        }
    }

    fn reach(&mut self, offset: i64) {
        while let Some((place, next)) = self.ahead.front().copied() {
            if next.first_offset > offset {
                break;
            }
            self.ahead.pop_front();
            self.aborting.insert(next.producer_id, (place, false));
        }
    }
}
