//! What must hold for every input: properties that the fuzzer drives and the tests replay.
//!
//! A target takes bytes, does with them what the kernel does with a stranger's bytes, and panics when something that is
//! promised does not hold: a panic in the kernel, a length that leaves the buffer, more memory than the bytes have
//! earned, two readers that disagree, or bytes that come back changed. The first byte says how the rest is used, so that
//! checksums and lengths do not keep the fuzzer out. Seeds are in `tests/fuzz/seeds`, one folder a target.

pub mod allocation;
mod batch;
mod codec;
mod messages;
mod produced;
mod records;
mod round_trip;
mod sealing;
mod varint;

/// A property of any bytes; panics where it does not hold.
pub type Target = fn(&[u8]);

/// All targets but that of the messages, which needs a Python interpreter.
const TARGETS: [(&str, Target); 6] = [
    ("batch", batch::check),
    ("codec", codec::check),
    ("produced", produced::check),
    ("records", records::check),
    ("round_trip", round_trip::check),
    ("varint", varint::check),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    if name == "messages" {
        messages::start();
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

    #[test]
    fn every_seed_holds() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/seeds");
        for (name, target) in TARGETS {
            let files: Vec<_> = fs::read_dir(seeds.join(name)).unwrap().collect();
            assert!(!files.is_empty(), "{name} has no seeds");
            for file in files {
                target(&fs::read(file.unwrap().path()).unwrap());
            }
        }
    }
}
