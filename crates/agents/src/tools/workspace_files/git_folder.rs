//! Git folders under another name. Git takes a folder for a repository by its content, and then
//! runs the programs that its configuration names; so no tool writes into such a folder, or creates
//! the part that completes one.

use std::path::Path;

use rustix::fs::{AtFlags, OFlags};
use segno_core::executable_content::folded;

use super::root::Root;

/// Why a tool may not write here; `None` if no folder above the file would be a git folder.
pub(super) fn refusal(root: &Root, target: &Path) -> Option<&'static str> {
    let mut folders = target.ancestors().skip(1);
    folders
        .any(|folder| would_be_git_folder(root, folder, target))
        .then_some("its folder is, or would become, a git repository, whose settings can start programs; only a user can write it")
}

fn would_be_git_folder(root: &Root, folder: &Path, target: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // What does not exist would contain one name only.
    let Ok(open) = segno_openat::open(root.folder(), folder, flags) else {
        return false;
    };
    let written = target.strip_prefix(folder).ok();
    let written = written.and_then(|rest| rest.iter().next());
    let written = written.map(|name| folded(name.as_encoded_bytes()));
    let has = |name: &str| {
        written.as_deref() == Some(&name.to_lowercase())
            || rustix::fs::statat(&open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}
