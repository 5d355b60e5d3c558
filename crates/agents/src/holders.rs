//! Finds the living processes that have a conversation open, so that no second agent joins it.
//!
//! Three signs, none of which needs the agent's cooperation:
//!
//! - Claude Code registers each of its processes in `sessions/PID.json` of its home, with the
//!   conversation and the start time of the process. The file of a killed process stays, so an entry
//!   counts only while exactly that process lives.
//! - Codex keeps a lock and the transcript open, both named after the conversation.
//! - So does any other agent that keeps its transcript open for writing.
#![expect(
    clippy::disallowed_methods,
    reason = "/proc is an interface of the kernel, and the register is in the agent's own folder"
)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use segno_core::cli_agent::Holder;
use serde::Deserialize;

use crate::command::SESSION;
use crate::process;

/// Shorter ids could be part of any file's name.
const SHORTEST_ID: usize = 16;
/// Larger files are not entries of the register.
const MAX_ENTRY_BYTES: u64 = 64 << 10;

/// The processes, other than this one, that have the conversation open. `registers` are homes of
/// Claude Code.
pub(crate) async fn find(registers: Vec<PathBuf>, id: &str) -> Vec<Holder> {
    let id = id.to_owned();
    let search = move || {
        let mut found: Vec<Holder> = Vec::new();
        for home in &registers {
            found.extend(registered(home, &id));
        }
        if id.len() >= SHORTEST_ID {
            found.extend(
                process::all()
                    .filter(|pid| has_open(*pid, &id))
                    .filter_map(holder),
            );
        }
        found.retain(|holder| holder.pid != std::process::id());
        found.sort_by_key(|holder| holder.pid);
        found.dedup();
        found
    };
    let found = tokio::task::spawn_blocking(search).await;
    found.expect("the blocking task does not panic")
}

/// An entry of Claude Code's register, as far as it matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    pid: u32,
    session_id: String,
    /// The start time of the process, in kernel ticks since boot.
    proc_start: Option<String>,
}

/// The living processes that Claude Code's register has for the conversation.
fn registered(home: &Path, id: &str) -> Vec<Holder> {
    let files = fs::read_dir(home.join("sessions")).into_iter().flatten();
    let entries = files.filter_map(|file| read_entry(&file.ok()?.path()));
    entries
        .filter(|entry| entry.session_id == id)
        .filter_map(|entry| {
            let holder = holder(entry.pid)?;
            // Without a start time the pid may be that of any later process.
            let started: u64 = entry.proc_start?.parse().ok()?;
            (holder.started == started).then_some(holder)
        })
        .collect()
}

fn read_entry(path: &Path) -> Option<Entry> {
    if path.extension()? != "json" {
        return None;
    }
    let mut text = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_ENTRY_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a process has a file open for writing whose name contains the id.
fn has_open(pid: u32, id: &str) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let mut named = fds.flatten().filter(|fd| {
        let file = fs::read_link(fd.path()).ok();
        let name = file.as_deref().and_then(Path::file_name);
        name.is_some_and(|name| name.to_string_lossy().contains(id))
    });
    named.any(|fd| {
        let number = fd.file_name();
        let info = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
        fs::read_to_string(info).is_ok_and(|info| is_writable(&info))
    })
}

/// Whether `/proc/PID/fdinfo/FD` is of a file that was opened for writing.
fn is_writable(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // The access mode: 0 is read only.
    flags.is_some_and(|flags| flags & 0o3 != 0)
}

fn holder(pid: u32) -> Option<Holder> {
    let stat = process::stat(pid).filter(process::Stat::is_alive)?;
    Some(Holder {
        pid,
        started: stat.started,
        is_ending: stat.is_ending(),
        program: stat.name,
        session: process::variable(pid, SESSION),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_counts_only_the_same_living_process() {
        let home = tempfile::TempDir::new().unwrap();
        let sessions = home.path().join("sessions");
        fs::create_dir(&sessions).unwrap();
        let own = std::process::id();
        let started = process::stat(own).unwrap().started;
        let entry = |pid: u32, id: &str, started: u64| {
            let text = format!(
                r#"{{"pid":{pid},"sessionId":"{id}","procStart":"{started}","kind":"interactive"}}"#
            );
            fs::write(sessions.join(format!("{pid}.json")), text).unwrap();
            registered(home.path(), "a-conversation")
        };
        let found = entry(own, "a-conversation", started);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].pid, found[0].started), (own, started));
        // The pid was reused; another conversation; no process.
        assert_eq!(entry(own, "a-conversation", started + 1), []);
        assert_eq!(entry(own, "another", started), []);
        fs::write(sessions.join("x.json"), "{").unwrap();
        fs::write(sessions.join("y.key"), "").unwrap();
        assert_eq!(entry(own, "another", started), []);
        assert_eq!(registered(Path::new("/no/such/home"), "a-conversation"), []);
    }

    #[test]
    fn only_files_open_for_writing_hold_a_conversation() {
        let folder = tempfile::TempDir::new().unwrap();
        let id = "5e550000-0000-4000-8000-00000000abcd";
        let path = folder.path().join(format!("rollout-{id}.jsonl"));
        fs::write(&path, "").unwrap();
        let own = std::process::id();
        let reader = fs::File::open(&path).unwrap();
        assert!(!has_open(own, id));
        drop(reader);
        let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        assert!(has_open(own, id));
        drop(writer);
        assert!(!has_open(own, id));
    }
}
