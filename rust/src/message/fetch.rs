//! A Fetch request of one partition outside of a session, which consumers of few partitions send, and its answer when
//! nothing is wrong: past the general codec.
//!
//! ```text
//! request   1, version, correlation_id, client_id?, [tags 12+]
//!           [replica_id -1, up to 14], max_wait_ms, min_bytes, max_bytes, isolation_level,
//!           [session_id 0, session_epoch -1 7+],
//!           1 topic: its name or, 13+, its id; 1 partition: index, [current_leader_epoch 9+], fetch_offset,
//!           [last_fetched_epoch 12+], [log_start_offset 5+], partition_max_bytes, [tags 12+] of both,
//!           [no forgotten topics 7+], [no rack 11+], [tags 12+]
//! answer    length, correlation_id, [tags 12+], throttle_time_ms 0, [0, session_id 0 7+],
//!           1 topic, 1 partition: index, 0, high_watermark, last_stable_offset, [log_start_offset 5+],
//!           no aborted transactions, or null, [preferred_read_replica -1 11+], records, [tags 12+] of all three
//! ```
//!
//! Whatever is not exactly this is left to the general codec: followers, sessions, racks, more partitions, an isolation
//! that does not exist.

use super::single::{Answer, Api, Header, Topic};

pub(super) const API: Api = Api {
    key: 1,
    versions: 4..=18,
    first_flexible_version: 12,
    first_topic_id_version: 13,
};
const LOG_START_VERSION: i16 = 5;
const SESSION_VERSION: i16 = 7;
const LEADER_EPOCH_VERSION: i16 = 9;
const RACK_VERSION: i16 = 11;
const LAST_EPOCH_VERSION: i16 = 12;
const REPLICA_STATE_VERSION: i16 = 15;

const NOBODYS: i32 = -1;
const NO_SESSION: i32 = 0;
const FINAL_EPOCH: i32 = -1;
const READ_COMMITTED: i8 = 1;

/// More than an answer takes beside the name of its topic and its records.
const ANSWER_BYTES: usize = 128;

/// A request to read from one partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SingleFetch<'a> {
    pub(super) header: Header<'a>,
    pub(super) max_wait_ms: i32,
    pub(super) min_bytes: i32,
    pub(super) max_bytes: i32,
    pub(super) read_committed: bool,
    pub(super) topic: Topic<'a>,
    pub(super) partition: i32,
    pub(super) current_leader_epoch: i32,
    pub(super) fetch_offset: i64,
    pub(super) last_fetched_epoch: i32,
    pub(super) log_start_offset: i64,
    pub(super) partition_max_bytes: i32,
}

/// The request that a frame without its length holds; none when that is for the general codec.
pub(super) fn parse(frame: &[u8]) -> Option<SingleFetch<'_>> {
    let (header, mut fields) = API.header(frame)?;
    let version = header.version;
    if version < REPLICA_STATE_VERSION && fields.int32()? != NOBODYS {
        return None;
    }
    let max_wait_ms = fields.int32()?;
    let min_bytes = fields.int32()?;
    let max_bytes = fields.int32()?;
    let isolation_level = fields.int8()?;
    if !(0..=READ_COMMITTED).contains(&isolation_level) {
        return None;
    }
    if version >= SESSION_VERSION
        && (fields.int32()? != NO_SESSION || fields.int32()? != FINAL_EPOCH)
    {
        return None;
    }
    fields.count(1)?;
    let topic = fields.topic()?;
    fields.count(1)?;
    let partition = fields.int32()?;
    let (mut current_leader_epoch, mut last_fetched_epoch, mut log_start_offset) = (-1, -1, -1);
    if version >= LEADER_EPOCH_VERSION {
        current_leader_epoch = fields.int32()?;
    }
    let fetch_offset = fields.int64()?;
    if version >= LAST_EPOCH_VERSION {
        last_fetched_epoch = fields.int32()?;
    }
    if version >= LOG_START_VERSION {
        log_start_offset = fields.int64()?;
    }
    let partition_max_bytes = fields.int32()?;
    for _ in ["partition", "topic"] {
        fields.no_tagged_fields()?;
    }
    if version >= SESSION_VERSION {
        fields.count(0)?;
    }
    if version >= RACK_VERSION && !fields.nullable_string()??.is_empty() {
        return None;
    }
    fields.no_tagged_fields()?;
    fields.end()?;
    Some(SingleFetch {
        header,
        max_wait_ms,
        min_bytes,
        max_bytes,
        read_committed: isolation_level == READ_COMMITTED,
        topic,
        partition,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        partition_max_bytes,
    })
}

/// What a partition gave, as the answer tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) high_watermark: i64,
    pub(super) last_stable_offset: i64,
    pub(super) log_start_offset: i64,
    /// Whether the reader hears of aborted transactions, of which there are none, or of none at all.
    pub(super) read_committed: bool,
    pub(super) records_bytes: usize,
}

/// The bytes of the frame, with its length, before its records and those behind them; none when its length cannot be
/// said.
pub(super) fn answer(
    version: i16,
    correlation_id: i32,
    topic: Topic<'_>,
    partition: i32,
    read: Read,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut out = API.answer(version, correlation_id, ANSWER_BYTES + topic.size());
    out.put(&0_i32.to_be_bytes());
    if version >= SESSION_VERSION {
        out.put(&0_i16.to_be_bytes());
        out.put(&NO_SESSION.to_be_bytes());
    }
    out.length(1);
    out.topic(topic);
    out.length(1);
    out.put(&partition.to_be_bytes());
    out.put(&0_i16.to_be_bytes());
    out.put(&read.high_watermark.to_be_bytes());
    out.put(&read.last_stable_offset.to_be_bytes());
    if version >= LOG_START_VERSION {
        out.put(&read.log_start_offset.to_be_bytes());
    }
    if read.read_committed {
        out.length(0);
    } else {
        out.null(size_of::<i32>());
    }
    if version >= RACK_VERSION {
        out.put(&NOBODYS.to_be_bytes());
    }
    out.length(u32::try_from(read.records_bytes).ok()?);
    let mut behind = Answer {
        bytes: Vec::new(),
        flexible: out.flexible,
    };
    for _ in ["partition", "topic", "response"] {
        behind.no_tagged_fields();
    }
    out.close(read.records_bytes + behind.bytes.len())?;
    Some((out.bytes, behind.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A request of version 11 of partition 2 of `t`, of the client `c`.
    fn request() -> Vec<u8> {
        let mut frame = vec![0, 1, 0, 11, 0, 0, 0, 7, 0, 1, b'c'];
        frame.extend_from_slice(&(-1_i32).to_be_bytes());
        for number in [500_i32, 1, 1 << 20] {
            frame.extend_from_slice(&number.to_be_bytes());
        }
        frame.push(1);
        for number in [NO_SESSION, FINAL_EPOCH, 1] {
            frame.extend_from_slice(&number.to_be_bytes());
        }
        frame.extend_from_slice(&[0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4]);
        frame.extend_from_slice(&9_i64.to_be_bytes());
        frame.extend_from_slice(&(-1_i64).to_be_bytes());
        frame.extend_from_slice(&4096_i32.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
        frame
    }

    #[test]
    fn a_request_of_one_partition_is_read() {
        let expected = SingleFetch {
            header: Header {
                version: 11,
                correlation_id: 7,
                client_id: Some("c"),
            },
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
            read_committed: true,
            topic: Topic::Name("t"),
            partition: 2,
            current_leader_epoch: 4,
            fetch_offset: 9,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 4096,
        };
        assert_eq!(parse(&request()), Some(expected));
    }

    #[test]
    fn what_is_more_or_less_than_that_is_left_to_others() {
        let plain = request();
        for end in 0..plain.len() {
            assert_eq!(parse(&plain[..end]), None, "cut at {end}");
        }
        let longer: Vec<u8> = plain.iter().copied().chain([0]).collect();
        assert_eq!(parse(&longer), None);
    }

    #[test]
    fn an_answer_longer_than_a_frame_can_say_is_none() {
        let read = Read {
            high_watermark: 0,
            last_stable_offset: 0,
            log_start_offset: 0,
            read_committed: false,
            records_bytes: i32::MAX as usize,
        };
        assert!(answer(12, 0, Topic::Name("t"), 0, read).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_left_to_others(bytes: Vec<u8>, version in 0_u8..20) {
            let mut frame = vec![0, 1, 0, version];
            frame.extend_from_slice(&bytes);
            parse(&frame);
        }
    }
}
