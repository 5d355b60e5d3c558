//! The repositories of a workspace.

use std::path::{Path, PathBuf};

use crate::scope::{Scope, peek};

use super::place;

/// How deep folders are looked into.
const DEPTH: usize = 128;

/// Where the repositories of the workspace at `root` are, from the root (empty for the root
/// itself): nested ones, submodules and worktrees, outside of what `scope` leaves out. A further
/// worktree comes after the repository it belongs to.
pub fn find(root: &Path, scope: &dyn Scope) -> Vec<PathBuf> {
    let (mut own, mut linked) = (Vec::new(), Vec::new());
    let mut waiting = vec![(PathBuf::new(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        match place::at(&root.join(&folder)) {
            Some(place) if place.is_linked() => linked.push(folder.clone()),
            Some(_) => own.push(folder.clone()),
            None => {}
        }
        let entries = peek::entries(&root.join(&folder), usize::MAX).unwrap_or_default();
        for (name, is_folder) in entries {
            let enters = is_folder && name != ".git" && depth < DEPTH;
            if enters && scope.leaves_out(&folder, &name, true).is_none() {
                waiting.push((folder.join(name), depth + 1));
            }
        }
    }
    own.sort();
    linked.sort();
    own.extend(linked);
    own
}
