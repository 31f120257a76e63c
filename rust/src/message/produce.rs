//! A Produce request to one partition, which most are, and its answer when the batch was written: past the general codec.
//!
//! ```text
//! request   0, version, correlation_id, client_id?, [tags 9+]
//!           transactional_id null, acks, timeout_ms,
//!           1 topic: its name or, 13+, its id; 1 partition: index, records, [tags 9+] of all three
//! answer    length, correlation_id, [tags 9+], 1 topic, 1 partition: index, 0, base_offset, log_append_time_ms,
//!           [log_start_offset 5+], [no record_errors, no error_message 8+], [tags 9+] of both,
//!           throttle_time_ms 0, [tags 9+]
//! ```
//!
//! Whatever is not exactly this is left to the general codec, which also says what is wrong with it: more topics or
//! partitions, a transaction, tagged fields, acks that do not exist, no records, records that some version or some state
//! of the producer may not send.

use std::ops::Range;

use super::single::{Api, Header, Topic};
use crate::batch_header::{
    ATTRIBUTES_AT, CODEC_MASK, HEADER_BYTES, MAGIC, MAGIC_AT, TRANSACTIONAL, array,
};
use crate::codec::Codec;

pub(super) const API: Api = Api {
    key: 0,
    versions: 3..=13,
    first_flexible_version: 9,
    first_topic_id_version: 13,
};
const LOG_START_VERSION: i16 = 5;
const ZSTD_VERSION: i16 = 7;
const RECORD_ERRORS_VERSION: i16 = 8;

/// More than an answer takes beside the name of its topic.
const ANSWER_BYTES: usize = 96;

/// A request to write one batch to one partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SingleProduce<'a> {
    pub(super) header: Header<'a>,
    pub(super) acks: i16,
    pub(super) timeout_ms: i32,
    pub(super) topic: Topic<'a>,
    pub(super) partition: i32,
    /// Where in the frame the records lie.
    pub(super) records: Range<usize>,
}

/// The request that a frame without its length holds; none when that is for the general codec.
pub(super) fn parse(frame: &[u8]) -> Option<SingleProduce<'_>> {
    let (header, mut fields) = API.header(frame)?;
    let transactional_id = fields.nullable_string()?;
    let acks = fields.int16()?;
    let timeout_ms = fields.int32()?;
    fields.count(1)?;
    let topic = fields.topic()?;
    fields.count(1)?;
    let partition = fields.int32()?;
    let (records, start) = fields.bytes()?;
    for _ in ["partition", "topic", "request"] {
        fields.no_tagged_fields()?;
    }
    fields.end()?;
    let is_plain = transactional_id.is_none()
        && (-1..=1).contains(&acks)
        && is_plain_batch(records, header.version);
    is_plain.then_some(SingleProduce {
        header,
        acks,
        timeout_ms,
        topic,
        partition,
        records: start..start + records.len(),
    })
}

/// Whether these may be the records of whoever sends this version; more is found out when they are checked.
fn is_plain_batch(records: &[u8], version: i16) -> bool {
    if records.len() < HEADER_BYTES || records[MAGIC_AT] != MAGIC as u8 {
        return false;
    }
    let attributes = i16::from_be_bytes(array(records, ATTRIBUTES_AT));
    attributes & TRANSACTIONAL == 0
        && (version >= ZSTD_VERSION || attributes & CODEC_MASK != Codec::Zstd.id())
}

/// Where a batch was written, as the answer tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) base_offset: i64,
    pub(super) log_append_time_ms: i64,
    pub(super) log_start_offset: i64,
}

/// The frame, with its length, that says where the batch of a request was written.
pub(super) fn answer(
    version: i16,
    correlation_id: i32,
    topic: Topic<'_>,
    partition: i32,
    written: Written,
) -> Vec<u8> {
    let mut out = API.answer(version, correlation_id, ANSWER_BYTES + topic.size());
    out.length(1);
    out.topic(topic);
    out.length(1);
    out.put(&partition.to_be_bytes());
    out.put(&0_i16.to_be_bytes());
    out.put(&written.base_offset.to_be_bytes());
    out.put(&written.log_append_time_ms.to_be_bytes());
    if version >= LOG_START_VERSION {
        out.put(&written.log_start_offset.to_be_bytes());
    }
    if version >= RECORD_ERRORS_VERSION {
        out.length(0);
        out.null(size_of::<i16>());
    }
    out.no_tagged_fields();
    out.no_tagged_fields();
    out.put(&0_i32.to_be_bytes());
    out.no_tagged_fields();
    out.close(0).expect("an answer is small");
    out.bytes
}

#[cfg(test)]
mod tests {
    use super::super::wire::put_unsigned_varint;
    use super::*;
    use proptest::prelude::*;

    /// A request of version 9 to partition 2 of `t`, of the client `c`, with `records`.
    fn request(records: &[u8]) -> Vec<u8> {
        let mut frame = vec![
            0, 0, 0, 9, 0, 0, 0, 7, 0, 1, b'c', 0, 0, 0xff, 0xff, 0, 0, 0, 5,
        ];
        frame.extend_from_slice(&[2, 2, b't', 2, 0, 0, 0, 2]);
        put_unsigned_varint(&mut frame, records.len() as u32 + 1);
        frame.extend_from_slice(records);
        frame.extend_from_slice(&[0, 0, 0]);
        frame
    }

    fn records(attributes: i16) -> Vec<u8> {
        let mut batch = vec![0; HEADER_BYTES];
        batch[MAGIC_AT] = MAGIC as u8;
        batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
        batch
    }

    #[test]
    fn a_request_to_one_partition_is_read() {
        let frame = request(&records(0));
        let expected = SingleProduce {
            header: Header {
                version: 9,
                correlation_id: 7,
                client_id: Some("c"),
            },
            acks: -1,
            timeout_ms: 5,
            topic: Topic::Name("t"),
            partition: 2,
            records: 28..28 + HEADER_BYTES,
        };
        assert_eq!(parse(&frame), Some(expected));
    }

    #[test]
    fn what_is_more_or_less_than_that_is_left_to_others() {
        let plain = request(&records(0));
        for end in 0..plain.len() {
            assert_eq!(parse(&plain[..end]), None, "cut at {end}");
        }
        let longer: Vec<u8> = plain.iter().copied().chain([0]).collect();
        assert_eq!(parse(&longer), None);
        assert_eq!(parse(&request(&records(TRANSACTIONAL))), None);
        assert_eq!(parse(&request(&records(0)[1..])), None);
    }

    #[test]
    fn versions_before_zstd_leave_it_to_others() {
        let zstd = records(Codec::Zstd.id());
        assert!(is_plain_batch(&zstd, ZSTD_VERSION));
        assert!(!is_plain_batch(&zstd, ZSTD_VERSION - 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_left_to_others(bytes: Vec<u8>, version in 0_u8..16) {
            let mut frame = vec![0, 0, 0, version];
            frame.extend_from_slice(&bytes);
            if let Some(found) = parse(&frame) {
                prop_assert!(found.records.end <= frame.len());
            }
        }

        #[test]
        fn a_byte_that_changed_never_moves_the_records_out_of_the_frame(at in 0_usize..92, to: u8) {
            let mut frame = request(&records(0));
            let at = at % frame.len();
            frame[at] = to;
            if let Some(found) = parse(&frame) {
                prop_assert!(found.records.end <= frame.len());
            }
        }
    }
}
