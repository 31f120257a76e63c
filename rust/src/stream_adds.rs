//! Runs of `XADD key * name value ...`, from the bytes of a Redis client to the records of a stream.
//!
//! ```text
//! commands  *5 $4 XADD $1 s $1 * $1 f $1 v | *5 ... | *2 $4 XLEN $1 s
//! cut       [ StreamAdds of s             ][ [XLEN, s] ]
//! assign    ids, where nodes begin, the reply      (Redis' `XADD` and listpack sizes)
//! put_into  records: header `redis` = kind, id     value = MessagePack array of names and values
//! ```

use crate::batch_builder::BatchBuilder;
use crate::decimal;
use crate::listpack_size::{entry_bytes, node_bytes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// Commands with more arguments are left to the reader that takes them one by one.
const ARGUMENTS_MAX: usize = 255;
/// The header of the records that a stream writes itself.
pub const HEADER: &[u8] = b"redis";
const ENTRY: u8 = b'E';
const NODE: u8 = b'N';

/// Where an argument lies.
type Span = (u32, u32);

/// One entry that is to be added: where its arguments are, and what `assign` made of it.
struct Add {
    first_span: u32,
    span_count: u32,
    id: u128,
    begins: bool,
}

/// The last node of a stream: first id, size, entries and names of the first entry.
type Tail<'py> = (u128, u64, u64, Vec<Bound<'py, PyBytes>>);

/// What a node got: whether it begins, first and last id of that, entries, its size, the names of its first entry, and
/// the entries.
type Growth<'py> = (
    bool,
    u128,
    u128,
    usize,
    u64,
    Bound<'py, PyList>,
    Bound<'py, PyDict>,
);

/// Commands that add entries to one stream, one after the other.
#[pyclass(module = "ottla.native")]
struct StreamAdds {
    data: Py<PyBytes>,
    /// Of all arguments of all commands.
    spans: Vec<Span>,
    adds: Vec<Add>,
    size_bytes: usize,
    now_ms: i64,
}

fn at(data: &[u8], span: Span) -> &[u8] {
    &data[span.0 as usize..span.1 as usize]
}

impl StreamAdds {
    fn key_span(&self) -> Span {
        self.spans[1]
    }

    fn arguments_of(&self, add: &Add) -> &[Span] {
        let first = add.first_span as usize;
        &self.spans[first..first + add.span_count as usize]
    }

    /// Names and values.
    fn fields_of(&self, add: &Add) -> &[Span] {
        &self.arguments_of(add)[3..]
    }

    /// Appends the records of the entries.
    pub fn put_into(&self, py: Python<'_>, builder: &mut BatchBuilder) -> Result<(), &'static str> {
        let data = self.data.as_bytes(py);
        let mut value = Vec::new();
        let mut header = [0; 17];
        for add in &self.adds {
            let fields = self.fields_of(add);
            value.clear();
            put_array(&mut value, fields.len());
            for &field in fields {
                put_binary(&mut value, at(data, field));
            }
            header[0] = if add.begins { NODE } else { ENTRY };
            header[1..].copy_from_slice(&add.id.to_be_bytes());
            builder.append(self.now_ms, None, Some(&value), &[(HEADER, Some(&header))])?;
        }
        Ok(())
    }
}

fn put_array(value: &mut Vec<u8>, length: usize) {
    match length {
        0..16 => value.push(0x90 | length as u8),
        16..0x1_0000 => {
            value.push(0xdc);
            value.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            value.push(0xdd);
            value.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn put_binary(value: &mut Vec<u8>, data: &[u8]) {
    match data.len() {
        size @ 0..0x100 => value.extend_from_slice(&[0xc4, size as u8]),
        size @ 0x100..0x1_0000 => {
            value.push(0xc5);
            value.extend_from_slice(&(size as u16).to_be_bytes());
        }
        size => {
            value.push(0xc6);
            value.extend_from_slice(&(size as u32).to_be_bytes());
        }
    }
    value.extend_from_slice(data);
}

#[pymethods]
impl StreamAdds {
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, at(self.data.as_bytes(py), self.key_span()))
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn __len__(&self) -> usize {
        self.adds.len()
    }

    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let data = self.data.as_bytes(py);
        let found = PyList::empty(py);
        for add in &self.adds {
            found.append(list_of(py, data, self.arguments_of(add))?)?;
        }
        Ok(found)
    }

    /// Gives each entry its id and its node; None, and nothing has happened, where ids run out.
    #[pyo3(signature = (last_id, now_ms, tail, bytes_max, entries_max))]
    fn assign<'py>(
        &mut self,
        py: Python<'py>,
        last_id: u128,
        now_ms: i64,
        tail: Option<Tail<'py>>,
        bytes_max: u64,
        entries_max: u64,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Vec<Growth<'py>>)>> {
        if now_ms < 0 || u128::MAX - last_id < self.adds.len() as u128 {
            return Ok(None);
        }
        let data = self.data.clone_ref(py);
        let data = data.as_bytes(py);
        let (mut first_id, mut size, mut count, mut name_objects, mut has_node) = match tail {
            Some((first_id, size, count, names)) => (first_id, size, count, names, true),
            None => (0, 0, 0, Vec::new(), false),
        };
        let mut names_list = PyList::new(py, &name_objects)?;
        let mut reply = Vec::with_capacity(28 * self.adds.len());
        let mut growths: Vec<Growth<'py>> = Vec::new();
        let mut last = last_id;
        for index in 0..self.adds.len() {
            let fields = self.fields_of(&self.adds[index]);
            let id = (last + 1).max((now_ms as u128) << 64);
            let payload: u64 = fields.iter().map(|span| u64::from(span.1 - span.0)).sum();
            let begins = !has_node
                || size + payload >= bytes_max
                || (entries_max > 0 && count >= entries_max);
            let has_same_names = fields.len() == 2 * name_objects.len()
                && (fields.iter().step_by(2).zip(&name_objects))
                    .all(|(&span, name)| at(data, span) == name.as_bytes());
            if begins {
                (first_id, count, has_node) = (id, 0, true);
                if !has_same_names {
                    name_objects = fields
                        .iter()
                        .step_by(2)
                        .map(|&span| PyBytes::new(py, at(data, span)))
                        .collect();
                    names_list = PyList::new(py, &name_objects)?;
                }
                size = node_bytes(name_objects.iter().map(|name| name.as_bytes()));
            }
            size += entry_bytes(
                fields.iter().map(|&span| at(data, span)),
                ((id >> 64) as u64).wrapping_sub((first_id >> 64) as u64) as i64,
                (id as u64).wrapping_sub(first_id as u64) as i64,
                begins || has_same_names,
            );
            count += 1;
            if begins || growths.is_empty() {
                growths.push((begins, id, id, 0, 0, names_list.clone(), PyDict::new(py)));
            }
            let growth = growths.last_mut().expect("one was pushed");
            (growth.2, growth.4) = (id, size);
            growth.3 += 1;
            let entry = if begins || has_same_names {
                list_with_names(py, data, fields, &name_objects)?
            } else {
                list_of(py, data, fields)?
            };
            growth.6.set_item(id, entry)?;
            put_id(&mut reply, id);
            let add = &mut self.adds[index];
            (add.id, add.begins) = (id, begins);
            last = id;
        }
        self.now_ms = now_ms;
        Ok(Some((PyBytes::new(py, &reply), growths)))
    }
}

fn list_of<'py>(py: Python<'py>, data: &[u8], spans: &[Span]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(
        py,
        spans.iter().map(|&span| PyBytes::new(py, at(data, span))),
    )
}

/// Names that are there already, and values.
fn list_with_names<'py>(
    py: Python<'py>,
    data: &[u8],
    fields: &[Span],
    names: &[Bound<'py, PyBytes>],
) -> PyResult<Bound<'py, PyList>> {
    let part_of = |(index, &span): (usize, &Span)| match index % 2 {
        0 => names[index / 2].clone(),
        _ => PyBytes::new(py, at(data, span)),
    };
    PyList::new(py, fields.iter().enumerate().map(part_of))
}

/// An id as a bulk string.
pub fn put_id(reply: &mut Vec<u8>, id: u128) {
    let mut text = [0; 41];
    let dash = decimal::put_before(&mut text, 41, id as u64) - 1;
    text[dash] = b'-';
    let begin = decimal::put_before(&mut text, dash, (id >> 64) as u64);
    reply.push(b'$');
    decimal::put(reply, (41 - begin) as u64);
    reply.extend_from_slice(b"\r\n");
    reply.extend_from_slice(&text[begin..]);
    reply.extend_from_slice(b"\r\n");
}

/// A number and the end of its line behind a mark, and where it ends; None where it is not whole, or not in its one
/// form.
fn number(data: &[u8], mark: u8, position: usize) -> Option<(usize, usize)> {
    if *data.get(position)? != mark {
        return None;
    }
    let mut at = position + 1;
    let mut value = 0usize;
    while let digit @ b'0'..=b'9' = *data.get(at)? {
        value = 10 * value + usize::from(digit - b'0');
        at += 1;
        if at > position + 10 {
            return None;
        }
    }
    let digits = at - position - 1;
    let is_plain = digits > 0 && (digits == 1 || data[position + 1] != b'0');
    (is_plain && data.get(at..at + 2)? == b"\r\n").then_some((value, at + 2))
}

/// Reads the arguments of the command at `position`; returns where it ends, None where it is not whole or not plain.
fn read_command(data: &[u8], position: usize, spans: &mut Vec<Span>) -> Option<usize> {
    let (count, mut at) = number(data, b'*', position)?;
    if count == 0 || count > ARGUMENTS_MAX {
        return None;
    }
    for _ in 0..count {
        let (size, start) = number(data, b'$', at)?;
        let end = start + size;
        if data.get(end..end + 2)? != b"\r\n" {
            return None;
        }
        spans.push((start as u32, end as u32));
        at = end + 2;
    }
    Some(at)
}

/// Whether these arguments are those of `XADD key * name value ...`.
fn is_add(data: &[u8], spans: &[Span]) -> bool {
    spans.len() >= 5
        && spans.len() % 2 == 1
        && at(data, spans[2]) == b"*"
        && at(data, spans[0]).eq_ignore_ascii_case(b"XADD")
}

#[pyfunction]
fn cut_commands<'py>(
    py: Python<'py>,
    data: Bound<'py, PyBytes>,
    position: usize,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    let found = PyList::empty(py);
    let bytes = data.as_bytes();
    if u32::try_from(bytes.len()).is_err() {
        return Ok((found, position));
    }
    let mut at_byte = position;
    let mut spans: Vec<Span> = Vec::new();
    let mut run: Option<StreamAdds> = None;
    loop {
        spans.clear();
        let Some(end) = read_command(bytes, at_byte, &mut spans) else {
            break;
        };
        at_byte = end;
        let is_add = is_add(bytes, &spans);
        if let Some(before) =
            run.take_if(|run| !is_add || at(bytes, run.key_span()) != at(bytes, spans[1]))
        {
            found.append(Bound::new(py, before)?)?;
        }
        if !is_add {
            found.append(list_of(py, bytes, &spans)?)?;
            continue;
        }
        let run = run.get_or_insert_with(|| StreamAdds {
            data: data.clone().unbind(),
            spans: Vec::new(),
            adds: Vec::new(),
            size_bytes: 0,
            now_ms: 0,
        });
        run.adds.push(Add {
            first_span: run.spans.len() as u32,
            span_count: spans.len() as u32,
            id: 0,
            begins: false,
        });
        run.size_bytes += spans
            .iter()
            .map(|span| (span.1 - span.0) as usize)
            .sum::<usize>();
        run.spans.extend_from_slice(&spans);
    }
    if let Some(run) = run {
        found.append(Bound::new(py, run)?)?;
    }
    Ok((found, at_byte))
}

/// Appends what a journal has at one place, if it is a run of entries; returns whether it is.
pub fn append_adds(builder: &mut BatchBuilder, item: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(adds) = item.cast::<StreamAdds>() else {
        return Ok(false);
    };
    adds.borrow()
        .put_into(item.py(), builder)
        .map_err(PyValueError::new_err)?;
    Ok(true)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StreamAdds>()?;
    module.add_function(wrap_pyfunction!(cut_commands, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_id_is_a_bulk_string() {
        let mut reply = Vec::new();
        put_id(&mut reply, (5 << 64) | 12);
        put_id(&mut reply, u128::MAX);
        assert_eq!(
            reply,
            b"$4\r\n5-12\r\n$41\r\n18446744073709551615-18446744073709551615\r\n"
        );
    }

    #[test]
    fn numbers_have_one_form() {
        assert_eq!(number(b"$12\r\nx", b'$', 0), Some((12, 5)));
        for other in [
            &b"$012\r\n"[..],
            b"$\r\n",
            b"$1",
            b"$1\r",
            b"$-1\r\n",
            b"$12345678901\r\n",
            b":1\r\n",
        ] {
            assert_eq!(number(other, b'$', 0), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, commands in "([*$][0-9]{1,2}\r\n[*a-z]{0,3}(\r\n)?){0,9}") {
            for data in [&bytes[..], commands.as_bytes()] {
                let mut spans = Vec::new();
                if let Some(end) = read_command(data, 0, &mut spans) {
                    prop_assert!(end <= data.len());
                    let _ = is_add(data, &spans);
                }
            }
        }
    }
}
