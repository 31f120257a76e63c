//! The column of headers of an Arrow table of records.

use crate::arrow_columns::{BytesColumn, ColumnError, wrong_type};
use crate::record::HeaderRef;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

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
    pub fn get(&self, row: usize, out: &mut Vec<HeaderRef<'a>>) -> Result<(), ColumnError> {
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
