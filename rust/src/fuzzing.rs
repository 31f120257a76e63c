//! What must hold for every input: properties that the fuzzer drives and the tests replay.
//!
//! A target takes bytes, does with them what the kernel does with a stranger's bytes, and panics when something that is
//! promised does not hold: a panic in the kernel, a length that leaves the buffer, more memory than the bytes have
//! earned, two readers that disagree, or bytes that come back changed. The first byte says how the rest is used, so that
//! checksums and lengths do not keep the fuzzer out. Seeds are in `tests/fuzz/seeds`, one file a target.

pub mod allocation;
mod batch;
mod codec;
mod messages;
mod produced;
mod records;
mod round_trip;
mod sealing;
#[cfg(target_os = "linux")]
mod sockets;
mod varint;

/// A property of any bytes; panics where it does not hold.
pub type Target = fn(&[u8]);

/// All targets but those of the messages, which need a Python interpreter.
const TARGETS: &[(&str, Target)] = &[
    ("batch", batch::check),
    ("codec", codec::check),
    ("produced", produced::check),
    ("records", records::check),
    ("round_trip", round_trip::check),
    #[cfg(target_os = "linux")]
    ("sockets", sockets::check),
    ("varint", varint::check),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    if messages::NAMES.contains(&name) {
        messages::start(name);
        return Some(messages::check);
    }
    TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, target)| *target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// The bytes of one line of a file of seeds, as `tests/fuzz/seed_files.py` writes them.
    fn unescaped(line: &str) -> Vec<u8> {
        let text = line
            .split_once(' ')
            .map_or("", |(_name, text)| text)
            .as_bytes();
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let (byte, length) = match &text[at..] {
                [b'\\', b'x', ..] => {
                    let digits = std::str::from_utf8(&text[at + 2..at + 4]).unwrap();
                    (u8::from_str_radix(digits, 16).unwrap(), 4)
                }
                [b'\\', ..] => (b'\\', 2),
                other => (other[0], 1),
            };
            bytes.push(byte);
            at += length;
        }
        bytes
    }

    #[test]
    fn every_seed_holds() {
        assert_eq!(unescaped(r"name a \\ \x00\xff"), b"a \\ \x00\xff");
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/seeds");
        for (name, target) in TARGETS {
            let lines = fs::read_to_string(seeds.join(name).with_extension("txt")).unwrap();
            assert!(!lines.is_empty(), "{name} has no seeds");
            for line in lines.lines() {
                target(&unescaped(line));
            }
        }
    }
}
