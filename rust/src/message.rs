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
mod fetch;
mod header;
mod input;
mod output;
mod partition_key;
mod plan;
mod produce;
mod produce_gathered;
mod produce_run;
mod single;
mod single_fetch;
mod single_produce;
mod slot;
mod uuid;
mod wire;

use decode::Decoder;
use failure::Outcome;
use input::Input;
use output::Output;
use plan::StructPlan;

/// How many elements the arrays of one message may have together, unless it is said. An element of two bytes can become
/// an object of sixty, so that without a limit a frame of 100 MB could ask for gigabytes.
const ELEMENTS_MAX: usize = 4 << 20;

/// One message in one version.
#[pyclass(frozen, module = "ottla.native._kernel")]
struct MessageCodec {
    name: String,
    #[pyo3(get)]
    flexible: bool,
    elements_max: usize,
    root: StructPlan,
}

#[pymethods]
impl MessageCodec {
    #[new]
    #[pyo3(signature = (name, flexible, root, elements_max = ELEMENTS_MAX))]
    fn new(
        name: String,
        flexible: bool,
        root: &Bound<'_, PyAny>,
        elements_max: usize,
    ) -> PyResult<Self> {
        let root = StructPlan::new(root, flexible)?;
        Ok(Self {
            name,
            flexible,
            elements_max,
            root,
        })
    }

    #[pyo3(signature = (data, offset = 0))]
    fn decode<'py>(&self, data: &Bound<'py, PyAny>, offset: usize) -> PyResult<Bound<'py, PyAny>> {
        let input = Input::new(data)?;
        self.checked(Decoder::new(&input, offset, self.elements_max).message(&self.root))
    }

    fn encode<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let output = self.written(message, Output::whole())?;
        Ok(PyBytes::new(message.py(), &output.bytes))
    }

    fn encode_frame<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        header: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut output = self.written(message, Output::framed(header))?;
        self.checked(output.put_frame_length())?;
        Ok(PyBytes::new(message.py(), &output.bytes))
    }

    fn encode_frame_parts<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        header: &[u8],
    ) -> PyResult<Bound<'py, PyList>> {
        let mut output = self.written(message, Output::framed_in_parts(header))?;
        self.checked(output.put_frame_length())?;
        output.into_parts(message.py())
    }

    fn __repr__(&self) -> String {
        format!("<MessageCodec {}>", self.name)
    }
}

impl MessageCodec {
    fn written<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        mut output: Output<'py>,
    ) -> PyResult<Output<'py>> {
        self.checked(encode::structure(&mut output, &self.root, message))?;
        Ok(output)
    }

    fn checked<T>(&self, outcome: Outcome<T>) -> PyResult<T> {
        outcome.map_err(|failure| failure.into_error(&self.name))
    }
}

/// Adds what Python sees of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MessageCodec>()?;
    module.add_class::<header::RequestHeader>()?;
    module.add_class::<header::RequestHeaderDecoder>()?;
    module.add_class::<produce_gathered::ProduceRun>()?;
    module.add_class::<single_fetch::SingleFetchRequest>()?;
    module.add_class::<single_produce::SingleProduceRequest>()?;
    module.add_function(wrap_pyfunction!(header::decode_response_header, module)?)
}
