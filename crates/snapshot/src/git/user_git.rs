//! Runs git as a user would in their own repository: with their configuration and their name. For
//! writes on the user's behalf; reads go through a [`shadow`](super::shadow).

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Settings that override the user's. No hooks are run, because an agent may just have changed
/// them; no user is there to sign or to write a message; and the committer must be configured.
const SETTINGS: [&str; 8] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "gc.auto=0",
    "maintenance.auto=false",
    "user.useConfigOnly=true",
    "advice.addEmbeddedRepo=false",
    "protocol.allow=never",
];

const ENVIRONMENT: [(&str, &str); 6] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_NO_LAZY_FETCH", "1"),
];

/// The environment variables that git inherits. None of them leads git to another repository.
const KEPT: [&str; 10] = [
    "PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

pub(super) fn command(folder: &Path, args: &[&OsStr]) -> Command {
    let mut command = Command::new("git");
    let kept = KEPT.into_iter();
    command
        .env_clear()
        .envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(ENVIRONMENT)
        .current_dir(folder)
        .args(["--no-pager", "--no-optional-locks"]);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command.args(args);
    command
}
