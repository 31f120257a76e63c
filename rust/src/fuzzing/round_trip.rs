//! Records that the bytes describe, built into a batch in any codec: they are read as they were given.
//!
//! ```text
//! codec, 1 byte | record...
//! record: what, 1 byte (bit 0 key, bit 1 value, bits 2-3 headers, bit 4 a wide timestamp) | gap, 1 byte
//!         timestamp, 1 or 8 bytes | for each part: length, 1 byte | bytes
//! ```

use crate::batch::Batches;
use crate::batch_builder::{BatchBuilder, BatchFields};
use crate::batch_payload::Opener;
use crate::batch_run::{ProducerRules, validate};
use crate::codec::Codec;
use crate::record::HeaderRef;

struct Given<'a> {
    offset_delta: i32,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Vec<HeaderRef<'a>>,
}

/// See the top of the file.
pub fn check(data: &[u8]) {
    let Some((&id, mut rest)) = data.split_first() else {
        return;
    };
    let codec = Codec::from_id(i16::from(id % 5)).unwrap();
    let mut given: Vec<Given<'_>> = Vec::new();
    let mut builder = BatchBuilder::new(0);
    let mut last_delta = -1;
    while let Some(record) = next_record(&mut rest, last_delta) {
        let appended = builder.append_at(
            record.offset_delta,
            record.timestamp,
            record.key,
            record.value,
            &record.headers,
        );
        match appended {
            Ok(()) => {
                last_delta = record.offset_delta;
                given.push(record);
            }
            Err(what) => {
                let first = given
                    .first()
                    .map_or(record.timestamp, |first| first.timestamp);
                assert!(record.timestamp.checked_sub(first).is_none(), "{what}");
            }
        }
    }
    if given.is_empty() {
        return;
    }
    let batch = builder
        .finish(BatchFields::of_records(codec, None))
        .unwrap();
    is_read_as_given(&batch, &given);
    let rules = ProducerRules {
        max_batch_bytes: 0,
        allow_control: false,
    };
    let has_gaps = last_delta as usize + 1 != given.len();
    assert_eq!(validate(&batch, rules).is_err(), has_gaps);
}

fn is_read_as_given(batch: &[u8], given: &[Given<'_>]) {
    let batch = Batches::new(batch).next().unwrap().unwrap();
    let mut opener = Opener::new(1 << 24);
    let records: Vec<_> = opener.open(&batch).unwrap().map(Result::unwrap).collect();
    assert_eq!(records.len(), given.len());
    for (record, given) in records.iter().zip(given) {
        assert_eq!(record.offset, i64::from(given.offset_delta));
        assert_eq!(record.timestamp, given.timestamp);
        assert_eq!((record.key, record.value), (given.key, given.value));
        assert_eq!(record.headers.iter().collect::<Vec<_>>(), given.headers);
    }
    let latest = given.iter().map(|given| given.timestamp).max();
    assert_eq!(Some(batch.header.max_timestamp), latest);
}

fn next_record<'a>(rest: &mut &'a [u8], last_delta: i32) -> Option<Given<'a>> {
    let &[what, gap] = take(rest, 2)? else {
        return None;
    };
    let timestamp = if what & 16 != 0 {
        i64::from_be_bytes(take(rest, 8)?.try_into().ok()?)
    } else {
        i64::from(take(rest, 1)?[0])
    };
    let mut part = |is_there: bool| -> Option<Option<&'a [u8]>> {
        if !is_there {
            return Some(None);
        }
        let length = usize::from(take(rest, 1)?[0]);
        take(rest, length).map(Some)
    };
    let key = part(what & 1 != 0)?;
    let value = part(what & 2 != 0)?;
    let mut headers = Vec::new();
    for index in 0..what >> 2 & 3 {
        headers.push((part(true)??, part(index != 1)?));
    }
    Some(Given {
        // Most batches have no gaps.
        offset_delta: last_delta + 1 + i32::from(gap.saturating_sub(250)),
        timestamp,
        key,
        value,
        headers,
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}
