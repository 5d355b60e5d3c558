//! What could start a program, when it comes from elsewhere: brought back under another name, so
//! that nothing starts it until a person has looked.
//!
//! Hooks and settings of git, and settings of agents and editors that name programs. A link that
//! would lead to such a thing counts as one.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::entry::{Entry, Kind, Skipped, Why};
use crate::manifest::{Manifest, order};

/// What is put behind the name of something that was set aside.
const ENDING: &str = ".segno-inert";

/// What of a git folder starts programs.
const GIT: [&str; 4] = [
    "config",
    "config.worktree",
    "hooks",
    "rebase-merge/git-rebase-todo",
];

/// Files and folders that agents, editors and shells take programs from, wherever they lie.
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

/// The name under which something comes back that was set aside itself, not with its folder.
pub(super) fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(ENDING);
    path.with_file_name(name)
}

/// A manifest with what could start a program under other names, and the names that those have in
/// the snapshot.
pub(super) fn set_aside(mut manifest: Manifest) -> (Manifest, Vec<PathBuf>) {
    let folders = git_folders(&manifest);
    let mut aside = Vec::new();
    let mut moved: HashMap<PathBuf, Kind> = HashMap::new();
    for entry in &mut manifest.entries {
        let Some(renamed) = renamed(&folders, entry) else {
            continue;
        };
        if entry.kind != Kind::Folder {
            entry.mode &= !0o111;
            aside.push(entry.path.clone());
            moved.insert(entry.path.clone(), entry.kind.clone());
        }
        entry.path = renamed;
    }
    // A second name of something that was set aside becomes a file of its own.
    for entry in &mut manifest.entries {
        if let Kind::Twin { of } = &entry.kind
            && let Some(kind) = moved.get(of)
        {
            entry.kind = kind.clone();
        }
    }
    // What has such a name in the target is not known to this snapshot, and stays.
    let skipped = aside.iter().map(|path| Skipped {
        path: path.clone(),
        why: Why::Rule("set aside".into()),
    });
    manifest.skipped.extend(skipped);
    manifest
        .entries
        .sort_by(|left, right| order(&left.path, &right.path));
    (manifest, aside)
}

/// Folders that git would take for a git folder, or for a part of one: what worktrees share, and
/// what each has for itself.
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

/// Where an entry goes that could start a program, or lies in a folder that could.
fn renamed(folders: &HashSet<PathBuf>, entry: &Entry) -> Option<PathBuf> {
    let names: Vec<&OsStr> = entry.path.iter().collect();
    let starts = |end: &usize| {
        let path: PathBuf = names[..*end].iter().collect();
        let last = *end == names.len();
        let link = last && matches!(entry.kind, Kind::Link { .. });
        is_gits(folders, &path) || is_setting(&path) || (link && leads_to_setting(&path))
    };
    let end = (1..=names.len()).find(starts)?;
    let first: PathBuf = names[..end].iter().collect();
    let below: PathBuf = names[end..].iter().collect();
    Some(if end == names.len() {
        aside(&first)
    } else {
        aside(&first).join(below)
    })
}

fn is_gits(folders: &HashSet<PathBuf>, path: &Path) -> bool {
    let inside = |above: &Path| {
        let below = path.strip_prefix(above).unwrap_or(path);
        folders.contains(above) && GIT.iter().any(|git| below == Path::new(git))
    };
    path.ancestors().skip(1).take(2).any(inside)
}

fn is_setting(path: &Path) -> bool {
    SETTINGS.iter().any(|setting| path.ends_with(setting))
}

/// Whether the name is one that a setting or a git folder is looked for in.
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
    use crate::entry::Moment;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry {
            path: path.into(),
            mode: 0o755,
            modified: Moment::default(),
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

    fn aside(entries: &[(&str, Kind)]) -> (Vec<String>, Vec<String>) {
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
        let (manifest, aside) = set_aside(manifest);
        manifest.check().map_err(|broken| broken.0).unwrap();
        let text = |path: &PathBuf| path.display().to_string();
        let left = manifest.entries.iter().map(|entry| text(&entry.path));
        (aside.iter().map(text).collect(), left.collect())
    }

    #[test]
    fn hooks_and_settings_get_other_names_and_the_rest_stays() {
        let (aside, left) = aside(&[
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
            aside,
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
    fn a_git_folder_by_another_name_is_one() {
        let (aside, _) = aside(&[
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
            aside,
            [
                "evil/config",
                "own/config.worktree",
                "own/rebase-merge/git-rebase-todo"
            ]
        );
    }

    #[test]
    fn links_and_second_names_are_no_way_around() {
        let (aside, left) = aside(&[
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
                Kind::Twin {
                    of: ".envrc".into(),
                },
            ),
            ("stuff", Kind::Folder),
            ("stuff/settings.json", file()),
        ]);
        assert_eq!(aside, [".claude", ".envrc", ".git"]);
        assert!(!left.iter().any(|path| path == ".claude" || path == ".git"));
    }
}
