//! The libFuzzer entry point: runs the target named in `SEGNO_FUZZ_TARGET`, guided by coverage.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use segno_fuzz::target::Target;

static TARGET: OnceLock<&Target> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("SEGNO_FUZZ_TARGET").unwrap_or_default();
        Target::named(&name).expect("SEGNO_FUZZ_TARGET is the name of a target")
    });
    (target.check)(bytes);
});
