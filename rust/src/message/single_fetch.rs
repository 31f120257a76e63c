//! What Python sees of a Fetch request of one partition.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::failure::Failure;
use super::fetch::{self, Read, SingleFetch};
use super::partition_key::PartitionKey;

/// A Fetch request of one partition, with its header.
#[pyclass(frozen, module = "ottla.native._kernel")]
pub(super) struct SingleFetchRequest {
    #[pyo3(get)]
    api_version: i16,
    #[pyo3(get)]
    correlation_id: i32,
    #[pyo3(get)]
    client_id: Option<Py<PyString>>,
    #[pyo3(get)]
    max_wait_ms: i32,
    #[pyo3(get)]
    min_bytes: i32,
    #[pyo3(get)]
    max_bytes: i32,
    #[pyo3(get)]
    read_committed: bool,
    key: PartitionKey,
    #[pyo3(get)]
    current_leader_epoch: i32,
    #[pyo3(get)]
    fetch_offset: i64,
    #[pyo3(get)]
    last_fetched_epoch: i32,
    #[pyo3(get)]
    log_start_offset: i64,
    partition_max_bytes: i32,
}

impl SingleFetchRequest {
    /// What was found.
    pub(super) fn new(py: Python<'_>, found: &SingleFetch<'_>) -> PyResult<Self> {
        let header = &found.header;
        Ok(Self {
            api_version: header.version,
            correlation_id: header.correlation_id,
            client_id: header
                .client_id
                .map(|name| PyString::new(py, name).unbind()),
            max_wait_ms: found.max_wait_ms,
            min_bytes: found.min_bytes,
            max_bytes: found.max_bytes,
            read_committed: found.read_committed,
            key: PartitionKey::new(py, found.topic, found.partition)?,
            current_leader_epoch: found.current_leader_epoch,
            fetch_offset: found.fetch_offset,
            last_fetched_epoch: found.last_fetched_epoch,
            log_start_offset: found.log_start_offset,
            partition_max_bytes: found.partition_max_bytes,
        })
    }
}

#[pymethods]
impl SingleFetchRequest {
    #[getter]
    fn api_key(&self) -> i16 {
        fetch::API.key
    }

    #[getter]
    fn partition_max_bytes(&self) -> i32 {
        self.partition_max_bytes.max(0)
    }

    #[getter]
    fn partition(&self) -> i32 {
        self.key.partition
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.key.pair.bind(py).clone()
    }

    #[getter]
    fn topic_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.key.topic_name(py)
    }

    #[getter]
    fn topic_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.key.topic_id(py)
    }

    #[pyo3(signature = (high_watermark, last_stable_offset, log_start_offset, records_bytes, slices, /))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        high_watermark: i64,
        last_stable_offset: i64,
        log_start_offset: i64,
        records_bytes: usize,
        slices: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyList>> {
        let read = Read {
            high_watermark,
            last_stable_offset,
            log_start_offset,
            read_committed: self.read_committed,
            records_bytes,
        };
        let topic = self.key.topic(py)?;
        let (mut before, behind) = fetch::answer(
            self.api_version,
            self.correlation_id,
            topic,
            self.key.partition,
            read,
        )
        .ok_or_else(|| Failure::of("the frame is larger than 2 GiB").into_error("FetchResponse"))?;
        if slices.is_empty() {
            before.extend_from_slice(&behind);
            return PyList::new(py, [PyBytes::new(py, &before)]);
        }
        let parts = PyList::new(py, [PyBytes::new(py, &before)])?;
        for slice in slices {
            parts.append(slice)?;
        }
        if !behind.is_empty() {
            parts.append(PyBytes::new(py, &behind))?;
        }
        Ok(parts)
    }
}
