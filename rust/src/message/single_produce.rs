//! What Python sees of a Produce request to one partition.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString, PyTuple};

use super::input::Input;
use super::partition_key::PartitionKey;
use super::produce::{self, SingleProduce, Written};

/// A Produce request to one partition, with its header.
#[pyclass(frozen, module = "ottla.native._kernel")]
pub(super) struct SingleProduceRequest {
    #[pyo3(get)]
    api_version: i16,
    #[pyo3(get)]
    correlation_id: i32,
    #[pyo3(get)]
    client_id: Option<Py<PyString>>,
    #[pyo3(get)]
    acks: i16,
    timeout_ms: i32,
    key: PartitionKey,
    #[pyo3(get)]
    records: Py<PyAny>,
}

impl SingleProduceRequest {
    /// What was found in the bytes of `input`.
    pub(super) fn new(input: &Input<'_, '_>, found: &SingleProduce<'_>) -> PyResult<Self> {
        let py = input.py();
        let header = &found.header;
        Ok(Self {
            api_version: header.version,
            correlation_id: header.correlation_id,
            client_id: header
                .client_id
                .map(|name| PyString::new(py, name).unbind()),
            acks: found.acks,
            timeout_ms: found.timeout_ms,
            key: PartitionKey::new(py, found.topic, found.partition)?,
            records: input.view(found.records.start, found.records.end)?.unbind(),
        })
    }

    /// A request whose records are elsewhere by now, to be answered.
    pub(super) fn without_records(
        py: Python<'_>,
        api_version: i16,
        correlation_id: i32,
        client_id: Option<&str>,
        (acks, timeout_ms): (i16, i32),
        key: PartitionKey,
    ) -> PyResult<Self> {
        let nothing = PyMemoryView::from(&PyBytes::new(py, b""))?;
        Ok(Self {
            api_version,
            correlation_id,
            client_id: client_id.map(|name| PyString::new(py, name).unbind()),
            acks,
            timeout_ms,
            key,
            records: nothing.into_any().unbind(),
        })
    }
}

#[pymethods]
impl SingleProduceRequest {
    #[getter]
    fn api_key(&self) -> i16 {
        produce::API.key
    }

    #[getter]
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms.max(0)
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

    #[pyo3(signature = (base_offset, log_append_time_ms, log_start_offset, /))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        base_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let written = Written {
            base_offset,
            log_append_time_ms,
            log_start_offset,
        };
        let frame = produce::answer(
            self.api_version,
            self.correlation_id,
            self.key.topic(py)?,
            self.key.partition,
            written,
        );
        Ok(PyBytes::new(py, &frame))
    }
}
