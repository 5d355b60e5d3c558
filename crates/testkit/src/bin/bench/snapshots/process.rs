//! Runs programs and measures their time from start to end, and their peak memory.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::figures::millis;

/// How often memory is read.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The result of a program that succeeded.
pub(crate) struct Ran {
    /// Milliseconds.
    pub(crate) time: f64,
    pub(crate) stdout: String,
}

/// Runs a program to its end. Returns an error if it fails.
pub(crate) fn run(mut command: Command) -> Result<Ran, String> {
    command.stdin(Stdio::null());
    let begun = Instant::now();
    let output = command
        .output()
        .map_err(|error| describe_failure(&command, &error))?;
    let time = millis(begun.elapsed());
    if output.status.success() {
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        return Ok(Ran { time, stdout });
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().next_back().unwrap_or_default();
    Err(describe_failure(
        &command,
        &format!("{}: {last}", output.status),
    ))
}

fn describe_failure(command: &Command, reason: &dyn std::fmt::Display) -> String {
    format!("{}: {reason}", command.get_program().display())
}

/// Syncs the file system of `folder`. Returns milliseconds.
///
/// Called before a measurement, so that writes of the previous one do not slow it down; called
/// after one, to measure what the program did not sync itself.
pub(crate) fn sync_disk(folder: &Path) -> f64 {
    let folder = fs::File::open(folder).unwrap();
    let begun = Instant::now();
    rustix::fs::syncfs(folder).unwrap();
    millis(begun.elapsed())
}

/// Runs a program to its end. Returns its peak memory in megabytes, without its children.
pub(crate) fn peak_memory(mut command: Command) -> Result<f64, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command
        .spawn()
        .map_err(|error| describe_failure(&command, &error))?;
    match wait_for_peak_memory(child) {
        (memory, ended) if ended.success() => Ok(memory),
        (_, ended) => Err(describe_failure(&command, &ended)),
    }
}

/// Waits for a process and reads its memory meanwhile. Returns the peak in megabytes and the exit
/// status.
pub(crate) fn wait_for_peak_memory(mut child: Child) -> (f64, ExitStatus) {
    let status_path = format!("/proc/{}/status", child.id());
    let mut most = 0.0;
    loop {
        let status = fs::read_to_string(&status_path).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        most = kilobytes.map_or(most, |kilobytes| f64::max(most, kilobytes / 1024.0));
        if let Some(ended) = child.try_wait().unwrap() {
            return (most, ended);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
