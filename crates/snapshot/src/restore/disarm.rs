//! Disarms snapshots from untrusted sources: everything that could start a program is restored
//! under another name, so that nothing starts it before a user has reviewed it.
//!
//! Names and places decide ([`segno_core::executable_content`]), whatever else the snapshot has: a
//! `.git/config` alone is dangerous in a folder that is a repository already. Git folders of any
//! name are recognized by what they contain, in the snapshot and in the target together. A link
//! that could lead to such a file counts as one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use segno_core::executable_content::{may_contain_starters, starts_programs};

use crate::entry::{Entry, Kind, Skipped, Why};
use crate::manifest::{Manifest, bytes, order};

/// The suffix of a disarmed file's name.
const SUFFIX: &str = ".segno-inert";

/// The parts of a git folder that can start programs.
const GIT: [&str; 4] = [
    "config",
    "config.worktree",
    "hooks",
    "rebase-merge/git-rebase-todo",
];

/// The result of disarming.
pub(super) struct Disarmed {
    pub(super) manifest: Manifest,
    /// The original paths of the files that could start a program.
    pub(super) paths: Vec<PathBuf>,
    /// The settings of git folders among them: the original path and the new one.
    pub(super) git_configs: Vec<(PathBuf, PathBuf)>,
}

impl Disarmed {
    /// A trusted manifest, as it is.
    pub(super) fn nothing(manifest: Manifest) -> Self {
        Self {
            manifest,
            paths: Vec::new(),
            git_configs: Vec::new(),
        }
    }
}

/// Renames everything that could start a program. `in_target` says whether the target has
/// something at a path.
pub(super) fn disarm(mut manifest: Manifest, in_target: &dyn Fn(&Path) -> bool) -> Disarmed {
    let judge = Judge {
        manifest: &manifest,
        in_target,
    };
    let parts = judge.executable_parts();
    let new_paths = new_paths(&manifest, &parts);
    let with_samples = folders_with_samples(&manifest, &parts);
    let mut paths = Vec::new();
    let mut moved: HashMap<PathBuf, Kind> = HashMap::new();
    let mut copies = Vec::new();
    for (entry, part) in manifest.entries.iter_mut().zip(&parts) {
        let renamed = part
            .as_deref()
            .and_then(|part| new_paths.get_key_value(part));
        let Some((part, new)) = renamed.filter(|(part, _)| !is_sample_hook(entry, part)) else {
            continue;
        };
        let path = match entry.path.strip_prefix(part) {
            Ok(below) if !below.as_os_str().is_empty() => new.join(below),
            _ => new.clone(),
        };
        if with_samples.contains(&entry.path) {
            copies.push(Entry {
                path,
                ..entry.clone()
            });
            continue;
        }
        if entry.kind != Kind::Folder {
            entry.mode &= !0o111;
            paths.push(entry.path.clone());
            moved.insert(entry.path.clone(), entry.kind.clone());
        }
        entry.path = path;
    }
    // A hard link to a disarmed file becomes a file of its own.
    for entry in &mut manifest.entries {
        if let Kind::HardLink { of } = &entry.kind
            && let Some(kind) = moved.get(of)
        {
            entry.kind = kind.clone();
        }
    }
    let is_git_config = |part: &Path| part.ends_with("config") && !part.ends_with(".cargo/config");
    let git_configs = new_paths.iter().filter(|(part, _)| is_git_config(part));
    let git_configs = git_configs.map(|(part, new)| (part.clone(), new.clone()));
    let git_configs = git_configs.collect();
    // What the target has under the original names is unknown to this snapshot and stays.
    manifest
        .skipped
        .extend(new_paths.into_keys().map(|path| Skipped {
            path,
            why: Why::Rule("set aside".into()),
        }));
    manifest.entries.extend(copies);
    manifest
        .entries
        .sort_by(|left, right| order(&left.path, &right.path));
    Disarmed {
        manifest,
        paths,
        git_configs,
    }
}

/// Decides what could start a program.
struct Judge<'a> {
    manifest: &'a Manifest,
    in_target: &'a dyn Fn(&Path) -> bool,
}

impl Judge<'_> {
    /// For each entry, the first part of its path that could start a program, if there is one: the
    /// path itself, or a folder above it.
    fn executable_parts(&self) -> Vec<Option<PathBuf>> {
        let mut folder: Option<PathBuf> = None;
        let part = |entry: &Entry| {
            folder = folder
                .take_if(|folder| entry.path.starts_with(folder))
                .or_else(|| self.executable_part(entry).map(Path::to_owned));
            folder.clone()
        };
        self.manifest.entries.iter().map(part).collect()
    }

    fn executable_part<'p>(&self, entry: &'p Entry) -> Option<&'p Path> {
        let is_link = matches!(entry.kind, Kind::Link { .. });
        if is_link && may_contain_starters(bytes(&entry.path)) {
            return Some(&entry.path);
        }
        let by_name = starts_programs(bytes(&entry.path)).is_some();
        let starts = |part: &&Path| {
            by_name && starts_programs(bytes(part)).is_some() || self.is_git_setting(part)
        };
        // The shortest comes last.
        entry.path.ancestors().filter(starts).last()
    }

    fn is_git_setting(&self, path: &Path) -> bool {
        let is_setting = |setting: &&str| {
            let folder = path.ancestors().nth(Path::new(setting).iter().count());
            path.ends_with(setting) && folder.is_some_and(|folder| self.is_git_folder(folder))
        };
        GIT.iter().any(is_setting)
    }

    /// Whether git would accept the folder as a git folder or as a part of one, once the snapshot
    /// is restored: the part that worktrees share, or the part that each has for itself.
    fn is_git_folder(&self, folder: &Path) -> bool {
        let has = |name: &str| {
            let path = folder.join(name);
            self.manifest.find(&path).is_some() || (self.in_target)(&path)
        };
        has("commondir") || has("objects") && (has("HEAD") || has("refs"))
    }
}

/// The new path of every part that has something to rename.
fn new_paths(manifest: &Manifest, parts: &[Option<PathBuf>]) -> BTreeMap<PathBuf, PathBuf> {
    let mut new_paths = BTreeMap::new();
    for (entry, part) in manifest.entries.iter().zip(parts) {
        let Some(part) = part else { continue };
        let is_empty_folder = entry.path == *part && entry.kind == Kind::Folder;
        if is_empty_folder || is_sample_hook(entry, part) || new_paths.contains_key(part) {
            continue;
        }
        // An earlier restore may have left the first names.
        let mut free = (1..).map(|number| disarmed_path(part, number));
        let free = free.find(|path| manifest.find(path).is_none());
        new_paths.insert(
            part.clone(),
            free.expect("there are more numbers than entries"),
        );
    }
    new_paths
}

/// The name of something that is renamed itself, not together with its folder.
fn disarmed_path(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(SUFFIX);
    if number > 1 {
        name.push(format!("-{number}"));
    }
    path.with_file_name(name)
}

/// The folders of hooks that stay because they have sample hooks.
fn folders_with_samples(manifest: &Manifest, parts: &[Option<PathBuf>]) -> HashSet<PathBuf> {
    let entries = manifest.entries.iter().zip(parts);
    let samples = entries.filter_map(|(entry, part)| {
        let part = part.as_ref()?;
        is_sample_hook(entry, part).then(|| part.clone())
    });
    samples.collect()
}

/// Whether this is one of the examples that git puts into every repository and never runs.
fn is_sample_hook(entry: &Entry, hooks: &Path) -> bool {
    let is_file = matches!(entry.kind, Kind::File { .. });
    let is_sample = entry.path.extension() == Some("sample".as_ref());
    is_file && is_sample && hooks.ends_with("hooks") && entry.path.parent() == Some(hooks)
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

    /// Disarms these entries for a target that has the paths of `target`. Returns the disarmed
    /// paths and the paths of the new manifest.
    fn disarmed(entries: &[(&str, Kind)], target: &[&str]) -> (Vec<String>, Vec<String>) {
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
        let in_target = |path: &Path| target.iter().any(|name| path == Path::new(name));
        let disarmed = disarm(manifest, &in_target);
        let manifest = disarmed.manifest;
        manifest.check().map_err(|broken| broken.0).unwrap();
        let text = |path: &PathBuf| path.display().to_string();
        let left = manifest.entries.iter().map(|entry| text(&entry.path));
        (disarmed.paths.iter().map(text).collect(), left.collect())
    }

    /// The folders above each path, then the paths as files.
    fn files<'a>(paths: &'a [&'a str]) -> Vec<(&'a str, Kind)> {
        let folders = paths.iter().flat_map(|path| {
            let above = Path::new(path).ancestors().skip(1);
            above.filter_map(|above| above.to_str().filter(|text| !text.is_empty()))
        });
        let folders: std::collections::BTreeSet<&str> = folders.collect();
        let folders = folders.into_iter().map(|path| (path, Kind::Folder));
        folders
            .chain(paths.iter().map(|path| (*path, file())))
            .collect()
    }

    #[test]
    fn hooks_and_settings_are_renamed() {
        let (disarmed, left) = disarmed(
            &files(&[
                ".git/HEAD",
                ".git/config",
                ".git/hooks/pre-commit",
                ".git/objects/x",
                ".git/refs/heads/config",
                ".envrc",
                "config",
                "hooks/x",
                "sub/.claude/settings.json",
                "sub/.claude/skills/a.sh",
                "sub/CLAUDE.md",
            ]),
            &[],
        );
        assert_eq!(
            disarmed,
            [
                ".envrc",
                ".git/config",
                ".git/hooks/pre-commit",
                "sub/.claude/settings.json",
                "sub/.claude/skills/a.sh",
            ]
        );
        for renamed in [
            ".git/config.segno-inert",
            ".git/hooks.segno-inert/pre-commit",
            "sub/.claude.segno-inert/settings.json",
            "sub/.claude.segno-inert/skills/a.sh",
        ] {
            assert!(left.contains(&renamed.to_owned()), "{renamed}: {left:?}");
        }
        for stays in [
            "config",
            "hooks/x",
            "sub/CLAUDE.md",
            ".git/HEAD",
            ".git/refs/heads/config",
        ] {
            assert!(left.contains(&stays.to_owned()), "{stays}");
        }
    }

    /// Alone, they are dangerous in a folder that is a repository already.
    #[test]
    fn git_settings_are_disarmed_whatever_else_there_is() {
        for path in [
            ".git/config",
            ".git/hooks/post-checkout",
            ".git/config.worktree",
            ".git/commondir",
            ".git/modules/lib/config",
            "nested/.git/hooks/pre-push",
        ] {
            let (disarmed, _) = disarmed(&files(&[path]), &[]);
            assert_eq!(disarmed, [path]);
        }
        let bare = ["mirror.git/config", "mirror.git/hooks/update", "own/config"];
        let target = ["mirror.git/HEAD", "mirror.git/objects"];
        let (disarmed, _) = disarmed(&files(&bare), &target);
        assert_eq!(disarmed, ["mirror.git/config", "mirror.git/hooks/update"]);
    }

    #[test]
    fn sample_hooks_stay() {
        let samples = [".git/hooks/a.sample", ".git/hooks/b.sample"];
        let (found, left) = disarmed(&files(&samples), &[]);
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(left, [&[".git", ".git/hooks"][..], &samples].concat());
        let mixed = [
            &samples[..],
            &[".git/hooks/update", ".git/hooks/d/e.sample"],
        ]
        .concat();
        let (found, left) = disarmed(&files(&mixed), &[]);
        assert_eq!(found, [".git/hooks/d/e.sample", ".git/hooks/update"]);
        for path in [
            ".git/hooks/a.sample",
            ".git/hooks.segno-inert/update",
            ".git/hooks.segno-inert/d/e.sample",
        ] {
            assert!(left.contains(&path.to_owned()), "{path}: {left:?}");
        }
    }

    #[test]
    fn names_of_an_earlier_restore_are_not_reused() {
        let (_, left) = disarmed(
            &files(&[".envrc", ".envrc.segno-inert", ".envrc.segno-inert-2"]),
            &[],
        );
        assert!(
            left.contains(&".envrc.segno-inert-3".to_owned()),
            "{left:?}"
        );
    }

    #[test]
    fn renamed_git_folder_is_recognized() {
        let link = Kind::Link { target: "x".into() };
        let mut entries = files(&[
            ".git",
            "evil/config",
            "evil/refs/x",
            "own/commondir",
            "own/config.worktree",
            "own/rebase-merge/git-rebase-todo",
        ]);
        entries.push(("evil/objects", link));
        let (disarmed, _) = disarmed(&entries, &[]);
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
        let link = |target: &str| Kind::Link {
            target: target.into(),
        };
        let of = ".envrc".into();
        let mut entries = files(&[".envrc", "stuff/settings.json"]);
        entries.extend([
            (".claude", link("stuff")),
            (".git", link("evil")),
            (".github", link("evil")),
            ("a", Kind::HardLink { of }),
        ]);
        let (disarmed, left) = disarmed(&entries, &[]);
        assert_eq!(disarmed, [".claude", ".envrc", ".git", ".github"]);
        assert!(!left.iter().any(|path| path == ".claude" || path == ".git"));
    }
}
