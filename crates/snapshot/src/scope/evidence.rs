//! The scope of a workspace, decided by evidence and by the user's rules.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::git::git_temporary_rule;

use super::Scope;
use super::ignored::Ignored;
use super::pattern::Pattern;
use super::regenerable;
use super::tracked::{Repositories, Repository};

/// The user's rules for a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Included, whatever the evidence.
    pub include: Vec<Pattern>,
    /// Excluded, whatever the evidence, except for files that git tracks. A pattern with a leading
    /// `!` excludes those, too.
    pub exclude: Vec<Pattern>,
}

/// Excludes what is proven to be regenerable by a tool.
pub struct Evidence {
    root: PathBuf,
    rules: Rules,
    repositories: Repositories,
    ignored: Ignored,
}

impl Evidence {
    /// The scope of the workspace at `root`, an absolute path. It reads files once and caches them,
    /// so each snapshot needs a new scope.
    pub fn new(root: impl Into<PathBuf>, rules: Rules) -> Self {
        Self {
            root: root.into(),
            rules,
            repositories: Repositories::default(),
            ignored: Ignored::default(),
        }
    }

    /// What could not be read, for the user. Where git's list of tracked files is unknown, nothing
    /// is excluded.
    pub fn read_errors(&self) -> Vec<String> {
        self.repositories.read_errors()
    }

    /// Whether no pattern can concern a file, which is the case for almost all calls.
    fn has_no_patterns(&self) -> bool {
        self.rules.include.is_empty() && self.rules.exclude.is_empty()
    }

    /// The exclude pattern that concerns `names`.
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

    fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        self.repository(path).is_some_and(|repository| {
            let (root, exclude) = (&repository.root, &repository.exclude);
            self.ignored.ignores(root, exclude, path, is_folder)
        })
    }

    /// The rule that excludes `path`, by evidence beside it.
    fn regenerable_rule(&self, path: &Path, is_folder: bool) -> Option<String> {
        let ignored = || self.ignores(path, is_folder);
        let rule = if is_folder {
            regenerable::folder(path, path.file_name()?, ignored)
        } else {
            regenerable::file(path, ignored)
        };
        rule.filter(|_| !self.tracks(path))
    }

    /// The rule that excludes a folder, by evidence in it.
    fn regenerable_by_content(&self, path: &Path) -> Option<String> {
        let rule = regenerable::by_content(path, || self.ignores(path, true));
        rule.filter(|_| !self.tracks(path))
    }

    /// The rule that would have excluded a folder above `names` if no include pattern led into it.
    fn regenerable_parent(&self, names: &[&[u8]]) -> Option<String> {
        (1..names.len())
            .filter(|end| self.leads_to_included(&names[..*end]))
            .find_map(|end| {
                let above = names[..end].iter().map(|name| OsStr::from_bytes(name));
                let above = self.root.join(above.collect::<PathBuf>());
                self.regenerable_rule(&above, true)
                    .or_else(|| self.regenerable_by_content(&above))
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
    fn excludes(&self, folder: &Path, name: &OsStr, is_folder: bool) -> Option<String> {
        let git = git_temporary_rule(name, is_folder);
        if !is_folder && git.is_none() && self.has_no_patterns() && !regenerable::is_compiled(name)
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
            .regenerable_rule(&path, is_folder)
            .or_else(|| self.regenerable_parent(&names))?;
        (!is_folder || !self.leads_to_included(&names)).then_some(rule)
    }

    fn excludes_for_content(&self, folder: &Path, names: &[&OsStr]) -> Option<String> {
        let is_telling =
            |name: &&OsStr| regenerable::MARKER_FILES.iter().any(|known| name == known);
        if !names.iter().any(is_telling) {
            return None;
        }
        let above: Vec<&[u8]> = folder.iter().map(OsStrExt::as_bytes).collect();
        let is_included = above.contains(&b".git".as_slice())
            || self.included(&above, true)
            || self.leads_to_included(&above);
        (!is_included).then(|| self.regenerable_by_content(&self.root.join(folder)))?
    }
}
