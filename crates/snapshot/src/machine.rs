//! What this crate takes from the machine: the clock that stamps files, chance for names, pauses.

use std::io;
use std::sync::OnceLock;
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
    // Asking takes a look into the control groups, so it is done once.
    static WORKERS: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(2, usize::from);
    *WORKERS.get_or_init(|| ask().min(8))
}

/// How many of `count` files a thread takes at a time: so few that each thread takes some several times
/// and all end together, and at most `most`. Opening one takes longer than starting a thread.
pub(crate) fn share(count: usize, most: usize) -> usize {
    const TURNS: usize = 4;
    count.div_ceil(workers() * TURNS).clamp(2, most)
}

/// Does something for each of some things that is mostly waiting for the disk: for several at the same
/// time, which the disk takes together.
pub(crate) fn each_at_once<T: Sync, E: Send>(
    things: &[T],
    act: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    const THREADS: usize = 8;
    let share = things.len().div_ceil(THREADS).max(2);
    let mut shares = things.chunks(share);
    let own = shares.next().unwrap_or_default();
    let act = |things: &[T]| things.iter().try_for_each(&act);
    std::thread::scope(|scope| {
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || act(share)))
            .collect();
        others.into_iter().fold(act(own), |done, other| {
            let other = other.join();
            done.and(other.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}

/// Does two things: at the same time, if that is worth a thread.
pub(crate) fn both<A: Send, B>(
    is_worth_it: bool,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    if !is_worth_it {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        let one = one
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (one, other)
    })
}
