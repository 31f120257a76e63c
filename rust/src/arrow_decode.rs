//! Records to the columns of Spark's Kafka source.
//!
//! ```text
//! key binary | value binary | topic string | partition int32 | offset int64 | timestamp timestamp[us, UTC]
//! timestampType int32 | headers list<element: struct<key: string, value: binary>>          (every field nullable)
//! ```
//!
//! Source: <https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html>.

use crate::batch::Batch;
use crate::batch_header::LOG_APPEND_TIME;
use crate::batch_payload::{Opener, batches_from, record_error};
use crate::error::{BatchError, Fault};
use crate::record::{Headers, Record};
use arrow_array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use std::sync::Arc;

/// Which records to decode, and what stands in the columns that are the same for all of them.
pub struct Selection<'a> {
    /// The first offset.
    pub start_offset: i64,
    /// The offset after the last.
    pub end_offset: i64,
    /// The topic's name.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// Whether there is a column of headers.
    pub include_headers: bool,
}

/// The records of `data` in `selection`, as one row each.
pub fn decode(
    data: &[u8],
    max_decompressed_bytes: usize,
    selection: &Selection<'_>,
) -> Result<StructArray, BatchError> {
    let mut columns = Columns::new(selection.include_headers);
    let mut opener = Opener::new(max_decompressed_bytes);
    for batch in batches_from(data, selection.start_offset, false) {
        let batch = batch?;
        if batch.header.base_offset >= selection.end_offset {
            break;
        }
        columns.reserve(&batch);
        let timestamp_type = i32::from(batch.header.has(LOG_APPEND_TIME));
        for (index, record) in opener.open(&batch)?.enumerate() {
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            if record.offset >= selection.end_offset {
                break;
            }
            if record.offset >= selection.start_offset
                && columns.push(&record, timestamp_type).is_none()
            {
                return batch.error(Fault::DecompressionLimit, TOO_LARGE.to_string());
            }
        }
        let topic_bytes = columns.offsets.len().saturating_mul(selection.topic.len());
        if topic_bytes > i32::MAX as usize {
            return batch.error(Fault::DecompressionLimit, TOO_LARGE.to_string());
        }
    }
    Ok(columns.finish(selection))
}

const TOO_LARGE: &str = "the records fill an Arrow column of more than 2 GB";

/// The columns in the making.
struct Columns {
    key: VarColumn,
    value: VarColumn,
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    timestamp_types: Vec<i32>,
    headers: Option<HeaderColumn>,
}

impl Columns {
    fn new(include_headers: bool) -> Self {
        Columns {
            key: VarColumn::new(),
            value: VarColumn::new(),
            offsets: Vec::new(),
            timestamps: Vec::new(),
            timestamp_types: Vec::new(),
            headers: include_headers.then(HeaderColumn::new),
        }
    }

    /// Makes room for what the batch has at least, by its bytes and not by its claims.
    fn reserve(&mut self, batch: &Batch<'_>) {
        // A record takes at least seven bytes.
        let rows = (batch.header.record_count.max(0) as usize).min(batch.bytes.len() / 7);
        self.offsets.reserve(rows);
        self.timestamps.reserve(rows);
        self.timestamp_types.reserve(rows);
        self.value.data.reserve(batch.bytes.len());
    }

    /// Appends a row; none when a column is full.
    #[inline]
    fn push(&mut self, record: &Record<'_>, timestamp_type: i32) -> Option<()> {
        self.key.push(record.key)?;
        self.value.push(record.value)?;
        if let Some(headers) = &mut self.headers {
            headers.push(&record.headers)?;
        }
        self.offsets.push(record.offset);
        self.timestamps.push(record.timestamp.saturating_mul(1000));
        self.timestamp_types.push(timestamp_type);
        Some(())
    }

    fn finish(self, selection: &Selection<'_>) -> StructArray {
        let rows = self.offsets.len();
        let timestamps = TimestampMicrosecondArray::from(self.timestamps).with_timezone("UTC");
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(self.key.binary())),
            ("value", Arc::new(self.value.binary())),
            ("topic", Arc::new(repeated(selection.topic, rows))),
            (
                "partition",
                Arc::new(Int32Array::from(vec![selection.partition; rows])),
            ),
            ("offset", Arc::new(Int64Array::from(self.offsets))),
            ("timestamp", Arc::new(timestamps)),
            (
                "timestampType",
                Arc::new(Int32Array::from(self.timestamp_types)),
            ),
        ];
        if let Some(headers) = self.headers {
            columns.push(("headers", Arc::new(headers.finish())));
        }
        let fields: Fields = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        StructArray::new(fields, columns, None)
    }
}

/// `text`, `rows` times; the caller has seen to it that this is not more than 2 GB.
fn repeated(text: &str, rows: usize) -> StringArray {
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(text.len(), rows));
    StringArray::new(
        offsets,
        Buffer::from_vec(text.repeat(rows).into_bytes()),
        None,
    )
}

/// A column of byte strings, some null.
struct VarColumn {
    ends: Vec<i32>,
    data: Vec<u8>,
    validity: NullBufferBuilder,
}

impl VarColumn {
    fn new() -> Self {
        VarColumn {
            ends: vec![0],
            data: Vec::new(),
            validity: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    fn push(&mut self, value: Option<&[u8]>) -> Option<()> {
        if let Some(bytes) = value {
            self.data.extend_from_slice(bytes);
        }
        self.validity.append(value.is_some());
        self.ends.push(i32::try_from(self.data.len()).ok()?);
        Some(())
    }

    fn into_parts(self) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        (offsets, Buffer::from_vec(self.data), self.validity.build())
    }

    fn binary(self) -> BinaryArray {
        let (offsets, data, nulls) = self.into_parts();
        BinaryArray::new(offsets, data, nulls)
    }

    fn string(self) -> StringArray {
        let (offsets, data, nulls) = self.into_parts();
        StringArray::new(offsets, data, nulls)
    }
}

/// The column of headers: null for a record without any, as Spark's source has it.
struct HeaderColumn {
    ends: Vec<i32>,
    validity: NullBufferBuilder,
    keys: VarColumn,
    values: VarColumn,
}

impl HeaderColumn {
    fn new() -> Self {
        HeaderColumn {
            ends: vec![0],
            validity: NullBufferBuilder::new(0),
            keys: VarColumn::new(),
            values: VarColumn::new(),
        }
    }

    #[inline]
    fn push(&mut self, headers: &Headers<'_>) -> Option<()> {
        for (key, value) in headers.iter() {
            self.keys
                .push(Some(String::from_utf8_lossy(key).as_bytes()))?;
            self.values.push(value)?;
        }
        self.validity.append(!headers.is_empty());
        self.ends
            .push(i32::try_from(self.keys.ends.len() - 1).ok()?);
        Some(())
    }

    fn finish(self) -> ListArray {
        let fields = Fields::from(vec![
            Field::new("key", DataType::Utf8, true),
            Field::new("value", DataType::Binary, true),
        ]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.keys.string()), Arc::new(self.values.binary())];
        let headers = StructArray::new(fields.clone(), columns, None);
        ListArray::new(
            Arc::new(Field::new("element", DataType::Struct(fields), true)),
            OffsetBuffer::new(ScalarBuffer::from(self.ends)),
            Arc::new(headers),
            self.validity.build(),
        )
    }
}
