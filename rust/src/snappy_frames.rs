//! Chunks of a snappy stream (google/snappy, framing_format.txt).
//!
//! ```text
//! type, 1 byte | length, 3 bytes, little-endian | masked CRC-32C of what is meant, 4 bytes, little-endian | block or bytes
//! type 0: a block; type 1: bytes that did not get an eighth smaller
//! ```

use crate::buffer::{ByteView, on_bytes};
use crate::checksum::crc32c_of;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use snap::raw::{Encoder, max_compress_len};

/// What one chunk may mean.
const CHUNK_BYTES_MAX: usize = 64 * 1024;
const HEAD_BYTES: usize = 8;
const COMPRESSED: u8 = 0;
const PLAIN: u8 = 1;

fn chunks(data: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(data.len() / 2 + 64);
    let mut encoder = Encoder::new();
    for meant in data.chunks(CHUNK_BYTES_MAX) {
        let head = written.len();
        let block = head + HEAD_BYTES;
        written.resize(block + max_compress_len(meant.len()), 0);
        let kind = match encoder.compress(meant, &mut written[block..]) {
            Ok(size) if size <= meant.len() - meant.len() / 8 => {
                written.truncate(block + size);
                COMPRESSED
            }
            _ => {
                written.truncate(block);
                written.extend_from_slice(meant);
                PLAIN
            }
        };
        let length = written.len() - head - 4;
        written[head] = kind;
        written[head + 1..head + 4].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        written[head + 4..block].copy_from_slice(&masked(crc32c_of(meant)).to_le_bytes());
    }
    written
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[pyfunction]
#[pyo3(signature = (data, /))]
fn snappy_chunks<'py>(py: Python<'py>, data: ByteView<'py>) -> Bound<'py, PyBytes> {
    let written = on_bytes(py, data.as_slice(), chunks);
    PyBytes::new(py, &written)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(snappy_chunks, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    fn meant(written: &[u8]) -> Vec<u8> {
        let mut stream = b"\xff\x06\x00\x00sNaPpY".to_vec();
        stream.extend_from_slice(written);
        let mut found = Vec::new();
        snap::read::FrameDecoder::new(&stream[..])
            .read_to_end(&mut found)
            .unwrap();
        found
    }

    #[test]
    fn what_repeats_gets_smaller_and_what_does_not_stays_as_it_is() {
        let text = b"again and again ".repeat(10_000);
        let written = chunks(&text);
        assert_eq!((written[0], meant(&written)), (COMPRESSED, text.clone()));
        assert!(written.len() < text.len() / 10);
        let written = chunks(b"abc");
        assert_eq!((written[0], written.len()), (PLAIN, HEAD_BYTES + 3));
        assert!(chunks(b"").is_empty());
    }

    proptest! {
        #[test]
        fn another_decoder_reads_what_is_written(data: Vec<u8>, times in 1usize..300) {
            let data = data.repeat(times);
            prop_assert_eq!(meant(&chunks(&data)), data);
        }
    }
}
