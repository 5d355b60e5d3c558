//! Lists, verifies and restores damaged checkpoints, and judges the answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use segno_core::checkpoint::Manifest;
use segno_core::ports::Disk;
use segno_core::store::Checkpoints;
use segno_snapshot::{Request, Restore, SnapshotStore};
use segno_store::{Home, LocalDisk, Sqlite};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{APART, CheckpointSpecimen};
use crate::clock::ManualClock;
use crate::damage::Damage;
use crate::sandbox::{ProcessOutput, memory_dir, run_to_end};
use crate::tree_state::TreeState;

/// The effect of one damage.
#[derive(Debug, Clone, Default)]
pub struct CheckpointVerdict {
    /// The messages that report the damage. Empty, if the damage does no harm.
    pub reported: Vec<String>,
    /// The violations found.
    pub violations: Vec<String>,
}

/// A copy of the home that is damaged and repaired for each judgement.
pub struct Judge<'a> {
    specimen: &'a CheckpointSpecimen,
    folder: TempDir,
    store: Sqlite,
    runtime: Runtime,
    manifests: BTreeMap<String, Manifest>,
}

impl<'a> Judge<'a> {
    pub fn new(specimen: &'a CheckpointSpecimen) -> Self {
        let folder = memory_dir();
        let root = folder.path().join("home");
        let mut command = std::process::Command::new("cp");
        command.arg("-a").arg(specimen.sandbox.home()).arg(&root);
        run_to_end(command).expect_success();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let home = Home::open(&root, disk).unwrap();
        let store = Sqlite::open(home, Arc::<ManualClock>::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let mut judge = Self {
            specimen,
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
    pub fn judge(&self, damage: &Damage) -> CheckpointVerdict {
        self.with(damage, || self.query(damage))
    }

    /// Judges one damage with the real binary.
    pub fn judge_binary(&self, damage: &Damage) -> CheckpointVerdict {
        self.with(damage, || self.query_binary(damage))
    }

    /// Applies the damage, calls `query`, and undoes the damage.
    fn with(
        &self,
        damage: &Damage,
        query: impl FnOnce() -> CheckpointVerdict,
    ) -> CheckpointVerdict {
        let file = damage.file();
        let (path, whole) = (self.root().join(&file), &self.specimen.files[&file]);
        match damage {
            Damage::Flip { byte, bit, .. } => {
                let mut flipped = whole.clone();
                flipped[*byte] ^= 1 << bit;
                fs::write(&path, flipped).unwrap();
            }
            Damage::Truncate { length, .. } => fs::write(&path, &whole[..*length]).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let verdict = query();
        fs::write(&path, whole).unwrap();
        verdict
    }

    fn list(&self) -> (BTreeMap<String, Manifest>, Vec<String>) {
        let (mut manifests, mut damaged) = (BTreeMap::new(), Vec::new());
        match self.runtime.block_on(self.store.list_checkpoints(None)) {
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

    fn query(&self, damage: &Damage) -> CheckpointVerdict {
        let file = damage.file();
        let mut verdict = CheckpointVerdict::default();
        let (manifests, damaged) = self.list();
        verdict.reported.extend(damaged);
        let store = SnapshotStore::open(&self.root().join("snapshots"));
        for (number, checkpoint) in self.specimen.checkpoints.iter().enumerate() {
            let found = match (&store, manifests.get(&checkpoint.id)) {
                (Err(error), _) => vec![error.to_string()],
                (_, None) => vec![format!("checkpoint {} is not listed", checkpoint.id)],
                (Ok(store), Some(manifest)) => {
                    // Each verification updates the time of the last verification.
                    let verified = self.manifests[&checkpoint.id].verified;
                    let found = Manifest {
                        verified,
                        ..manifest.clone()
                    };
                    if found != self.manifests[&checkpoint.id] {
                        verdict
                            .violations
                            .push(format!("the manifest of {number} differs"));
                    }
                    self.check_checkpoint(store, number, manifest, &mut verdict)
                }
            };
            if !found.is_empty() && self.specimen.is_independent_of(&file, number) {
                verdict
                    .violations
                    .push(format!("{number} is affected: {found:?}"));
            }
            verdict.reported.extend(found);
        }
        if let (Ok(store), true) = (&store, file.starts_with("snapshots/index")) {
            self.capture(store, &mut verdict);
        }
        self.check_names(damage, &mut verdict);
        verdict
    }

    /// Verifies and restores one checkpoint. Returns what is wrong with it.
    fn check_checkpoint(
        &self,
        store: &SnapshotStore,
        number: usize,
        manifest: &Manifest,
        verdict: &mut CheckpointVerdict,
    ) -> Vec<String> {
        let snapshot = manifest.files.snapshot;
        let found: Vec<String> = match store.verify(snapshot, &|_| {}) {
            Ok(found) => found
                .iter()
                .map(|damage| format!("{} is damaged: {}", damage.object, damage.reason))
                .collect(),
            Err(error) => vec![error.to_string()],
        };
        let target = memory_dir();
        let options = Restore {
            exact: true,
            durable: false,
            ..Restore::default()
        };
        let restored = store.restore(snapshot, target.path(), &options, &|_| {});
        let now = TreeState::of(target.path());
        let wrong = match (restored, found.is_empty()) {
            (Ok(_), true) => now.differences(&self.specimen.checkpoints[number].tree_state),
            (Err(_), false) => {
                (now.0.len() > 1).then(|| "a refused restore wrote files".to_owned())
            }
            (Ok(_), false) => Some(format!("it was restored despite {found:?}")),
            (Err(error), true) => Some(format!("restore refused, but no damage found: {error}")),
        };
        let wrong = wrong.map(|wrong| format!("{number}: {wrong}"));
        verdict.violations.extend(wrong);
        found
    }

    /// With a damaged index, the next snapshot still contains the current files.
    fn capture(&self, store: &SnapshotStore, verdict: &mut CheckpointVerdict) {
        for number in [1, APART] {
            let folder = &self.specimen.checkpoints[number].folder;
            let clock = ManualClock::default();
            let captured = store.capture(&Request::new(folder, &clock), &|_| {});
            match captured {
                Ok(captured) => {
                    let target = memory_dir();
                    let options = Restore {
                        durable: false,
                        ..Restore::default()
                    };
                    let restored =
                        store.restore(captured.snapshot, target.path(), &options, &|_| {});
                    let expected = TreeState::of(folder);
                    let now = TreeState::of(target.path());
                    let differs = now.differences(&expected);
                    if restored.is_err() || differs.is_some() {
                        let what =
                            format!("capture on the damaged store: {restored:?} {differs:?}");
                        verdict.violations.push(what);
                    }
                }
                Err(error) => verdict
                    .violations
                    .push(format!("capture on the damaged store failed: {error}")),
            }
        }
    }

    /// Checks that whatever is reported names the damaged object.
    fn check_names(&self, damage: &Damage, verdict: &mut CheckpointVerdict) {
        let file = damage.file();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_shared = file.ends_with("format");
        // The name of a missing pack is unknown; its content is reported instead. Without any key,
        // checkpoints count as those of another installation.
        let nameless = ["snapshots/packs", "seal.key"];
        let is_nameless = nameless.iter().any(|name| file.starts_with(name));
        let is_gone = matches!(damage, Damage::Gone(_)) && is_nameless;
        let run = |found: &String| found.contains(&*name);
        let must_name = !verdict.reported.is_empty() && !is_shared && !is_gone;
        if must_name && !verdict.reported.iter().any(run) {
            let what = format!("the damaged file is not named: {:?}", verdict.reported);
            verdict.violations.push(what);
        }
        let needed = ["snapshots/packs", "snapshots/manifests", "checkpoints"];
        let is_needed = needed.iter().any(|folder| file.starts_with(folder));
        // Nothing references what is in the trash.
        let is_referenced = self.specimen.since.contains_key(&file);
        if verdict.reported.is_empty()
            && is_needed
            && is_referenced
            && !hits_unused_bits(damage, &self.specimen.files)
        {
            verdict.violations.push("damage not found".to_owned());
        }
    }

    fn query_binary(&self, damage: &Damage) -> CheckpointVerdict {
        let mut verdict = CheckpointVerdict::default();
        // A folder that is not recognized as a snapshot store is not reported as damaged, but
        // cannot be used.
        let refusals: &[i32] = if damage.file().ends_with("format") {
            &[12, 23]
        } else {
            &[17, 23]
        };
        let is_refused = |said: &ProcessOutput| {
            said.status
                .code()
                .is_some_and(|code| refusals.contains(&code))
        };
        let segno = |words: &[&str]| {
            let mut command = self.specimen.sandbox.command(words);
            command.env("SEGNO_HOME", self.root());
            run_to_end(command)
        };
        let said = segno(&["checkpoint", "verify"]);
        if is_refused(&said) {
            verdict
                .reported
                .push(format!("{}{}", said.stdout, said.stderr));
        } else if !said.status.success() {
            verdict.violations.push(format!("verify: {said:?}"));
        }
        for (number, checkpoint) in self.specimen.checkpoints.iter().enumerate() {
            let target = self.folder.path().join("target");
            let into = target.to_str().unwrap();
            let words = ["checkpoint", "restore", &checkpoint.id, "--into", into];
            let said = segno(&words);
            let differs = TreeState::of(&target).differences(&checkpoint.tree_state);
            let is_independent_of = self.specimen.is_independent_of(&damage.file(), number);
            let is_whole = said.status.success() && differs.is_none();
            let is_excused =
                is_refused(&said) && !verdict.reported.is_empty() && !is_independent_of;
            if !is_whole && !is_excused {
                verdict
                    .violations
                    .push(format!("{number}: {differs:?} {said:?}"));
            }
            let _ = fs::remove_dir_all(&target);
        }
        verdict
    }
}

/// Whether a flip hits unused bits of a compressed block: its decompressed content still has its
/// digest. Tables and ends of packs have a digest of their own.
fn hits_unused_bits(damage: &Damage, files: &BTreeMap<PathBuf, Vec<u8>>) -> bool {
    match damage {
        Damage::Flip { file, byte, .. } => {
            let length = files[file].len();
            file.starts_with("snapshots/packs") && *byte >= 8 && *byte < length - 56
        }
        _ => false,
    }
}
