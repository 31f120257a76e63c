//! Looking up aborted transactions in the bytes of a transaction index.
//!
//! ```text
//! 34 bytes an entry: version int16 (0) | producer id int64 | first offset int64 | last offset int64 | last stable offset int64
//! ```
//!
//! The last offset is that of the marker, so entries are sorted by it. Source: `TransactionIndex` of Apache Kafka.

use crate::batch_header::array;
use crate::buffer::ByteView;
use pyo3::prelude::*;

const ENTRY_BYTES: usize = 34;
const PRODUCER_ID_AT: usize = 2;
const FIRST_OFFSET_AT: usize = 10;
const LAST_OFFSET_AT: usize = 18;
const STABLE_OFFSET_AT: usize = 26;

fn number(entry: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array(entry, at))
}

/// Producer id and first offset of each transaction that has records in the range, in the order of the markers, and
/// whether those of later segments cannot have any.
fn aborted_between(index: &[u8], start_offset: i64, end_offset: i64) -> (Vec<(i64, i64)>, bool) {
    let count = index.len() / ENTRY_BYTES;
    let entry = |place: usize| &index[place * ENTRY_BYTES..(place + 1) * ENTRY_BYTES];
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if number(entry(middle), LAST_OFFSET_AT) < start_offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut found = Vec::new();
    for each in (low..count).map(entry) {
        let first_offset = number(each, FIRST_OFFSET_AT);
        if first_offset < end_offset {
            found.push((number(each, PRODUCER_ID_AT), first_offset));
        }
        // What was undecided when this one ended began no earlier: nobody later has records before it.
        if number(each, STABLE_OFFSET_AT) >= end_offset {
            return (found, true);
        }
    }
    (found, false)
}

#[pyfunction]
#[pyo3(name = "aborted_between", signature = (index, start_offset, end_offset, /))]
fn aborted_between_py(
    index: ByteView<'_>,
    start_offset: i64,
    end_offset: i64,
) -> (Vec<(i64, i64)>, bool) {
    aborted_between(index.as_slice(), start_offset, end_offset)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(aborted_between_py, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(producer_id: i64, first: i64, last: i64, stable: i64) -> Vec<u8> {
        let mut bytes = vec![0, 0];
        for each in [producer_id, first, last, stable] {
            bytes.extend_from_slice(&each.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn overlapping_transactions_are_found_until_nothing_later_can_overlap() {
        let index = [
            entry(1, 0, 10, 3),
            entry(2, 12, 20, 3),
            entry(3, 3, 30, 31),
            entry(4, 40, 50, 51),
        ]
        .concat();
        assert_eq!(
            aborted_between(&index, 11, 15),
            (vec![(2, 12), (3, 3)], true)
        );
        assert_eq!(aborted_between(&index, 31, 40), (vec![], true));
        assert_eq!(aborted_between(&index, 31, 60), (vec![(4, 40)], false));
        assert_eq!(aborted_between(&index, 60, 70), (vec![], false));
        assert_eq!(aborted_between(&[], 0, 1), (vec![], false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            index in proptest::collection::vec(any::<u8>(), 0..200),
            start in any::<i64>(),
            end in any::<i64>(),
        ) {
            let (found, _) = aborted_between(&index, start, end);
            prop_assert!(found.len() <= index.len() / ENTRY_BYTES);
        }
    }
}
