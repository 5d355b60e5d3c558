//! What this crate takes from the machine: the clock that stamps files, chance for names, pauses.

use std::io;
use std::time::Duration;

use crate::entry::Moment;

/// The clock with which the kernel stamps files.
pub(crate) fn stamp_clock() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Moment {
        seconds: time.tv_sec,
        nanos: u32::try_from(time.tv_nsec).unwrap_or(0),
    }
}

/// How many nanoseconds may lie between two ticks of that clock.
pub(crate) fn stamp_tick() -> u32 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::RealtimeCoarse);
    u32::try_from(tick.tv_nsec).unwrap_or(u32::MAX)
}

/// Unpredictable bytes, for names that nobody else has.
#[expect(
    clippy::disallowed_methods,
    reason = "names of drafts and packs; nothing that is kept depends on them"
)]
pub(crate) fn chance() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Waits for whoever writes a file to be done with it.
#[expect(
    clippy::disallowed_methods,
    reason = "blocking code that waits for another program's write, for milliseconds"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// How many threads work at once.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism()
        .map_or(2, usize::from)
        .min(8)
}
