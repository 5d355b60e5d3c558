//! Transfers packs and manifests between the local snapshot store and a remote.

use segno_core::carry::{Carry, Draft, Load, Papers, Part};
use segno_core::digest::Digest;
use segno_core::ports::Boxed;
use segno_core::snapshot::Error;

use super::MachineSnapshots;

impl Carry for MachineSnapshots {
    fn load(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<Load, Error>> {
        Box::pin(self.without_progress(move |store| store.load(&snapshots)))
    }

    fn lacking(&self, parts: Vec<Part>) -> Boxed<'_, Result<Vec<Part>, Error>> {
        Box::pin(self.without_progress(move |store| store.lacking(&parts)))
    }

    fn draft(&self) -> Boxed<'_, Result<Draft, Error>> {
        Box::pin(self.without_progress(segno_snapshot::Vault::draft))
    }

    fn adopt(&self, part: Part, draft: Draft) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.without_progress(move |store| store.adopt(&part, &draft)))
    }

    fn enlist(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.without_progress(move |store| store.enlist(&snapshots)))
    }

    fn papers(&self, snapshot: Digest) -> Boxed<'_, Result<Papers, Error>> {
        Box::pin(self.without_progress(move |store| store.papers(snapshot)))
    }
}
