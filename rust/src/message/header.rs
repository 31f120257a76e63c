//! The headers in front of requests and responses, which are read before the message is known.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::failure::{Failure, Outcome};
use super::input::Input;
use super::single_fetch::SingleFetchRequest;
use super::single_produce::SingleProduceRequest;
use super::wire::Reader;
use super::{fetch, produce};

/// What a request says before its message.
#[pyclass(frozen, get_all, module = "ottla.native._kernel")]
pub(super) struct RequestHeader {
    api_key: i16,
    api_version: i16,
    correlation_id: i32,
    client_id: Option<Py<PyString>>,
    body_offset: usize,
}

#[pymethods]
impl RequestHeader {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let client_id = match &self.client_id {
            None => "None".to_owned(),
            Some(client_id) => client_id.bind(py).repr()?.to_string(),
        };
        let Self {
            api_key,
            api_version,
            correlation_id,
            body_offset,
            ..
        } = self;
        Ok(format!(
            "RequestHeader(api_key={api_key}, api_version={api_version}, correlation_id={correlation_id}, \
             client_id={client_id}, body_offset={body_offset})"
        ))
    }
}

/// Reads headers, knowing which APIs and versions have tagged fields in theirs.
#[pyclass(frozen, module = "ottla.native._kernel")]
pub(super) struct RequestHeaderDecoder {
    /// By API key: the first and the last version with the flexible header.
    flexible_versions: HashMap<i16, (i16, i16)>,
}

#[pymethods]
impl RequestHeaderDecoder {
    #[new]
    fn new(flexible_versions: HashMap<i16, (i16, i16)>) -> Self {
        Self { flexible_versions }
    }

    fn decode(&self, frame: &Bound<'_, PyAny>) -> PyResult<RequestHeader> {
        let input = Input::new(frame)?;
        self.read(frame.py(), Reader::new(input.bytes(), 0))
            .map_err(|failure| failure.into_error("RequestHeader"))
    }

    /// The whole request where it is a Produce to one partition or a Fetch of one, the header of any other.
    fn decode_request<'py>(&self, frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = frame.py();
        let input = Input::new(frame)?;
        if let Some(found) = produce::parse(input.bytes()) {
            let request = SingleProduceRequest::new(&input, &found)?;
            return Ok(Bound::new(py, request)?.into_any());
        }
        if let Some(found) = fetch::parse(input.bytes()) {
            let request = SingleFetchRequest::new(py, &found)?;
            return Ok(Bound::new(py, request)?.into_any());
        }
        let header = self
            .read(py, Reader::new(input.bytes(), 0))
            .map_err(|failure| failure.into_error("RequestHeader"))?;
        Ok(Bound::new(py, header)?.into_any())
    }
}

impl RequestHeaderDecoder {
    fn read(&self, py: Python<'_>, mut reader: Reader<'_>) -> Outcome<RequestHeader> {
        let api_key = i16::from_be_bytes(reader.array()?);
        let api_version = i16::from_be_bytes(reader.array()?);
        let correlation_id = i32::from_be_bytes(reader.array()?);
        let client_id = client_id(py, &mut reader)?;
        if self.is_flexible(api_key, api_version) {
            skip_tagged_fields(&mut reader)?;
        }
        Ok(RequestHeader {
            api_key,
            api_version,
            correlation_id,
            client_id,
            body_offset: reader.position(),
        })
    }

    fn is_flexible(&self, api_key: i16, api_version: i16) -> bool {
        self.flexible_versions
            .get(&api_key)
            .is_some_and(|(first, last)| (*first..=*last).contains(&api_version))
    }
}

/// The correlation id of a response frame, and where its message starts.
#[pyfunction]
pub(super) fn decode_response_header(
    frame: &Bound<'_, PyAny>,
    flexible: bool,
) -> PyResult<(i32, usize)> {
    let input = Input::new(frame)?;
    read_response_header(Reader::new(input.bytes(), 0), flexible)
        .map_err(|failure| failure.into_error("ResponseHeader"))
}

fn read_response_header(mut reader: Reader<'_>, flexible: bool) -> Outcome<(i32, usize)> {
    let correlation_id = i32::from_be_bytes(reader.array()?);
    if flexible {
        skip_tagged_fields(&mut reader)?;
    }
    Ok((correlation_id, reader.position()))
}

/// In the form with a two byte length in all versions, so that a header can be read before its version is known.
fn client_id(py: Python<'_>, reader: &mut Reader<'_>) -> Outcome<Option<Py<PyString>>> {
    let within = |failure: Box<Failure>| failure.within_field("client_id");
    let Some(size) = reader.string_length(false).map_err(within)? else {
        return Ok(None);
    };
    let position = reader.position();
    let bytes = reader.take(size).map_err(within)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Some(PyString::new(py, text).unbind())),
        Err(_) => Err(within(Failure::at(position, "the string is not UTF-8"))),
    }
}

fn skip_tagged_fields(reader: &mut Reader<'_>) -> Outcome<()> {
    for _ in 0..reader.tagged_field_count()? {
        reader.unsigned_varint()?;
        let size = reader.unsigned_varint()? as usize;
        reader.take(size)?;
    }
    Ok(())
}
