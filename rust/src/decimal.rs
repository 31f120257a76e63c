//! Numbers in decimal, without the formatter of the standard library, which takes several times as long.

/// Puts the digits of a number before `end`; returns where they begin. There has to be room for 20.
pub fn put_before(text: &mut [u8], end: usize, mut number: u64) -> usize {
    let mut at = end;
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return at;
        }
    }
}

/// Appends a number.
pub fn put(out: &mut Vec<u8>, number: u64) {
    let mut text = [0; 20];
    let at = put_before(&mut text, 20, number);
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_as_the_formatter_has_it(number: u64, shift in 0u32..64) {
            for each in [number >> shift, 0, u64::MAX] {
                let mut out = b"x".to_vec();
                put(&mut out, each);
                prop_assert_eq!(out, format!("x{each}").into_bytes());
            }
        }
    }
}
