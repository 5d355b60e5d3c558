//! Programs, timed from their start to their end, and the memory that they had at most.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::millis;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// What a program that succeeded took and said.
pub(crate) struct Ran {
    /// Milliseconds.
    pub(crate) time: f64,
    pub(crate) stdout: String,
}

/// Runs a program to its end; or why it did not succeed.
pub(crate) fn run(mut command: Command) -> Result<Ran, String> {
    command.stdin(Stdio::null());
    let begun = Instant::now();
    let output = command.output().map_err(|error| named(&command, &error))?;
    let time = millis(begun.elapsed());
    if output.status.success() {
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        return Ok(Ran { time, stdout });
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().next_back().unwrap_or_default();
    Err(named(&command, &format!("{}: {last}", output.status)))
}

fn named(command: &Command, reason: &dyn std::fmt::Display) -> String {
    format!("{}: {reason}", command.get_program().display())
}

/// Makes everything durable that was written to the disk of `folder`. Milliseconds.
///
/// Before a measurement it lets nothing of the one before fall on it; after one it is what a
/// program has left to others.
pub(crate) fn settle(folder: &Path) -> f64 {
    let folder = fs::File::open(folder).unwrap();
    let begun = Instant::now();
    rustix::fs::syncfs(folder).unwrap();
    millis(begun.elapsed())
}

/// Runs a program to its end. The megabytes that it had at most, without its children.
pub(crate) fn peak(mut command: Command) -> Result<f64, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().map_err(|error| named(&command, &error))?;
    match most_memory(child) {
        (memory, ended) if ended.success() => Ok(memory),
        (_, ended) => Err(named(&command, &ended)),
    }
}

/// Waits for a process, and looks at its memory meanwhile: megabytes, and how it ended.
pub(crate) fn most_memory(mut child: Child) -> (f64, ExitStatus) {
    let place = format!("/proc/{}/status", child.id());
    let mut most = 0.0;
    loop {
        let status = fs::read_to_string(&place).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        most = kilobytes.map_or(most, |kilobytes| f64::max(most, kilobytes / 1024.0));
        if let Some(ended) = child.try_wait().unwrap() {
            return (most, ended);
        }
        thread::sleep(LOOK);
    }
}
