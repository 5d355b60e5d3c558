//! Makes packs durable and reads them back on threads of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::error::Error;
use crate::files;
use crate::pack::pack_writer::PackWriter;

/// How many packs of one packer are synced at the same time.
const MAX_CONCURRENT: usize = 2;

/// Packs on their way to the disk. Dropping it waits for them, so that no thread writes into a
/// store that was unlocked.
pub(crate) struct PackSync {
    packs: PathBuf,
    in_progress: Vec<JoinHandle<Result<u64, Error>>>,
    stored: u64,
}

impl PackSync {
    pub(crate) fn new(packs: &Path) -> Self {
        Self {
            packs: packs.to_owned(),
            in_progress: Vec::new(),
            stored: 0,
        }
    }

    /// Whether no pack was added.
    pub(super) fn is_none(&self) -> bool {
        self.in_progress.is_empty() && self.stored == 0
    }

    /// Starts syncing a pack. If enough are under way, waits for the oldest one first.
    pub(super) fn begin(&mut self, open: PackWriter) -> Result<(), Error> {
        if self.in_progress.len() == MAX_CONCURRENT {
            self.wait_for_oldest()?;
        }
        let packs = self.packs.clone();
        let seal = move || open.seal(&packs);
        self.in_progress.push(std::thread::spawn(seal));
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), Error> {
        let lost = |_| {
            let ended = io::Error::other("a writer thread panicked");
            Err(Error::at(&self.packs, ended))
        };
        self.stored += self.in_progress.remove(0).join().unwrap_or_else(lost)?;
        Ok(())
    }

    /// Takes over the packs of `other`.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.stored += std::mem::take(&mut other.stored);
        self.in_progress.append(&mut other.in_progress);
    }

    /// Waits until all packs and their names are durable. Returns how many bytes the store has
    /// grown by.
    pub(crate) fn wait(mut self) -> Result<u64, Error> {
        while !self.in_progress.is_empty() {
            self.wait_for_oldest()?;
        }
        if self.stored > 0 {
            files::sync_folder(&self.packs).map_err(|error| Error::at(&self.packs, error))?;
        }
        Ok(self.stored)
    }
}

impl Drop for PackSync {
    fn drop(&mut self) {
        for in_progress in self.in_progress.drain(..) {
            let _ = in_progress.join();
        }
    }
}
