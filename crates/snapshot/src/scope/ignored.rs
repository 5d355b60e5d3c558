//! What git ignores, according to the `.gitignore` files of a repository and its `info/exclude`.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::pattern::Pattern;
use crate::bounded_read;

/// The longest file of patterns that is read. A longer one ignores nothing.
const LIMIT: u64 = 1024 * 1024;

/// The patterns of each folder, read once.
#[derive(Default)]
pub(super) struct Ignored {
    folders: Mutex<HashMap<PathBuf, Arc<Vec<Pattern>>>>,
}

impl Ignored {
    /// Whether the repository at `root` ignores `path`, which is below it. `exclude` are the
    /// patterns of its `info/exclude`.
    pub(super) fn ignores(
        &self,
        root: &Path,
        exclude: &[Pattern],
        path: &Path,
        is_folder: bool,
    ) -> bool {
        let Ok(relative) = path.strip_prefix(root) else {
            return false;
        };
        let names: Vec<&[u8]> = relative.iter().map(OsStrExt::as_bytes).collect();
        // Everything in an ignored folder is ignored; no pattern can include it again.
        (1..=names.len()).any(|end| {
            let folder = is_folder || end < names.len();
            self.decides(root, exclude, &names[..end], folder)
        })
    }

    /// The last matching pattern decides, in the nearest file that has one.
    fn decides(&self, root: &Path, exclude: &[Pattern], names: &[&[u8]], is_folder: bool) -> bool {
        let verdict = |patterns: &[Pattern], names: &[&[u8]]| {
            let mut patterns = patterns.iter().rev();
            let found = patterns.find(|pattern| pattern.matches(names, is_folder));
            found.map(|pattern| !pattern.is_negated())
        };
        let mut folder = root.to_owned();
        let mut files = vec![self.patterns(&folder)];
        for name in &names[..names.len() - 1] {
            folder.push(std::ffi::OsStr::from_bytes(name));
            files.push(self.patterns(&folder));
        }
        let mut nearest = files.iter().enumerate().rev();
        nearest
            .find_map(|(depth, patterns)| verdict(patterns, &names[depth..]))
            .or_else(|| verdict(exclude, names))
            .unwrap_or(false)
    }

    fn patterns(&self, folder: &Path) -> Arc<Vec<Pattern>> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(patterns) = folders.get(folder) {
            return Arc::clone(patterns);
        }
        let patterns = Arc::new(read(&folder.join(".gitignore")));
        folders.insert(folder.to_owned(), Arc::clone(&patterns));
        patterns
    }
}

/// The patterns in a file; none if there is no such file.
pub(super) fn read(path: &Path) -> Vec<Pattern> {
    let content = bounded_read::read(path, LIMIT).unwrap_or_default();
    let lines = content.split(|byte| *byte == b'\n');
    lines.filter_map(Pattern::line).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const FOLDERS: [&str; 6] = ["a", "a/b", "a/b/c", "build", "a/build", "x y"];
    const FILES: [&str; 8] = [
        "a.log",
        "a/a.log",
        "a/b/c/d",
        "build/x",
        "a/build/x.o",
        "x y/!z",
        "[z",
        "b",
    ];
    const PIECES: [&str; 21] = [
        "a", "b", "c", "*", "**", "/", "/", "/", "!", "build", ".log", "?", "[a-c]", "[!a]", "x",
        "\\", " ", "*.o", "#", "z", "d",
    ];

    /// What git ignores of the tree.
    fn git_ignores(root: &Path, paths: &[&str]) -> Vec<String> {
        let mut child = Command::new("git")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["check-ignore", "--no-index", "-z", "--stdin"])
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = paths.join("\0");
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let names = String::from_utf8(output.stdout).unwrap();
        let names = names.split('\0').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes files of its own")]
    fn random_patterns_match_like_git() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in FOLDERS {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in FILES {
            std::fs::write(root.join(name), "").unwrap();
        }
        let init = Command::new("git").args(["init", "-q"]).arg(root).status();
        assert!(init.unwrap().success());
        let paths: Vec<&str> = FOLDERS.into_iter().chain(FILES).collect();
        let mut seed: u64 = 7;
        let mut chance = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for _ in 0..400 {
            let mut file = |lines: usize| {
                let mut text = String::new();
                for _ in 0..lines {
                    for _ in 0..=chance(4) {
                        text.push_str(PIECES[chance(PIECES.len())]);
                    }
                    text.push('\n');
                }
                text
            };
            let (above, below) = (file(3), file(1));
            std::fs::write(root.join(".gitignore"), &above).unwrap();
            std::fs::write(root.join("a/.gitignore"), &below).unwrap();
            let said = git_ignores(root, &paths);
            let ignored = Ignored::default();
            for path in &paths {
                let is_folder = FOLDERS.contains(path);
                let ours = ignored.ignores(root, &[], &root.join(path), is_folder);
                let theirs = said.iter().any(|name| name == path);
                assert_eq!(ours, theirs, "{path} with {above:?} and {below:?} in a");
            }
        }
    }
}
