//! A folder for git, without any configuration of the user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        Self { folder }
    }

    /// The workspace.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// A path beside the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        assert!(Path::new(path).is_relative());
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn folder(&self, path: &str) {
        fs::create_dir_all(self.root().join(path)).unwrap();
    }

    /// Runs git and expects success. Returns its output without the last line feed.
    pub(crate) fn git(&self, folder: impl AsRef<Path>, args: &[&str]) -> String {
        let output = self.try_git(folder, args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {errors}");
        let answer = String::from_utf8_lossy(&output.stdout);
        answer.trim_end_matches('\n').to_owned()
    }

    pub(crate) fn try_git(&self, folder: impl AsRef<Path>, args: &[&str]) -> Output {
        Command::new("git")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@example.org")
            .env("GIT_COMMITTER_NAME", "c")
            .env("GIT_COMMITTER_EMAIL", "c@example.org")
            .env("GIT_EDITOR", "true")
            .args(["-c", "protocol.file.allow=always"])
            .args(["-c", "init.defaultBranch=main"])
            .args(args)
            .current_dir(self.root().join(folder))
            .output()
            .unwrap()
    }

    /// Writes a file and commits it.
    pub(crate) fn commit(&self, folder: &str, name: &str, content: &str) -> String {
        let path = Path::new(folder).join(name);
        self.write(path.to_str().unwrap(), content);
        self.git(folder, &["add", name]);
        self.git(folder, &["commit", "-q", "-m", &format!("add {name}")]);
        self.git(folder, &["rev-parse", "HEAD"])
    }
}
