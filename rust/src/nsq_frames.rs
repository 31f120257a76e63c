//! Message frames of the NSQ protocol, of the records of a run of batches.
//!
//! ```text
//! size int32 | type int32 (2) | timestamp ns int64 | attempts uint16 | id: 16 hex digits | value
//! id: partition, 4 digits, and offset, 12 digits
//! ```

use crate::batch_payload::{Opener, batches_from, record_error};
use crate::buffer::{ByteView, DETACH_BYTES};
use crate::error::BatchError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const MESSAGE: i32 = 2;
/// Bytes of a frame that its size counts, before the value.
const HEAD_BYTES: usize = 4 + 8 + 2 + 16;
const NS_PER_MS: i64 = 1_000_000;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Records of a partition that are delivered: first and last offset, and how often they have been.
type Run = (i64, i64, u32);

/// The frames of the records of `data` that lie in `runs`, which are in order, and the offsets of the runs at which
/// there is no record.
fn frames(
    data: &[u8],
    runs: &[Run],
    partition: u16,
    max_decompressed_bytes: usize,
) -> Result<(Vec<u8>, Vec<i64>), BatchError> {
    let mut written = Vec::with_capacity(data.len());
    let mut missing = Vec::new();
    let mut runs = runs.iter().copied();
    let mut run = runs.next();
    let mut opener = Opener::new(max_decompressed_bytes);
    let start_offset = run.map_or(i64::MAX, |(first, _, _)| first);
    'batches: for batch in batches_from(data, start_offset, false) {
        let batch = batch?;
        for (index, record) in opener.open(&batch)?.enumerate() {
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            loop {
                let Some((first, last, attempts)) = run else {
                    break 'batches;
                };
                if record.offset > last {
                    missing.extend(first..=last);
                    run = runs.next();
                    continue;
                }
                if record.offset >= first {
                    missing.extend(first..record.offset);
                    put_message(
                        &mut written,
                        partition,
                        record.offset,
                        record.timestamp,
                        attempts,
                        record.value.unwrap_or_default(),
                    );
                    run = (record.offset < last)
                        .then_some((record.offset + 1, last, attempts))
                        .or_else(|| runs.next());
                }
                break;
            }
        }
    }
    missing.extend(
        run.into_iter()
            .chain(runs)
            .flat_map(|(first, last, _)| first..=last),
    );
    Ok((written, missing))
}

fn put_message(
    written: &mut Vec<u8>,
    partition: u16,
    offset: i64,
    timestamp_ms: i64,
    attempts: u32,
    value: &[u8],
) {
    let size = i32::try_from(HEAD_BYTES + value.len()).unwrap_or(i32::MAX);
    written.extend_from_slice(&size.to_be_bytes());
    written.extend_from_slice(&MESSAGE.to_be_bytes());
    written.extend_from_slice(&timestamp_ms.saturating_mul(NS_PER_MS).to_be_bytes());
    written.extend_from_slice(&u16::try_from(attempts).unwrap_or(u16::MAX).to_be_bytes());
    let id = (u64::from(partition) << 48) | (offset as u64 & ((1 << 48) - 1));
    written.extend(
        (0..16)
            .rev()
            .map(|digit| HEX[(id >> (4 * digit)) as usize & 15]),
    );
    written.extend_from_slice(value);
}

#[pyfunction]
#[pyo3(signature = (data, runs, partition, *, max_decompressed_bytes))]
fn nsq_message_frames<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    runs: Vec<Run>,
    partition: u16,
    max_decompressed_bytes: usize,
) -> PyResult<(Bound<'py, PyBytes>, Vec<i64>)> {
    let bytes = data.as_slice();
    let (written, missing) = if bytes.len() > DETACH_BYTES {
        py.detach(|| frames(bytes, &runs, partition, max_decompressed_bytes))?
    } else {
        frames(bytes, &runs, partition, max_decompressed_bytes)?
    };
    Ok((PyBytes::new(py, &written), missing))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nsq_message_frames, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_builder::{BatchBuilder, BatchFields};
    use crate::codec::Codec;
    use proptest::prelude::*;

    fn log_of(values: &[&[u8]], codec: Codec) -> Vec<u8> {
        let mut builder = BatchBuilder::new(0);
        for value in values {
            builder.append(7, None, Some(value), &[]).unwrap();
        }
        builder
            .finish(BatchFields::of_records(codec, None))
            .unwrap()
    }

    fn ids(written: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < written.len() {
            let size = i32::from_be_bytes(written[at..at + 4].try_into().unwrap()) as usize;
            found.push(String::from_utf8_lossy(&written[at + 18..at + 34]).into_owned());
            at += 4 + size;
        }
        found
    }

    #[test]
    fn a_frame_is_as_the_protocol_has_it() {
        let (written, missing) = frames(
            &log_of(&[b"a", b"bc"], Codec::Lz4),
            &[(1, 1, 70_000)],
            7,
            1000,
        )
        .unwrap();
        let mut expected = vec![0, 0, 0, 32, 0, 0, 0, 2];
        expected.extend_from_slice(&7_000_000i64.to_be_bytes());
        expected.extend_from_slice(&[0xff, 0xff]);
        expected.extend_from_slice(b"0007000000000001bc");
        assert_eq!((written, missing), (expected, vec![]));
    }

    #[test]
    fn offsets_without_a_record_are_told() {
        let log = log_of(&[b"a", b"b", b"c"], Codec::None);
        let (written, missing) = frames(&log, &[(0, 0, 1), (2, 4, 1), (6, 6, 1)], 0, 0).unwrap();
        assert_eq!(ids(&written), ["0000000000000000", "0000000000000002"]);
        assert_eq!(missing, [3, 4, 6]);
        assert!(frames(&log, &[], 0, 0).unwrap().0.is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, first in 0i64..9, size in 0i64..9) {
            let _ = frames(&bytes, &[(first, first + size, 1)], 0, 1000);
        }
    }
}
