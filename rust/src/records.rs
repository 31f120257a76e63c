//! Record batches from and to Python tuples.

use crate::batch_builder::{BatchBuilder, BatchFields};
use crate::batch_payload::{Opener, batches_from, record_error};
use crate::buffer::{ByteView, DETACH_BYTES};
use crate::codec::Codec;
use crate::record::{HeaderRef, Record};
use crate::stream_adds::append_adds;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple};
use std::borrow::Cow;

/// The codec and level that Python asked for.
pub fn codec_and_level(codec: i16, level: Option<i32>) -> PyResult<(Codec, Option<i32>)> {
    let codec = Codec::from_id(codec).ok_or_else(|| {
        PyValueError::new_err(format!(
            "there is no compression codec {codec}, only 0 to 4"
        ))
    })?;
    match (level, codec.levels()) {
        (Some(level), Some(levels)) if !levels.contains(&level) => {
            Err(PyValueError::new_err(format!(
                "the compression level {level} is not between {} and {}",
                levels.start(),
                levels.end()
            )))
        }
        (level, Some(_)) => Ok((codec, level)),
        (_, None) => Ok((codec, None)),
    }
}

#[pyfunction]
#[pyo3(signature = (
    records, *, codec = 0, level = None, base_offset = 0, leader_epoch = -1, producer_id = -1, producer_epoch = -1,
    base_sequence = -1, is_transactional = false, is_control = false, offsets = None,
))]
#[pyo3(
    text_signature = "(records, *, codec=0, level=None, base_offset=0, leader_epoch=-1, producer_id=-1, \
    producer_epoch=-1, base_sequence=-1, is_transactional=False, is_control=False, offsets=None)"
)]
#[allow(clippy::too_many_arguments)]
fn build_batch<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    codec: i16,
    level: Option<i32>,
    base_offset: i64,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    is_transactional: bool,
    is_control: bool,
    offsets: Option<Vec<i64>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (codec, level) = codec_and_level(codec, level)?;
    let mut builder = BatchBuilder::new(0);
    for (index, record) in records.try_iter()?.enumerate() {
        let offset_delta = match &offsets {
            None => None,
            Some(offsets) => Some(delta_of(offsets, index, base_offset)?),
        };
        append_tuple(&mut builder, &record?, offset_delta)
            .map_err(|error| at_record(py, index, error))?;
    }
    let count = builder.record_count() as usize;
    if count == 0 {
        return Err(PyValueError::new_err("a batch needs at least one record"));
    }
    if let Some(offsets) = offsets.filter(|offsets| offsets.len() != count) {
        return Err(PyValueError::new_err(format!(
            "{} offsets for {count} records",
            offsets.len()
        )));
    }
    let fields = BatchFields {
        codec,
        level,
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        is_transactional,
        is_control,
    };
    let built = if builder.size() > DETACH_BYTES {
        py.detach(|| builder.finish(fields))
    } else {
        builder.finish(fields)
    };
    Ok(PyByteArray::new(py, &built.map_err(PyValueError::new_err)?))
}

/// One batch of what a stream has journaled: records as `build_batch` takes them, and runs of entries.
#[pyfunction]
fn build_stream_batch<'py>(
    py: Python<'py>,
    journal: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let mut builder = BatchBuilder::new(0);
    for item in journal.try_iter()? {
        let item = item?;
        if !append_adds(&mut builder, &item)? {
            append_tuple(&mut builder, &item, None)?;
        }
    }
    if builder.record_count() == 0 {
        return Err(PyValueError::new_err("a batch needs at least one record"));
    }
    let fields = BatchFields::of_records(Codec::None, None);
    let built = if builder.size() > DETACH_BYTES {
        py.detach(|| builder.finish(fields))
    } else {
        builder.finish(fields)
    };
    Ok(PyByteArray::new(py, &built.map_err(PyValueError::new_err)?))
}

fn delta_of(offsets: &[i64], index: usize, base_offset: i64) -> PyResult<i32> {
    let offset = offsets.get(index).ok_or_else(|| {
        PyValueError::new_err(format!("only {} offsets for more records", offsets.len()))
    })?;
    offset
        .checked_sub(base_offset)
        .and_then(|delta| i32::try_from(delta).ok())
        .filter(|delta| *delta >= 0)
        .ok_or_else(|| {
            PyValueError::new_err(format!(
                "the offset {offset} cannot be in a batch from {base_offset} on"
            ))
        })
}

fn at_record(py: Python<'_>, index: usize, error: PyErr) -> PyErr {
    let located = PyErr::from_type(
        error.get_type(py),
        format!("record {index}: {}", error.value(py)),
    );
    located.set_cause(py, Some(error));
    located
}

/// Appends `(timestamp_ms, key, value, headers)`.
fn append_tuple(
    builder: &mut BatchBuilder,
    record: &Bound<'_, PyAny>,
    offset_delta: Option<i32>,
) -> PyResult<()> {
    let record = record.cast::<PyTuple>()?;
    if record.len() != 4 {
        return Err(PyTypeError::new_err(
            "a record is (timestamp_ms, key, value, headers)",
        ));
    }
    let timestamp: i64 = record.get_borrowed_item(0)?.extract()?;
    let key: Option<ByteView<'_>> = record.get_borrowed_item(1)?.extract()?;
    let value: Option<ByteView<'_>> = record.get_borrowed_item(2)?.extract()?;
    let headers = owned_headers(record.get_borrowed_item(3)?)?;
    let headers: Vec<HeaderRef<'_>> = headers
        .iter()
        .map(|(key, value)| (key.as_bytes(), value.as_ref().map(ByteView::as_slice)))
        .collect();
    let key = key.as_ref().map(ByteView::as_slice);
    let value = value.as_ref().map(ByteView::as_slice);
    match offset_delta {
        None => builder.append(timestamp, key, value, &headers),
        Some(delta) => builder.append_at(delta, timestamp, key, value, &headers),
    }
    .map_err(PyValueError::new_err)
}

type OwnedHeader<'py> = (String, Option<ByteView<'py>>);

fn owned_headers<'py>(headers: Borrowed<'_, 'py, PyAny>) -> PyResult<Vec<OwnedHeader<'py>>> {
    if headers.len()? == 0 {
        return Ok(Vec::new());
    }
    headers
        .try_iter()?
        .map(|header| header?.extract())
        .collect()
}

#[pyfunction]
#[pyo3(signature = (data, *, max_decompressed_bytes, start_offset = 0, include_control = false))]
fn decode_records<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    max_decompressed_bytes: usize,
    start_offset: i64,
    include_control: bool,
) -> PyResult<Bound<'py, PyList>> {
    let decoded = PyList::empty(py);
    let mut opener = Opener::new(max_decompressed_bytes);
    for batch in batches_from(data.as_slice(), start_offset, include_control) {
        let batch = batch?;
        let records = if batch.bytes.len() > DETACH_BYTES {
            py.detach(|| opener.open(&batch))?
        } else {
            opener.open(&batch)?
        };
        for (index, record) in records.enumerate() {
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            if record.offset >= start_offset {
                decoded.append(to_tuple(py, &record)?)?;
            }
        }
    }
    Ok(decoded)
}

#[pyfunction]
#[pyo3(signature = (data, offsets, *, max_decompressed_bytes))]
fn decode_at<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    offsets: Vec<i64>,
    max_decompressed_bytes: usize,
) -> PyResult<Bound<'py, PyList>> {
    let decoded = PyList::empty(py);
    let mut wanted = offsets.iter().copied().peekable();
    let mut opener = Opener::new(max_decompressed_bytes);
    for batch in batches_from(data.as_slice(), i64::MIN, false) {
        let batch = batch?;
        while wanted
            .next_if(|&offset| offset < batch.header.base_offset)
            .is_some()
        {}
        if wanted
            .peek()
            .is_none_or(|&offset| offset > batch.header.last_offset())
        {
            continue;
        }
        opener.renew(max_decompressed_bytes);
        for (index, record) in opener.open(&batch)?.enumerate() {
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            while wanted.next_if(|&offset| offset < record.offset).is_some() {}
            if wanted.next_if_eq(&record.offset).is_some() {
                decoded.append(to_tuple(py, &record)?)?;
            }
        }
    }
    Ok(decoded)
}

/// `(offset, timestamp_ms, key, value, headers)`.
pub fn to_tuple<'py>(py: Python<'py>, record: &Record<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let headers = PyList::empty(py);
    for (key, value) in record.headers.iter() {
        headers.append((
            header_key(py, key),
            value.map(|value| PyBytes::new(py, value)),
        ))?;
    }
    (
        record.offset,
        record.timestamp,
        record.key.map(|key| PyBytes::new(py, key)),
        record.value.map(|value| PyBytes::new(py, value)),
        headers,
    )
        .into_pyobject(py)
}

/// Like the Java client, this puts U+FFFD for what is not UTF-8: one bad producer must not stop the readers.
fn header_key<'py>(py: Python<'py>, key: &[u8]) -> Bound<'py, PyString> {
    match String::from_utf8_lossy(key) {
        Cow::Borrowed(text) => PyString::new(py, text),
        Cow::Owned(text) => PyString::new(py, &text),
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(build_batch, module)?)?;
    module.add_function(wrap_pyfunction!(build_stream_batch, module)?)?;
    module.add_function(wrap_pyfunction!(decode_at, module)?)?;
    module.add_function(wrap_pyfunction!(decode_records, module)?)
}
