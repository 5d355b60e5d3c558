//! Git folders that change while they are read.
//!
//! Git writes objects first and then the refs to them, so a reader is safe in the opposite order:
//! refs first, then objects. A walk has no such order. Where a ref is younger than the walk, a
//! second walk reads the objects, and the refs are taken from the first walk.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::entry::{Entry, EntryType, FileTime, Kind, Skipped, Why};
use crate::index::{Index, has_trusted_stamp};

use super::plan::{Found, Plan, State};

/// Parts of a git folder that contain no refs: they are objects, or reference none.
const OTHERS: [&str; 5] = ["objects", "hooks", "info", "config", "description"];

/// The known state of a folder: what was found, and the entries of the index that are still valid.
struct View<'a> {
    index: &'a Index,
    plan: Option<&'a Plan>,
}

impl View<'_> {
    fn holds(&self, number: u32) -> bool {
        self.plan.is_none_or(|plan| !plan.stale[number as usize])
    }

    fn entry(&self, path: &Path) -> Option<Entry> {
        let found = self.plan.and_then(|plan| plan.find(path));
        let known = || {
            let number = self.index.find(path).filter(|number| self.holds(*number))?;
            self.index.entry(number, path.to_owned())
        };
        found.map(|found| found.entry.clone()).or_else(known)
    }

    fn skipped(&self) -> &[Skipped] {
        self.plan.map_or(&self.index.skipped, |plan| &plan.skipped)
    }

    /// The git folders: those of repositories and submodules, and bare ones.
    fn git_folders(&self) -> HashSet<PathBuf> {
        let numbers = 1..u32::try_from(self.index.len()).unwrap_or(u32::MAX);
        let is_head = |number: &u32| {
            let name = self.index.name(*number) == b"HEAD";
            name && self.index.entry_type(*number) != EntryType::Folder && self.holds(*number)
        };
        let known = numbers
            .filter(is_head)
            .map(|number| self.index.path(number));
        let found = self.plan.into_iter().flat_map(|plan| &plan.found);
        let found = found.map(|found| &found.entry).filter(|entry| {
            entry.kind != Kind::Folder && entry.path.file_name().is_some_and(|name| name == "HEAD")
        });
        let heads = known.chain(found.map(|entry| entry.path.clone()));
        let folders = heads.filter_map(|head| head.parent().map(Path::to_owned));
        let has_objects = |folder: &PathBuf| {
            let objects = self.entry(&folder.join("objects"));
            objects.is_some_and(|objects| objects.kind == Kind::Folder)
        };
        folders.filter(has_objects).collect()
    }
}

/// Whether a path in a git folder can contain references to objects.
fn may_contain_refs(folders: &HashSet<PathBuf>, path: &Path) -> bool {
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

/// Refs that are younger than the walk or vanished during it. The entries of the index that are
/// still valid are older.
pub(super) fn changing_refs(plan: &Plan, index: &Index, began: FileTime) -> Vec<PathBuf> {
    let young = |found: &&Found| {
        let is_file = matches!(found.entry.kind, Kind::File { .. });
        is_file && !has_trusted_stamp(&found.facts, began)
    };
    let young: Vec<&Found> = plan.found.iter().filter(young).collect();
    let is_gone = |skipped: &Skipped| skipped.why == Why::Vanished;
    if young.is_empty() && !plan.skipped.iter().any(is_gone) {
        return Vec::new();
    }
    let plan = Some(plan);
    let view = View { index, plan };
    let folders = view.git_folders();
    let young = young.iter().map(|found| found.entry.path.as_path());
    let young = young.filter(|path| may_contain_refs(&folders, path));
    let vanished = vanished(&folders, view.skipped());
    young.chain(vanished).map(Path::to_owned).collect()
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

/// Whether the refs of `earlier` can be combined with the rest of `later`: nothing vanished, and no
/// ref moved from its file into `packed-refs`.
pub(super) fn can_combine(earlier: &Index, later: &Plan) -> bool {
    let view = |plan| View {
        index: earlier,
        plan,
    };
    let (earlier, later) = (view(None), view(Some(later)));
    let folders = later.git_folders();
    let whole = |view: &View<'_>| vanished(&folders, view.skipped()).next().is_none();
    let table = |view: &View<'_>, folder: &PathBuf| {
        let table = view.entry(&folder.join("packed-refs"));
        table.map(|table| table.content().to_vec())
    };
    let same = |folder: &PathBuf| table(&earlier, folder) == table(&later, folder);
    earlier.git_folders() == folders && whole(&earlier) && whole(&later) && folders.iter().all(same)
}

/// Combines the refs of `earlier` with everything else of `later`.
pub(super) fn combine(earlier: &Index, later: &mut Plan) {
    let view = View {
        index: earlier,
        plan: Some(later),
    };
    let folders = view.git_folders();
    let earlier = View {
        index: earlier,
        plan: None,
    };
    later.found.retain_mut(|found| {
        if found.entry.kind == Kind::Folder || !may_contain_refs(&folders, &found.entry.path) {
            return true;
        }
        let before = earlier.entry(&found.entry.path);
        let Some(before) = before.filter(|before| before.kind != Kind::Folder) else {
            return false;
        };
        if before != found.entry {
            found.entry = before;
            found.state = State::Recent;
        }
        true
    });
}

/// Marks the refs that kept changing as unstable.
pub(super) fn mark_unstable(plan: &mut Plan, changing: &[PathBuf]) {
    let changing: HashSet<&PathBuf> = changing.iter().collect();
    for found in &mut plan.found {
        if let Kind::File { unstable, .. } = &mut found.entry.kind
            && changing.contains(&found.entry.path)
        {
            *unstable = true;
        }
    }
}
