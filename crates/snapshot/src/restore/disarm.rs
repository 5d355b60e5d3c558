//! Disarms snapshots from untrusted sources: everything that could start a program is restored
//! under another name, so that nothing starts it before a user has reviewed it.
//!
//! This concerns git hooks and git configuration, and settings of agents and editors that name
//! programs. A link that would lead to such a file counts as one.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::entry::{Entry, Kind, Skipped, Why};
use crate::manifest::{Manifest, order};

/// The suffix of a disarmed file's name.
const SUFFIX: &str = ".segno-inert";

/// The parts of a git folder that can start programs.
const GIT: [&str; 4] = [
    "config",
    "config.worktree",
    "hooks",
    "rebase-merge/git-rebase-todo",
];

/// Files and folders from which agents, editors and shells take programs, in any parent folder.
const SETTINGS: [&str; 19] = [
    ".claude/hooks",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".envrc",
    ".gemini/settings.json",
    ".kiro/settings/mcp.json",
    ".mcp.json",
    ".opencode",
    ".vscode/launch.json",
    ".vscode/mcp.json",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".zed/settings.json",
    "opencode.json",
    "opencode.jsonc",
];

/// The name of something that is renamed itself, not together with its folder.
pub(super) fn disarmed_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(SUFFIX);
    path.with_file_name(name)
}

/// Renames everything that could start a program. Returns the new manifest and the original names.
pub(super) fn disarm(mut manifest: Manifest) -> (Manifest, Vec<PathBuf>) {
    let folders = git_folders(&manifest);
    let mut disarmed = Vec::new();
    let mut moved: HashMap<PathBuf, Kind> = HashMap::new();
    for entry in &mut manifest.entries {
        let Some(renamed) = renamed(&folders, entry) else {
            continue;
        };
        if entry.kind != Kind::Folder {
            entry.mode &= !0o111;
            disarmed.push(entry.path.clone());
            moved.insert(entry.path.clone(), entry.kind.clone());
        }
        entry.path = renamed;
    }
    // A hard link to a disarmed file becomes a file of its own.
    for entry in &mut manifest.entries {
        if let Kind::HardLink { of } = &entry.kind
            && let Some(kind) = moved.get(of)
        {
            entry.kind = kind.clone();
        }
    }
    // Files in the target that have the original names are unknown to this snapshot and stay.
    let skipped = disarmed.iter().map(|path| Skipped {
        path: path.clone(),
        why: Why::Rule("set aside".into()),
    });
    manifest.skipped.extend(skipped);
    manifest
        .entries
        .sort_by(|left, right| order(&left.path, &right.path));
    (manifest, disarmed)
}

/// Folders that git would accept as a git folder or as a part of one: the part that worktrees
/// share, and the part that each has for itself.
fn git_folders(manifest: &Manifest) -> HashSet<PathBuf> {
    let has = |folder: &Path, name: &str| manifest.find(&folder.join(name)).is_some();
    let git_folder = |entry: &Entry| {
        let folder = entry.path.parent()?;
        let is = match entry.path.file_name()?.to_str()? {
            "objects" => has(folder, "HEAD") || has(folder, "refs"),
            "commondir" => true,
            _ => false,
        };
        is.then(|| folder.to_owned())
    };
    manifest.entries.iter().filter_map(git_folder).collect()
}

/// The new path of an entry that could start a program, or that lies in a folder that could.
fn renamed(folders: &HashSet<PathBuf>, entry: &Entry) -> Option<PathBuf> {
    let names: Vec<&OsStr> = entry.path.iter().collect();
    let starts = |end: &usize| {
        let path: PathBuf = names[..*end].iter().collect();
        let last = *end == names.len();
        let link = last && matches!(entry.kind, Kind::Link { .. });
        is_git_setting(folders, &path) || is_setting(&path) || (link && leads_to_setting(&path))
    };
    let end = (1..=names.len()).find(starts)?;
    let first: PathBuf = names[..end].iter().collect();
    let below: PathBuf = names[end..].iter().collect();
    Some(if end == names.len() {
        disarmed_path(&first)
    } else {
        disarmed_path(&first).join(below)
    })
}

fn is_git_setting(folders: &HashSet<PathBuf>, path: &Path) -> bool {
    let inside = |above: &Path| {
        let below = path.strip_prefix(above).unwrap_or(path);
        folders.contains(above) && GIT.iter().any(|git| below == Path::new(git))
    };
    path.ancestors().skip(1).take(2).any(inside)
}

fn is_setting(path: &Path) -> bool {
    SETTINGS.iter().any(|setting| path.ends_with(setting))
}

/// Whether the path could lead to settings or a git folder, if it is a link.
fn leads_to_setting(path: &Path) -> bool {
    let folders = SETTINGS
        .iter()
        .flat_map(|setting| Path::new(setting).ancestors().skip(1))
        .filter(|folder| !folder.as_os_str().is_empty());
    path.ends_with(".git") || folders.into_iter().any(|folder| path.ends_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::FileTime;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry {
            path: path.into(),
            mode: 0o755,
            modified: FileTime::default(),
            attributes: Vec::new(),
            kind,
        }
    }

    fn file() -> Kind {
        Kind::File {
            size: 0,
            content: Vec::new(),
            unstable: false,
        }
    }

    fn disarmed(entries: &[(&str, Kind)]) -> (Vec<String>, Vec<String>) {
        let mut entries: Vec<Entry> = entries
            .iter()
            .map(|(path, kind)| entry(path, kind.clone()))
            .collect();
        entries.sort_by(|left, right| order(&left.path, &right.path));
        let manifest = Manifest {
            root: entry("", Kind::Folder),
            entries,
            skipped: Vec::new(),
        };
        let (manifest, disarmed) = disarm(manifest);
        manifest.check().map_err(|broken| broken.0).unwrap();
        let text = |path: &PathBuf| path.display().to_string();
        let left = manifest.entries.iter().map(|entry| text(&entry.path));
        (disarmed.iter().map(text).collect(), left.collect())
    }

    #[test]
    fn hooks_and_settings_are_renamed() {
        let (disarmed, left) = disarmed(&[
            (".git", Kind::Folder),
            (".git/HEAD", file()),
            (".git/config", file()),
            (".git/hooks", Kind::Folder),
            (".git/hooks/pre-commit", file()),
            (".git/objects", Kind::Folder),
            (".git/refs", Kind::Folder),
            (".envrc", file()),
            ("config", file()),
            ("hooks", Kind::Folder),
            ("sub", Kind::Folder),
            ("sub/.claude", Kind::Folder),
            ("sub/.claude/settings.json", file()),
            ("sub/.claude/notes.md", file()),
        ]);
        assert_eq!(
            disarmed,
            [
                ".envrc",
                ".git/config",
                ".git/hooks/pre-commit",
                "sub/.claude/settings.json"
            ]
        );
        assert!(left.contains(&".git/hooks.segno-inert/pre-commit".to_owned()));
        assert!(left.contains(&"sub/.claude/settings.json.segno-inert".to_owned()));
        for stays in ["config", "hooks", "sub/.claude/notes.md", ".git/HEAD"] {
            assert!(left.contains(&stays.to_owned()), "{stays}");
        }
    }

    #[test]
    fn renamed_git_folder_is_recognized() {
        let (disarmed, _) = disarmed(&[
            (".git", file()),
            ("evil", Kind::Folder),
            ("evil/config", file()),
            ("evil/objects", Kind::Link { target: "x".into() }),
            ("evil/refs", Kind::Folder),
            ("own", Kind::Folder),
            ("own/commondir", file()),
            ("own/config.worktree", file()),
            ("own/rebase-merge", Kind::Folder),
            ("own/rebase-merge/git-rebase-todo", file()),
        ]);
        assert_eq!(
            disarmed,
            [
                "evil/config",
                "own/config.worktree",
                "own/rebase-merge/git-rebase-todo"
            ]
        );
    }

    #[test]
    fn links_and_hard_links_are_disarmed() {
        let (disarmed, left) = disarmed(&[
            (
                ".claude",
                Kind::Link {
                    target: "stuff".into(),
                },
            ),
            (
                ".git",
                Kind::Link {
                    target: "evil".into(),
                },
            ),
            (".envrc", file()),
            (
                "a",
                Kind::HardLink {
                    of: ".envrc".into(),
                },
            ),
            ("stuff", Kind::Folder),
            ("stuff/settings.json", file()),
        ]);
        assert_eq!(disarmed, [".claude", ".envrc", ".git"]);
        assert!(!left.iter().any(|path| path == ".claude" || path == ".git"));
    }
}
