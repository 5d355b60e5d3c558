//! Transfers packs and manifests between the local snapshot store and a remote.

use segno_core::digest::Digest;
use segno_core::ports::Boxed;
use segno_core::snapshot::Error;
use segno_core::snapshot::transfer::{Attachments, Draft, Part, PartSet, Transfer};

use crate::snapshot_store::SnapshotStore;

use super::LocalSnapshots;

impl Transfer for LocalSnapshots {
    fn collect_parts(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<PartSet, Error>> {
        Box::pin(self.without_progress(move |store| store.collect_parts(&snapshots)))
    }

    fn missing_parts(&self, parts: Vec<Part>) -> Boxed<'_, Result<Vec<Part>, Error>> {
        Box::pin(self.without_progress(move |store| store.missing_parts(&parts)))
    }

    fn new_draft(&self) -> Boxed<'_, Result<Draft, Error>> {
        Box::pin(self.without_progress(SnapshotStore::new_draft))
    }

    fn import_part(&self, part: Part, draft: Draft) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.without_progress(move |store| store.import_part(&part, &draft)))
    }

    fn register_snapshots(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.without_progress(move |store| store.register_snapshots(&snapshots)))
    }

    fn attachments(&self, snapshot: Digest) -> Boxed<'_, Result<Attachments, Error>> {
        Box::pin(self.without_progress(move |store| store.attachments(snapshot)))
    }
}
