//! Prepares the repair of a snapshot store. Deletes nothing but caches.

use std::collections::HashSet;
use std::path::Path;

use segno_core::digest::Digest;
use segno_core::snapshot::transfer::PartKind;

use crate::error::Error;
use crate::files;
use crate::snapshot_store::SnapshotStore;

/// The folder for damaged files.
const QUARANTINE: &str = "quarantine";

impl SnapshotStore {
    /// Removes the indexes of captured folders: the next capture reads everything again. Returns
    /// how many there were.
    pub fn remove_indexes(&self) -> Result<u64, Error> {
        let _lock = self.lock_shared()?;
        let to_error = |error| Error::at(&self.index, error);
        let names = files::names(&self.index).map_err(to_error)?;
        for name in &names {
            files::remove(&self.index.join(name)).map_err(to_error)?;
        }
        Ok(names.len() as u64)
    }

    /// Moves damaged packs and manifests to a folder of their own, so that they count as missing.
    pub fn quarantine(&self, parts: &[(PartKind, Digest)]) -> Result<(), Error> {
        let _lock = self.lock_shared()?;
        let to = self.root.join(QUARANTINE);
        files::make_folder(&to).map_err(|error| Error::at(&to, error))?;
        for (kind, name) in parts.iter().collect::<HashSet<_>>() {
            let (folder, word) = match kind {
                PartKind::Pack => (&self.packs, "pack"),
                PartKind::Manifest => (&self.manifests, "manifest"),
            };
            let from = folder.join(name.to_string());
            // The name of an earlier copy would replace it.
            let free = |number: &u32| !to.join(file_name(word, name, *number)).exists();
            let number = (1..u32::MAX).find(free).unwrap_or(u32::MAX);
            match rustix::fs::rename(&from, to.join(file_name(word, name, number))) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(Error::at(&from, error)),
            }
        }
        let sync =
            |folder: &Path| files::sync_folder(folder).map_err(|error| Error::at(folder, error));
        sync(&to)?;
        sync(&self.packs)?;
        sync(&self.manifests)?;
        sync(&self.root)
    }
}

fn file_name(word: &str, name: &Digest, number: u32) -> String {
    format!("{word}-{name}-{number}")
}
