//! What this crate takes from the operating system: the file timestamp clock, randomness, pauses,
//! threads.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crate::entry::FileTime;

/// The clock that the kernel stamps files with.
pub(crate) fn stamp_clock() -> FileTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    FileTime {
        seconds: time.tv_sec,
        nanos: u32::try_from(time.tv_nsec).unwrap_or(0),
    }
}

/// The resolution of that clock in nanoseconds.
pub(crate) fn stamp_tick() -> u32 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::RealtimeCoarse);
    u32::try_from(tick.tv_nsec).unwrap_or(u32::MAX)
}

/// Random bytes, for unique names.
#[expect(
    clippy::disallowed_methods,
    reason = "random names of drafts and packs; no stored data depends on them"
)]
pub(crate) fn random_bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Waits for another program to finish writing a file.
#[expect(
    clippy::disallowed_methods,
    reason = "blocking code that waits a few milliseconds for another program's write"
)]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// The number of worker threads.
pub(crate) fn workers() -> usize {
    // Asking reads the control groups, so it is done once.
    static WORKERS: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(2, usize::from);
    *WORKERS.get_or_init(|| ask().min(8))
}

/// How many of `count` files a thread processes per batch: few enough that each thread gets several
/// batches and all end at the same time, and at most `most`. Opening a file takes longer than
/// starting a thread.
pub(crate) fn batch_size(count: usize, most: usize) -> usize {
    const TURNS: usize = 4;
    count.div_ceil(workers() * TURNS).clamp(2, most)
}

/// Calls `act` for each item, on several threads. For operations that mostly wait for the disk,
/// which can handle several at the same time.
pub(crate) fn for_each_parallel<T: Sync, E: Send>(
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

/// Runs two functions: at the same time, if that is worth a thread.
pub(crate) fn join<A: Send, B>(
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
