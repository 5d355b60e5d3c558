//! The fast path for an unchanged folder: nothing is read, and the previous snapshot is returned.

use crate::entry::Skipped;
use crate::manifest::order;
use crate::request::CaptureReport;
use crate::walk::{Tree, What};

use super::Capture;

impl Capture<'_> {
    /// The snapshot that the index was written with, if nothing changed since.
    pub(super) fn unchanged_snapshot(&self, tree: &Tree) -> Option<CaptureReport> {
        let snapshot = self.parent.filter(|_| tree.is_known())?;
        let skipped = excluded_paths(tree);
        if skipped != self.index.skipped {
            return None;
        }
        let summary = &self.index.summary;
        Some(CaptureReport {
            snapshot,
            files: summary.files,
            folders: summary.folders,
            links: summary.links,
            bytes: summary.bytes,
            read_files: 0,
            stored_bytes: 0,
            unstable: Vec::new(),
            skipped,
            repositories: summary.repositories.clone(),
        })
    }
}

/// The paths that a walk excluded, sorted.
fn excluded_paths(tree: &Tree) -> Vec<Skipped> {
    let mut left = Vec::new();
    for folder in &tree.folders {
        for node in &folder.nodes {
            if let What::Excluded(why) = &node.what {
                let (path, why) = (folder.path.join(&node.name), why.clone());
                left.push(Skipped { path, why });
            }
        }
    }
    left.sort_by(|left, right| order(&left.path, &right.path));
    left
}
