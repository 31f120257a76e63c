//! Columns of Arrow tables, each of one of several types, with one way to get a cell.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, LargeBinaryArray, LargeStringArray,
    StringArray, StringViewArray,
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

/// The failure of a column of the wrong type.
pub fn wrong_type(name: &str, wanted: &str, got: &DataType) -> ColumnError {
    ColumnError::Type(format!("the column {name} must be {wanted}, not {got}"))
}
