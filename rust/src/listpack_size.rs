//! How many bytes Redis would need for entries of a node (listpack.c of Redis 7.0); `ottla.gateways.redis.listpack`
//! has the same for single entries, and says what a node is made of.

const EMPTY_BYTES: u64 = 7;
const INTEGER_TEXT_MAX: usize = 20;

fn with_back_length(size: u64) -> u64 {
    size + match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn integer_bytes(value: i64) -> u64 {
    match value {
        0..=127 => 2,
        -4_096..=4_095 => 3,
        -32_768..=32_767 => 4,
        -8_388_608..=8_388_607 => 5,
        -2_147_483_648..=2_147_483_647 => 6,
        _ => 10,
    }
}

/// A 64-bit integer in its one form: no plus, no zero in front.
fn find_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn element_bytes(data: &[u8]) -> u64 {
    if (1..=INTEGER_TEXT_MAX).contains(&data.len())
        && data[0] <= b'9'
        && let Some(value) = find_integer(data)
    {
        return integer_bytes(value);
    }
    let size = data.len() as u64;
    match size {
        0..64 => size + 2,
        64..4_096 => with_back_length(size + 2),
        _ => with_back_length(size + 5),
    }
}

/// A node that has no entries yet, whose first one will have fields of these names.
pub fn node_bytes<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> u64 {
    let count = names.len() as i64;
    EMPTY_BYTES + 2 + 2 + integer_bytes(count) + names.map(element_bytes).sum::<u64>() + 2
}

/// An entry: `fields` are names and values in turn, the deltas those of its id to the first one of the node.
pub fn entry_bytes<'a>(
    fields: impl ExactSizeIterator<Item = &'a [u8]>,
    ms_delta: i64,
    sequence_delta: i64,
    has_same_names: bool,
) -> u64 {
    let count = (fields.len() / 2) as i64;
    let head = 2 + integer_bytes(ms_delta) + integer_bytes(sequence_delta);
    if has_same_names {
        let values = fields.skip(1).step_by(2).map(element_bytes).sum::<u64>();
        return head + values + integer_bytes(count + 3);
    }
    head + integer_bytes(count)
        + fields.map(element_bytes).sum::<u64>()
        + integer_bytes(2 * count + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_listpacks() {
        let long = [b'x'; 64];
        let texts: [&[u8]; 8] = [b"", b"0", b"127", b"128", b"-1", b"00", &long[..63], &long];
        assert_eq!(texts.map(element_bytes), [2, 2, 2, 3, 3, 4, 65, 67]);
        let names: [&[u8]; 1] = [b"f"];
        let fields: [&[u8]; 2] = [b"f", b"1"];
        assert_eq!(
            node_bytes(names.into_iter()) + entry_bytes(fields.into_iter(), 0, 0, true),
            28
        );
    }
}
