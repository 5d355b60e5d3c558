//! What differs from the last commit: `git status`, read.

use super::error::Error;
use super::program::{Git, Input};
use super::truth::{Raw, Status, Upstream};

/// Status and upstream. Submodules are looked at only from outside: what is in them is their own
/// truth.
pub(super) fn read(git: &Git) -> Result<(Status, Option<Upstream>), Error> {
    let args = [
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
        "--find-renames",
    ];
    Ok(parse(&git.ask(&args, Input::Nothing)?))
}

fn parse(answer: &[u8]) -> (Status, Option<Upstream>) {
    let mut status = Status::default();
    let mut upstream: Option<Upstream> = None;
    let mut entries = answer.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        match entry.first() {
            Some(b'#') => header(entry, &mut upstream),
            Some(b'?') => status.untracked.add(&entry[2..]),
            Some(b'u') => status.conflicted.add(field(entry, 10)),
            Some(b'1') => change(entry, field(entry, 8), &mut status),
            Some(b'2') => {
                change(entry, field(entry, 9), &mut status);
                // The name it had before.
                entries.next();
            }
            _ => {}
        }
    }
    (status, upstream)
}

fn header(entry: &[u8], upstream: &mut Option<Upstream>) {
    if let Some(name) = entry.strip_prefix(b"# branch.upstream ") {
        *upstream = Some(Upstream {
            name: Raw::from(name),
            ahead: None,
            behind: None,
        });
    }
    let (Some(counts), Some(upstream)) = (entry.strip_prefix(b"# branch.ab +"), upstream) else {
        return;
    };
    let counts = String::from_utf8_lossy(counts);
    if let Some((ahead, behind)) = counts.split_once(" -") {
        upstream.ahead = ahead.parse().ok();
        upstream.behind = behind.parse().ok();
    }
}

fn change(entry: &[u8], name: &[u8], status: &mut Status) {
    if entry.get(2).is_some_and(|sign| *sign != b'.') {
        status.staged.add(name);
    }
    if entry.get(3).is_some_and(|sign| *sign != b'.') {
        status.modified.add(name);
    }
}

/// What follows the first `count` fields; a name may have spaces in it.
fn field(entry: &[u8], count: usize) -> &[u8] {
    let mut fields = entry.splitn(count + 1, |byte| *byte == b' ');
    fields.nth(count).unwrap_or_default()
}
