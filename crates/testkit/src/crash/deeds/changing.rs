//! Checkpoints of files that somebody changes all the while. What was replaced in one step is kept as
//! it was before or after, what was appended to is kept up to some line, and what may be half-way is
//! called unstable. A repository that is committed to is one that git finds whole.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::ground::Ground;
use super::tree::git_command;
use super::watch::{Watch, told};
use crate::clock::Seeded;
use crate::crash::trial::Wrong;
use crate::sandbox::{Sandbox, finish};

/// How many checkpoints are taken in a round.
const CAPTURES: usize = 6;
/// How many files there are of each sort.
const FILES: u64 = 8;
/// How long a file is that is written in place: one page.
const PAGE: usize = 4096;

pub(super) fn attempt(ground: &Ground, seed: u64) -> Vec<Wrong> {
    let sandbox = &ground.sandbox;
    let mutator = Mutator::new(sandbox, seed);
    let mut watch = Watch::new(ground);
    let done = AtomicBool::new(false);
    let mut taken = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                mutator.change();
            }
        });
        for _ in 0..CAPTURES {
            taken.push(sandbox.segno(&["checkpoint", "create", "--json"]));
        }
        done.store(true, Ordering::Relaxed);
    });
    watch.examine();
    for said in taken {
        if !said.status.success() {
            watch.stuck(format!("a checkpoint of changing files: {}", told(&said)));
            continue;
        }
        let line = said.json().remove(0);
        let id = line["checkpoint"].as_str().unwrap();
        let unstable = line["unstable_files"].as_array().unwrap().iter();
        let unstable = unstable
            .map(|path| path.as_str().unwrap().to_owned())
            .collect();
        judge(&mut watch, id, &unstable);
    }
    watch.wrongs
}

/// Whoever changes the files.
struct Mutator<'a> {
    sandbox: &'a Sandbox,
    place: PathBuf,
    lot: Seeded,
}

impl<'a> Mutator<'a> {
    fn new(sandbox: &'a Sandbox, seed: u64) -> Self {
        let place = sandbox.work().join("play");
        for folder in ["whole", "log", "place", "gone", "moved"] {
            fs::create_dir_all(place.join(folder)).unwrap();
        }
        let lot = Seeded::new(seed);
        Self {
            sandbox,
            place,
            lot,
        }
    }

    /// One change.
    fn change(&self) {
        let number = self.lot.below(FILES);
        let at = |folder: &str| self.place.join(folder).join(number.to_string());
        match self.lot.below(64) {
            0 => {
                let repository = self.sandbox.work().join("repository");
                let text = format!("{}\n", self.lot.below(1_000_000));
                fs::write(repository.join("tracked"), text).unwrap();
                let words = ["commit", "-q", "-a", "-m", "again"];
                finish(git_command(self.sandbox, &repository, &words));
            }
            1..16 => {
                // Written beside its place, and put there in one step.
                let draft = self.place.join("draft");
                fs::write(&draft, whole(number, self.lot.below(1000))).unwrap();
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
                let letter = b'a' + u8::try_from(self.lot.below(26)).unwrap();
                file.write_all_at(&[letter; PAGE], 0).unwrap();
            }
            48..56 => {
                let file = at("gone");
                if fs::remove_file(&file).is_err() && fs::remove_dir(&file).is_err() {
                    if self.lot.below(2) == 0 {
                        fs::write(file, "").unwrap();
                    } else {
                        fs::create_dir(file).unwrap();
                    }
                }
            }
            _ => {
                // A folder that is now here and now there, with something in it.
                let (from, to) = (at("moved"), self.place.join(format!("moved-{number}")));
                if fs::rename(&from, &to).is_err() && fs::rename(&to, &from).is_err() {
                    fs::create_dir(&from).unwrap();
                    fs::write(from.join("inside"), "inside\n").unwrap();
                }
            }
        }
    }
}

/// What a file that is replaced in one step may say.
fn whole(number: u64, version: u64) -> String {
    let count = usize::try_from(1000 + version).unwrap();
    format!("file {number}, version {version}\n").repeat(count)
}

/// Brings a checkpoint back and reads its files.
fn judge(watch: &mut Watch<'_>, id: &str, unstable: &BTreeSet<String>) {
    let sandbox = &watch.ground.sandbox;
    let said = sandbox.segno(&["checkpoint", "restore", id, "--into", "../looked"]);
    let place = watch.ground.beside("looked");
    if !said.status.success() {
        watch.loss(format!("{id} does not come back: {}", told(&said)));
        return;
    }
    for (folder, is_right) in [
        ("whole", is_whole as fn(&Path, &[u8]) -> bool),
        ("log", is_log),
        ("place", is_page),
    ] {
        for file in fs::read_dir(place.join("play").join(folder)).unwrap() {
            let file = file.unwrap().path();
            let path = file.strip_prefix(&place).unwrap().to_string_lossy();
            let content = fs::read(&file).unwrap();
            if !is_right(&file, &content) && !unstable.contains(&*path) {
                watch.damage(format!("{id} has half of {path} ({} bytes)", content.len()));
            }
        }
    }
    let is_used = |path: &String| path.starts_with("repository/");
    if !unstable.iter().any(is_used) {
        let repository = place.join("repository");
        let said = finish(git_command(sandbox, &repository, &["fsck", "--full"]));
        if !said.status.success() {
            watch.damage(format!("{id} has a broken repository: {}", told(&said)));
        }
    }
    fs::remove_dir_all(place).unwrap();
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
    // One that was just made is empty.
    content.is_empty() || content.len() == PAGE && content.iter().all(|byte| *byte == content[0])
}
