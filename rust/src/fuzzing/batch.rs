//! Runs of batches: what validate and walk say of them, and what assigning offsets and producers makes of them.
//!
//! ```text
//! how, 1 byte: bit 0 seal, bit 1 a limit of 200 bytes a batch, bit 2 control batches allowed, bit 3 log append time | run
//! ```

use super::sealing::seal;
use crate::batch::Batches;
use crate::batch_header::{BatchHeader, HEADER_BYTES, LOG_OVERHEAD, array};
use crate::batch_payload::Opener;
use crate::batch_run::{
    Assignment, Producer, ProducerRules, Walk, assign, assign_producer, validate, walk,
};
use crate::codec::Codec;

/// See the top of the file.
pub fn check(data: &[u8]) {
    let Some((how, run)) = data.split_first() else {
        return;
    };
    let run = if how & 1 != 0 {
        seal(run)
    } else {
        run.to_vec()
    };
    let checked = walk(&run, true);
    let unchecked = walk(&run, false);
    follow_each_other(&run, &checked);
    follow_each_other(&run, &unchecked);
    assert!(unchecked.batches.starts_with(&checked.batches));
    let rules = ProducerRules {
        max_batch_bytes: if how & 2 != 0 { 200 } else { 0 },
        allow_control: how & 4 != 0,
    };
    let assignment = Assignment {
        base_offset: 1 << 40,
        leader_epoch: 7,
        log_append_time_ms: (how & 8 != 0).then_some(1_700_000_000_000),
    };
    match validate(&run, rules) {
        Ok(found) => is_appended(&run, &found, assignment),
        Err(error) => {
            assert!(error.position <= run.len());
            assert!(error.to_string().len() < 500);
            is_assigned_or_left(&run, assignment);
        }
    }
    gets_a_producer_or_is_left(&run);
}

/// The batches of a walk lie one behind the other, and each header is the bytes it was read from.
fn follow_each_other(run: &[u8], walked: &Walk) {
    let mut end = 0;
    for (position, header) in &walked.batches {
        assert_eq!(*position, end);
        assert_eq!(header.to_bytes(), array(run, *position));
        assert!(header.last_offset() >= header.base_offset && header.base_offset >= 0);
        assert!(header.last_sequence() >= -1);
        end += LOG_OVERHEAD + header.batch_length as usize;
    }
    assert_eq!(walked.consumed, end);
    assert!(end <= run.len());
    match &walked.stopped_by {
        Some(error) => assert_eq!(error.position, end),
        None => {
            let left = &run[end..];
            let is_part = left.len() < HEADER_BYTES
                || left.len() < LOG_OVERHEAD + u32::from_be_bytes(array(left, 8)) as usize;
            assert!(is_part, "a whole batch was left out");
        }
    }
}

/// What is valid can be appended, and is then a run without a fault that begins where it was put.
fn is_appended(run: &[u8], found: &[(usize, BatchHeader)], assignment: Assignment) {
    let mut appended = run.to_vec();
    let next_offset = assign(&mut appended, assignment).unwrap();
    let walked = walk(&appended, true);
    assert_eq!(walked.stopped_by, None);
    assert_eq!(walked.consumed, run.len());
    assert_eq!(walked.batches.len(), found.len());
    let mut offset = assignment.base_offset;
    for ((_, sent), (_, header)) in found.iter().zip(&walked.batches) {
        assert_eq!(header.base_offset, offset);
        assert_eq!(header.leader_epoch, assignment.leader_epoch);
        assert_eq!(header.record_count, sent.record_count);
        match assignment.log_append_time_ms {
            Some(time_ms) => assert_eq!(header.max_timestamp, time_ms),
            None => assert_eq!(
                (header.crc, header.max_timestamp),
                (sent.crc, sent.max_timestamp)
            ),
        }
        offset += i64::from(header.record_count);
    }
    assert_eq!(next_offset, offset);
    can_be_read(&appended);
}

/// What was accepted without compression stops no reader.
fn can_be_read(appended: &[u8]) {
    for batch in Batches::new(appended).map(Result::unwrap) {
        if batch.header.codec() != Some(Codec::None) {
            continue;
        }
        let mut expected = batch.header.base_offset;
        for record in Opener::new(0).open(&batch).unwrap() {
            assert_eq!(record.unwrap().offset, expected);
            expected += 1;
        }
        assert_eq!(expected, batch.header.last_offset() + 1);
    }
}

fn is_assigned_or_left(run: &[u8], assignment: Assignment) {
    let mut changed = run.to_vec();
    if assign(&mut changed, assignment).is_err() {
        assert!(changed == run, "changed although it was refused");
    }
}

fn gets_a_producer_or_is_left(run: &[u8]) {
    let producer = Producer {
        id: 5,
        epoch: 3,
        base_sequence: i32::MAX - 1,
        is_transactional: true,
    };
    let mut changed = run.to_vec();
    match assign_producer(&mut changed, producer) {
        Ok(next) => {
            let walked = walk(&changed, false);
            let mut sequence = producer.base_sequence;
            for (_, header) in &walked.batches {
                assert_eq!(header.producer_id, producer.id);
                assert_eq!(header.base_sequence, sequence);
                sequence = sequence.wrapping_add(header.record_count) & i32::MAX;
            }
            assert!(walked.stopped_by.is_some() || sequence == next);
        }
        Err(_) => assert!(changed == run, "changed although it was refused"),
    }
}
