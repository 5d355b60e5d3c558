//! Records what was added to a settings file, so that it can be removed exactly. A receipt contains
//! only byte ranges and digests, because settings may contain secrets.

use std::ops::Range;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::ports::{Access, Disk, replace_file};
use segno_store::LocalDisk;
use serde::{Deserialize, Serialize};

use super::entries::{self, Filled};
use super::{Agent, Error};

/// Maximum size of a receipt in bytes.
const MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub struct Receipt {
    v: u32,
    file: PathBuf,
    /// Digest of the file before; `None` if there was no file.
    before: Option<Digest>,
    /// Digest of the file afterwards.
    after: Digest,
    /// The inserted byte ranges.
    added: Vec<Range<usize>>,
}

/// The settings file without Segno's hooks.
#[derive(Debug, PartialEq, Eq)]
pub enum Original {
    /// There was no file.
    Missing,
    Text(String),
}

impl Receipt {
    pub fn new(file: &Path, before: &Original, filled: &Filled) -> Self {
        Self {
            v: 1,
            file: file.to_owned(),
            before: match before {
                Original::Missing => None,
                Original::Text(text) => Some(Digest::of(text.as_bytes())),
            },
            after: Digest::of(filled.text.as_bytes()),
            added: filled.added.clone(),
        }
    }

    /// Reads the receipt of a file, if there is a valid one.
    pub fn find(home: &Path, file: &Path) -> Option<Self> {
        let bytes = LocalDisk.read(&receipt_path(home, file), MAX_BYTES).ok()?;
        let receipt: Self = serde_json::from_slice(&bytes).ok()?;
        (receipt.v == 1 && receipt.file == file).then_some(receipt)
    }

    pub fn store(&self, home: &Path) -> Result<(), Error> {
        let path = receipt_path(home, &self.file);
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        let folder = home.join(FOLDER);
        let text = serde_json::to_vec(self).expect("a receipt is JSON");
        let stored = LocalDisk
            .create_folder(&folder, Access::Private)
            .and_then(|()| replace_file(&LocalDisk, &draft, &path, &text, Access::Private, |_| {}));
        stored.map_err(|error| Error::Unusable {
            path,
            reason: error.to_string(),
        })
    }

    pub fn delete(home: &Path, file: &Path) {
        // A receipt that stays is harmless: its digest no longer matches.
        let _ = LocalDisk.remove(&receipt_path(home, file));
    }

    /// Computes the previous text, if the file is still exactly as Segno left it.
    fn original(&self, text: &str) -> Option<Original> {
        if Digest::of(text.as_bytes()) != self.after {
            return None;
        }
        let Some(digest) = self.before else {
            return Some(Original::Missing);
        };
        let before = entries::remove_ranges(text, &self.added)?;
        (Digest::of(before.as_bytes()) == digest).then_some(Original::Text(before))
    }
}

/// Returns a settings file without Segno's hooks: the exact original if nothing else changed the
/// file since, else the file with the hooks removed.
pub fn original(
    receipt: Option<&Receipt>,
    text: Option<&str>,
    agent: Agent,
) -> Result<Original, String> {
    let Some(text) = text else {
        return Ok(Original::Missing);
    };
    match receipt.and_then(|receipt| receipt.original(text)) {
        Some(before) => Ok(before),
        None => entries::remove(text, agent).map(Original::Text),
    }
}

/// The folder of receipts in the home folder.
pub const FOLDER: &str = "hooks";

fn receipt_path(home: &Path, file: &Path) -> PathBuf {
    let name = Digest::of(file.as_os_str().as_encoded_bytes()).short();
    home.join(FOLDER).join(format!("{name}.json"))
}
