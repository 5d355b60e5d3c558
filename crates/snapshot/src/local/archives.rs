//! Exports snapshots of this machine as archives, and imports archives.

use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::ports::Boxed;
use segno_core::snapshot::archive::{Archive, Archives, WrittenArchive};
use segno_core::snapshot::{Captured, Error, Progress};

use super::snapshots::{LocalSnapshots, captured};

impl Archives for LocalSnapshots {
    fn write_archive<'a>(
        &'a self,
        snapshot: Digest,
        to: &'a Path,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<WrittenArchive, Error>> {
        let to = to.to_owned();
        Box::pin(self.with(progress, move |store, progress| {
            store.write_archive(snapshot, &to, progress)
        }))
    }

    fn import_archive<'a>(
        &'a self,
        archive: Archive<'a>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>> {
        let from: PathBuf = archive.from.to_owned();
        let Archive {
            digest,
            snapshot,
            limits,
            mode: keeping,
            ..
        } = archive;
        Box::pin(self.with(progress, move |store, progress| {
            let archive = Archive {
                from: &from,
                digest,
                snapshot,
                limits,
                mode: keeping,
            };
            Ok(captured(&store.import_archive(&archive, progress)?))
        }))
    }
}
