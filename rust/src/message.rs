//! The codec of Kafka messages: instances of Python classes to bytes and back, driven by plans.
//!
//! A plan is made once for each message and version, from the schema tables that `ottla.protocol` reads. It holds the
//! classes, their slots and the fields in the order of the wire. Decoding allocates instances and fills their slots
//! without calling any Python code; encoding reads the slots. Bytes come from peers, so whatever they say, the answer is
//! a message or a `MessageError`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

mod decode;
mod encode;
mod failure;
mod header;
mod input;
mod plan;
mod slot;
mod uuid;
mod wire;

use decode::Decoder;
use encode::Encoder;
use input::Input;
use plan::StructPlan;

/// One message in one version.
#[pyclass(frozen, module = "ottla.native._kernel")]
struct MessageCodec {
    name: String,
    #[pyo3(get)]
    flexible: bool,
    root: StructPlan,
}

#[pymethods]
impl MessageCodec {
    #[new]
    fn new(name: String, flexible: bool, root: &Bound<'_, PyAny>) -> PyResult<Self> {
        let root = StructPlan::new(root, flexible)?;
        Ok(Self {
            name,
            flexible,
            root,
        })
    }

    #[pyo3(signature = (data, offset = 0))]
    fn decode<'py>(&self, data: &Bound<'py, PyAny>, offset: usize) -> PyResult<Bound<'py, PyAny>> {
        let input = Input::new(data)?;
        Decoder::new(&input, offset)
            .message(&self.root)
            .map_err(|failure| failure.into_error(&self.name))
    }

    fn encode<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let encoder = self.encoded(message, Encoder::whole(message.py()))?;
        Ok(PyBytes::new(message.py(), encoder.bytes()))
    }

    fn encode_frame<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        header: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let encoder = self.encoded(message, Encoder::framed(message.py(), header))?;
        let encoder = encoder
            .with_length()
            .map_err(|failure| failure.into_error(&self.name))?;
        Ok(PyBytes::new(message.py(), encoder.bytes()))
    }

    fn encode_frame_parts<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        header: &[u8],
    ) -> PyResult<Bound<'py, PyList>> {
        let encoder = self.encoded(message, Encoder::framed_in_parts(message.py(), header))?;
        let encoder = encoder
            .with_length()
            .map_err(|failure| failure.into_error(&self.name))?;
        encoder.parts()
    }

    fn __repr__(&self) -> String {
        format!("<MessageCodec {}>", self.name)
    }
}

impl MessageCodec {
    fn encoded<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        mut encoder: Encoder<'py>,
    ) -> PyResult<Encoder<'py>> {
        match encoder.structure(&self.root, message) {
            Ok(()) => Ok(encoder),
            Err(failure) => Err(failure.into_error(&self.name)),
        }
    }
}

/// Adds what Python sees of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MessageCodec>()?;
    module.add_class::<header::RequestHeader>()?;
    module.add_class::<header::RequestHeaderDecoder>()?;
    module.add_function(wrap_pyfunction!(header::decode_response_header, module)?)
}
