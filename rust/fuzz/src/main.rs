//! libFuzzer's main loop around one target of the kernel, whose name is in `OTTLA_FUZZ_TARGET`.

#![no_main]

use std::sync::OnceLock;

use _kernel::fuzzing::allocation::Counting;
use _kernel::fuzzing::{Target, target};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("OTTLA_FUZZ_TARGET").expect("OTTLA_FUZZ_TARGET names a target");
        let found = target(&name).unwrap_or_else(|| panic!("there is no target {name}"));
        TARGET.get_or_init(|| found);
    },
    |data: &[u8]| TARGET.get().expect("set at the start")(data)
);
