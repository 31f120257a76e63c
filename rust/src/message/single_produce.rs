//! What Python sees of a Produce request to one partition.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::input::Input;
use super::produce::{self, SingleProduce, Topic, Written};
use super::uuid;

/// The topic of a request that outlives its frame.
enum OwnedTopic {
    Name(Py<PyString>),
    Id([u8; 16]),
}

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
    topic: OwnedTopic,
    #[pyo3(get)]
    partition: i32,
    #[pyo3(get)]
    key: Py<PyTuple>,
    #[pyo3(get)]
    records: Py<PyAny>,
}

impl SingleProduceRequest {
    /// What was found in the bytes of `input`.
    pub(super) fn new(input: &Input<'_, '_>, found: &SingleProduce<'_>) -> PyResult<Self> {
        let py = input.py();
        let (topic, key) = match found.topic {
            Topic::Name(name) => {
                let name = PyString::new(py, name);
                let key = (&name, found.partition).into_pyobject(py)?;
                (OwnedTopic::Name(name.unbind()), key)
            }
            Topic::Id(id) => {
                let key = (PyBytes::new(py, &id), found.partition).into_pyobject(py)?;
                (OwnedTopic::Id(id), key)
            }
        };
        Ok(Self {
            api_version: found.version,
            correlation_id: found.correlation_id,
            client_id: found.client_id.map(|name| PyString::new(py, name).unbind()),
            acks: found.acks,
            timeout_ms: found.timeout_ms,
            topic,
            partition: found.partition,
            key: key.unbind(),
            records: input.view(found.records.start, found.records.end)?.unbind(),
        })
    }
}

#[pymethods]
impl SingleProduceRequest {
    #[getter]
    fn api_key(&self) -> i16 {
        produce::API_KEY
    }

    #[getter]
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms.max(0)
    }

    #[getter]
    fn topic_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match &self.topic {
            OwnedTopic::Name(name) => name.bind(py).clone(),
            OwnedTopic::Id(_) => PyString::new(py, ""),
        }
    }

    #[getter]
    fn topic_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        uuid::from_bytes(
            py,
            match &self.topic {
                OwnedTopic::Name(_) => [0; 16],
                OwnedTopic::Id(id) => *id,
            },
        )
    }

    #[pyo3(signature = (base_offset, log_append_time_ms, log_start_offset, /))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        base_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let topic = match &self.topic {
            OwnedTopic::Name(name) => Topic::Name(name.bind(py).to_str()?),
            OwnedTopic::Id(id) => Topic::Id(*id),
        };
        let written = Written {
            base_offset,
            log_append_time_ms,
            log_start_offset,
        };
        let frame = produce::answer(
            self.api_version,
            self.correlation_id,
            topic,
            self.partition,
            written,
        );
        Ok(PyBytes::new(py, &frame))
    }
}
