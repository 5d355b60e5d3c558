//! Randomness from the kernel.

use rustix::rand::{GetRandomFlags, getrandom};
use segno_core::ports::Random;

pub(crate) struct MachineRandom;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the lint points to"
)]
impl Random for MachineRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            // The kernel fails only early at boot, before its generator is ready.
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).unwrap_or(0);
        }
    }
}
