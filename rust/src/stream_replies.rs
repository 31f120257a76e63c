//! Entries of a stream as Redis clients get them, and the ids that they send back.
//!
//! ```text
//! encode_entries          (5-0, [f, v])                      -->   *2 $3 5-0 *2 $1 f $1 v
//! encode_logged_entries   records of entries, as in the log  -->   the same, of some ids
//! parse_entry_ids         5-0                                -->   5 << 64
//! ```

use crate::batch_payload::{Opener, batches_from, record_error};
use crate::buffer::{ByteView, DETACH_BYTES};
use crate::decimal;
use crate::error::{BatchError, Fault};
use crate::record::Record;
use crate::stream_adds::{HEADER, put_id};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// A header of an entry: its kind and its id.
const ENTRY_HEADER_BYTES: usize = 17;
/// What the two numbers of an id have at most.
const ID_DIGITS_MAX: usize = 20;

/// A number and the end of its line behind a mark.
fn put_head(reply: &mut Vec<u8>, mark: u8, number: usize) {
    reply.push(mark);
    decimal::put(reply, number as u64);
    reply.extend_from_slice(b"\r\n");
}

fn put_bulk(reply: &mut Vec<u8>, data: &[u8]) {
    put_head(reply, b'$', data.len());
    reply.extend_from_slice(data);
    reply.extend_from_slice(b"\r\n");
}

fn begin_entry(reply: &mut Vec<u8>, id: u128, field_count: usize) {
    reply.extend_from_slice(b"*2\r\n");
    put_id(reply, id);
    put_head(reply, b'*', field_count);
}

#[pyfunction]
fn encode_entries<'py>(
    py: Python<'py>,
    entries: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut reply = Vec::with_capacity(64 * entries.len());
    for entry in entries.iter() {
        let entry = entry.cast::<PyTuple>()?;
        let fields = entry.get_borrowed_item(1)?;
        let fields = fields.cast::<PyList>()?;
        begin_entry(
            &mut reply,
            entry.get_borrowed_item(0)?.extract()?,
            fields.len(),
        );
        for field in fields.iter() {
            put_bulk(&mut reply, field.cast::<PyBytes>()?.as_bytes());
        }
    }
    Ok(PyBytes::new(py, &reply))
}

/// One size of MessagePack and what follows it; `marks` are those of one, two and four bytes.
fn sized(bytes: &[u8], marks: [Option<u8>; 3]) -> Option<(usize, &[u8])> {
    let (&mark, rest) = bytes.split_first()?;
    match marks.iter().position(|each| *each == Some(mark))? {
        0 => Some((usize::from(*rest.first()?), &rest[1..])),
        1 => Some((
            usize::from(u16::from_be_bytes(*rest.first_chunk()?)),
            &rest[2..],
        )),
        _ => Some((
            u32::from_be_bytes(*rest.first_chunk()?) as usize,
            &rest[4..],
        )),
    }
}

/// Appends an entry whose fields are a MessagePack array of binaries; None, and what was appended is of no use, where
/// they are something else.
fn put_packed(reply: &mut Vec<u8>, id: u128, packed: &[u8]) -> Option<()> {
    let (count, mut rest) = match packed.split_first()? {
        (&mark @ 0x90..=0x9f, rest) => (usize::from(mark & 15), rest),
        _ => sized(packed, [None, Some(0xdc), Some(0xdd)])?,
    };
    begin_entry(reply, id, count);
    for _ in 0..count {
        let (size, data) = sized(rest, [Some(0xc4), Some(0xc5), Some(0xc6)])?;
        let (field, behind) = data.split_at_checked(size)?;
        put_bulk(reply, field);
        rest = behind;
    }
    rest.is_empty().then_some(())
}

/// The id of an entry; None for another record.
fn entry_id(record: &Record<'_>) -> Option<u128> {
    let (_, header) = (record.headers.iter())
        .find(|(key, value)| *key == HEADER && value.is_some_and(|value| !value.is_empty()))?;
    let header: &[u8; ENTRY_HEADER_BYTES] = header?.try_into().ok()?;
    Some(u128::from_be_bytes(header[1..].try_into().ok()?))
}

/// Which entries are wanted: those of intervals, which ascend, without some.
struct Wanted {
    intervals: Vec<(u128, u128)>,
    removed: Vec<u128>,
    count_max: usize,
}

/// What was found of them.
struct Found {
    reply: Vec<u8>,
    count: usize,
    end_offset: i64,
    is_over: bool,
}

fn find_entries(data: &[u8], start_offset: i64, wanted: &Wanted) -> Result<Found, BatchError> {
    let mut found = Found {
        reply: Vec::with_capacity(data.len()),
        count: 0,
        end_offset: start_offset,
        is_over: wanted.intervals.is_empty() || wanted.count_max == 0,
    };
    let mut intervals = wanted.intervals.iter().peekable();
    // Nothing of a stream is compressed.
    let mut opener = Opener::new(0);
    for batch in batches_from(data, start_offset, true) {
        let batch = batch?;
        for (index, record) in opener.open(&batch)?.enumerate() {
            if found.is_over {
                return Ok(found);
            }
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            let Some(id) = entry_id(&record).filter(|_| record.offset >= start_offset) else {
                continue;
            };
            while intervals.next_if(|(_, last)| *last < id).is_some() {}
            let Some(&&(first, last)) = intervals.peek() else {
                found.is_over = true;
                continue;
            };
            if id < first {
                continue;
            }
            if wanted.removed.binary_search(&id).is_err() {
                let value = record.value.unwrap_or_default();
                if put_packed(&mut found.reply, id, value).is_none() {
                    return batch.error(
                        Fault::Corrupt,
                        format!("record {index} is no entry of a stream"),
                    );
                }
                found.count += 1;
            }
            if id == last {
                intervals.next();
            }
            found.is_over = found.count == wanted.count_max || intervals.peek().is_none();
        }
        found.end_offset = batch.header.last_offset() + 1;
    }
    Ok(found)
}

#[pyfunction]
#[pyo3(signature = (data, start_offset, intervals, removed, count_max))]
fn encode_logged_entries<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    start_offset: i64,
    intervals: Vec<(u128, u128)>,
    mut removed: Vec<u128>,
    count_max: usize,
) -> PyResult<(Bound<'py, PyBytes>, usize, i64, bool)> {
    removed.sort_unstable();
    let wanted = Wanted {
        intervals,
        removed,
        count_max,
    };
    let bytes = data.as_slice();
    let found = if bytes.len() > DETACH_BYTES {
        py.detach(|| find_entries(bytes, start_offset, &wanted))?
    } else {
        find_entries(bytes, start_offset, &wanted)?
    };
    Ok((
        PyBytes::new(py, &found.reply),
        found.count,
        found.end_offset,
        found.is_over,
    ))
}

/// A number of an id in its one form: digits, and nothing else.
fn plain_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > ID_DIGITS_MAX {
        return None;
    }
    text.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10)
            .then(|| value.checked_mul(10)?.checked_add(u64::from(digit)))
            .flatten()
    })
}

/// An id of two numbers; None for any other form, which may be an id all the same.
fn plain_id(text: &[u8]) -> Option<u128> {
    let dash = text.iter().position(|&each| each == b'-')?;
    let (milliseconds, sequence) = (
        plain_number(&text[..dash])?,
        plain_number(&text[dash + 1..])?,
    );
    Some(u128::from(milliseconds) << 64 | u128::from(sequence))
}

#[pyfunction]
fn parse_entry_ids(texts: &Bound<'_, PyList>) -> PyResult<Option<Vec<u128>>> {
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts.iter() {
        match plain_id(text.cast::<PyBytes>()?.as_bytes()) {
            Some(id) => ids.push(id),
            None => return Ok(None),
        }
    }
    Ok(Some(ids))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_entries, module)?)?;
    module.add_function(wrap_pyfunction!(encode_logged_entries, module)?)?;
    module.add_function(wrap_pyfunction!(parse_entry_ids, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_builder::{BatchBuilder, BatchFields};
    use crate::codec::Codec;
    use proptest::prelude::*;

    fn logged(ids: &[u128]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(0);
        for id in ids {
            let mut header = vec![b'E'];
            header.extend_from_slice(&id.to_be_bytes());
            let value = b"\x92\xc4\x01f\xc4\x02vw";
            let headers = [(HEADER, Some(&header[..]))];
            builder.append(5, None, Some(value), &headers).unwrap();
            let mark = [(HEADER, Some(&b"M"[..]))];
            builder.append(5, None, Some(b"\x90"), &mark).unwrap();
        }
        builder
            .finish(BatchFields::of_records(Codec::None, None))
            .unwrap()
    }

    fn find(
        data: &[u8],
        intervals: &[(u128, u128)],
        count_max: usize,
    ) -> (Vec<u8>, usize, i64, bool) {
        let wanted = Wanted {
            intervals: intervals.to_vec(),
            removed: vec![3],
            count_max,
        };
        let found = find_entries(data, 0, &wanted).unwrap();
        (found.reply, found.count, found.end_offset, found.is_over)
    }

    #[test]
    fn entries_of_intervals_are_found_without_those_that_are_removed() {
        let data = logged(&[1, 2, 3, 4, 6, 9]);
        let shown = |ids: &[u128]| {
            let mut reply = Vec::new();
            for id in ids {
                begin_entry(&mut reply, *id, 2);
                put_bulk(&mut reply, b"f");
                put_bulk(&mut reply, b"vw");
            }
            reply
        };
        assert_eq!(
            find(&data, &[(2, 4), (6, 7)], 9),
            (shown(&[2, 4, 6]), 3, 0, true)
        );
        assert_eq!(find(&data, &[(2, 4)], 1), (shown(&[2]), 1, 0, true));
        assert_eq!(find(&data, &[(9, 10)], 9), (shown(&[9]), 1, 12, false));
        assert_eq!(find(&data, &[(3, 3)], 9), (vec![], 0, 0, true));
    }

    #[test]
    fn an_entry_is_an_array_of_an_id_and_of_its_fields() {
        let mut reply = Vec::new();
        put_packed(&mut reply, 5 << 64 | 1, b"\x92\xc4\x01f\xc4\x00").unwrap();
        assert_eq!(reply, b"*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nf\r\n$0\r\n\r\n");
        for other in [
            &b""[..],
            b"\x91",
            b"\x91\xc4\x02v",
            b"\x90\x90",
            b"\x91\x01",
            b"\x80",
        ] {
            assert!(put_packed(&mut reply, 1, other).is_none());
        }
    }

    #[test]
    fn ids_of_one_form_are_read() {
        assert_eq!(plain_id(b"5-1"), Some(5 << 64 | 1));
        let largest = b"18446744073709551615-18446744073709551615";
        assert_eq!(plain_id(largest), Some(u128::MAX));
        for other in [
            &b"5"[..],
            b"-",
            b"+",
            b"5-",
            b"-1",
            b"5-+1",
            b" 5-1",
            b"5-1-1",
            b"18446744073709551616-0",
        ] {
            assert_eq!(plain_id(other), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, id: u128) {
            let _ = put_packed(&mut Vec::new(), id, &bytes);
            let _ = plain_id(&bytes);
            let wanted = Wanted { intervals: vec![(0, id)], removed: vec![], count_max: 5 };
            let _ = find_entries(&bytes, 0, &wanted);
        }
    }
}
