//! What the kernel says about this process.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
use segno_core::ports::Disk;

/// A file of `/proc` about a process is much smaller.
const MAX_BYTES: u64 = 64 << 10;
/// The unit of CPU time in `/proc`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// What is known; absent where there is no `/proc`.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<usize>,
    pub(super) max_files: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
}

impl Process {
    pub(crate) fn now(disk: &dyn Disk) -> Self {
        let read = |name: &str| {
            let body = disk.read(&Path::new("/proc/self").join(name), MAX_BYTES);
            body.ok().and_then(|body| String::from_utf8(body).ok())
        };
        let files = disk.list(Path::new("/proc/self/fd")).ok();
        Self {
            resident_bytes: read("status").as_deref().and_then(resident),
            open_files: files.map(|files| files.len()),
            max_files: getrlimit(Resource::Nofile).current,
            cpu_seconds: read("stat").as_deref().and_then(cpu),
        }
    }
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// User and system time, fields 14 and 15. The second one is a name, which may contain anything.
fn cpu(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_after_a_strange_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 5";
        assert_eq!(cpu(stat), Some(2.0));
        assert_eq!(resident("Name:\tx\nVmRSS:\t  12 kB\n"), Some(12 * 1024));
    }
}
