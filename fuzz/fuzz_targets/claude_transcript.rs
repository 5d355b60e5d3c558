//! See [`segno_fuzz::transcript`].

#![no_main]

use libfuzzer_sys::fuzz_target;
use segno_agents::transcript::Native;

fuzz_target!(|bytes: &[u8]| segno_fuzz::transcript::hold(Native::ClaudeCode, bytes));
