//! File access for tools, limited to the workspace and its mounts.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use segno_core::ports::{Access, Disk, replace_file};

/// The longest file that a tool reads, in bytes.
const MAX_FILE: u64 = 10 * 1024 * 1024;

pub(crate) struct WorkspaceFiles<'a> {
    root: PathBuf,
    mounts: &'a [(String, PathBuf)],
    disk: &'a dyn Disk,
}

impl<'a> WorkspaceFiles<'a> {
    /// `mounts` are outside folders that appear in the workspace under these names.
    pub(crate) fn new(
        workspace: &Path,
        mounts: &'a [(String, PathBuf)],
        disk: &'a dyn Disk,
    ) -> Result<Self, String> {
        let root = workspace
            .canonicalize()
            .map_err(|error| format!("the workspace cannot be opened: {error}"))?;
        Ok(Self { root, mounts, disk })
    }

    /// The workspace with symlinks resolved.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Resolves a path, following symlinks; fails if it leads out of the workspace.
    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        let outside = || format!("{path} is outside of the workspace");
        let relative = Path::new(path).strip_prefix(".").unwrap_or(Path::new(path));
        let mounted = self.mounts.iter().find_map(|(name, folder)| {
            let rest = relative.strip_prefix(name).ok()?;
            Some((folder, rest))
        });
        let (root, given) = match mounted {
            None => (self.root.clone(), self.root.join(path)),
            Some((folder, rest)) => {
                let root = folder.canonicalize();
                let root = root.map_err(|error| format!("{path} cannot be opened: {error}"))?;
                // Joining an empty path would append a slash.
                let given = if rest.as_os_str().is_empty() {
                    root.clone()
                } else {
                    root.join(rest)
                };
                (root, given)
            }
        };
        if given
            .components()
            .any(|part| matches!(part, Component::ParentDir))
        {
            return Err(outside());
        }
        // A path that does not exist yet is where its nearest existing ancestor is.
        let mut ancestor = given.as_path();
        let real = loop {
            match ancestor.canonicalize() {
                Ok(real) => break real,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if ancestor.is_symlink() {
                        return Err(outside());
                    }
                    ancestor = ancestor.parent().ok_or_else(outside)?;
                }
                Err(error) => return Err(format!("{path}: {error}")),
            }
        };
        if !real.starts_with(&root) {
            return Err(outside());
        }
        let rest = given.strip_prefix(ancestor).map_err(|_| outside())?;
        Ok(if rest.as_os_str().is_empty() {
            real
        } else {
            real.join(rest)
        })
    }

    /// Reads a text file.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let target = self.resolve(path)?;
        let bytes = self.disk.read(&target, MAX_FILE).map_err(|error| {
            if error.kind() == ErrorKind::FileTooLarge {
                format!("{path} is longer than 10 MB")
            } else {
                format!("{path}: {error}")
            }
        })?;
        String::from_utf8(bytes).map_err(|_| format!("{path} is not text"))
    }

    /// Writes a file atomically.
    pub(crate) fn write(&self, path: &str, content: &str, create: bool) -> Result<(), String> {
        let target = self.resolve(path)?;
        let folder = target.parent().unwrap_or(&self.root);
        let failed = |error: std::io::Error| format!("{path}: {error}");
        if create {
            self.disk
                .create_folder(folder, Access::Shared)
                .map_err(failed)?;
        } else if !folder.is_dir() {
            return Err(format!("{path}: its folder does not exist"));
        }
        if target.is_dir() {
            return Err(format!("{path} is a folder"));
        }
        let draft = folder.join(".segno-tool");
        let content = content.as_bytes();
        replace_file(self.disk, &draft, &target, content, Access::Shared, |_| {}).map_err(failed)
    }
}
