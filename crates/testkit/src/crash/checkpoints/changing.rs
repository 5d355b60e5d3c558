//! Checkpoints of files that change all the time. A file that is replaced by a rename must be
//! stored in its old or its new version, a log up to some complete line, and a file that may be
//! half-written must be reported as unstable. A repository that receives commits must be one that
//! `git fsck` accepts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::checker::{Checker, describe};
use super::fixture::Fixture;
use super::tree::git_command;
use crate::clock::Seeded;
use crate::crash::trial::Violation;
use crate::sandbox::{Sandbox, run_to_end};

/// How many checkpoints are created in a round.
const CAPTURES: usize = 6;
/// How many files there are of each kind.
const FILES: u64 = 8;
/// The length of a file that is written in place: one page.
const PAGE: usize = 4096;

pub(super) fn attempt(fixture: &Fixture, seed: u64) -> Vec<Violation> {
    let sandbox = &fixture.sandbox;
    let mutator = Mutator::new(sandbox, seed);
    let mut checker = Checker::new(fixture);
    let done = AtomicBool::new(false);
    let mut created = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                mutator.change();
            }
        });
        for _ in 0..CAPTURES {
            created.push(sandbox.segno(&["checkpoint", "create", "--json"]));
        }
        done.store(true, Ordering::Relaxed);
    });
    checker.check_damage();
    for said in created {
        if !said.status.success() {
            checker.stuck(format!(
                "a checkpoint of changing files: {}",
                describe(&said)
            ));
            continue;
        }
        let line = said.json().remove(0);
        let id = line["checkpoint"].as_str().unwrap();
        let unstable = line["unstable_files"].as_array().unwrap().iter();
        let unstable = unstable
            .map(|path| path.as_str().unwrap().to_owned())
            .collect();
        check_checkpoint(&mut checker, id, &unstable);
    }
    checker.wrongs
}

/// Changes the files.
struct Mutator<'a> {
    sandbox: &'a Sandbox,
    root: PathBuf,
    rng: Seeded,
}

impl<'a> Mutator<'a> {
    fn new(sandbox: &'a Sandbox, seed: u64) -> Self {
        let root = sandbox.work().join("play");
        for folder in ["whole", "log", "place", "gone", "moved"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let rng = Seeded::new(seed);
        Self { sandbox, root, rng }
    }

    /// Makes one random change.
    fn change(&self) {
        let number = self.rng.below(FILES);
        let at = |folder: &str| self.root.join(folder).join(number.to_string());
        match self.rng.below(64) {
            0 => {
                let repository = self.sandbox.work().join("repository");
                let text = format!("{}\n", self.rng.below(1_000_000));
                fs::write(repository.join("tracked"), text).unwrap();
                let words = ["commit", "-q", "-a", "-m", "again"];
                run_to_end(git_command(self.sandbox, &repository, &words));
            }
            1..16 => {
                // Written to a temporary path, and renamed.
                let draft = self.root.join("draft");
                fs::write(&draft, whole(number, self.rng.below(1000))).unwrap();
                fs::rename(draft, at("whole")).unwrap();
            }
            16..32 => {
                let log = at("log");
                let lines = fs::read_to_string(&log).unwrap_or_default().lines().count();
                let mut file = File::options().append(true).create(true).open(log).unwrap();
                file.write_all(format!("{lines}\n").as_bytes()).unwrap();
            }
            32..48 => {
                let mut options = File::options();
                options.write(true).create(true).truncate(false);
                let file = options.open(at("place")).unwrap();
                let announcement = b'a' + u8::try_from(self.rng.below(26)).unwrap();
                file.write_all_at(&[announcement; PAGE], 0).unwrap();
            }
            48..56 => {
                let file = at("gone");
                if fs::remove_file(&file).is_err() && fs::remove_dir(&file).is_err() {
                    if self.rng.below(2) == 0 {
                        fs::write(file, "").unwrap();
                    } else {
                        fs::create_dir(file).unwrap();
                    }
                }
            }
            _ => {
                // A folder that is renamed to and fro, with a file in it.
                let (from, to) = (at("moved"), self.root.join(format!("moved-{number}")));
                if fs::rename(&from, &to).is_err() && fs::rename(&to, &from).is_err() {
                    fs::create_dir(&from).unwrap();
                    fs::write(from.join("inside"), "inside\n").unwrap();
                }
            }
        }
    }
}

/// The content of a file that is replaced by a rename.
fn whole(number: u64, version: u64) -> String {
    let count = usize::try_from(1000 + version).unwrap();
    format!("file {number}, version {version}\n").repeat(count)
}

/// Restores a checkpoint and checks its files.
fn check_checkpoint(checker: &mut Checker<'_>, id: &str, unstable: &BTreeSet<String>) {
    let sandbox = &checker.fixture.sandbox;
    let said = sandbox.segno(&["checkpoint", "restore", id, "--into", "../looked"]);
    let restored = checker.fixture.beside("looked");
    if !said.status.success() {
        checker.loss(format!("{id} cannot be restored: {}", describe(&said)));
        return;
    }
    for (folder, is_right) in [
        ("whole", is_whole as fn(&Path, &[u8]) -> bool),
        ("log", is_log),
        ("place", is_page),
    ] {
        for file in fs::read_dir(restored.join("play").join(folder)).unwrap() {
            let file = file.unwrap().path();
            let path = file.strip_prefix(&restored).unwrap().to_string_lossy();
            let content = fs::read(&file).unwrap();
            if !is_right(&file, &content) && !unstable.contains(&*path) {
                checker.damage(format!(
                    "{id} has an incomplete {path} ({} bytes)",
                    content.len()
                ));
            }
        }
    }
    let is_used = |path: &String| path.starts_with("repository/");
    if !unstable.iter().any(is_used) {
        let repository = restored.join("repository");
        let said = run_to_end(git_command(sandbox, &repository, &["fsck", "--full"]));
        if !said.status.success() {
            checker.damage(format!("{id} has a broken repository: {}", describe(&said)));
        }
    }
    fs::remove_dir_all(restored).unwrap();
}

fn is_whole(file: &Path, content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let number = file
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    let version = text
        .lines()
        .next()
        .and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number
        .zip(version)
        .is_some_and(|(number, version)| text == whole(number, version))
}

fn is_log(_: &Path, content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let is_whole = text.is_empty() || text.ends_with('\n');
    is_whole
        && text
            .lines()
            .enumerate()
            .all(|(at, line)| line == at.to_string())
}

fn is_page(_: &Path, content: &[u8]) -> bool {
    // A file that was just created is empty.
    content.is_empty() || content.len() == PAGE && content.iter().all(|byte| *byte == content[0])
}
