//! The partition of a request that outlives its frame, as Python sees it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::single::Topic;
use super::uuid;

enum OwnedTopic {
    Name(Py<PyString>),
    Id([u8; 16]),
}

/// A topic and the index of one of its partitions.
pub(super) struct PartitionKey {
    topic: OwnedTopic,
    pub(super) partition: i32,
    /// Name or bytes of the id, and index: what a partition is found by. A UUID would be hashed in Python.
    pub(super) pair: Py<PyTuple>,
}

impl PartitionKey {
    pub(super) fn new(py: Python<'_>, topic: Topic<'_>, partition: i32) -> PyResult<Self> {
        let (topic, pair) = match topic {
            Topic::Name(name) => {
                let name = PyString::new(py, name);
                let pair = (&name, partition).into_pyobject(py)?;
                (OwnedTopic::Name(name.unbind()), pair)
            }
            Topic::Id(id) => {
                let pair = (PyBytes::new(py, &id), partition).into_pyobject(py)?;
                (OwnedTopic::Id(id), pair)
            }
        };
        Ok(Self {
            topic,
            partition,
            pair: pair.unbind(),
        })
    }

    pub(super) fn topic<'py>(&'py self, py: Python<'py>) -> PyResult<Topic<'py>> {
        Ok(match &self.topic {
            OwnedTopic::Name(name) => Topic::Name(name.bind(py).to_str()?),
            OwnedTopic::Id(id) => Topic::Id(*id),
        })
    }

    /// Empty where the topic has been given by its id.
    pub(super) fn topic_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match &self.topic {
            OwnedTopic::Name(name) => name.bind(py).clone(),
            OwnedTopic::Id(_) => PyString::new(py, ""),
        }
    }

    /// All zeros where it has been named.
    pub(super) fn topic_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        uuid::from_bytes(
            py,
            match &self.topic {
                OwnedTopic::Name(_) => [0; 16],
                OwnedTopic::Id(id) => *id,
            },
        )
    }
}
