//! Kafka's default partitioner: murmur2 over the key.

use crate::buffer::ByteView;
use pyo3::prelude::*;

const SEED: u32 = 0x9747_b28c;
const MIX: u32 = 0x5bd1_e995;

/// Murmur2, 32 bits, with the seed the Java client uses.
pub fn murmur2_of(data: &[u8]) -> i32 {
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        k = k.wrapping_mul(MIX);
        k ^= k >> 24;
        k = k.wrapping_mul(MIX);
        hash = hash.wrapping_mul(MIX) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^= hash >> 15;
    hash as i32
}

/// The partition of a key among `partition_count`, which is at least 1.
pub fn partition_of(key: &[u8], partition_count: i32) -> i32 {
    (murmur2_of(key) & i32::MAX) % partition_count
}

#[pyfunction]
#[pyo3(signature = (data, /))]
fn murmur2(data: ByteView<'_>) -> i32 {
    murmur2_of(data.as_slice())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(murmur2, module)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_the_java_client() {
        let known: [(&[u8], i32); 5] = [
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"abc", 479470107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2_of(key), hash);
        }
    }
}
