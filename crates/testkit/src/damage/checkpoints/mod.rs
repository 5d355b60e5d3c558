//! Damage to the files of checkpoints: packs, manifests, heads, the index, the list of the trash,
//! the checkpoints themselves and the key that seals them.
//!
//! A judge calls what `checkpoint list`, `verify` and `restore` call. Every checkpoint is either
//! reported as clean and restored unchanged, or is reported as damaged by name and refused before a
//! file is written (P4, P5, P9). Checkpoints that do not need the damaged object are reported as
//! clean.

mod judge;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Damage;
use super::copy::read_all;
use crate::clock::Seeded;
use crate::sandbox::{ProcessOutput, Sandbox, chain_spec, run_to_end};
use crate::tree_state::TreeState;

pub use judge::{CheckpointVerdict, Judge};

/// A home with three checkpoints: two of one folder, the second stored as changes, and one of a
/// folder that shares nothing with it.
pub struct CheckpointSpecimen {
    sandbox: Sandbox,
    /// Every file that checkpoints consist of, by its path below the home.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    checkpoints: Vec<Checkpoint>,
    /// The checkpoint with which each file was created.
    since: BTreeMap<PathBuf, usize>,
}

struct Checkpoint {
    id: String,
    folder: PathBuf,
    tree_state: TreeState,
}

/// The checkpoint that shares nothing with the others.
const APART: usize = 2;

impl CheckpointSpecimen {
    /// Creates one with the real binary.
    pub fn make(binary: &Path) -> Self {
        let sandbox = Sandbox::in_memory(binary);
        let mut specimen = Self {
            sandbox,
            files: BTreeMap::new(),
            checkpoints: Vec::new(),
            since: BTreeMap::new(),
        };
        let work = specimen.prepare_folder("work", "chain");
        specimen.create_checkpoint(&work);
        fs::write(work.join("folder/1"), "edited\n").unwrap();
        let mut edited = noise(1);
        edited[100] ^= 1;
        fs::write(work.join("noise"), edited).unwrap();
        specimen.create_checkpoint(&work);
        let other = specimen.prepare_folder("other", "other");
        fs::write(other.join("noise"), noise(2)).unwrap();
        specimen.create_checkpoint(&other);
        specimen.leave_in_trash(&other);
        specimen.files = specimen.read();
        specimen
    }

    /// Creates a small folder and runs a session in it.
    fn prepare_folder(&self, name: &str, session: &str) -> PathBuf {
        let folder = self.sandbox.work().with_file_name(name);
        fs::create_dir_all(folder.join("folder/empty")).unwrap();
        for number in 0..3 {
            let content = format!("{number} of {name}\n").repeat(3);
            fs::write(folder.join(format!("folder/{number}")), content).unwrap();
        }
        fs::write(folder.join("noise"), noise(1)).unwrap();
        std::os::unix::fs::symlink("folder/0", folder.join("link")).unwrap();
        let script = format!("default: {{text: the answer of {name}}}\n");
        fs::write(folder.join("answers.yaml"), script).unwrap();
        let spec = chain_spec("{provider: scripted, script: answers.yaml}", 1);
        let spec = spec.replace("name: chain", &format!("name: {session}"));
        fs::write(folder.join("chain.yaml"), spec).unwrap();
        self.segno(&folder, &["run", "chain.yaml"]);
        folder
    }

    fn segno(&self, folder: &Path, words: &[&str]) -> ProcessOutput {
        let mut command = self.sandbox.command(words);
        command.current_dir(folder);
        run_to_end(command).expect_success()
    }

    fn create_checkpoint(&mut self, folder: &Path) {
        let said = self.segno(folder, &["checkpoint", "create", "--json"]);
        let number = self.checkpoints.len();
        for path in self.read().into_keys() {
            self.since.entry(path).or_insert(number);
        }
        self.checkpoints.push(Checkpoint {
            id: said.json()[0]["checkpoint"].as_str().unwrap().to_owned(),
            folder: folder.to_owned(),
            tree_state: TreeState::of(folder),
        });
    }

    /// Leaves something in the trash: a snapshot that no checkpoint references.
    fn leave_in_trash(&self, folder: &Path) {
        let file = folder.join("folder/0");
        let (before, modified) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap());
        fs::write(&file, "for a moment\n").unwrap();
        let said = self.segno(folder, &["checkpoint", "create", "--json"]);
        fs::write(&file, before).unwrap();
        let options = fs::File::options().write(true).open(&file).unwrap();
        options.set_modified(modified.modified().unwrap()).unwrap();
        let created: Value = said.json().remove(0);
        let word = |name: &str| created[name].as_str().unwrap().to_owned();
        let home = self.sandbox.home();
        let checkpoint = format!(
            "checkpoints/{}/{}.json",
            word("session"),
            word("checkpoint")
        );
        fs::remove_file(home.join(checkpoint)).unwrap();
        fs::remove_file(home.join("snapshots/heads").join(word("snapshot"))).unwrap();
        self.segno(folder, &["doctor", "--gc"]);
    }

    fn read(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let home = self.sandbox.home();
        let mut files = read_all(&home, Path::new("snapshots"));
        files.extend(read_all(&home, Path::new("checkpoints")));
        let key = PathBuf::from("seal.key");
        files.insert(key.clone(), fs::read(home.join(key)).unwrap());
        files
    }

    /// `bits` flips of every byte, every truncation, and every file missing.
    pub fn damages(&self, bits: u8) -> Vec<Damage> {
        let mut damages = Vec::new();
        for (file, content) in &self.files {
            for byte in 0..content.len() {
                let first = u8::try_from(byte % 8).unwrap();
                let flips = (0..bits).map(|turn| (first + turn) % 8);
                damages.extend(flips.map(|bit| Damage::Flip {
                    file: file.clone(),
                    byte,
                    bit,
                }));
                damages.push(Damage::Truncate {
                    file: file.clone(),
                    length: byte,
                });
            }
            damages.push(Damage::Gone(file.clone()));
        }
        damages
    }

    /// A random damage; every file is equally likely.
    pub fn random_damage(&self, rng: &Seeded) -> Damage {
        let below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
        let (file, content) = self.files.iter().nth(below(self.files.len())).unwrap();
        let file = file.clone();
        match (content.len(), rng.below(4)) {
            (0, _) => Damage::Gone(file),
            (length, 0) => Damage::Truncate {
                length: below(length),
                file,
            },
            (length, _) => Damage::Flip {
                byte: below(length),
                bit: u8::try_from(rng.below(8)).unwrap(),
                file,
            },
        }
    }

    /// Whether a checkpoint does not depend on this file.
    fn is_independent_of(&self, file: &Path, number: usize) -> bool {
        // Files that belong to no single checkpoint belong to all.
        let shared = ["seal.key", "snapshots/format"];
        let is_shared = shared.iter().any(|name| Path::new(name) == file);
        let since = self.since.get(file).copied().unwrap_or(APART + 1);
        !is_shared && (since > number || (number == APART && since < APART))
    }
}

fn noise(seed: u64) -> Vec<u8> {
    use segno_core::ports::Random;
    let mut bytes = vec![0; 300];
    Seeded::new(seed).fill(&mut bytes);
    bytes
}
