//! The scope of a workspace, by evidence and by what a person has said.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::git::left_by_git;

use super::Scope;
use super::ignored::Ignored;
use super::pattern::Pattern;
use super::regenerable;
use super::tracked::{Repositories, Repository};

/// What a person has said about a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Kept, whatever the evidence.
    pub include: Vec<Pattern>,
    /// Left out, whatever the evidence, but not what git tracks. `!` before a pattern leaves out
    /// that too.
    pub exclude: Vec<Pattern>,
}

/// Leaves out what is shown to be made again by a tool.
pub struct Evidence {
    root: PathBuf,
    rules: Rules,
    repositories: Repositories,
    ignored: Ignored,
}

impl Evidence {
    /// The scope of the workspace at `root`, an absolute path. It looks at the files once and
    /// remembers, so each snapshot wants a new one.
    pub fn new(root: impl Into<PathBuf>, rules: Rules) -> Self {
        Self {
            root: root.into(),
            rules,
            repositories: Repositories::default(),
            ignored: Ignored::default(),
        }
    }

    /// What could not be read, for people: where git's list of tracked files is not known, nothing
    /// is left out.
    pub fn troubles(&self) -> Vec<String> {
        self.repositories.troubles()
    }

    /// Whether no pattern could be about a file: the way of almost all calls.
    fn says_nothing_of_files(&self) -> bool {
        self.rules.include.is_empty() && self.rules.exclude.is_empty()
    }

    /// The exclude pattern that leaves `names` out.
    fn excluded(&self, names: &[&[u8]], is_folder: bool, path: &Path) -> Option<String> {
        let patterns = self.rules.exclude.iter();
        let mut about = patterns.filter(|pattern| pattern.covers(names, is_folder));
        let found = about.find(|pattern| pattern.is_negated() || !self.tracks(path))?;
        Some(format!("excluded by `{found}`"))
    }

    fn included(&self, names: &[&[u8]], is_folder: bool) -> bool {
        let mut patterns = self.rules.include.iter();
        patterns.any(|pattern| pattern.covers(names, is_folder))
    }

    fn leads_to_included(&self, names: &[&[u8]]) -> bool {
        let mut patterns = self.rules.include.iter();
        patterns.any(|pattern| pattern.leads_into(names))
    }

    /// Whether git ignores `path`.
    fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        self.repository(path).is_some_and(|repository| {
            let (root, exclude) = (&repository.root, &repository.exclude);
            self.ignored.ignores(root, exclude, path, is_folder)
        })
    }

    /// The rule by which the evidence beside it leaves `path` out.
    fn shown(&self, path: &Path, is_folder: bool) -> Option<String> {
        let ignored = || self.ignores(path, is_folder);
        let rule = if is_folder {
            regenerable::folder(path, path.file_name()?, ignored)
        } else {
            regenerable::file(path, ignored)
        };
        rule.filter(|_| !self.tracks(path))
    }

    /// The rule by which what a folder holds leaves it out.
    fn shown_within(&self, path: &Path) -> Option<String> {
        let rule = regenerable::holding(path, || self.ignores(path, true));
        rule.filter(|_| !self.tracks(path))
    }

    /// The rule by which a folder above `names` would have gone, had no include pattern led into it.
    fn shown_above(&self, names: &[&[u8]]) -> Option<String> {
        (1..names.len())
            .filter(|end| self.leads_to_included(&names[..*end]))
            .find_map(|end| {
                let above = names[..end].iter().map(|name| OsStr::from_bytes(name));
                let above = self.root.join(above.collect::<PathBuf>());
                self.shown(&above, true)
                    .or_else(|| self.shown_within(&above))
            })
    }

    fn repository(&self, path: &Path) -> Option<std::sync::Arc<Repository>> {
        self.repositories.around(path.parent()?)
    }

    fn tracks(&self, path: &Path) -> bool {
        self.repository(path)
            .is_some_and(|repository| repository.tracks(path))
    }
}

impl Scope for Evidence {
    fn leaves_out(&self, folder: &Path, name: &OsStr, is_folder: bool) -> Option<String> {
        let git = left_by_git(name, is_folder);
        if !is_folder
            && git.is_none()
            && self.says_nothing_of_files()
            && !regenerable::is_compiled(name)
        {
            return None;
        }
        let relative = folder.join(name);
        let names: Vec<&[u8]> = relative.iter().map(OsStrExt::as_bytes).collect();
        if names.contains(&b".git".as_slice()) {
            return git;
        }
        let path = self.root.join(&relative);
        let excluded = self.excluded(&names, is_folder, &path);
        if excluded.is_some() {
            return excluded;
        }
        if self.included(&names, is_folder) {
            return None;
        }
        let rule = self
            .shown(&path, is_folder)
            .or_else(|| self.shown_above(&names))?;
        (!is_folder || !self.leads_to_included(&names)).then_some(rule)
    }

    fn leaves_out_holding(&self, folder: &Path, names: &[&OsStr]) -> Option<String> {
        let telling = |name: &&OsStr| regenerable::TELLING.iter().any(|known| name == known);
        if !names.iter().any(telling) {
            return None;
        }
        let above: Vec<&[u8]> = folder.iter().map(OsStrExt::as_bytes).collect();
        let stays = above.contains(&b".git".as_slice())
            || self.included(&above, true)
            || self.leads_to_included(&above);
        (!stays).then(|| self.shown_within(&self.root.join(folder)))?
    }
}
