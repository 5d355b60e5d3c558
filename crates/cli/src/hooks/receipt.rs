//! What was put into a settings file, so that it can be taken out without a trace. Only places and
//! digests are kept: settings may hold secrets.

use std::ops::Range;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::ports::{Access, Disk};
use segno_store::LocalDisk;
use serde::{Deserialize, Serialize};

use super::entries::{self, Filled};
use super::{Agent, Error};

/// The longest receipt.
const LONGEST: u64 = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    v: u32,
    /// The file.
    file: PathBuf,
    /// What it was before; `None` if it was not there.
    before: Option<Digest>,
    /// What it was afterwards.
    after: Digest,
    /// What was put in.
    added: Vec<Range<usize>>,
}

/// What a file was before our entries came into it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// There was none.
    Missing,
    /// This.
    Text(String),
}

impl Receipt {
    pub(crate) fn new(file: &Path, before: &Before, filled: &Filled) -> Self {
        Self {
            v: 1,
            file: file.to_owned(),
            before: match before {
                Before::Missing => None,
                Before::Text(text) => Some(Digest::of(text.as_bytes())),
            },
            after: Digest::of(filled.text.as_bytes()),
            added: filled.added.clone(),
        }
    }

    /// The receipt for a file, if there is one that can be read.
    pub(crate) fn find(home: &Path, file: &Path) -> Option<Self> {
        let bytes = LocalDisk.read(&place(home, file), LONGEST).ok()?;
        let receipt: Self = serde_json::from_slice(&bytes).ok()?;
        (receipt.v == 1 && receipt.file == file).then_some(receipt)
    }

    pub(crate) fn keep(&self, home: &Path) -> Result<(), Error> {
        let place = place(home, &self.file);
        let draft = place.with_extension(format!("{}.tmp", std::process::id()));
        let folder = home.join(FOLDER);
        let text = serde_json::to_vec(self).expect("a receipt is JSON");
        let kept = LocalDisk
            .create_folder(&folder, Access::Private)
            .and_then(|()| LocalDisk.remove(&draft))
            .and_then(|()| LocalDisk.create(&draft, &text, Access::Private))
            .and_then(|()| LocalDisk.rename(&draft, &place))
            .and_then(|()| LocalDisk.sync_folder(&folder));
        kept.map_err(|error| Error::Unusable {
            path: place,
            reason: error.to_string(),
        })
    }

    pub(crate) fn forget(home: &Path, file: &Path) {
        // One that stays is of no use and does no harm: it is about a file that is no more.
        let _ = LocalDisk.remove(&place(home, file));
    }

    /// What a text was before, if it is still what we left.
    fn before(&self, text: &str) -> Option<Before> {
        if Digest::of(text.as_bytes()) != self.after {
            return None;
        }
        let Some(digest) = self.before else {
            return Some(Before::Missing);
        };
        let before = entries::without(text, &self.added)?;
        (Digest::of(before.as_bytes()) == digest).then_some(Before::Text(before))
    }
}

/// What a settings file is without our entries: exactly what it was, if nobody else changed it
/// since, and otherwise all that is not ours.
pub(crate) fn before(
    receipt: Option<&Receipt>,
    text: Option<&str>,
    agent: Agent,
) -> Result<Before, String> {
    let Some(text) = text else {
        return Ok(Before::Missing);
    };
    match receipt.and_then(|receipt| receipt.before(text)) {
        Some(before) => Ok(before),
        None => entries::strip(text, agent).map(Before::Text),
    }
}

/// The folder of receipts, below the home.
pub(crate) const FOLDER: &str = "hooks";

fn place(home: &Path, file: &Path) -> PathBuf {
    let name = Digest::of(file.as_os_str().as_encoded_bytes()).short();
    home.join(FOLDER).join(format!("{name}.json"))
}
