//! Rows of an Arrow table to record batches, grouped by partition.

use crate::arrow_columns::{BytesColumn, ColumnError, PartitionColumn, TimeColumn};
use crate::arrow_headers::HeadersColumn;
use crate::batch_builder::{BatchBuilder, BatchFields};
use crate::partitioner::partition_of;
use crate::record::HeaderRef;
use arrow_array::{Array, StructArray};

/// The columns of a table of records.
struct RecordColumns<'a> {
    key: BytesColumn<'a>,
    value: BytesColumn<'a>,
    headers: HeadersColumn<'a>,
    partition: PartitionColumn<'a>,
    timestamp: TimeColumn<'a>,
}

impl<'a> RecordColumns<'a> {
    /// The columns of `table`: `value`, and any of the others.
    fn new(table: &'a StructArray) -> Result<Self, ColumnError> {
        const NAMES: [&str; 5] = ["key", "value", "headers", "partition", "timestamp"];
        if table.null_count() > 0 {
            return Err(ColumnError::Value("a row is null as a whole".to_string()));
        }
        for name in table.column_names() {
            if !NAMES.contains(&name) {
                return Err(ColumnError::Type(format!(
                    "there is no use for the column {name}, only for {}",
                    NAMES.join(", ")
                )));
            }
        }
        if table.column_by_name("value").is_none() {
            return Err(ColumnError::Type("the column value is missing".to_string()));
        }
        Ok(RecordColumns {
            key: BytesColumn::new("key", table.column_by_name("key"))?,
            value: BytesColumn::new("value", table.column_by_name("value"))?,
            headers: HeadersColumn::new(table.column_by_name("headers"))?,
            partition: PartitionColumn::new(table.column_by_name("partition"))?,
            timestamp: TimeColumn::new(table.column_by_name("timestamp"))?,
        })
    }
}

/// How rows become batches.
#[derive(Clone, Copy)]
pub struct Grouping {
    /// How many partitions the topic has, at least 1.
    pub partition_count: i32,
    /// A batch is closed before it grows beyond this, before compression.
    pub max_batch_bytes: usize,
    /// The time of rows that have none, in milliseconds.
    pub now_ms: i64,
    /// The partition that rows without key and partition go to first.
    pub unkeyed_start: i32,
}

/// A finished batch.
pub struct EncodedBatch {
    /// The partition it is for.
    pub partition: i32,
    /// How many records it has.
    pub record_count: i32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The rows of `table` as batches, in the order in which they were filled.
pub fn encode(
    table: &StructArray,
    grouping: Grouping,
    fields: BatchFields,
) -> Result<Vec<EncodedBatch>, ColumnError> {
    let columns = RecordColumns::new(table)?;
    let mut batches = OpenBatches::new(grouping, fields);
    let mut headers: Vec<HeaderRef<'_>> = Vec::new();
    for row in 0..table.len() {
        let key = columns.key.get(row);
        let value = columns.value.get(row);
        columns.headers.get(row, &mut headers)?;
        let header_bytes: usize = headers
            .iter()
            .map(|(key, value)| 2 * MOST_LENGTH_BYTES + key.len() + value.map_or(0, <[u8]>::len))
            .sum();
        let payload_bytes =
            key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + header_bytes;
        let builder = match (columns.partition.get(row), key) {
            (Some(partition), _) => {
                batches.of_partition(checked(partition, row, grouping)?, payload_bytes)?
            }
            (None, Some(key)) => {
                batches.of_partition(partition_of(key, grouping.partition_count), payload_bytes)?
            }
            (None, None) => batches.of_no_partition(payload_bytes)?,
        };
        let timestamp = columns.timestamp.get(row).unwrap_or(grouping.now_ms);
        builder
            .append(timestamp, key, value, &headers)
            .map_err(|what| ColumnError::Value(format!("row {row}: {what}")))?;
    }
    batches.finish()
}

/// The most that the length in front of a key or value takes.
const MOST_LENGTH_BYTES: usize = 5;

fn checked(partition: i32, row: usize, grouping: Grouping) -> Result<i32, ColumnError> {
    if (0..grouping.partition_count).contains(&partition) {
        return Ok(partition);
    }
    let count = grouping.partition_count;
    Err(ColumnError::Value(format!(
        "row {row}: there is no partition {partition}, the topic has {count}"
    )))
}

/// A batch being filled for each partition that has rows, and those that are full.
struct OpenBatches {
    grouping: Grouping,
    fields: BatchFields,
    unkeyed_partition: i32,
    open: Vec<Option<BatchBuilder>>,
    full: Vec<EncodedBatch>,
}

impl OpenBatches {
    fn new(grouping: Grouping, fields: BatchFields) -> Self {
        OpenBatches {
            grouping,
            fields,
            unkeyed_partition: grouping.unkeyed_start.rem_euclid(grouping.partition_count),
            open: (0..grouping.partition_count).map(|_| None).collect(),
            full: Vec::new(),
        }
    }

    /// The batch of `partition`, with room for one more record of this size.
    fn of_partition(
        &mut self,
        partition: i32,
        payload_bytes: usize,
    ) -> Result<&mut BatchBuilder, ColumnError> {
        let max_bytes = self.grouping.max_batch_bytes;
        let open = &mut self.open[partition as usize];
        let mut capacity = 1024;
        if let Some(full) = open.take_if(|batch| batch.would_exceed(max_bytes, payload_bytes)) {
            capacity = full.size();
            self.full.push(close(partition, full, self.fields)?);
        }
        Ok(open.get_or_insert_with(|| BatchBuilder::new(capacity)))
    }

    /// The batch for rows without key and partition: a partition gets a whole batch of them, then comes the next.
    fn of_no_partition(&mut self, payload_bytes: usize) -> Result<&mut BatchBuilder, ColumnError> {
        let max_bytes = self.grouping.max_batch_bytes;
        let partition = self.unkeyed_partition;
        if let Some(full) = self.open[partition as usize]
            .take_if(|batch| batch.would_exceed(max_bytes, payload_bytes))
        {
            self.full.push(close(partition, full, self.fields)?);
            self.unkeyed_partition = (partition + 1) % self.grouping.partition_count;
        }
        self.of_partition(self.unkeyed_partition, payload_bytes)
    }

    fn finish(mut self) -> Result<Vec<EncodedBatch>, ColumnError> {
        for (partition, batch) in self.open.into_iter().enumerate() {
            if let Some(batch) = batch {
                self.full.push(close(partition as i32, batch, self.fields)?);
            }
        }
        Ok(self.full)
    }
}

fn close(
    partition: i32,
    batch: BatchBuilder,
    fields: BatchFields,
) -> Result<EncodedBatch, ColumnError> {
    let record_count = batch.record_count();
    let bytes = batch.finish(fields).map_err(ColumnError::Value)?;
    Ok(EncodedBatch {
        partition,
        record_count,
        bytes,
    })
}
