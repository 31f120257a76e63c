//! The compression codecs of record batches.
//!
//! Decompression never believes a size that the data claims: room grows with the bytes that really come out, up to
//! the caller's limit.

mod gzip;
mod lz4;
mod snappy;
mod zstandard;

use crate::buffer::{ByteView, on_bytes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A codec, by the number that stands in the lowest three bits of a batch's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Records as they are.
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy blocks in the framing of snappy-java (and bare, when reading).
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// RFC 8878.
    Zstd,
}

/// Why bytes could not be decompressed.
#[derive(Debug, PartialEq, Eq)]
pub enum DecompressError {
    /// They are not what the codec writes.
    Malformed(String),
    /// They hold more than the limit.
    LimitExceeded,
}

impl DecompressError {
    fn malformed(what: impl ToString) -> Self {
        DecompressError::Malformed(what.to_string())
    }
}

impl Codec {
    /// The codec of an id, 0 to 4.
    pub fn from_id(id: i16) -> Option<Codec> {
        Some(match id {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            _ => return None,
        })
    }

    /// The id, 0 to 4.
    pub fn id(self) -> i16 {
        self as i16
    }

    /// Whether `bytes` begin as the codec's frames do. Snappy without framing begins with anything.
    pub fn begins(self, bytes: &[u8]) -> bool {
        match self {
            Codec::None => true,
            Codec::Gzip => bytes.starts_with(&[0x1f, 0x8b, 8]),
            Codec::Snappy => !bytes.is_empty(),
            Codec::Lz4 => bytes.starts_with(&[0x04, 0x22, 0x4d, 0x18]),
            Codec::Zstd => bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
        }
    }

    /// How many bytes one compressed byte can stand for at most, rounded up, by the formats: a Deflate match of 258
    /// bytes takes two bits, a Snappy copy of 64 bytes three bytes, an LZ4 match 255 a byte, and a zstd block
    /// of 128 KiB of one byte takes four.
    pub fn expansion_max(self) -> u64 {
        match self {
            Codec::None => 1,
            Codec::Gzip => 1_032,
            Codec::Snappy => 64,
            Codec::Lz4 => 256,
            Codec::Zstd => 32_768,
        }
    }

    /// The levels that may be asked for (KIP-390); none means that the codec has no levels.
    pub fn levels(self) -> Option<std::ops::RangeInclusive<i32>> {
        match self {
            Codec::None | Codec::Snappy => None,
            Codec::Gzip => Some(1..=9),
            Codec::Lz4 => Some(1..=17),
            Codec::Zstd => Some(-131_072..=22),
        }
    }

    /// Appends `input`, compressed, to `out`. Without a level the codec's own default is taken.
    pub fn compress(
        self,
        level: Option<i32>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self {
            Codec::None => {
                out.extend_from_slice(input);
                Ok(())
            }
            Codec::Gzip => gzip::compress(level, input, out),
            Codec::Snappy => snappy::compress(input, out),
            Codec::Lz4 => lz4::compress(input, out),
            Codec::Zstd => zstandard::compress(level, input, out),
        }
    }

    /// Puts what `input` holds into `out`, which is cleared first: at most `limit` bytes.
    pub fn decompress(
        self,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        out.clear();
        match self {
            Codec::None if input.len() > limit => Err(DecompressError::LimitExceeded),
            Codec::None => {
                out.extend_from_slice(input);
                Ok(())
            }
            Codec::Gzip => gzip::decompress(input, limit, out),
            Codec::Snappy => snappy::decompress(input, limit, out),
            Codec::Lz4 => lz4::decompress(input, limit, out),
            Codec::Zstd => zstandard::decompress(input, limit, out),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (data, codec, *, max_bytes))]
fn decompress<'py>(
    py: Python<'py>,
    data: ByteView<'py>,
    codec: i16,
    max_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let codec = Codec::from_id(codec)
        .ok_or_else(|| PyValueError::new_err(format!("there is no codec {codec}")))?;
    let mut out = Vec::new();
    let done = on_bytes(py, data.as_slice(), |bytes| {
        codec.decompress(bytes, max_bytes, &mut out)
    });
    let (class, what) = match done {
        Ok(()) => return Ok(PyBytes::new(py, &out)),
        Err(DecompressError::Malformed(what)) => ("CorruptRecordError", what),
        Err(DecompressError::LimitExceeded) => (
            "DecompressionLimitError",
            format!("the bytes expand to more than {max_bytes}"),
        ),
    };
    let error = py.import("ottla.native.errors")?.getattr(class)?;
    Err(PyErr::from_value(error.call1((what,))?))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decompress, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];

    fn compressed(codec: Codec, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        codec.compress(None, input, &mut out).unwrap();
        out
    }

    #[test]
    fn large_and_repetitive_input_comes_back() {
        let input: Vec<u8> = (0..700_000u32)
            .map(|i| (i / 5 % 251) as u8 ^ (i >> 13) as u8)
            .collect();
        for codec in CODECS {
            let packed = compressed(codec, &input);
            let mut out = Vec::new();
            assert_eq!(codec.decompress(&packed, input.len(), &mut out), Ok(()));
            assert!(out == input, "{codec:?}");
        }
    }

    #[test]
    fn one_byte_beyond_the_limit_is_refused() {
        let zeros = vec![0; 3_000_000];
        for codec in CODECS {
            let packed = compressed(codec, &zeros);
            let mut out = Vec::new();
            let verdict = codec.decompress(&packed, zeros.len() - 1, &mut out);
            assert_eq!(verdict, Err(DecompressError::LimitExceeded), "{codec:?}");
            assert!(out.capacity() <= 2 * zeros.len(), "{codec:?}");
        }
    }

    proptest! {
        #[test]
        fn input_comes_back(input: Vec<u8>) {
            for codec in CODECS {
                let mut out = Vec::new();
                prop_assert_eq!(codec.decompress(&compressed(codec, &input), input.len(), &mut out), Ok(()));
                prop_assert_eq!(&out, &input);
            }
        }

        #[test]
        fn no_bytes_make_it_panic_or_pass_the_limit(input: Vec<u8>, limit in 0usize..2000) {
            for codec in CODECS {
                let mut out = Vec::new();
                let _ = codec.decompress(&input, limit, &mut out);
                prop_assert!(out.len() <= limit);
            }
        }

        #[test]
        fn a_changed_byte_does_not_make_it_panic(input in prop::collection::vec(0u8..4, 0..3000), at: prop::sample::Index, with: u8) {
            for codec in CODECS {
                let mut packed = compressed(codec, &input);
                if packed.is_empty() {
                    continue;
                }
                let index = at.index(packed.len());
                packed[index] = with;
                let mut out = Vec::new();
                let _ = codec.decompress(&packed, 10_000, &mut out);
                prop_assert!(out.len() <= 10_000);
            }
        }
    }
}
