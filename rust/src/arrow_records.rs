//! What Python sees of record batches as Arrow tables.

use crate::arrow_capsule::{export, export_schema, import};
use crate::arrow_columns::ColumnError;
use crate::arrow_decode::{Selection, decode};
use crate::arrow_encode::{EncodedBatch, Grouping, encode};
use crate::batch_builder::BatchFields;
use crate::buffer::{ByteView, on_bytes};
use crate::records::codec_and_level;
use arrow_array::{Array, StructArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyCapsule};

/// Decoded records, one row each, for any Arrow library to take.
#[pyclass(frozen, module = "ottla.native")]
pub struct ArrowRecords {
    rows: StructArray,
}

#[pymethods]
impl ArrowRecords {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A producer that cannot cast gives its own schema, and the consumer sees the difference.
        drop(requested_schema);
        export(py, &self.rows)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.rows)
    }
}

#[pyfunction]
#[pyo3(signature = (data, *, max_decompressed_bytes, start_offset, end_offset, topic, partition, include_headers))]
#[allow(clippy::too_many_arguments)]
fn decode_arrow(
    py: Python<'_>,
    data: ByteView<'_>,
    max_decompressed_bytes: usize,
    start_offset: i64,
    end_offset: i64,
    topic: &str,
    partition: i32,
    include_headers: bool,
) -> PyResult<ArrowRecords> {
    let selection = Selection {
        start_offset,
        end_offset,
        topic,
        partition,
        include_headers,
    };
    let rows = on_bytes(py, data.as_slice(), |bytes| {
        decode(bytes, max_decompressed_bytes, &selection)
    })?;
    Ok(ArrowRecords { rows })
}

#[pyfunction]
#[pyo3(signature = (
    array, *, partition_count, now_ms, codec = 0, level = None, max_batch_bytes = 1_000_000, unkeyed_start = 0,
))]
#[allow(clippy::too_many_arguments)]
fn encode_arrow<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    partition_count: i32,
    now_ms: i64,
    codec: i16,
    level: Option<i32>,
    max_batch_bytes: usize,
    unkeyed_start: i32,
) -> PyResult<Vec<(i32, Bound<'py, PyByteArray>, i32)>> {
    if partition_count < 1 {
        return Err(PyValueError::new_err(format!(
            "there cannot be {partition_count} partitions"
        )));
    }
    let (codec, level) = codec_and_level(codec, level)?;
    let fields = BatchFields::of_records(codec, level);
    let grouping = Grouping {
        partition_count,
        max_batch_bytes,
        now_ms,
        unkeyed_start,
    };
    let table = import(array)?;
    let encoded = py
        .detach(|| encode(&table, grouping, fields))
        .map_err(|error| match error {
            ColumnError::Type(what) => PyTypeError::new_err(what),
            ColumnError::Value(what) => PyValueError::new_err(what),
        })?;
    Ok(encoded
        .into_iter()
        .map(
            |EncodedBatch {
                 partition,
                 record_count,
                 bytes,
             }| (partition, PyByteArray::new(py, &bytes), record_count),
        )
        .collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArrowRecords>()?;
    module.add_function(wrap_pyfunction!(decode_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(encode_arrow, module)?)
}
