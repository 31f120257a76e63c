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

use super::wire::{Reader, STRING_BYTES_MAX, put_unsigned_varint};
use crate::batch_header::{
    ATTRIBUTES_AT, CODEC_MASK, HEADER_BYTES, MAGIC, MAGIC_AT, TRANSACTIONAL, array,
};
use crate::codec::Codec;

/// The key of the API.
pub(super) const API_KEY: i16 = 0;

const FIRST_VERSION: i16 = 3;
const LAST_VERSION: i16 = 13;
const LOG_START_VERSION: i16 = 5;
const ZSTD_VERSION: i16 = 7;
const RECORD_ERRORS_VERSION: i16 = 8;
const FLEXIBLE_VERSION: i16 = 9;
const TOPIC_ID_VERSION: i16 = 13;

/// More than an answer takes beside the name of its topic.
const ANSWER_BYTES: usize = 96;

/// How a request names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic<'a> {
    Name(&'a str),
    Id([u8; 16]),
}

/// A request to write one batch to one partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SingleProduce<'a> {
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) client_id: Option<&'a str>,
    pub(super) acks: i16,
    pub(super) timeout_ms: i32,
    pub(super) topic: Topic<'a>,
    pub(super) partition: i32,
    /// Where in the frame the records lie.
    pub(super) records: Range<usize>,
}

/// The request that a frame without its length holds; none when that is for the general codec.
pub(super) fn parse(frame: &[u8]) -> Option<SingleProduce<'_>> {
    if !frame.starts_with(&API_KEY.to_be_bytes()) {
        return None;
    }
    let mut reader = Reader::new(frame, size_of_val(&API_KEY));
    let version = int16(&mut reader)?;
    if !(FIRST_VERSION..=LAST_VERSION).contains(&version) {
        return None;
    }
    let flexible = version >= FLEXIBLE_VERSION;
    let correlation_id = int32(&mut reader)?;
    let client_id = nullable_string(&mut reader, false)?;
    no_tagged_fields(&mut reader, flexible)?;
    let transactional_id = nullable_string(&mut reader, flexible)?;
    let acks = int16(&mut reader)?;
    let timeout_ms = int32(&mut reader)?;
    only_one(&mut reader, flexible)?;
    let topic = if version >= TOPIC_ID_VERSION {
        Topic::Id(reader.array().ok()?)
    } else {
        Topic::Name(nullable_string(&mut reader, flexible)??)
    };
    only_one(&mut reader, flexible)?;
    let partition = int32(&mut reader)?;
    let size = reader.length(flexible).ok()??;
    let start = reader.position();
    let records = reader.take(size).ok()?;
    for _ in ["partition", "topic", "request"] {
        no_tagged_fields(&mut reader, flexible)?;
    }
    let is_plain = reader.remaining() == 0
        && transactional_id.is_none()
        && (-1..=1).contains(&acks)
        && is_plain_batch(records, version);
    is_plain.then_some(SingleProduce {
        version,
        correlation_id,
        client_id,
        acks,
        timeout_ms,
        topic,
        partition,
        records: start..start + size,
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

fn int16(reader: &mut Reader<'_>) -> Option<i16> {
    reader.array().ok().map(i16::from_be_bytes)
}

fn int32(reader: &mut Reader<'_>) -> Option<i32> {
    reader.array().ok().map(i32::from_be_bytes)
}

/// The inner none is null.
fn nullable_string<'a>(reader: &mut Reader<'a>, compact: bool) -> Option<Option<&'a str>> {
    match reader.string_length(compact).ok()? {
        None => Some(None),
        Some(size) if size > STRING_BYTES_MAX => None,
        Some(size) => std::str::from_utf8(reader.take(size).ok()?).ok().map(Some),
    }
}

/// None unless the array that begins here has one element.
fn only_one(reader: &mut Reader<'_>, compact: bool) -> Option<()> {
    (reader.length(compact).ok()?? == 1).then_some(())
}

fn no_tagged_fields(reader: &mut Reader<'_>, flexible: bool) -> Option<()> {
    (!flexible || reader.tagged_field_count().ok()? == 0).then_some(())
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
    let flexible = version >= FLEXIBLE_VERSION;
    let name_bytes = match topic {
        Topic::Name(name) => name.len(),
        Topic::Id(id) => id.len(),
    };
    let mut out = Vec::with_capacity(ANSWER_BYTES + name_bytes);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&correlation_id.to_be_bytes());
    put_no_tagged_fields(&mut out, flexible);
    put_count(&mut out, flexible, 1);
    match topic {
        Topic::Id(id) => out.extend_from_slice(&id),
        Topic::Name(name) => {
            // Read from a request, so it fits: a name is never longer than STRING_BYTES_MAX.
            if flexible {
                put_unsigned_varint(&mut out, name.len() as u32 + 1);
            } else {
                out.extend_from_slice(&(name.len() as i16).to_be_bytes());
            }
            out.extend_from_slice(name.as_bytes());
        }
    }
    put_count(&mut out, flexible, 1);
    out.extend_from_slice(&partition.to_be_bytes());
    out.extend_from_slice(&0_i16.to_be_bytes());
    out.extend_from_slice(&written.base_offset.to_be_bytes());
    out.extend_from_slice(&written.log_append_time_ms.to_be_bytes());
    if version >= LOG_START_VERSION {
        out.extend_from_slice(&written.log_start_offset.to_be_bytes());
    }
    if version >= RECORD_ERRORS_VERSION {
        put_count(&mut out, flexible, 0);
        if flexible {
            put_unsigned_varint(&mut out, 0);
        } else {
            out.extend_from_slice(&(-1_i16).to_be_bytes());
        }
    }
    put_no_tagged_fields(&mut out, flexible);
    put_no_tagged_fields(&mut out, flexible);
    out.extend_from_slice(&0_i32.to_be_bytes());
    put_no_tagged_fields(&mut out, flexible);
    let size = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out
}

fn put_count(out: &mut Vec<u8>, flexible: bool, count: u32) {
    if flexible {
        put_unsigned_varint(out, count + 1);
    } else {
        out.extend_from_slice(&count.to_be_bytes());
    }
}

fn put_no_tagged_fields(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        put_unsigned_varint(out, 0);
    }
}

#[cfg(test)]
mod tests {
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
            version: 9,
            correlation_id: 7,
            client_id: Some("c"),
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
