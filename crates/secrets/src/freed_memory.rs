//! For tests: what a dropped value leaves in memory.

use std::os::unix::fs::FileExt;

/// Drops `value` and returns the second half of the 32 bytes that it had at `address`. An allocator
/// writes its own data into the first half of freed memory.
#[expect(clippy::disallowed_methods, reason = "it is no file that is read")]
pub(crate) fn left_by<T>(value: T, address: usize) -> [u8; 16] {
    // Nothing is allocated after the drop, because that could reuse the memory.
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    let mut left = [0xee; 16];
    drop(value);
    memory
        .read_exact_at(&mut left, address as u64 + 16)
        .unwrap();
    left
}
