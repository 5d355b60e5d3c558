//! Opens the snapshot store of this machine for each operation and runs the blocking work.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::ports::{Boxed, Clock};
use segno_core::snapshot::transfer::PartKind;
use segno_core::snapshot::{
    Captured, Change, ChangeKind, Depth, Error, Examined, FileKind, FolderUse, OmittedPath,
    Progress, Restore, Restored, Rules, Size, Snapshots, StoredFile, Swept, WorkspaceStatus,
};
use segno_core::time::Timestamp;
use segno_secrets::cipher::Cipher;

use crate::browse::{self, Difference};
use crate::entry::{Entry, Kind, Why};
use crate::error;
use crate::git;
use crate::named_digests::named_digests;
use crate::own_folders::OwnFolders;
use crate::request::{self, Request, Trust};
use crate::scope::{self, Evidence};
use crate::snapshot_store::SnapshotStore;
use crate::verify::Damage;

/// Timeout of git when the workspace status is read.
const GIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The thread that does file work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileWork {
    /// A blocking thread of its own, so that agent events are processed meanwhile.
    Background,
    /// The calling thread, because it has nothing else to do. Starting another thread and switching
    /// to it takes as long as a small folder does.
    Inline,
}

/// Returns the cipher that new files are encrypted with; `None` if no key is configured.
pub type FindKey = dyn Fn() -> Result<Option<Cipher>, Error> + Send + Sync;

/// The snapshots in a folder of this machine.
pub struct LocalSnapshots {
    /// The folder of the snapshot store.
    pub root: PathBuf,
    /// Segno's home folder, which is never captured and never restored into.
    pub home: PathBuf,
    /// A folder with unusable checkpoints. Snapshots that their text names stay.
    pub quarantine: PathBuf,
    /// The user's home folder, which is never captured as a whole.
    pub user_home: Option<PathBuf>,
    /// The user's rules for all folders.
    pub rules: Rules,
    pub find_key: Arc<FindKey>,
    pub clock: Arc<dyn Clock>,
    pub file_work: FileWork,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl LocalSnapshots {
    /// Runs `work` with the snapshot store, and passes progress on to the caller's task.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        progress: &Progress,
        work: impl FnOnce(
            &SnapshotStore,
            &(dyn Fn(request::Progress) + Sync),
        ) -> Result<T, error::Error>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        if self.file_work == FileWork::Inline {
            return with_store_at(&self.root, &self.home, &*self.find_key, work, &|so_far| {
                progress(so_far.files, so_far.of);
            });
        }
        let (root, home) = (self.root.clone(), self.home.clone());
        let find_key = Arc::clone(&self.find_key);
        // Only the newest value counts: a caller that is slow skips some.
        let (sender, mut receiver) = tokio::sync::watch::channel(None);
        let job = tokio::task::spawn_blocking(move || {
            with_store_at(&root, &home, &*find_key, work, &|so_far| {
                sender.send_replace(Some(so_far));
            })
        });
        while receiver.changed().await.is_ok() {
            let newest = *receiver.borrow_and_update();
            if let Some(so_far) = newest {
                progress(so_far.files, so_far.of);
            }
        }
        job.await
            .expect("the task of the snapshot store does not panic")
    }

    /// Like `with`, without progress.
    pub(super) async fn without_progress<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SnapshotStore) -> Result<T, error::Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.with(&|_, _| {}, |store, _| work(store)).await
    }
}

/// Opens the snapshot store in `root` and runs `work` with it.
fn with_store_at<T>(
    root: &Path,
    home: &Path,
    find_key: &FindKey,
    work: impl FnOnce(&SnapshotStore, &(dyn Fn(request::Progress) + Sync)) -> Result<T, error::Error>,
    progress: &(dyn Fn(request::Progress) + Sync),
) -> Result<T, Error> {
    let cipher = find_key()?;
    let opened = SnapshotStore::open_with(root, cipher);
    let done = opened.and_then(|store| work(&store.in_home(home), progress));
    done.map_err(|error| Error::of(&error))
}

/// Converts a capture for the engine: unreadable files are separate from excluded ones.
pub(super) fn captured(captured: &request::CaptureReport) -> Captured {
    let (mut skipped, mut excluded) = (Vec::new(), Vec::new());
    for one in &captured.skipped {
        let left = OmittedPath {
            path: text(&one.path),
            reason: one.why.to_string(),
        };
        match &one.why {
            Why::Rule(rule) => excluded.push(OmittedPath {
                reason: rule.clone(),
                ..left
            }),
            _ => skipped.push(left),
        }
    }
    Captured {
        snapshot: captured.snapshot,
        files: captured.files,
        bytes: captured.bytes,
        written: captured.stored_bytes,
        unstable: captured.unstable.iter().map(|path| text(path)).collect(),
        skipped,
        excluded,
        repositories: Vec::new(),
    }
}

/// An entry for users.
fn stored_file(entry: &Entry) -> StoredFile {
    let (kind, target) = match &entry.kind {
        Kind::File { .. } => (FileKind::File, None),
        Kind::Folder => (FileKind::Folder, None),
        Kind::Link { target } => (FileKind::Link, Some(target)),
        Kind::HardLink { of } => (FileKind::HardLink, Some(of)),
    };
    StoredFile {
        path: text(&entry.path),
        kind,
        mode: entry.mode,
        size: entry.size(),
        target: target.map(|target| text(target)),
    }
}

/// The rules for a snapshot of `folder`.
fn scope(folder: &Path, rules: &Rules) -> Evidence {
    // Invalid patterns were refused when the rules were read.
    let patterns = |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect();
    let rules = scope::Rules {
        include: patterns(&rules.include),
        exclude: patterns(&rules.exclude),
    };
    Evidence::new(folder, rules)
}

impl Snapshots for LocalSnapshots {
    fn check_folder(&self, folder: &Path, usage: FolderUse) -> Result<(), Error> {
        let checked = OwnFolders::find(&self.home).check(folder, usage);
        checked.map_err(|error| Error::of(&error))
    }

    fn capture<'a>(
        &'a self,
        folder: &'a Path,
        rules: &'a Rules,
        since: Option<&'a str>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>> {
        let (rules, since) = (self.rules.merged(rules), since.map(str::to_owned));
        let (folder, user_home) = (folder.to_owned(), self.user_home.clone());
        let clock = Arc::clone(&self.clock);
        Box::pin(self.with(progress, move |store, progress| {
            let scope = scope(&folder, &rules);
            let request = Request {
                home: user_home.as_deref(),
                scope: &scope,
                ..Request::new(&folder, &*clock)
            };
            let taken = store.capture(&request, progress)?;
            let (found, since) = (&taken.repositories, since.as_deref());
            Ok(Captured {
                repositories: store.capture_repositories(&folder, found, since, &*clock),
                ..captured(&taken)
            })
        }))
    }

    fn restore<'a>(
        &'a self,
        snapshot: Digest,
        folder: &'a Path,
        options: Restore,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Restored, Error>> {
        let (folder, user_home) = (folder.to_owned(), self.user_home.clone());
        let clock = Arc::clone(&self.clock);
        let rules = self.rules.merged(&options.rules);
        Box::pin(self.with(progress, move |store, progress| {
            let scope = scope(&folder, &rules);
            if options.dry_run {
                let request = Request {
                    home: user_home.as_deref(),
                    scope: &scope,
                    ..Request::new(&folder, &*clock)
                };
                let expected = dry_run(store, snapshot, &request, options.exact)?;
                let disarmed = if options.trusted {
                    Vec::new()
                } else {
                    store.disarmed_paths(snapshot, &folder)?
                };
                return Ok(Restored {
                    disarmed: disarmed.iter().map(|path| text(path)).collect(),
                    ..expected
                });
            }
            let how = request::Restore {
                home: user_home.as_deref(),
                folder_use: options.folder_use,
                exact: options.exact,
                scope: &scope,
                trust: if options.trusted {
                    Trust::Full
                } else {
                    Trust::Content
                },
                target_snapshot: options.current,
                ..request::Restore::default()
            };
            let restored = store.restore(snapshot, &folder, &how, progress)?;
            store.repair_repositories(&folder, &options.from, &options.repositories, &how)?;
            Ok(Restored {
                written: restored.written,
                bytes: restored.bytes,
                unchanged: restored.unchanged,
                removed: restored.removed.iter().map(|path| text(path)).collect(),
                disarmed: restored.disarmed.iter().map(|path| text(path)).collect(),
            })
        }))
    }

    fn verify<'a>(
        &'a self,
        snapshot: Digest,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Vec<String>, Error>> {
        Box::pin(self.with(progress, move |store, progress| {
            let damage = store.verify(snapshot, progress)?;
            let describe = |damage: &Damage| {
                let some: Vec<String> =
                    damage.paths.iter().take(5).map(|path| text(path)).collect();
                let lost = match damage.paths.len() {
                    0 => String::new(),
                    n if n > some.len() => {
                        format!("; lost: {} and {} more", some.join(", "), n - some.len())
                    }
                    _ => format!("; lost: {}", some.join(", ")),
                };
                format!("{} is damaged: {}{lost}", damage.object, damage.reason)
            };
            Ok(damage.iter().map(describe).collect())
        }))
    }

    fn examine<'a>(
        &'a self,
        snapshots: Vec<Digest>,
        depth: Depth,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Examined, Error>> {
        Box::pin(self.with(progress, move |store, progress| {
            store.examine(&snapshots, depth, progress)
        }))
    }

    fn remove_caches(&self) -> Boxed<'_, Result<u64, Error>> {
        Box::pin(self.without_progress(SnapshotStore::remove_indexes))
    }

    fn quarantine(&self, parts: Vec<(PartKind, Digest)>) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.without_progress(move |store| store.quarantine(&parts)))
    }

    fn diff(&self, from: Digest, to: Digest) -> Boxed<'_, Result<Vec<Change>, Error>> {
        Box::pin(self.without_progress(move |store| {
            let change = |change: &browse::EntryChange| Change {
                path: text(&change.path),
                kind: match change.what {
                    Difference::Added => ChangeKind::Added,
                    Difference::Removed => ChangeKind::Removed,
                    Difference::Mode => ChangeKind::Mode,
                    Difference::Content | Difference::Type => ChangeKind::Changed,
                },
            };
            Ok(store.diff(from, to)?.iter().map(change).collect())
        }))
    }

    fn read(&self, snapshot: Digest, path: PathBuf) -> Boxed<'_, Result<Vec<u8>, Error>> {
        Box::pin(self.without_progress(move |store| store.read(snapshot, &path)))
    }

    fn files(
        &self,
        snapshot: Digest,
        skipped: usize,
        limit: usize,
    ) -> Boxed<'_, Result<Vec<StoredFile>, Error>> {
        Box::pin(self.without_progress(move |store| {
            let entries = store.list(snapshot)?;
            // Without the captured folder itself.
            let files = entries.iter().filter(|it| !it.path.as_os_str().is_empty());
            Ok(files.skip(skipped).take(limit).map(stored_file).collect())
        }))
    }

    fn head_commit(&self, folder: PathBuf) -> Boxed<'_, Option<String>> {
        let asked = tokio::task::spawn_blocking(move || git::head(&folder));
        Box::pin(async { asked.await.expect("a few files are read") })
    }

    fn workspace_status(
        &self,
        folder: PathBuf,
        since: Option<String>,
    ) -> Boxed<'_, WorkspaceStatus> {
        let asked = tokio::task::spawn_blocking(move || {
            git::workspace_status(&folder, since.as_deref(), GIT_TIMEOUT)
        });
        Box::pin(async {
            let (repository, changed) = asked.await.expect("git is given a time").unzip();
            WorkspaceStatus {
                repository,
                changed: changed.unwrap_or_default(),
            }
        })
    }

    fn put_files(&self, attachments: Vec<(String, Vec<u8>)>) -> Boxed<'_, Result<Digest, Error>> {
        Box::pin(self.without_progress(move |store| store.put_files(&attachments)))
    }

    fn put_file(
        &self,
        name: String,
        file: PathBuf,
        length: u64,
    ) -> Boxed<'_, Result<Digest, Error>> {
        Box::pin(self.without_progress(move |store| store.put_file(&name, &file, length)))
    }

    fn size(&self, snapshot: Digest) -> Boxed<'_, Result<Size, Error>> {
        Box::pin(self.without_progress(move |store| store.size(snapshot)))
    }

    fn total_size(&self) -> Boxed<'_, Result<u64, Error>> {
        Box::pin(self.without_progress(SnapshotStore::total_size))
    }

    fn sweep(
        &self,
        kept: Option<Vec<Digest>>,
        before: Timestamp,
        grace: Duration,
    ) -> Boxed<'_, Result<Swept, Error>> {
        let (now, quarantine) = (self.clock.now(), self.quarantine.clone());
        Box::pin(self.without_progress(move |store| {
            let snapshots = match kept {
                Some(mut kept) => {
                    kept.extend(named_digests(&quarantine)?);
                    store.unlist_except(&kept, before)?
                }
                None => 0,
            };
            let swept = store.gc(now, grace)?;
            Ok(Swept { snapshots, ..swept })
        }))
    }
}

/// A dry run of a restore: captures the folder as it is and compares it.
fn dry_run(
    store: &SnapshotStore,
    snapshot: Digest,
    request: &Request<'_>,
    exact: bool,
) -> Result<Restored, error::Error> {
    let changes = if request.root.is_dir() {
        let now = store.capture(request, &|_| {})?.snapshot;
        Some(store.diff(now, snapshot)?)
    } else {
        None
    };
    let mut expected = Restored::default();
    if let (true, Some(changes)) = (exact, &changes) {
        let removed = changes.iter();
        let removed = removed.filter(|change| change.what == Difference::Removed);
        expected.removed = removed.map(|change| text(&change.path)).collect();
    }
    let differing: Option<HashSet<&Path>> = changes
        .as_ref()
        .map(|changes| changes.iter().map(|change| &*change.path).collect());
    for entry in store.list(snapshot)? {
        if !matches!(entry.kind, Kind::File { .. }) {
            continue;
        }
        let differs = |differing: &HashSet<&Path>| differing.contains(&*entry.path);
        if differing.as_ref().is_none_or(differs) {
            expected.written += 1;
            expected.bytes += entry.size();
        } else {
            expected.unchanged += 1;
        }
    }
    Ok(expected)
}
