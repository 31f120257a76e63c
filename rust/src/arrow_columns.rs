//! Reading the columns of rows that become records: several Arrow types for each, one way to get a cell.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, LargeBinaryArray, LargeStringArray,
    StringArray, StringViewArray, StructArray,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};

/// What is wrong with the columns: a type, or a value.
#[derive(Debug, PartialEq, Eq)]
pub enum ColumnError {
    /// A column that is missing, unknown or of a type that cannot be used.
    Type(String),
    /// A cell that cannot be used.
    Value(String),
}

/// A column of bytes or text, or of nothing but nulls.
pub enum BytesColumn<'a> {
    /// 32-bit offsets.
    Binary(&'a BinaryArray),
    /// 64-bit offsets.
    LargeBinary(&'a LargeBinaryArray),
    /// Views.
    BinaryView(&'a BinaryViewArray),
    /// Text, 32-bit offsets.
    Text(&'a StringArray),
    /// Text, 64-bit offsets.
    LargeText(&'a LargeStringArray),
    /// Text, views.
    TextView(&'a StringViewArray),
    /// A column without a type, or no column at all.
    Null,
}

impl<'a> BytesColumn<'a> {
    /// The column `name` in `array`; an absent one is all null.
    pub fn new(name: &str, array: Option<&'a ArrayRef>) -> Result<Self, ColumnError> {
        let Some(array) = array else {
            return Ok(BytesColumn::Null);
        };
        Ok(match array.data_type() {
            DataType::Binary => BytesColumn::Binary(array.as_binary()),
            DataType::LargeBinary => BytesColumn::LargeBinary(array.as_binary()),
            DataType::BinaryView => BytesColumn::BinaryView(array.as_binary_view()),
            DataType::Utf8 => BytesColumn::Text(array.as_string()),
            DataType::LargeUtf8 => BytesColumn::LargeText(array.as_string()),
            DataType::Utf8View => BytesColumn::TextView(array.as_string_view()),
            DataType::Null => BytesColumn::Null,
            other => return Err(wrong_type(name, "binary or string", other)),
        })
    }

    /// The cell in `row`.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            BytesColumn::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            BytesColumn::LargeBinary(array) => array.is_valid(row).then(|| array.value(row)),
            BytesColumn::BinaryView(array) => array.is_valid(row).then(|| array.value(row)),
            BytesColumn::Text(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            BytesColumn::LargeText(array) => {
                array.is_valid(row).then(|| array.value(row).as_bytes())
            }
            BytesColumn::TextView(array) => {
                array.is_valid(row).then(|| array.value(row).as_bytes())
            }
            BytesColumn::Null => None,
        }
    }
}

/// A column of int32 partitions, which may be absent.
pub struct PartitionColumn<'a>(Option<&'a Int32Array>);

impl<'a> PartitionColumn<'a> {
    /// The column in `array`.
    pub fn new(array: Option<&'a ArrayRef>) -> Result<Self, ColumnError> {
        match array.map(|array| (array, array.data_type())) {
            None | Some((_, DataType::Null)) => Ok(PartitionColumn(None)),
            Some((array, DataType::Int32)) => {
                Ok(PartitionColumn(Some(array.as_primitive::<Int32Type>())))
            }
            Some((_, other)) => Err(wrong_type("partition", "int32", other)),
        }
    }

    /// The cell in `row`.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i32> {
        self.0
            .and_then(|array| array.is_valid(row).then(|| array.value(row)))
    }
}

/// A column of times, read as milliseconds since the epoch.
pub struct TimeColumn<'a> {
    values: Option<(&'a dyn Array, &'a ScalarBuffer<i64>)>,
    per_millisecond: i64,
    milliseconds_per: i64,
}

impl<'a> TimeColumn<'a> {
    /// The column in `array`: a timestamp of any unit, or int64 milliseconds.
    pub fn new(array: Option<&'a ArrayRef>) -> Result<Self, ColumnError> {
        let absent = TimeColumn {
            values: None,
            per_millisecond: 1,
            milliseconds_per: 1,
        };
        let Some(array) = array else {
            return Ok(absent);
        };
        let (values, per_millisecond, milliseconds_per) = match array.data_type() {
            DataType::Null => return Ok(absent),
            DataType::Int64 => (array.as_primitive::<Int64Type>().values(), 1, 1),
            DataType::Timestamp(TimeUnit::Second, _) => (
                array.as_primitive::<TimestampSecondType>().values(),
                1,
                1000,
            ),
            DataType::Timestamp(TimeUnit::Millisecond, _) => (
                array.as_primitive::<TimestampMillisecondType>().values(),
                1,
                1,
            ),
            DataType::Timestamp(TimeUnit::Microsecond, _) => (
                array.as_primitive::<TimestampMicrosecondType>().values(),
                1000,
                1,
            ),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => (
                array.as_primitive::<TimestampNanosecondType>().values(),
                1_000_000,
                1,
            ),
            other => {
                return Err(wrong_type(
                    "timestamp",
                    "timestamp or int64 milliseconds",
                    other,
                ));
            }
        };
        Ok(TimeColumn {
            values: Some((array.as_ref(), values)),
            per_millisecond,
            milliseconds_per,
        })
    }

    /// The cell in `row`, in milliseconds, rounded down.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        let (array, values) = self.values?;
        array.is_valid(row).then(|| {
            values[row]
                .div_euclid(self.per_millisecond)
                .saturating_mul(self.milliseconds_per)
        })
    }
}

/// A column of lists of (key, value), which may be absent.
pub enum HeadersColumn<'a> {
    /// No headers in any row.
    Absent,
    /// Where each row's headers lie among all keys and values.
    Lists {
        /// The column, for its nulls.
        array: &'a dyn Array,
        /// The first header of each row, and the end of the last row's.
        bounds: Vec<usize>,
        /// All headers.
        elements: &'a StructArray,
        /// The keys of all headers.
        keys: BytesColumn<'a>,
        /// The values of all headers.
        values: BytesColumn<'a>,
    },
}

impl<'a> HeadersColumn<'a> {
    /// The column in `array`: a list of structs with the fields `key` and `value`.
    pub fn new(array: Option<&'a ArrayRef>) -> Result<Self, ColumnError> {
        let Some(array) = array else {
            return Ok(HeadersColumn::Absent);
        };
        let (bounds, elements): (Vec<usize>, &ArrayRef) = match array.data_type() {
            DataType::Null => return Ok(HeadersColumn::Absent),
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                (
                    lists
                        .value_offsets()
                        .iter()
                        .map(|at| *at as usize)
                        .collect(),
                    lists.values(),
                )
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                (
                    lists
                        .value_offsets()
                        .iter()
                        .map(|at| *at as usize)
                        .collect(),
                    lists.values(),
                )
            }
            other => return Err(wrong_type("headers", HEADERS_TYPE, other)),
        };
        let Some(elements) = elements.as_struct_opt() else {
            return Err(wrong_type("headers", HEADERS_TYPE, array.data_type()));
        };
        let field = |name: &str| -> Result<BytesColumn<'a>, ColumnError> {
            match elements.column_by_name(name) {
                Some(column) => BytesColumn::new(name, Some(column)),
                None => Err(wrong_type("headers", HEADERS_TYPE, array.data_type())),
            }
        };
        Ok(HeadersColumn::Lists {
            array: array.as_ref(),
            bounds,
            elements,
            keys: field("key")?,
            values: field("value")?,
        })
    }

    /// Puts the headers of `row` into `out`, which is cleared first.
    #[inline]
    pub fn get(
        &self,
        row: usize,
        out: &mut Vec<(&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), ColumnError> {
        out.clear();
        let HeadersColumn::Lists {
            array,
            bounds,
            elements,
            keys,
            values,
        } = self
        else {
            return Ok(());
        };
        if array.is_null(row) {
            return Ok(());
        }
        for index in bounds[row]..bounds[row + 1] {
            let Some(key) = keys.get(index).filter(|_| elements.is_valid(index)) else {
                return Err(ColumnError::Value(format!(
                    "row {row}: a header has no key"
                )));
            };
            out.push((key, values.get(index)));
        }
        Ok(())
    }
}

const HEADERS_TYPE: &str = "list<struct<key: string, value: binary>>";

fn wrong_type(name: &str, wanted: &str, got: &DataType) -> ColumnError {
    ColumnError::Type(format!("the column {name} must be {wanted}, not {got}"))
}

/// The columns of a table of records.
pub struct RecordColumns<'a> {
    /// The keys.
    pub key: BytesColumn<'a>,
    /// The values.
    pub value: BytesColumn<'a>,
    /// The headers.
    pub headers: HeadersColumn<'a>,
    /// The partitions.
    pub partition: PartitionColumn<'a>,
    /// The times.
    pub timestamp: TimeColumn<'a>,
}

impl<'a> RecordColumns<'a> {
    /// The columns of `table`: `value`, and any of the others.
    pub fn new(table: &'a StructArray) -> Result<Self, ColumnError> {
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
