//! Records out of batches: to the end or to a fault, within the budget, the same as rows of Arrow, and back again.
//!
//! ```text
//! how, 1 byte: bit 0 seal, bits 1-2 the budget, bit 3 compress the payload by the codec of the attributes | run
//! ```

use super::allocation::bounded;
use super::sealing::{seal, seal_one};
use crate::arrow_decode::{self, Selection};
use crate::arrow_encode::{Grouping, encode};
use crate::batch::{Batch, Batches};
use crate::batch_builder::{BatchBuilder, BatchFields};
use crate::batch_header::{ATTRIBUTES_AT, HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL};
use crate::batch_payload::{Opener, batches_from, record_error};
use crate::codec::Codec;
use crate::error::{BatchError, Fault};
use crate::record::{HeaderRef, Record};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, StructArray};
use std::sync::Arc;

const BUDGETS: [usize; 4] = [0, 1000, 1 << 16, 1 << 20];
/// Memory for each byte of the run and of the budget: scratch, columns, and a column while it is made larger.
const MEMORY_RATIO: usize = 40;
const WORKSPACE: usize = 1 << 20;
const TOPIC: &str = "t";

/// See the top of the file.
pub fn check(data: &[u8]) {
    let Some((how, run)) = data.split_first() else {
        return;
    };
    let run = match (how & 1 != 0, how & 8 != 0) {
        (_, true) => compressed(run),
        (true, false) => seal(run),
        (false, false) => run.to_vec(),
    };
    let budget = BUDGETS[usize::from(how >> 1 & 3)];
    let memory = MEMORY_RATIO * (run.len() + budget) + WORKSPACE;
    let drained = bounded(memory, || drain(&run, budget));
    let selection = Selection {
        start_offset: 0,
        end_offset: i64::MAX,
        topic: TOPIC,
        partition: 3,
        include_headers: true,
    };
    let rows = bounded(memory, || arrow_decode::decode(&run, budget, &selection));
    match (&drained, &rows) {
        (Ok(records), Ok(rows)) => {
            same_rows(records, rows);
            rows_come_back(rows);
        }
        (Err(one), Err(other)) => assert_eq!(one, other),
        (Ok(_), Err(error)) => panic!("only the rows have a fault: {error}"),
        (Err(error), Ok(_)) => panic!("only the records have a fault: {error}"),
    }
    for batch in Batches::new(&run).map_while(Result::ok) {
        batch_comes_back(&batch, budget);
    }
}

/// A run of one batch whose payload is compressed here, so that what follows decompression is reached in every codec.
fn compressed(run: &[u8]) -> Vec<u8> {
    if run.len() < HEADER_BYTES {
        return run.to_vec();
    }
    let (header, payload) = run.split_at(HEADER_BYTES);
    let mut batch = header.to_vec();
    let codec = Codec::from_id(i16::from(header[ATTRIBUTES_AT + 1] & 7)).unwrap_or(Codec::None);
    codec.compress(None, payload, &mut batch).unwrap();
    seal_one(&mut batch);
    batch
}

/// A record with its bytes its own.
#[derive(Debug, PartialEq, Eq)]
struct Owned {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Owned {
    fn of(record: &Record<'_>) -> Self {
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        assert_eq!(headers.is_empty(), record.headers.is_empty());
        Owned {
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers,
        }
    }

    fn header_refs(&self) -> Vec<HeaderRef<'_>> {
        self.headers
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
            .collect()
    }
}

/// All records of data batches, as a reader gets them: offsets increase within a batch and stay in it.
fn drain(run: &[u8], budget: usize) -> Result<Vec<Owned>, BatchError> {
    let mut opener = Opener::new(budget);
    let mut drained = Vec::new();
    for batch in batches_from(run, 0, false) {
        let batch = batch?;
        if batch.header.base_offset == i64::MAX {
            break; // Beyond every selection of rows.
        }
        let mut least = batch.header.base_offset;
        for (index, record) in opener.open(&batch)?.enumerate() {
            let record = record.map_err(|malformed| record_error(&batch, index, malformed))?;
            assert!((least..=batch.header.last_offset()).contains(&record.offset));
            least = record.offset.saturating_add(1);
            if record.offset < i64::MAX {
                drained.push(Owned::of(&record));
            }
        }
    }
    Ok(drained)
}

fn same_rows(records: &[Owned], rows: &StructArray) {
    assert_eq!(records.len(), rows.len());
    let column = |name: &str| rows.column_by_name(name).unwrap();
    let (keys, values) = (
        column("key").as_binary::<i32>(),
        column("value").as_binary::<i32>(),
    );
    let offsets = column("offset").as_primitive::<Int64Type>();
    let timestamps = column("timestamp").as_primitive::<TimestampMicrosecondType>();
    let headers = column("headers").as_list::<i32>();
    for (row, record) in records.iter().enumerate() {
        assert_eq!(offsets.value(row), record.offset);
        assert_eq!(timestamps.value(row), record.timestamp.saturating_mul(1000));
        assert_eq!(
            keys.is_valid(row).then(|| keys.value(row)),
            record.key.as_deref()
        );
        assert_eq!(
            values.is_valid(row).then(|| values.value(row)),
            record.value.as_deref()
        );
        assert_eq!(headers.is_valid(row), !record.headers.is_empty());
        assert_eq!(headers.value(row).len(), record.headers.len());
    }
}

/// The columns that a writer takes give batches that are read as the same columns.
fn rows_come_back(rows: &StructArray) {
    const WRITTEN: [&str; 4] = ["key", "value", "headers", "timestamp"];
    let timestamps = rows.column_by_name("timestamp").unwrap();
    let timestamps = timestamps.as_primitive::<TimestampMicrosecondType>();
    if timestamps.values().iter().any(|time| time % 1000 != 0) {
        return; // Capped: later than microseconds can say.
    }
    let fields: Vec<_> = rows
        .fields()
        .iter()
        .filter(|field| WRITTEN.contains(&field.name().as_str()))
        .cloned()
        .collect();
    let columns = |of: &StructArray| -> Vec<ArrayRef> {
        let named = fields.iter().map(|field| of.column_by_name(field.name()));
        named.map(|column| Arc::clone(column.unwrap())).collect()
    };
    let table = StructArray::new(fields.clone().into(), columns(rows), None);
    let grouping = Grouping {
        partition_count: 1,
        max_batch_bytes: 300,
        now_ms: 0,
        unkeyed_start: 0,
    };
    let Ok(batches) = encode(&table, grouping, BatchFields::of_records(Codec::Lz4, None)) else {
        return; // Times that are too far from each other for one batch.
    };
    let run: Vec<u8> = batches
        .iter()
        .flat_map(|batch| batch.bytes.clone())
        .collect();
    let selection = Selection {
        start_offset: 0,
        end_offset: i64::MAX,
        topic: TOPIC,
        partition: 0,
        include_headers: true,
    };
    let read = arrow_decode::decode(&run, usize::MAX, &selection).unwrap();
    assert_eq!(columns(&read), columns(&table));
}

/// The records of a batch, written again, are the same records.
fn batch_comes_back(batch: &Batch<'_>, budget: usize) {
    let mut opener = Opener::new(budget);
    let Ok(records) = opener.open(batch) else {
        return;
    };
    let Ok(records) = records
        .map(|record| record.map(|record| Owned::of(&record)))
        .collect::<Result<Vec<_>, _>>()
    else {
        return;
    };
    let header = &batch.header;
    if records.is_empty() {
        return;
    }
    let mut builder = BatchBuilder::new(0);
    for record in &records {
        let delta = (record.offset - header.base_offset) as i32;
        let headers = record.header_refs();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        if let Err(what) = builder.append_at(delta, record.timestamp, key, value, &headers) {
            // The first record's time is the base here, and need not be that of the batch.
            assert_eq!(
                what,
                "the timestamp is too far from that of the first record"
            );
            return;
        }
    }
    let fields = BatchFields {
        base_offset: header.base_offset,
        is_transactional: header.has(TRANSACTIONAL),
        ..BatchFields::of_records(Codec::Snappy, None)
    };
    let again = builder.finish(fields).unwrap();
    let mut batches = Batches::new(&again);
    let written = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none() && batches.check_end().is_ok());
    assert!(!written.header.has(LOG_APPEND_TIME));
    let mut opener = Opener::new(usize::MAX);
    let read: Vec<_> = opener
        .open(&written)
        .unwrap()
        .map(|record| Owned::of(&record.unwrap()))
        .collect();
    assert_eq!(read, records);
    let too_little = Opener::new(0).open(&written).err().map(|error| error.fault);
    assert_eq!(too_little, Some(Fault::DecompressionLimit));
}
