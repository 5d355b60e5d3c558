//! Asking damaged checkpoints everything, and judging what they say.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use segno_core::checkpoint::Manifest;
use segno_core::ports::Disk;
use segno_core::store::Checkpoints;
use segno_snapshot::{Request, Restore, Vault};
use segno_store::{Home, LocalDisk, Sqlite};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{APART, Kept};
use crate::clock::HandClock;
use crate::damage::Damage;
use crate::picture::Picture;
use crate::sandbox::{Said, finish, memory};

/// What became of one damage.
#[derive(Debug, Clone, Default)]
pub struct Ruling {
    /// What was found, in the words of whoever found it. Nothing, if the damage does no harm.
    pub named: Vec<String>,
    /// What is wrong with that.
    pub wrongs: Vec<String>,
}

/// A copy of the home that is damaged again and again.
pub struct Judge<'a> {
    kept: &'a Kept,
    folder: TempDir,
    store: Sqlite,
    runtime: Runtime,
    manifests: BTreeMap<String, Manifest>,
}

impl<'a> Judge<'a> {
    /// A new one.
    pub fn new(kept: &'a Kept) -> Self {
        let folder = memory();
        let root = folder.path().join("home");
        let mut command = std::process::Command::new("cp");
        command.arg("-a").arg(kept.sandbox.home()).arg(&root);
        finish(command).good();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let home = Home::open(&root, disk).unwrap();
        let store = Sqlite::open(home, Arc::<HandClock>::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let mut judge = Self {
            kept,
            folder,
            store,
            runtime: { runtime }.build().unwrap(),
            manifests: BTreeMap::new(),
        };
        let (manifests, damaged) = judge.list();
        assert!(damaged.is_empty() && manifests.len() == 3, "{damaged:?}");
        judge.manifests = manifests;
        judge
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Judges one damage through the libraries.
    pub fn judge(&self, damage: &Damage) -> Ruling {
        self.with(damage, || self.ask(damage))
    }

    /// Judges one damage with the real binary.
    pub fn judge_binary(&self, damage: &Damage) -> Ruling {
        self.with(damage, || self.ask_binary(damage))
    }

    /// Does the damage, and undoes it.
    fn with(&self, damage: &Damage, ask: impl FnOnce() -> Ruling) -> Ruling {
        let file = damage.file();
        let (path, whole) = (self.root().join(&file), &self.kept.files[&file]);
        match damage {
            Damage::Flip { byte, bit, .. } => {
                let mut flipped = whole.clone();
                flipped[*byte] ^= 1 << bit;
                fs::write(&path, flipped).unwrap();
            }
            Damage::Truncate { length, .. } => fs::write(&path, &whole[..*length]).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let ruling = ask();
        fs::write(&path, whole).unwrap();
        ruling
    }

    fn list(&self) -> (BTreeMap<String, Manifest>, Vec<String>) {
        let (mut manifests, mut damaged) = (BTreeMap::new(), Vec::new());
        match self.runtime.block_on(self.store.kept(None)) {
            Err(error) => damaged.push(error.to_string()),
            Ok(found) => {
                for manifest in found {
                    match manifest {
                        Ok(manifest) => {
                            manifests.insert(manifest.id.to_string(), manifest);
                        }
                        Err(error) => damaged.push(error.to_string()),
                    }
                }
            }
        }
        (manifests, damaged)
    }

    fn ask(&self, damage: &Damage) -> Ruling {
        let file = damage.file();
        let mut ruling = Ruling::default();
        let (manifests, damaged) = self.list();
        ruling.named.extend(damaged);
        let vault = Vault::open(&self.root().join("snapshots"));
        for (number, checkpoint) in self.kept.checkpoints.iter().enumerate() {
            let found = match (&vault, manifests.get(&checkpoint.id)) {
                (Err(error), _) => vec![error.to_string()],
                (_, None) => vec![format!("checkpoint {} is not listed", checkpoint.id)],
                (Ok(vault), Some(manifest)) => {
                    // When it was last verified is noted by whoever verifies.
                    let verified = self.manifests[&checkpoint.id].verified;
                    let found = Manifest {
                        verified,
                        ..manifest.clone()
                    };
                    if found != self.manifests[&checkpoint.id] {
                        ruling.wrongs.push(format!("{number} says something else"));
                    }
                    self.ask_vault(vault, number, manifest, &mut ruling)
                }
            };
            if !found.is_empty() && self.kept.is_spared(&file, number) {
                ruling.wrongs.push(format!("{number} is harmed: {found:?}"));
            }
            ruling.named.extend(found);
        }
        if let (Ok(vault), true) = (&vault, file.starts_with("snapshots/index")) {
            self.capture(vault, &mut ruling);
        }
        self.check_names(damage, &mut ruling);
        ruling
    }

    /// Verifies and restores one. Returns what is wrong with it.
    fn ask_vault(
        &self,
        vault: &Vault,
        number: usize,
        manifest: &Manifest,
        ruling: &mut Ruling,
    ) -> Vec<String> {
        let snapshot = manifest.files.snapshot;
        let found: Vec<String> = match vault.verify(snapshot, &|_| {}) {
            Ok(found) => found
                .iter()
                .map(|damage| format!("{} is damaged: {}", damage.object, damage.reason))
                .collect(),
            Err(error) => vec![error.to_string()],
        };
        let target = memory();
        let options = Restore {
            exact: true,
            durable: false,
            ..Restore::default()
        };
        let restored = vault.restore(snapshot, target.path(), &options, &|_| {});
        let now = Picture::of(target.path());
        let wrong = match (restored, found.is_empty()) {
            (Ok(_), true) => now.differences(&self.kept.checkpoints[number].picture),
            (Err(_), false) => {
                (now.0.len() > 1).then(|| "a refused restore has written".to_owned())
            }
            (Ok(_), false) => Some(format!("it was restored in spite of {found:?}")),
            (Err(error), true) => Some(format!("not found, and refused: {error}")),
        };
        let wrong = wrong.map(|wrong| format!("{number}: {wrong}"));
        ruling.wrongs.extend(wrong);
        found
    }

    /// With a damaged index, the next snapshot still is what is there.
    fn capture(&self, vault: &Vault, ruling: &mut Ruling) {
        for number in [1, APART] {
            let folder = &self.kept.checkpoints[number].folder;
            let clock = HandClock::default();
            let captured = vault.capture(&Request::new(folder, &clock), &|_| {});
            match captured {
                Ok(captured) => {
                    let target = memory();
                    let options = Restore {
                        durable: false,
                        ..Restore::default()
                    };
                    let restored =
                        vault.restore(captured.snapshot, target.path(), &options, &|_| {});
                    let expected = Picture::of(folder);
                    let now = Picture::of(target.path());
                    let differs = now.differences(&expected);
                    if restored.is_err() || differs.is_some() {
                        let what = format!("a capture with it: {restored:?} {differs:?}");
                        ruling.wrongs.push(what);
                    }
                }
                Err(error) => ruling.wrongs.push(format!("no capture with it: {error}")),
            }
        }
    }

    /// Whatever is found says where it is.
    fn check_names(&self, damage: &Damage, ruling: &mut Ruling) {
        let file = damage.file();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_shared = file.ends_with("format");
        // Nobody remembers the name of a pack that is not there; what was in it is named. Without
        // any key, checkpoints are those of another installation.
        let nameless = ["snapshots/packs", "seal.key"];
        let is_nameless = nameless.iter().any(|name| file.starts_with(name));
        let is_gone = matches!(damage, Damage::Gone(_)) && is_nameless;
        let says = |found: &String| found.contains(&*name);
        let must_say = !ruling.named.is_empty() && !is_shared && !is_gone;
        if must_say && !ruling.named.iter().any(says) {
            let what = format!("not named: {:?}", ruling.named);
            ruling.wrongs.push(what);
        }
        let needed = ["snapshots/packs", "snapshots/manifests", "checkpoints"];
        let is_needed = needed.iter().any(|folder| file.starts_with(folder));
        // What waits in the trash is nobody's.
        let is_kept = self.kept.since.contains_key(&file);
        if ruling.named.is_empty() && is_needed && is_kept && !is_idle(damage, &self.kept.files) {
            ruling.wrongs.push("not noticed".to_owned());
        }
    }

    fn ask_binary(&self, damage: &Damage) -> Ruling {
        let mut ruling = Ruling::default();
        // A folder that is not known as a vault is not called damaged, but cannot be used.
        let refusals: &[i32] = if damage.file().ends_with("format") {
            &[12, 23]
        } else {
            &[17, 23]
        };
        let is_refused = |said: &Said| {
            said.status
                .code()
                .is_some_and(|code| refusals.contains(&code))
        };
        let segno = |words: &[&str]| {
            let mut command = self.kept.sandbox.command(words);
            command.env("SEGNO_HOME", self.root());
            finish(command)
        };
        let said = segno(&["checkpoint", "verify"]);
        if is_refused(&said) {
            ruling.named.push(format!("{}{}", said.stdout, said.stderr));
        } else if !said.status.success() {
            ruling.wrongs.push(format!("verify: {said:?}"));
        }
        for (number, checkpoint) in self.kept.checkpoints.iter().enumerate() {
            let target = self.folder.path().join("target");
            let place = target.to_str().unwrap();
            let words = ["checkpoint", "restore", &checkpoint.id, "--into", place];
            let said = segno(&words);
            let differs = Picture::of(&target).differences(&checkpoint.picture);
            let is_spared = self.kept.is_spared(&damage.file(), number);
            let is_whole = said.status.success() && differs.is_none();
            let is_excused = is_refused(&said) && !ruling.named.is_empty() && !is_spared;
            if !is_whole && !is_excused {
                ruling
                    .wrongs
                    .push(format!("{number}: {differs:?} {said:?}"));
            }
            let _ = fs::remove_dir_all(&target);
        }
        ruling
    }
}

/// Whether a flip hits bits of a compressed block that mean nothing: what is unpacked from it still
/// has its digest. Tables and ends of packs have a digest of their own.
fn is_idle(damage: &Damage, files: &BTreeMap<PathBuf, Vec<u8>>) -> bool {
    match damage {
        Damage::Flip { file, byte, .. } => {
            let length = files[file].len();
            file.starts_with("snapshots/packs") && *byte >= 8 && *byte < length - 56
        }
        _ => false,
    }
}
