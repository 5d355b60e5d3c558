//! The files of the vault, on their way to another one and back.

use segno_core::carry::{Carry, Draft, Load, Papers, Part};
use segno_core::digest::Digest;
use segno_core::ports::Boxed;
use segno_core::snapshot::Error;

use super::MachineSnapshots;

impl Carry for MachineSnapshots {
    fn load(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<Load, Error>> {
        Box::pin(self.quietly(move |vault| vault.load(&snapshots)))
    }

    fn lacking(&self, parts: Vec<Part>) -> Boxed<'_, Result<Vec<Part>, Error>> {
        Box::pin(self.quietly(move |vault| vault.lacking(&parts)))
    }

    fn draft(&self) -> Boxed<'_, Result<Draft, Error>> {
        Box::pin(self.quietly(segno_snapshot::Vault::draft))
    }

    fn adopt(&self, part: Part, draft: Draft) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.quietly(move |vault| vault.adopt(&part, &draft)))
    }

    fn enlist(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<(), Error>> {
        Box::pin(self.quietly(move |vault| vault.enlist(&snapshots)))
    }

    fn papers(&self, snapshot: Digest) -> Boxed<'_, Result<Papers, Error>> {
        Box::pin(self.quietly(move |vault| vault.papers(snapshot)))
    }
}
