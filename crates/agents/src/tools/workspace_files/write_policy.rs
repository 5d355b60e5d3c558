//! What no tool writes: files that start programs, files of git, the session's own spec, and
//! Segno's own files.
//!
//! A model that may write them could run any program as the user, with the user's keys, at the next
//! `git status`, `cd` or `segno resume`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use segno_core::executable_content::{folded_names, starts_programs};

/// What tools may not write.
#[derive(Debug, Clone, Default)]
pub struct WritePolicy {
    protected: Vec<(Vec<String>, &'static str)>,
    allowed: Vec<Vec<String>>,
}

impl WritePolicy {
    /// Nothing at this path, or below it, is written. `reason` tells a model why.
    #[must_use]
    pub fn protect(mut self, path: &Path, reason: &'static str) -> Self {
        let real = path.canonicalize();
        for path in std::iter::once(path).chain(real.as_deref().ok()) {
            self.protected.push((names(path), reason));
        }
        self
    }

    /// The user allows to write these, although they start programs: files and folders, relative to
    /// the workspace.
    #[must_use]
    pub fn allow(mut self, paths: &[PathBuf]) -> Self {
        self.allowed.extend(paths.iter().map(|path| names(path)));
        self
    }

    /// Why a tool may not write a file. `relative` are its paths below the folders that the tool
    /// knows, `absolute` is its path on this machine; all without links.
    pub(super) fn refusal<'p>(
        &self,
        relative: impl Iterator<Item = &'p Path>,
        absolute: &Path,
    ) -> Option<String> {
        let place = names(absolute);
        let protected = self.protected.iter();
        let mut protected = protected.filter(|(path, _)| place.starts_with(path));
        if let Some((_, reason)) = protected.next() {
            return Some(format!("{reason}; only a user can write it"));
        }
        relative.into_iter().find_map(|path| self.starter(path))
    }

    fn starter(&self, path: &Path) -> Option<String> {
        let place = names(path);
        if place.iter().any(|name| name == ".git") {
            return Some("git keeps its own files there; only a user can write them".to_owned());
        }
        let reason = starts_programs(path.as_os_str().as_bytes())?;
        if self
            .allowed
            .iter()
            .any(|allowed| place.starts_with(allowed))
        {
            return None;
        }
        Some(format!(
            "{reason}; only a user can write it, or allow it with `tools.allow_write` in config.toml"
        ))
    }
}

fn names(path: &Path) -> Vec<String> {
    folded_names(path.as_os_str().as_bytes())
}
