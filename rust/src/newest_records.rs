//! Of the records of a buffer, the newest of each key: what a log that is read to its end comes to.

use crate::batch_header::TRANSACTIONAL;
use crate::batch_payload::{Opener, batches_from, record_error};
use crate::buffer::{ByteView, on_bytes};
use crate::error::BatchError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::collections::HashMap;

/// A record that counts.
struct Found {
    offset: i64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// The newest records in the order of their offsets, and how many there were.
fn newest(
    data: &[u8],
    start_offset: i64,
    max_decompressed_bytes: usize,
) -> Result<(Vec<Found>, usize), BatchError> {
    let mut opener = Opener::new(max_decompressed_bytes);
    let mut by_key: HashMap<Vec<u8>, (i64, Option<Vec<u8>>)> = HashMap::new();
    let mut found = Vec::new();
    let mut count = 0;
    for batch in batches_from(data, start_offset, false) {
        let batch = batch?;
        let is_undecided = batch.header.has(TRANSACTIONAL);
        for (index, record) in opener.open(&batch)?.enumerate() {
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            let Some(key) = record.key else { continue };
            if record.offset < start_offset {
                continue;
            }
            count += 1;
            let value = record.value.map(<[u8]>::to_vec);
            if is_undecided {
                found.push(Found {
                    offset: record.offset,
                    key: key.to_vec(),
                    value,
                });
            } else if let Some(newest) = by_key.get_mut(key) {
                *newest = (record.offset, value);
            } else {
                by_key.insert(key.to_vec(), (record.offset, value));
            }
        }
    }
    found.extend(
        by_key
            .into_iter()
            .map(|(key, (offset, value))| Found { offset, key, value }),
    );
    found.sort_unstable_by_key(|each| each.offset);
    Ok((found, count))
}

#[pyfunction]
#[pyo3(signature = (data, *, max_decompressed_bytes, start_offset = 0))]
fn decode_newest<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    max_decompressed_bytes: usize,
    start_offset: i64,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    let (found, count) = on_bytes(py, data.as_slice(), |bytes| {
        newest(bytes, start_offset, max_decompressed_bytes)
    })?;
    let rows = PyList::empty(py);
    for each in found {
        let value = each.value.map(|value| PyBytes::new(py, &value));
        rows.append((each.offset, PyBytes::new(py, &each.key), value))?;
    }
    Ok((rows, count))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode_newest, module)?)
}
