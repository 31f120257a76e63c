//! What a leader makes of one batch of a producer: refused, or kept with every record and flag that came.
//!
//! ```text
//! how, 1 byte: bit 0 seal, bit 1 keys asked for, bit 2 opened always, bits 3-5 the topic's codec, bit 6 limits of time
//! limit, 1 byte, times 256: the most that is opened | batch
//! ```

use super::allocation::bounded;
use super::sealing::seal_one;
use crate::batch::Batches;
use crate::batch_header::{ATTRIBUTES_AT, CODEC_MASK, HEADER_BYTES, array};
use crate::batch_payload::Opener;
use crate::batch_run::walk;
use crate::codec::Codec;
use crate::produced::{
    RECORD_ERRORS_MAX, TimestampLimits, TopicRules, check as check_batch, open, open_bytes_max,
};

const NOW_MS: i64 = 1_700_000_000_000;

/// Tables and windows of two codecs, what 1,000 records that are refused are called, and the batch that is kept.
const WORKSPACE: usize = 2 << 20;

/// See the top of the file.
pub fn check(data: &[u8]) {
    let Some((&[how, limit], batch)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mut batch = batch.to_vec();
    if how & 1 != 0 && batch.len() >= HEADER_BYTES {
        seal_one(&mut batch);
    }
    let rules = TopicRules {
        max_batch_bytes: 1 << 16,
        timestamps: (how & 64 != 0).then_some(TimestampLimits {
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
        }),
        keys_required: how & 2 != 0,
        stream_records_refused: how & 128 != 0,
        codec: Codec::from_id(i16::from(how >> 3 & 7)),
        level: None,
        opens_compressed: how & 4 != 0,
        max_decompressed_bytes: usize::from(limit) * 256,
    };
    let mut came = batch.clone();
    let must_be_opened = match check_batch(&mut came, &rules, NOW_MS) {
        Ok(checked) => {
            assert_eq!(checked.header.to_bytes(), array(&came, 0));
            checked.must_be_opened
        }
        Err(error) => {
            assert!(error.record_errors.len() <= RECORD_ERRORS_MAX);
            assert!(open(&mut batch, &rules, NOW_MS).is_err());
            return;
        }
    };
    let room = open_bytes_max(&came, &rules) + WORKSPACE;
    let opened = bounded(room, || open(&mut came, &rules, NOW_MS));
    let Ok(opened) = opened else {
        let stayed_closed = came[ATTRIBUTES_AT + 1] & CODEC_MASK as u8 != 0;
        assert!(must_be_opened || stayed_closed, "it was looked at before");
        return;
    };
    let kept = opened.rewritten.as_deref().unwrap_or(&came);
    assert!(kept.len() <= rules.max_batch_bytes);
    assert_eq!(opened.header.to_bytes(), array(kept, 0));
    assert!(walk(kept, true).stopped_by.is_none());
    let (before, after) = (records_of(&batch), records_of(kept));
    assert!(before == after, "the records are not those that came");
    let first = Batches::new(&batch).next().unwrap().unwrap();
    let header = opened.header;
    assert_eq!(
        header.attributes & !CODEC_MASK,
        first.header.attributes & !CODEC_MASK
    );
    assert!(rules.codec.is_none() || header.codec() == rules.codec);
    if rules.timestamps.is_some() {
        let latest = after.iter().map(|record| record.1).max().unwrap();
        assert_eq!(header.max_timestamp, latest.max(-1));
    }
    assert!(!rules.keys_required || after.iter().all(|record| record.2.is_some()));
}

/// Offset, timestamp, key, value, headers.
type Read = (
    i64,
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

fn records_of(batch: &[u8]) -> Vec<Read> {
    let batch = Batches::new(batch).next().unwrap().unwrap();
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    Opener::new(1 << 20)
        .open(&batch)
        .unwrap()
        .map(|record| {
            let record = record.unwrap();
            let headers = record.headers.iter();
            (
                record.offset,
                record.timestamp,
                owned(record.key),
                owned(record.value),
                headers
                    .map(|(key, value)| (key.to_vec(), owned(value)))
                    .collect(),
            )
        })
        .collect()
}
