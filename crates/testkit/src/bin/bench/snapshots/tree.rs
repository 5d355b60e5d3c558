//! The trees that are snapshotted: generated, edited as a user would, and compared.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FileType;

use crate::snapshots::limits;
use crate::snapshots::walk::{self, Found};

/// How many files are edited between two checkpoints, and how many are added.
const EDITED: usize = 10;
const NEW: usize = 5;

/// Users do not edit larger files by hand.
const EDITABLE: std::ops::Range<u64> = 1_000..100_000;

/// A workspace.
pub(crate) struct Tree {
    /// A description for the table.
    pub(crate) origin: String,
    pub(crate) root: PathBuf,
    /// The files that are edited, in turn.
    edited: Vec<PathBuf>,
    turn: usize,
}

/// The files that were changed, with their previous content, and the files that were added.
pub(crate) struct Change {
    before: Vec<(PathBuf, Vec<u8>)>,
    new: Vec<PathBuf>,
}

/// Whether a change was undone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    Nothing,
    Something(PathBuf),
}

impl Tree {
    /// A generated tree of about `files` files.
    pub(crate) fn generated(root: PathBuf, files: usize, longest: usize) -> Self {
        fs::create_dir(&root).unwrap();
        generate(&root, files, longest);
        Self::new("generated", root)
    }

    /// A copy of a real tree. A few generated files beside it bring it above a round number.
    pub(crate) fn copied(origin: &str, from: &Path, root: PathBuf, more: usize) -> Self {
        let copied = Command::new("cp").arg("-a").arg(from).arg(&root).status();
        assert!(copied.unwrap().success(), "{} is copied", from.display());
        let beside = root.join("generated");
        fs::create_dir(&beside).unwrap();
        generate(&beside, more, 20_000);
        Self::new(&format!("{origin} and {more} generated"), root)
    }

    fn new(origin: &str, root: PathBuf) -> Self {
        let files = limits::files(&walk::walk(&root));
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        let editable: Vec<&Found> = files
            .iter()
            .filter(|file| EDITABLE.contains(&file.size))
            .collect();
        // Spread over the tree, and enough that a file is seldom edited twice.
        let step = (editable.len() / 200).max(1);
        let edited = editable.iter().step_by(step).map(|file| file.path.clone());
        Self {
            origin: format!(
                "{origin}: {} files, {:.1} MB",
                files.len(),
                bytes as f64 / 1e6
            ),
            edited: edited.collect(),
            root,
            turn: 0,
        }
    }

    /// Inserts a line into the middle of ten files and adds five new ones, differently every time.
    pub(crate) fn make_change(&mut self) -> Change {
        let mut change = Change {
            before: self.edit(),
            new: Vec::new(),
        };
        for number in 0..NEW {
            let beside = self.root.join(&change.before[number].0);
            let path = beside.with_file_name(format!("added_{}_{number}.c", self.turn));
            fs::write(&path, text(&mut seed(self.turn * NEW + number), 3_000)).unwrap();
            change.new.push(path);
        }
        change
    }

    /// Inserts a line into the middle of ten files. Returns their previous content.
    pub(crate) fn edit(&mut self) -> Vec<(PathBuf, Vec<u8>)> {
        self.edit_in(&self.root.clone())
    }

    /// The same in a copy of the tree.
    pub(crate) fn edit_in(&mut self, root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        self.turn += 1;
        let indices = (0..EDITED).map(|n| (self.turn * EDITED + n) % self.edited.len());
        let edit = |index: usize| {
            let path = self.edited[index].clone();
            let before = fs::read(root.join(&path)).unwrap();
            let middle = before.len() / 2;
            let line = format!("\n/* edited in turn {} */\n", self.turn);
            let after = [&before[..middle], line.as_bytes(), &before[middle..]].concat();
            fs::write(root.join(&path), after).unwrap();
            (path, before)
        };
        indices.map(edit).collect()
    }

    /// Reverts a change. Returns whether there was anything left to revert.
    pub(crate) fn revert(&self, change: &Change) -> Remaining {
        let mut left = Remaining::Nothing;
        for (path, before) in &change.before {
            let path = self.root.join(path);
            if fs::read(&path).unwrap() != *before {
                fs::write(&path, before).unwrap();
                left = Remaining::Something(path);
            }
        }
        for path in &change.new {
            if fs::remove_file(path).is_ok() {
                left = Remaining::Something(path.clone());
            }
        }
        left
    }
}

/// Panics unless both folders have the same files, bytes, modes and links.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let sorted = |root: &Path| {
        let mut all = walk::walk(root);
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    };
    let (left, right) = (sorted(one), sorted(other));
    assert_eq!(left.len(), right.len(), "the number of entries is equal");
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left.path, right.path, "the paths are equal");
        assert_eq!(left.mode, right.mode, "mode of {}", left.path.display());
        let (was, is) = (one.join(&left.path), other.join(&right.path));
        match left.kind {
            FileType::RegularFile => {
                let same = fs::read(&was).unwrap() == fs::read(&is).unwrap();
                assert!(same, "bytes of {}", left.path.display());
            }
            FileType::Symlink => assert_eq!(
                fs::read_link(&was).unwrap(),
                fs::read_link(&is).unwrap(),
                "target of {}",
                left.path.display()
            ),
            _ => {}
        }
    }
}

/// Writes files that look like source code: folders of twenty, most of them short, a few
/// executable, some links, an empty folder.
fn generate(root: &Path, files: usize, longest: usize) {
    let mut rng = seed(files);
    fs::create_dir(root.join("empty")).unwrap();
    for number in 0..files {
        let (area, folder) = (number / 400, number / 20 % 20);
        let folder = root.join(format!("area_{area}/part_{folder}"));
        if number % 20 == 0 {
            fs::create_dir_all(&folder).unwrap();
            symlink("file_1.c", folder.join("link.c")).unwrap();
        }
        let path = folder.join(format!("file_{}.c", number % 20));
        // The square favours short files.
        let share = next_random(&mut rng) % 1000;
        let length = 200 + longest * share * share / 1_000_000;
        fs::write(&path, text(&mut rng, length)).unwrap();
        if number % 50 == 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

const WORDS: [&str; 32] = [
    "static", "int", "struct", "return", "if", "error", "device", "buffer", "length", "index",
    "lock", "unlock", "page", "state", "flags", "offset", "register", "queue", "node", "list",
    "for", "while", "break", "case", "data", "size", "count", "init", "free", "alloc", "head",
    "tail",
];

/// Lines of words and names, about as compressible as source code.
fn text(rng: &mut usize, length: usize) -> String {
    let mut text = String::with_capacity(length + 80);
    while text.len() < length {
        text.push_str(["", "\t", "\t\t"][next_random(rng) % 3]);
        for _ in 0..2 + next_random(rng) % 6 {
            let word = WORDS[next_random(rng) % WORDS.len()];
            let _ = match next_random(rng) % 4 {
                0 => write!(text, "{word}_{} ", next_random(rng) % 4096),
                1 => write!(text, "{word}->{}, ", WORDS[next_random(rng) % WORDS.len()]),
                _ => write!(text, "{word} "),
            };
        }
        text.push_str(";\n");
    }
    text
}

fn seed(number: usize) -> usize {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

/// A pseudo-random number, the same in every run.
fn next_random(state: &mut usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 8
}
