//! Batches with nothing but the records that somebody was given: `ottla.native.pick_records`.
//!
//! ```text
//! in the log   | 0 1 2 3 4 5 6 7 |       picked 2 and 5   | 2 5 |      base offset 0, last offset 7, 2 records
//! ```
//!
//! As compaction leaves a batch: with gaps, and the offsets, timestamps and producer that it had.

use crate::batch::{Batch, Batches};
use crate::batch_header::{CONTROL, HEADER_BYTES, LOG_OVERHEAD};
use crate::batch_run::put_crc;
use crate::buffer::{ByteView, on_bytes};
use crate::codec::Codec;
use crate::varint::{Malformed, Reader};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// First and last offset.
type Run = (i64, i64);

/// How many of the records of a batch lie in runs, if all of its offsets have one.
fn wanted(batch: &Batch<'_>, runs: &[Run]) -> i64 {
    let (first, last) = (batch.header.base_offset, batch.header.last_offset());
    runs.iter()
        .take_while(|run| run.0 <= last)
        .map(|run| run.1.min(last) - run.0.max(first) + 1)
        .sum()
}

/// Appends a batch with the records of the runs alone. Returns false, with nothing appended, where the whole batch is to
/// be sent: it has few others, or is compressed, or its bytes are not what they should be, which the reader has to see.
fn append_picked(out: &mut Vec<u8>, batch: &Batch<'_>, runs: &[Run]) -> bool {
    let mut header = batch.header;
    if header.codec() != Some(Codec::None)
        || header.has(CONTROL)
        || wanted(batch, runs) * 2 > i64::from(header.record_count)
        || batch.check_crc().is_err()
    {
        return false;
    }
    let begin = out.len();
    out.extend_from_slice(&batch.bytes[..HEADER_BYTES]);
    let count = match append_records(out, batch, runs) {
        Ok(count) if count > 0 => count,
        _ => {
            out.truncate(begin);
            return false;
        }
    };
    header.record_count = count;
    // It is shorter than the batch, whose length is a positive number of 32 bits.
    header.batch_length = (out.len() - begin - LOG_OVERHEAD) as i32;
    out[begin..begin + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    put_crc(&mut out[begin..]);
    true
}

/// Appends the records of the runs. Returns how many there are.
fn append_records(out: &mut Vec<u8>, batch: &Batch<'_>, runs: &[Run]) -> Result<i32, Malformed> {
    let payload = batch.payload();
    let mut reader = Reader::new(payload);
    let (mut runs, mut count) = (runs.iter().peekable(), 0);
    for _ in 0..batch.header.record_count {
        let start = reader.position();
        let length = reader.varint()?;
        let Ok(length) = usize::try_from(length) else {
            return reader.malformed("a record's length is negative");
        };
        let mut fields = Reader::new(reader.take(length)?);
        fields.byte()?;
        fields.varlong()?;
        let offset = batch
            .header
            .base_offset
            .saturating_add(i64::from(fields.varint()?));
        while runs.next_if(|run| run.1 < offset).is_some() {}
        match runs.peek() {
            Some(run) if run.0 <= offset => {
                out.extend_from_slice(&payload[start..reader.position()]);
                count += 1;
            }
            Some(_) => {}
            None => break,
        }
    }
    Ok(count)
}

fn pick(data: &[u8], parts: &[(usize, usize)], runs: &[Run]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut left = runs;
    for &(start, end) in parts {
        let part = data.get(start..end).unwrap_or_default();
        for batch in Batches::new(part).map_while(Result::ok) {
            let base = batch.header.base_offset;
            left = &left[left.partition_point(|run| run.1 < base)..];
            if !append_picked(&mut out, &batch, left) {
                out.extend_from_slice(batch.bytes);
            }
        }
    }
    out
}

/// See `ottla.native`.
#[pyfunction]
pub fn pick_records<'py>(
    py: Python<'py>,
    data: ByteView<'_>,
    parts: Vec<(usize, usize)>,
    runs: Vec<Run>,
) -> Bound<'py, PyBytes> {
    let picked = on_bytes(py, data.as_slice(), |bytes| pick(bytes, &parts, &runs));
    PyBytes::new(py, &picked)
}
