//! The files of workspaces, in the vault of the home.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::error::Diagnose;
use segno_core::ports::{Boxed, Clock};
use segno_core::snapshot::{
    Captured, Change, Error, Left, Progress, Restore, Restored, Rules, Sight, Size, Snapshots,
    Sort, Swept,
};
use segno_core::time::Timestamp;
use segno_snapshot::scope::Evidence;
use segno_snapshot::{Difference, Request, Trust, Vault, Why};

use crate::machine::Keyring;

/// How long git may take to say how a folder looks.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which thread works with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// One of their own: agents are heard meanwhile.
    Beside,
    /// The one that asks, because it has nothing else to do. Starting another one and waking each
    /// other takes as long as a small folder does.
    Here,
}

/// Keeps files in a folder of the home.
pub(crate) struct MachineSnapshots {
    pub(crate) root: PathBuf,
    /// The person's own folder, which is never kept as a whole.
    pub(crate) person: Option<PathBuf>,
    /// What the person has said about all folders.
    pub(crate) rules: Rules,
    /// What they are encrypted with.
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) place: Place,
}

fn told(error: &(impl Diagnose + std::fmt::Display)) -> Error {
    Error {
        kind: error.kind(),
        code: error.code(),
        message: error.to_string(),
        hint: error.hint(),
    }
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl MachineSnapshots {
    /// Does something with the vault, and passes on how far it is.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        progress: &Progress,
        work: impl FnOnce(
            &Vault,
            &(dyn Fn(segno_snapshot::Progress) + Sync),
        ) -> Result<T, segno_snapshot::Error>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        if self.place == Place::Here {
            return do_in(&self.root, &self.keyring, work, &|so_far| {
                progress(so_far.files, so_far.of);
            });
        }
        let (root, keyring) = (self.root.clone(), Arc::clone(&self.keyring));
        let (told_so_far, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let job = tokio::task::spawn_blocking(move || {
            do_in(&root, &keyring, work, &|so_far| {
                let _ = told_so_far.send(so_far);
            })
        });
        while let Some(so_far) = heard.recv().await {
            progress(so_far.files, so_far.of);
        }
        job.await.expect("what a vault does ends")
    }

    /// The same, where nobody watches.
    pub(super) async fn quietly<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Vault) -> Result<T, segno_snapshot::Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.with(&|_, _| {}, |vault, _| work(vault)).await
    }
}

/// Opens the vault in `root` and does something with it.
fn do_in<T>(
    root: &Path,
    keyring: &Keyring,
    work: impl FnOnce(
        &Vault,
        &(dyn Fn(segno_snapshot::Progress) + Sync),
    ) -> Result<T, segno_snapshot::Error>,
    progress: &(dyn Fn(segno_snapshot::Progress) + Sync),
) -> Result<T, Error> {
    let cipher = keyring.cipher().map_err(|error| told(&error))?;
    let opened = Vault::open_with(root, cipher);
    let done = opened.and_then(|vault| work(&vault, progress));
    done.map_err(|error| told(&error))
}

/// A snapshot as others see it: what could not be read apart from what was left out.
pub(super) fn captured(captured: &segno_snapshot::Captured) -> Captured {
    let (mut skipped, mut left_out) = (Vec::new(), Vec::new());
    for one in &captured.skipped {
        let left = Left {
            path: text(&one.path),
            why: one.why.to_string(),
        };
        match &one.why {
            Why::Rule(rule) => left_out.push(Left {
                why: rule.clone(),
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
        left_out,
        repositories: Vec::new(),
    }
}

/// What belongs to a snapshot of `folder`.
fn scope(folder: &Path, rules: &Rules) -> Evidence {
    // What is no pattern was refused where it was read, and says nothing.
    let patterns = |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect();
    let rules = segno_snapshot::scope::Rules {
        include: patterns(&rules.include),
        exclude: patterns(&rules.exclude),
    };
    Evidence::new(folder, rules)
}

impl Snapshots for MachineSnapshots {
    fn capture<'a>(
        &'a self,
        folder: &'a Path,
        rules: &'a Rules,
        since: Option<&'a str>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>> {
        let (rules, since) = (self.rules.with(rules), since.map(str::to_owned));
        let (folder, person) = (folder.to_owned(), self.person.clone());
        let clock = Arc::clone(&self.clock);
        Box::pin(self.with(progress, move |vault, progress| {
            let scope = scope(&folder, &rules);
            let request = Request {
                home: person.as_deref(),
                scope: &scope,
                ..Request::new(&folder, &*clock)
            };
            let taken = vault.capture(&request, progress)?;
            let (found, since) = (&taken.repositories, since.as_deref());
            Ok(Captured {
                repositories: vault.repositories(&folder, found, since, &*clock),
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
        let (folder, person) = (folder.to_owned(), self.person.clone());
        let clock = Arc::clone(&self.clock);
        let rules = self.rules.with(&options.rules);
        Box::pin(self.with(progress, move |vault, progress| {
            let scope = scope(&folder, &rules);
            if options.dry {
                let request = Request {
                    home: person.as_deref(),
                    scope: &scope,
                    ..Request::new(&folder, &*clock)
                };
                return foresee(vault, snapshot, &request, options.exact);
            }
            let how = segno_snapshot::Restore {
                home: person.as_deref(),
                exact: options.exact,
                scope: &scope,
                trust: if options.trusted {
                    Trust::Full
                } else {
                    Trust::Content
                },
                seen: options.seen,
                ..segno_snapshot::Restore::default()
            };
            let restored = vault.restore(snapshot, &folder, &how, progress)?;
            vault.mend(&folder, &options.from, &options.repositories, &how)?;
            Ok(Restored {
                written: restored.written,
                bytes: restored.bytes,
                unchanged: restored.unchanged,
                removed: restored.removed.iter().map(|path| text(path)).collect(),
                set_aside: restored.set_aside.iter().map(|path| text(path)).collect(),
            })
        }))
    }

    fn verify<'a>(
        &'a self,
        snapshot: Digest,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Vec<String>, Error>> {
        Box::pin(self.with(progress, move |vault, progress| {
            let damage = vault.verify(snapshot, progress)?;
            let told = |damage: &segno_snapshot::Damage| {
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
            Ok(damage.iter().map(told).collect())
        }))
    }

    fn diff(&self, from: Digest, to: Digest) -> Boxed<'_, Result<Vec<Change>, Error>> {
        Box::pin(self.quietly(move |vault| {
            let change = |change: &segno_snapshot::Change| Change {
                path: text(&change.path),
                sort: match change.what {
                    Difference::Added => Sort::Added,
                    Difference::Removed => Sort::Removed,
                    Difference::Mode => Sort::Mode,
                    Difference::Content | Difference::Type => Sort::Changed,
                },
            };
            Ok(vault.diff(from, to)?.iter().map(change).collect())
        }))
    }

    fn read(&self, snapshot: Digest, path: PathBuf) -> Boxed<'_, Result<Vec<u8>, Error>> {
        Box::pin(self.quietly(move |vault| vault.read(snapshot, &path)))
    }

    fn commit(&self, folder: PathBuf) -> Boxed<'_, Option<String>> {
        let asked = tokio::task::spawn_blocking(move || segno_snapshot::git::head(&folder));
        Box::pin(async { asked.await.expect("a few files are read") })
    }

    fn look(&self, folder: PathBuf, since: Option<String>) -> Boxed<'_, Sight> {
        let asked = tokio::task::spawn_blocking(move || {
            segno_snapshot::git::sight(&folder, since.as_deref(), PATIENCE)
        });
        Box::pin(async {
            let (repository, changed) = asked.await.expect("git is given a time").unzip();
            Sight {
                repository,
                changed: changed.unwrap_or_default(),
            }
        })
    }

    fn keep(&self, papers: Vec<(String, Vec<u8>)>) -> Boxed<'_, Result<Digest, Error>> {
        Box::pin(self.quietly(move |vault| vault.keep(&papers)))
    }

    fn keep_file(
        &self,
        name: String,
        file: PathBuf,
        length: u64,
    ) -> Boxed<'_, Result<Digest, Error>> {
        Box::pin(self.quietly(move |vault| vault.keep_file(&name, &file, length)))
    }

    fn size(&self, snapshot: Digest) -> Boxed<'_, Result<Size, Error>> {
        Box::pin(self.quietly(move |vault| {
            let size = vault.size(snapshot)?;
            Ok(Size {
                own: size.own,
                shared: size.shared,
            })
        }))
    }

    fn room(&self) -> Boxed<'_, Result<u64, Error>> {
        Box::pin(self.quietly(Vault::room))
    }

    fn sweep(
        &self,
        kept: Vec<Digest>,
        before: Timestamp,
        grace: Duration,
    ) -> Boxed<'_, Result<Swept, Error>> {
        let now = self.clock.now();
        Box::pin(self.quietly(move |vault| {
            let snapshots = vault.keep_only(&kept, before)?;
            let swept = vault.gc(now, grace)?;
            Ok(Swept {
                busy: swept.busy,
                snapshots,
                freed: swept.bytes,
                waiting: swept.thrown,
            })
        }))
    }
}

/// What a restore would do: the folder as it is, kept and compared.
fn foresee(
    vault: &Vault,
    snapshot: Digest,
    request: &Request<'_>,
    exact: bool,
) -> Result<Restored, segno_snapshot::Error> {
    let changes = if request.root.is_dir() {
        let now = vault.capture(request, &|_| {})?.snapshot;
        Some(vault.diff(now, snapshot)?)
    } else {
        None
    };
    let mut foreseen = Restored::default();
    if let (true, Some(changes)) = (exact, &changes) {
        let gone = changes.iter();
        let gone = gone.filter(|change| change.what == Difference::Removed);
        foreseen.removed = gone.map(|change| text(&change.path)).collect();
    }
    let differing: Option<HashSet<&Path>> = changes
        .as_ref()
        .map(|changes| changes.iter().map(|change| &*change.path).collect());
    for entry in vault.list(snapshot)? {
        if !matches!(entry.kind, segno_snapshot::Kind::File { .. }) {
            continue;
        }
        let differs = |differing: &HashSet<&Path>| differing.contains(&*entry.path);
        if differing.as_ref().is_none_or(differs) {
            foreseen.written += 1;
            foreseen.bytes += entry.size();
        } else {
            foreseen.unchanged += 1;
        }
    }
    Ok(foreseen)
}
