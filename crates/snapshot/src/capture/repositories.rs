//! Git folders that are used while they are read.
//!
//! Git writes objects first and then what refers to them, so a reader is safe the other way round:
//! what refers first, then the objects. A walk knows no such order. Where something that refers is
//! younger than the walk, a second walk brings the objects, and what refers is taken from the first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::beneath::Facts;
use crate::entry::{Entry, Kind, Moment, Skipped, Why};
use crate::index::is_settled;
use crate::manifest::Manifest;

use super::plan::State;

/// What of a git folder refers to no object, or is one.
const OTHERS: [&str; 5] = ["objects", "hooks", "info", "config", "description"];

/// The git folders in a manifest: those of repositories, of submodules, and bare ones.
fn git_folders(manifest: &Manifest) -> HashSet<PathBuf> {
    let heads = manifest.entries.iter().filter_map(|entry| {
        let named = entry.path.file_name()? == "HEAD" && entry.kind != Kind::Folder;
        named.then(|| entry.path.parent())?
    });
    let has_objects = |folder: &&Path| {
        let objects = manifest.find(&folder.join("objects"));
        objects.is_some_and(|objects| objects.kind == Kind::Folder)
    };
    heads.filter(has_objects).map(Path::to_owned).collect()
}

/// Whether something in a git folder refers to objects.
fn refers(folders: &HashSet<PathBuf>, path: &Path) -> bool {
    let innermost = path
        .ancestors()
        .skip(1)
        .find(|above| folders.contains(*above));
    innermost.is_some_and(|folder| {
        let below = path.strip_prefix(folder).unwrap_or(path);
        let first = below.iter().next();
        !first.is_some_and(|first| OTHERS.iter().any(|other| first == *other))
    })
}

/// What refers to objects and is younger than the walk, or went away during it.
pub(super) fn moving(manifest: &Manifest, facts: &[(Facts, State)], began: Moment) -> Vec<PathBuf> {
    let folders = git_folders(manifest);
    if folders.is_empty() {
        return Vec::new();
    }
    let young = |(entry, (facts, _)): &(&Entry, &(Facts, State))| {
        let is_file = matches!(entry.kind, Kind::File { .. });
        is_file && !is_settled(facts, began) && refers(&folders, &entry.path)
    };
    let young = manifest.entries.iter().zip(facts).filter(young);
    let mut moving: Vec<PathBuf> = young.map(|(entry, _)| entry.path.clone()).collect();
    moving.extend(vanished(&folders, &manifest.skipped).map(Path::to_owned));
    moving
}

fn vanished<'a>(
    folders: &HashSet<PathBuf>,
    skipped: &'a [Skipped],
) -> impl Iterator<Item = &'a Path> {
    let gone = skipped
        .iter()
        .filter(|skipped| skipped.why == Why::Vanished);
    gone.map(|skipped| skipped.path.as_path()).filter(|path| {
        path.ancestors()
            .skip(1)
            .any(|above| folders.contains(above))
    })
}

/// Whether what refers to objects in `earlier` can be joined with the rest of `later`: nothing went
/// away, and no ref moved from its file into the table.
pub(super) fn fits(earlier: &Manifest, later: &Manifest) -> bool {
    let folders = git_folders(later);
    let whole = |manifest: &Manifest| vanished(&folders, &manifest.skipped).next().is_none();
    let table = |manifest: &Manifest, folder: &PathBuf| {
        let table = manifest.find(&folder.join("packed-refs"));
        table.map(|table| table.content().to_vec())
    };
    let same = |folder: &PathBuf| table(earlier, folder) == table(later, folder);
    git_folders(earlier) == folders && whole(earlier) && whole(later) && folders.iter().all(same)
}

/// What refers to objects as it was in `earlier`, and everything else as it is in `later`.
pub(super) fn join(
    earlier: &Manifest,
    later: Manifest,
    facts: Vec<(Facts, State)>,
) -> (Manifest, Vec<(Facts, State)>) {
    let folders = git_folders(&later);
    let mut entries: Vec<(Entry, (Facts, State))> = Vec::with_capacity(later.entries.len());
    let is_file = |entry: &Entry| entry.kind != Kind::Folder;
    for (entry, facts) in later.entries.into_iter().zip(facts) {
        if !is_file(&entry) || !refers(&folders, &entry.path) {
            entries.push((entry, facts));
            continue;
        }
        if let Some(before) = earlier.find(&entry.path).filter(|before| is_file(before)) {
            let state = if *before == entry {
                facts.1
            } else {
                State::Young
            };
            entries.push((before.clone(), (facts.0, state)));
        }
    }
    let (entries, facts) = entries.into_iter().unzip();
    (Manifest { entries, ..later }, facts)
}

/// Marks what never stood still.
pub(super) fn mark(manifest: &mut Manifest, moving: &[PathBuf]) {
    let moving: HashSet<&PathBuf> = moving.iter().collect();
    for entry in &mut manifest.entries {
        if let Kind::File { unstable, .. } = &mut entry.kind
            && moving.contains(&entry.path)
        {
            *unstable = true;
        }
    }
}
