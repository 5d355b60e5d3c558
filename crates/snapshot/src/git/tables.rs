//! Logs of refs that git keeps in tables, written as the files that a repository has without.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::error::Error;
use super::files;
use super::program::Input;
use super::shadow::Shadow;

/// How many logs are asked for; each takes a run of git.
const LOGS: usize = 500;

/// Writes the logs into the shadow, where those of other repositories are copied to.
pub(super) fn write_logs(shadow: &Shadow) -> Result<(), Error> {
    // Older versions of git know neither tables nor this question.
    let names = shadow.git().ask(&["reflog", "list"], Input::Nothing)?;
    let names = names.split(|byte| *byte == b'\n');
    for name in names.filter(|name| !name.is_empty()).take(LOGS) {
        let path = Path::new(std::ffi::OsStr::from_bytes(name));
        let plain = path
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if plain {
            let content = log(shadow, path)?;
            files::write(&shadow.git_dir().join("logs").join(path), &content)?;
        }
    }
    Ok(())
}

/// The log of one ref. Git tells the newest first, and a file has it last.
fn log(shadow: &Shadow, name: &Path) -> Result<Vec<u8>, Error> {
    let format = "--format=%H%x09%gn <%ge> %gd%x09%gs";
    let args = [
        "log",
        "-g",
        "-z",
        "--date=raw",
        "--no-show-signature",
        format,
    ]
    .map(AsRef::as_ref);
    let args = [args.as_slice(), &[name.as_os_str(), "--".as_ref()]].concat();
    let answer = shadow.git().ask(&args, Input::Nothing)?;
    let entries: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    let mut content = Vec::new();
    let mut before: Option<Vec<u8>> = None;
    for entry in entries.into_iter().rev() {
        let mut fields = entry.splitn(3, |byte| *byte == b'\t');
        let (Some(oid), Some(who), Some(message)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let Some(who) = with_time(who) else {
            continue;
        };
        let old = before.unwrap_or_else(|| vec![b'0'; oid.len()]);
        let line = [old.as_slice(), b" ", oid, b" ", &who, b"\t", message, b"\n"];
        content.extend(line.concat());
        before = Some(oid.to_vec());
    }
    Ok(content)
}

/// `name <address> ref@{seconds zone}` as `name <address> seconds zone`.
fn with_time(who: &[u8]) -> Option<Vec<u8>> {
    let close = who.iter().rposition(|byte| *byte == b'>')?;
    let time = who[close..].windows(2).position(|pair| pair == b"@{")?;
    let time = who[close + time + 2..].strip_suffix(b"}")?;
    Some([&who[..=close], b" ", time].concat())
}
