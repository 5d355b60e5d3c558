//! Git configuration: which settings can start no program and send nothing anywhere.

use std::path::Path;

use super::error::Error;
use super::git_paths::GitPaths;
use super::program::Git;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// In lower case, except for the part in the middle.
    pub(super) key: String,
    pub(super) value: String,
}

/// How a repository stores its objects and refs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Storage {
    /// Object ids are SHA-256.
    sha256: bool,
    /// Refs are stored as reftables.
    tables: bool,
}

impl Storage {
    pub(super) fn of(settings: &[Setting]) -> Self {
        let is = |key: &str, value: &str| {
            last(settings, key).is_some_and(|found| found.eq_ignore_ascii_case(value))
        };
        Self {
            sha256: is("extensions.objectformat", "sha256"),
            tables: is("extensions.refstorage", "reftable"),
        }
    }
}

/// The effective value, if a key occurs several times.
pub(super) fn last<'a>(settings: &'a [Setting], key: &str) -> Option<&'a str> {
    let mut found = settings.iter().rev().filter(|setting| setting.key == key);
    found.next().map(|setting| setting.value.as_str())
}

/// Keys that are safe whatever their value is.
const SAFE: [&str; 41] = [
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

/// Keys that we set ourselves, or that only describe paths on this machine.
const OURS: [&str; 4] = [
    "core.repositoryformatversion",
    "core.worktree",
    "extensions.objectformat",
    "extensions.refstorage",
];

/// The configuration of a repository, followed by that of its worktree alone.
pub(super) fn read(git: &Git, paths: &GitPaths) -> Result<Vec<Setting>, Error> {
    let mut settings = read_file(git, &paths.common.join("config"))?;
    if last(&settings, "extensions.worktreeconfig").is_some_and(|value| value != "false") {
        settings.extend(read_file(git, &paths.git_dir.join("config.worktree"))?);
    }
    Ok(settings)
}

/// The settings in one file. Included files are not read.
pub(super) fn read_file(git: &Git, path: &Path) -> Result<Vec<Setting>, Error> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let args = ["config", "--no-includes", "-z", "--list", "--file"].map(AsRef::as_ref);
    let args = [args.as_slice(), &[path.as_os_str()]].concat();
    let answer = git.run(&args)?;
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

/// The settings that can start no program and send nothing anywhere.
pub(super) fn safe(settings: &[Setting]) -> Vec<Setting> {
    let safe = |setting: &&Setting| {
        !OURS.contains(&setting.key.as_str()) && is_safe(&setting.key, &setting.value)
    };
    settings.iter().filter(safe).cloned().collect()
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

/// Whether a URL uses one of git's own transports: `ext::` and its like run programs.
fn is_plain_address(address: &str) -> bool {
    let known = ["http", "https", "ssh", "git", "file"];
    if address.starts_with('-') || address.contains("::") || address.contains(char::is_control) {
        return false;
    }
    address
        .split_once("://")
        .is_none_or(|(scheme, rest)| known.contains(&scheme) && !rest.starts_with('-'))
}

/// The text of a configuration file.
pub(super) fn write(storage: &Storage, settings: &[Setting]) -> String {
    let plain = *storage == Storage::default();
    let mut text = format!("[core]\n\trepositoryformatversion = {}\n", u8::from(!plain));
    if !plain {
        text.push_str("[extensions]\n");
    }
    if storage.sha256 {
        text.push_str("\tobjectFormat = sha256\n");
    }
    if storage.tables {
        text.push_str("\trefStorage = reftable\n");
    }
    text.extend(settings.iter().map(entry));
    text
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
    fn settings_that_start_programs_are_unsafe() {
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
    fn urls_that_run_programs_are_unsafe() {
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
