//! CRC-32C (Castagnoli), the checksum of record batches (RFC 3720, appendix B.4), with the processor's own instructions.

use crate::buffer::{ByteView, on_bytes};
use crc_fast::{CrcAlgorithm, Digest};
use pyo3::prelude::*;

/// The CRC-32C of `data`.
pub fn crc32c_of(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

/// The CRC-32C of what `value` is the CRC-32C of, followed by `data`.
pub fn crc32c_continued(data: &[u8], value: u32) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!value));
    digest.update(data);
    digest.finalize() as u32
}

#[pyfunction]
#[pyo3(signature = (data, value = 0, /))]
fn crc32c(py: Python<'_>, data: ByteView<'_>, value: u32) -> u32 {
    on_bytes(py, data.as_slice(), |bytes| match value {
        0 => crc32c_of(bytes),
        _ => crc32c_continued(bytes, value),
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crc32c, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc32c_of(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_checksum_can_be_continued() {
        let data: Vec<u8> = (0..=255).collect();
        for cut in 0..data.len() {
            let head = crc32c_of(&data[..cut]);
            assert_eq!(crc32c_continued(&data[cut..], head), crc32c_of(&data));
        }
    }
}
