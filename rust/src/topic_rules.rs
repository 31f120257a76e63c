//! What Python sees of the checks of a producer's batch.

use crate::batch_info::BatchInfo;
use crate::buffer::{ByteView, ByteViewMut, DETACH_BYTES};
use crate::produced::{self, TimestampLimits};
use crate::records::codec_and_level;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// What a topic asks of the batches that producers send.
#[pyclass(frozen, eq, hash, module = "ottla.native")]
#[derive(PartialEq, Eq, Hash)]
pub struct TopicRules(produced::TopicRules);

/// The batch that is to be kept where it is not the one that came, and its header.
type OpenedBatch<'py> = (Option<Bound<'py, PyByteArray>>, Vec<BatchInfo>);

impl TopicRules {
    /// What is asked, for who checks without Python.
    pub fn rules(&self) -> &produced::TopicRules {
        &self.0
    }
}

#[pymethods]
impl TopicRules {
    #[new]
    #[pyo3(signature = (
        *, max_batch_bytes, timestamp_limits_ms = None, keys_required = false, stream_records_refused = false,
        codec = None, level = None, opens_compressed = false, max_decompressed_bytes,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        max_batch_bytes: usize,
        timestamp_limits_ms: Option<(i64, i64)>,
        keys_required: bool,
        stream_records_refused: bool,
        codec: Option<i16>,
        level: Option<i32>,
        opens_compressed: bool,
        max_decompressed_bytes: usize,
    ) -> PyResult<Self> {
        let (codec, level) = match codec {
            None => (None, None),
            Some(codec) => {
                let (codec, level) = codec_and_level(codec, level)?;
                (Some(codec), level)
            }
        };
        Ok(TopicRules(produced::TopicRules {
            max_batch_bytes,
            timestamps: timestamp_limits_ms.map(|(before_max_ms, after_max_ms)| TimestampLimits {
                before_max_ms,
                after_max_ms,
            }),
            keys_required,
            stream_records_refused,
            codec,
            level,
            opens_compressed,
            max_decompressed_bytes,
        }))
    }

    /// One batch, or nothing where it must be opened.
    fn check(
        &self,
        py: Python<'_>,
        mut data: ByteViewMut,
        now_ms: i64,
    ) -> PyResult<Option<Vec<BatchInfo>>> {
        let bytes = data.as_mut_slice();
        let checked = if bytes.len() > DETACH_BYTES {
            py.detach(|| produced::check(bytes, &self.0, now_ms))?
        } else {
            produced::check(bytes, &self.0, now_ms)?
        };
        Ok((!checked.must_be_opened).then(|| vec![BatchInfo::first(checked.header)]))
    }

    fn open_bytes_max(&self, data: ByteView<'_>) -> usize {
        produced::open_bytes_max(data.as_slice(), &self.0)
    }

    fn open<'py>(
        &self,
        py: Python<'py>,
        mut data: ByteViewMut,
        now_ms: i64,
    ) -> PyResult<OpenedBatch<'py>> {
        let bytes = data.as_mut_slice();
        let opened = py.detach(|| produced::open(bytes, &self.0, now_ms))?;
        let rewritten = opened.rewritten.map(|batch| PyByteArray::new(py, &batch));
        Ok((rewritten, vec![BatchInfo::first(opened.header)]))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TopicRules>()
}
