//! What Python sees of runs of record batches.

use crate::batch_header::{
    BatchHeader, CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME, LOG_OVERHEAD,
    TRANSACTIONAL, array,
};
use crate::batch_run::{self, Assignment, Producer, ProducerRules, assign, validate, walk};
use crate::buffer::{ByteView, ByteViewMut, DETACH_BYTES, on_bytes};
use crate::record::Records;
use pyo3::prelude::*;

const ABORT: i16 = 0;
const COMMIT: i16 = 1;
const MARKER_KEY_BYTES: usize = 4;
const MARKER_VALUE_BYTES: usize = 6;

/// Type and coordinator epoch of an end transaction marker.
type Marker = (i16, i32);

/// The header of one batch, where it lies and what follows from it.
#[pyclass(frozen, module = "ottla.native")]
pub struct BatchInfo {
    position: usize,
    header: BatchHeader,
    marker: Option<Marker>,
}

impl BatchInfo {
    /// Of a batch at the start of its buffer.
    pub fn first(header: BatchHeader) -> Self {
        BatchInfo {
            position: 0,
            header,
            marker: None,
        }
    }
}

#[pymethods]
impl BatchInfo {
    #[getter]
    fn position(&self) -> usize {
        self.position
    }

    #[getter]
    fn size(&self) -> usize {
        LOG_OVERHEAD + self.header.batch_length as usize
    }

    #[getter]
    fn base_offset(&self) -> i64 {
        self.header.base_offset
    }

    #[getter]
    fn last_offset(&self) -> i64 {
        self.header.last_offset()
    }

    #[getter]
    fn last_offset_delta(&self) -> i32 {
        self.header.last_offset_delta
    }

    #[getter]
    fn record_count(&self) -> i32 {
        self.header.record_count
    }

    #[getter]
    fn leader_epoch(&self) -> i32 {
        self.header.leader_epoch
    }

    #[getter]
    fn crc(&self) -> u32 {
        self.header.crc
    }

    #[getter]
    fn attributes(&self) -> i16 {
        self.header.attributes
    }

    #[getter]
    fn codec(&self) -> i16 {
        self.header.attributes & CODEC_MASK
    }

    #[getter]
    fn base_timestamp(&self) -> i64 {
        self.header.base_timestamp
    }

    #[getter]
    fn max_timestamp(&self) -> i64 {
        self.header.max_timestamp
    }

    #[getter]
    fn producer_id(&self) -> i64 {
        self.header.producer_id
    }

    #[getter]
    fn producer_epoch(&self) -> i16 {
        self.header.producer_epoch
    }

    #[getter]
    fn base_sequence(&self) -> i32 {
        self.header.base_sequence
    }

    #[getter]
    fn last_sequence(&self) -> i32 {
        self.header.last_sequence()
    }

    #[getter]
    fn is_transactional(&self) -> bool {
        self.header.has(TRANSACTIONAL)
    }

    #[getter]
    fn is_control(&self) -> bool {
        self.header.has(CONTROL)
    }

    #[getter]
    fn marker(&self) -> Option<Marker> {
        self.marker
    }

    #[getter]
    fn log_append_time(&self) -> bool {
        self.header.has(LOG_APPEND_TIME)
    }

    #[getter]
    fn has_delete_horizon(&self) -> bool {
        self.header.has(DELETE_HORIZON)
    }

    fn __repr__(&self) -> String {
        format!(
            "BatchInfo(position={}, size={}, base_offset={}, last_offset={}, record_count={}, codec={}, \
             producer_id={}, base_sequence={}, max_timestamp={})",
            self.position,
            self.size(),
            self.base_offset(),
            self.last_offset(),
            self.record_count(),
            self.codec(),
            self.producer_id(),
            self.base_sequence(),
            self.max_timestamp(),
        )
    }
}

/// What the end of a transaction says, in the only record of a control batch; none in others, or when it was emptied.
fn marker_of(header: &BatchHeader, payload: &[u8]) -> Option<Marker> {
    if header.attributes & CODEC_MASK != 0 {
        return None;
    }
    let record = Records::new(header, payload).next()?.ok()?;
    let (key, value) = (record.key?, record.value?);
    if key.len() < MARKER_KEY_BYTES || value.len() < MARKER_VALUE_BYTES {
        return None;
    }
    let kind = i16::from_be_bytes(array(key, 2));
    (kind == ABORT || kind == COMMIT).then(|| (kind, i32::from_be_bytes(array(value, 2))))
}

fn infos(found: Vec<(usize, BatchHeader)>, data: &[u8]) -> Vec<BatchInfo> {
    found
        .into_iter()
        .map(|(position, header)| {
            let marker = if header.has(CONTROL) {
                let end = position + LOG_OVERHEAD + header.batch_length as usize;
                marker_of(&header, &data[position + HEADER_BYTES..end])
            } else {
                None
            };
            BatchInfo {
                position,
                header,
                marker,
            }
        })
        .collect()
}

#[pyfunction]
#[pyo3(signature = (data, *, max_batch_bytes = 0, allow_control = false))]
fn validate_batches(
    py: Python<'_>,
    data: ByteView<'_>,
    max_batch_bytes: usize,
    allow_control: bool,
) -> PyResult<Vec<BatchInfo>> {
    let rules = ProducerRules {
        max_batch_bytes,
        allow_control,
    };
    let found = on_bytes(py, data.as_slice(), |bytes| validate(bytes, rules))?;
    Ok(infos(found, data.as_slice()))
}

/// Batches, bytes consumed, why it stopped.
type WalkResult<'py> = (Vec<BatchInfo>, usize, Option<Bound<'py, PyAny>>);

#[pyfunction]
#[pyo3(signature = (data, *, check_crc))]
fn walk_batches<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    check_crc: bool,
) -> PyResult<WalkResult<'py>> {
    let walked = on_bytes(py, data.as_slice(), |bytes| walk(bytes, check_crc));
    let stopped_by = walked
        .stopped_by
        .map(|error| error.to_exception(py))
        .transpose()?;
    Ok((
        infos(walked.batches, data.as_slice()),
        walked.consumed,
        stopped_by,
    ))
}

#[pyfunction]
#[pyo3(signature = (data, base_offset, leader_epoch, log_append_time_ms = -1))]
#[pyo3(text_signature = "(data, base_offset, leader_epoch, log_append_time_ms=-1)")]
fn assign_offsets(
    py: Python<'_>,
    mut data: ByteViewMut,
    base_offset: i64,
    leader_epoch: i32,
    log_append_time_ms: i64,
) -> PyResult<i64> {
    let assignment = Assignment {
        base_offset,
        leader_epoch,
        log_append_time_ms: (log_append_time_ms >= 0).then_some(log_append_time_ms),
    };
    let bytes = data.as_mut_slice();
    // Without new checksums this touches a few bytes of each batch, however large they are.
    if assignment.log_append_time_ms.is_some() && bytes.len() > DETACH_BYTES {
        Ok(py.detach(|| assign(bytes, assignment))?)
    } else {
        Ok(assign(bytes, assignment)?)
    }
}

#[pyfunction]
#[pyo3(signature = (data, producer_id, producer_epoch, base_sequence, *, is_transactional = false))]
fn assign_producer(
    py: Python<'_>,
    mut data: ByteViewMut,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    is_transactional: bool,
) -> PyResult<i32> {
    let producer = Producer {
        id: producer_id,
        epoch: producer_epoch,
        base_sequence,
        is_transactional,
    };
    let bytes = data.as_mut_slice();
    if bytes.len() > DETACH_BYTES {
        Ok(py.detach(|| batch_run::assign_producer(bytes, producer))?)
    } else {
        Ok(batch_run::assign_producer(bytes, producer)?)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BatchInfo>()?;
    module.add_function(wrap_pyfunction!(validate_batches, module)?)?;
    module.add_function(wrap_pyfunction!(walk_batches, module)?)?;
    module.add_function(wrap_pyfunction!(assign_offsets, module)?)?;
    module.add_function(wrap_pyfunction!(assign_producer, module)?)
}
