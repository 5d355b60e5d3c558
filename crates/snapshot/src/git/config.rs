//! Settings of a repository: which of them can start no program and send nothing anywhere.

use std::path::Path;

use super::error::Error;
use super::inert;
use super::place::Place;
use super::program::{Git, Input};
use super::truth::{Format, Inert, InertKind, Setting};

/// Keys that are safe whatever their value is.
const SAFE: [&str; 42] = [
    "core.bare",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.checkstat",
    "core.trustctime",
    "core.logallrefupdates",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.quotepath",
    "extensions.worktreeconfig",
    "index.sparse",
    "index.version",
    "user.name",
    "user.email",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "status.showuntrackedfiles",
    "status.relativepaths",
    "status.renames",
    "push.default",
    "push.autosetupremote",
    "pull.rebase",
    "pull.ff",
    "merge.ff",
    "merge.conflictstyle",
    "fetch.prune",
    "fetch.prunetags",
    "rebase.autostash",
    "rebase.autosquash",
    "rebase.updaterefs",
    "branch.autosetupmerge",
    "branch.autosetuprebase",
    "submodule.active",
    "submodule.recurse",
    "init.defaultbranch",
];

/// Keys that we set ourselves, or that only say where things lie on this machine.
const OURS: [&str; 4] = [
    "core.repositoryformatversion",
    "core.worktree",
    "extensions.objectformat",
    "extensions.refstorage",
];

/// The settings of a repository, and those of one worktree alone.
pub(super) fn read(git: &Git, place: &Place) -> Result<(Vec<Setting>, Vec<Setting>), Error> {
    let shared = read_file(git, &place.common.join("config"))?;
    let by_worktree =
        |setting: &Setting| setting.key == "extensions.worktreeconfig" && setting.value != "false";
    let own = if shared.iter().any(by_worktree) {
        read_file(git, &place.git_dir.join("config.worktree"))?
    } else {
        Vec::new()
    };
    Ok((shared, own))
}

/// The settings in one file. What it includes is not read.
pub(super) fn read_file(git: &Git, path: &Path) -> Result<Vec<Setting>, Error> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let args = ["config", "--no-includes", "-z", "--list", "--file"].map(AsRef::as_ref);
    let args = [args.as_slice(), &[path.as_os_str()]].concat();
    let answer = git.ask(&args, Input::Nothing)?;
    let entries = answer.split(|byte| *byte == 0);
    let entries = entries.filter(|entry| !entry.is_empty());
    Ok(entries.map(setting).collect())
}

/// `key`, a line feed, the value; a key alone means `true`.
fn setting(entry: &[u8]) -> Setting {
    let text = String::from_utf8_lossy(entry);
    let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
    Setting {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

/// Parts settings into those that may come back and those that wait for a person. Credentials are
/// removed from both.
pub(super) fn divide(settings: &[Setting]) -> (Vec<Setting>, Vec<Inert>) {
    let (mut safe, mut inert) = (Vec::new(), Vec::new());
    for setting in settings {
        let value = inert::without_credentials(&setting.key, &setting.value);
        // Some keys have an address in them.
        let key = inert::clean_address(&setting.key);
        if OURS.contains(&setting.key.as_str()) {
        } else if key == setting.key && is_safe(&key, &value) {
            safe.push(Setting { key, value });
        } else {
            inert.push(Inert {
                kind: InertKind::Setting,
                name: key,
                content: value,
            });
        }
    }
    (safe, inert)
}

fn is_safe(key: &str, value: &str) -> bool {
    if value.contains('\0') || key.contains(['\0', '\n']) {
        return false;
    }
    if SAFE.contains(&key) {
        return true;
    }
    let Some((section, name)) = key.split_once('.') else {
        return false;
    };
    let Some((_, name)) = name.rsplit_once('.') else {
        return false;
    };
    match (section, name) {
        ("branch", "merge" | "rebase" | "description")
        | ("remote", "fetch" | "tagopt" | "prune")
        | ("submodule", "active" | "branch" | "ignore") => true,
        ("branch", "remote" | "pushremote") | ("remote" | "submodule", "url" | "pushurl") => {
            is_plain_address(value)
        }
        _ => false,
    }
}

/// Whether an address uses one of git's own transports: `ext::` and its like run programs.
fn is_plain_address(address: &str) -> bool {
    let known = ["http", "https", "ssh", "git", "file"];
    if address.starts_with('-') || address.contains("::") || address.contains(char::is_control) {
        return false;
    }
    address
        .split_once("://")
        .is_none_or(|(scheme, rest)| known.contains(&scheme) && !rest.starts_with('-'))
}

/// A settings file.
pub(super) fn write(format: Format, ref_storage: Option<&str>, settings: &[Setting]) -> Vec<u8> {
    let plain = format == Format::Sha1 && ref_storage.is_none();
    let mut text = format!("[core]\n\trepositoryformatversion = {}\n", u8::from(!plain));
    if !plain {
        text.push_str("[extensions]\n");
    }
    if format == Format::Sha256 {
        text.push_str("\tobjectFormat = sha256\n");
    }
    if let Some(storage) = ref_storage {
        text.push_str("\trefStorage = ");
        text.push_str(storage);
        text.push('\n');
    }
    text.push_str(&entries(settings));
    text.into_bytes()
}

/// Settings as a file has them.
pub(super) fn entries(settings: &[Setting]) -> String {
    settings.iter().map(entry).collect()
}

fn entry(Setting { key, value }: &Setting) -> String {
    let (section, rest) = key.split_once('.').unwrap_or(("core", key));
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let value = quote(value).replace('\n', "\\n").replace('\t', "\\t");
    match rest.rsplit_once('.') {
        Some((sub, name)) => format!("[{section} \"{}\"]\n\t{name} = \"{value}\"\n", quote(sub)),
        None => format!("[{section}]\n\t{rest} = \"{value}\"\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_starts_a_program_is_safe() {
        for key in [
            "core.fsmonitor",
            "core.hookspath",
            "core.sshcommand",
            "core.pager",
            "core.editor",
            "core.askpass",
            "core.gitproxy",
            "core.alternaterefscommand",
            "core.attributesfile",
            "alias.status",
            "diff.external",
            "diff.x.textconv",
            "diff.x.command",
            "filter.x.clean",
            "filter.x.smudge",
            "filter.x.process",
            "merge.x.driver",
            "credential.helper",
            "gpg.program",
            "include.path",
            "includeif.gitdir:/.path",
            "remote.origin.uploadpack",
            "remote.origin.vcs",
            "remote.origin.promisor",
            "submodule.x.update",
            "branch.main.mergeoptions",
            "extensions.partialclone",
            "url.x.insteadof",
            "sequence.editor",
            "uploadpack.packobjectshook",
        ] {
            assert!(!is_safe(key, "touch /tmp/x"), "{key}");
        }
    }

    #[test]
    fn an_address_that_runs_a_program_is_not_safe() {
        for address in [
            "ext::sh -c x",
            "-x",
            "fd::3",
            "foo://x",
            "ssh://-oProxyCommand=x/y",
        ] {
            assert!(!is_safe("remote.origin.url", address), "{address}");
        }
        for address in [
            "https://h/x",
            "git@h:x.git",
            "../x.git",
            "/a b/x",
            "file:///x",
        ] {
            assert!(is_safe("remote.origin.url", address), "{address}");
        }
    }
}
