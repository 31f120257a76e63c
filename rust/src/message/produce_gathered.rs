//! What Python sees of Produce requests that arrived together.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::partition_key::PartitionKey;
use super::produce::{self, Written};
use super::produce_run::{self, IndexPoint, Run};
use super::single_produce::SingleProduceRequest;
use crate::batch_info::BatchInfo;
use crate::batch_run::Assignment;
use crate::buffer::ByteView;
use crate::index_progress::IndexProgress;
use crate::recent_batches::RecentBatches;
use crate::topic_rules::TopicRules;

/// Whose bytes these are, and where they lie.
type Arrival = (Py<PyAny>, usize, usize);

/// Produce requests to one partition, with the same acks and time-out, that are served as one.
#[pyclass(module = "ottla.native._kernel")]
pub(super) struct ProduceRun {
    run: Run<Option<Py<PyAny>>>,
    key: PartitionKey,
    is_of_one: bool,
    /// What was received of those that were taken out.
    refused: Vec<Arrival>,
}

impl ProduceRun {
    fn new(py: Python<'_>, run: Run<Option<Py<PyAny>>>, is_of_one: bool) -> PyResult<Self> {
        let key = PartitionKey::new(py, run.topic(), run.partition)?;
        Ok(Self {
            run,
            key,
            is_of_one,
            refused: Vec::new(),
        })
    }
}

#[pymethods]
impl ProduceRun {
    #[classattr]
    const FIRST_VERSION: i16 = *produce::API.versions.start();
    #[classattr]
    const LAST_VERSION: i16 = *produce::API.versions.end();

    #[staticmethod]
    fn gather<'py>(
        py: Python<'py>,
        buffer: ByteView<'py>,
        received: Vec<Arrival>,
        frame_bytes_max: usize,
    ) -> PyResult<(Vec<ProduceRun>, Vec<Arrival>)> {
        let arrivals = received
            .into_iter()
            .map(|(owner, begin, end)| (Some(owner), begin..end));
        let (runs, rest) = produce_run::gather(buffer.as_slice(), arrivals, frame_bytes_max);
        let runs = runs
            .into_iter()
            .map(|run| ProduceRun::new(py, run, false))
            .collect::<PyResult<_>>()?;
        let rest = rest
            .into_iter()
            .filter_map(|(owner, place)| Some((owner?, place.start, place.end)))
            .collect();
        Ok((runs, rest))
    }

    #[staticmethod]
    fn leading<'py>(
        py: Python<'py>,
        buffer: ByteView<'py>,
        begin: usize,
        end: usize,
        frame_bytes_max: usize,
        count_max: usize,
    ) -> PyResult<Option<ProduceRun>> {
        produce_run::leading(buffer.as_slice(), begin..end, frame_bytes_max, count_max)
            .map(|run| ProduceRun::new(py, run, true))
            .transpose()
    }

    #[staticmethod]
    fn whole<'py>(
        py: Python<'py>,
        buffer: ByteView<'py>,
        begin: usize,
        end: usize,
        frame_bytes_max: usize,
        count_max: usize,
    ) -> PyResult<Option<ProduceRun>> {
        produce_run::whole(buffer.as_slice(), begin..end, frame_bytes_max, count_max)
            .map(|run| ProduceRun::new(py, run, true))
            .transpose()
    }

    fn __len__(&self) -> usize {
        self.run.members.len()
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.key.pair.bind(py).clone()
    }

    #[getter]
    fn acks(&self) -> i16 {
        self.run.acks
    }

    #[getter]
    fn timeout_ms(&self) -> i32 {
        self.run.timeout_ms.max(0)
    }

    #[getter]
    fn owners<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.run.members.iter().map(|each| &each.owner))
    }

    #[getter]
    fn arrivals(&self, py: Python<'_>) -> Vec<Arrival> {
        self.run
            .members
            .iter()
            .filter_map(|each| {
                let owner = each.owner.as_ref()?.clone_ref(py);
                Some((owner, each.place.start, each.place.end))
            })
            .collect()
    }

    #[getter]
    fn end(&self) -> usize {
        self.run.members.last().map_or(0, |each| each.place.end)
    }

    #[getter]
    fn size(&self) -> usize {
        self.run.bytes().len()
    }

    #[getter]
    fn record_count(&self) -> i64 {
        self.run.record_count()
    }

    #[getter]
    fn max_timestamp(&self) -> i64 {
        self.run
            .headers()
            .map(|each| each.max_timestamp)
            .max()
            .unwrap_or(-1)
    }

    #[getter]
    fn is_idempotent(&self) -> bool {
        self.run.headers().any(|each| each.producer_id >= 0)
    }

    #[getter]
    fn batches(&self) -> Vec<BatchInfo> {
        self.run.headers().map(BatchInfo::first).collect()
    }

    #[getter]
    fn refused(&self, py: Python<'_>) -> Vec<Arrival> {
        self.refused
            .iter()
            .map(|(owner, begin, end)| (owner.clone_ref(py), *begin, *end))
            .collect()
    }

    fn check(&mut self, rules: &TopicRules, now_ms: i64) -> bool {
        let count = self.run.members.len();
        if self.is_of_one {
            self.run.check_leading(rules.rules(), now_ms);
            return self.run.members.len() == count;
        }
        let refused = self.run.check(rules.rules(), now_ms);
        self.refused.extend(
            refused
                .into_iter()
                .filter_map(|each| Some((each.owner?, each.place.start, each.place.end))),
        );
        self.run.members.len() == count
    }

    fn assign<'py>(
        &mut self,
        py: Python<'py>,
        base_offset: i64,
        leader_epoch: i32,
        log_append_time_ms: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.run.assign(Assignment {
            base_offset,
            leader_epoch,
            log_append_time_ms: (log_append_time_ms >= 0).then_some(log_append_time_ms),
        })?;
        Ok(PyBytes::new(py, &data))
    }

    #[pyo3(signature = (base_offset, log_append_time_ms, interval_bytes, progress, recent, /))]
    fn enter(
        &self,
        base_offset: i64,
        log_append_time_ms: i64,
        interval_bytes: u64,
        progress: &mut IndexProgress,
        recent: &mut RecentBatches,
    ) -> Option<Vec<IndexPoint>> {
        let stamp = (log_append_time_ms >= 0).then_some(log_append_time_ms);
        let indexed = &mut progress.indexed;
        let points = self
            .run
            .enter(base_offset, stamp, interval_bytes, indexed, recent);
        (!points.is_empty()).then_some(points)
    }

    fn answers<'py>(
        &self,
        py: Python<'py>,
        base_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let first = Written {
            base_offset,
            log_append_time_ms,
            log_start_offset,
        };
        let answers: Vec<_> = self
            .run
            .answers(first)
            .map(|frame| PyBytes::new(py, &frame))
            .collect();
        PyList::new(py, answers)
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        base_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
    ) -> Bound<'py, PyBytes> {
        let first = Written {
            base_offset,
            log_append_time_ms,
            log_start_offset,
        };
        let mut answers = self.run.answers(first);
        let mut all = answers.next().unwrap_or_default();
        answers.for_each(|answer| all.extend_from_slice(&answer));
        PyBytes::new(py, &all)
    }

    fn request(&self, py: Python<'_>, index: usize) -> PyResult<SingleProduceRequest> {
        let member = self
            .run
            .members
            .get(index)
            .ok_or_else(|| PyIndexError::new_err("no such request"))?;
        SingleProduceRequest::without_records(
            py,
            member.version,
            member.correlation_id,
            self.run.client_id(member),
            (self.run.acks, self.run.timeout_ms),
            PartitionKey::new(py, self.run.topic(), self.run.partition)?,
        )
    }
}
