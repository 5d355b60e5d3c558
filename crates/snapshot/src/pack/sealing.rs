//! Packs that are made durable, and read back, while other work goes on.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::error::Error;
use crate::files;
use crate::pack::open::Open;

/// How many packs of one packer wait for the disk at the same time.
const AT_ONCE: usize = 2;

/// Packs on their way to the disk. Dropping it waits for them: nobody writes into a vault that was let
/// go.
pub(crate) struct Sealing {
    packs: PathBuf,
    under_way: Vec<JoinHandle<Result<u64, Error>>>,
    stored: u64,
}

impl Sealing {
    /// None yet.
    pub(crate) fn new(packs: &Path) -> Self {
        Self {
            packs: packs.to_owned(),
            under_way: Vec::new(),
            stored: 0,
        }
    }

    /// Whether there was none.
    pub(super) fn is_none(&self) -> bool {
        self.under_way.is_empty() && self.stored == 0
    }

    /// Begins with a pack; if there are enough under way, once the oldest is there.
    pub(super) fn begin(&mut self, open: Open) -> Result<(), Error> {
        if self.under_way.len() == AT_ONCE {
            self.wait_for_oldest()?;
        }
        let packs = self.packs.clone();
        let seal = move || open.seal(&packs);
        self.under_way.push(std::thread::spawn(seal));
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), Error> {
        let lost = |_| {
            let ended = io::Error::other("a thread that wrote ended early");
            Err(Error::at(&self.packs, ended))
        };
        self.stored += self.under_way.remove(0).join().unwrap_or_else(lost)?;
        Ok(())
    }

    /// Takes over those of another.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.stored += std::mem::take(&mut other.stored);
        self.under_way.append(&mut other.under_way);
    }

    /// Waits until all are durable, names included. Returns how many bytes the vault has grown by.
    pub(crate) fn wait(mut self) -> Result<u64, Error> {
        while !self.under_way.is_empty() {
            self.wait_for_oldest()?;
        }
        if self.stored > 0 {
            files::sync_folder(&self.packs).map_err(|error| Error::at(&self.packs, error))?;
        }
        Ok(self.stored)
    }
}

impl Drop for Sealing {
    fn drop(&mut self) {
        for under_way in self.under_way.drain(..) {
            let _ = under_way.join();
        }
    }
}
