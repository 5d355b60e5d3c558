//! The trash: lists unreferenced packs and manifests, and since when, before they are deleted (P8).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use segno_core::digest::Digest;
use segno_core::time::Timestamp;

use crate::files::{self, Draft};

/// The longest trash file that is read (P10).
const LONGEST: u64 = 64 * 1024 * 1024;

/// Packs and manifests that are going to be deleted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Trash(pub(crate) BTreeMap<Digest, Timestamp>);

impl Trash {
    /// Reads the trash file. A missing or damaged one counts as empty: its items start their grace
    /// period again.
    pub(crate) fn read(path: &Path) -> Self {
        let Ok(bytes) = files::read(path, LONGEST) else {
            return Self::default();
        };
        Self::decode(&bytes).unwrap_or_default()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (check, lines) = text.split_once('\n')?;
        if check.parse() != Ok(Digest::of(lines.as_bytes())) {
            return None;
        }
        let line = |line: &str| {
            let (name, since) = line.split_once(' ')?;
            Some((name.parse().ok()?, Timestamp(since.parse().ok()?)))
        };
        lines.lines().map(line).collect::<Option<_>>().map(Self)
    }

    fn encode(&self) -> String {
        let mut lines = String::new();
        for (name, since) in &self.0 {
            let _ = writeln!(lines, "{name} {}", since.0);
        }
        format!("{}\n{lines}", Digest::of(lines.as_bytes()))
    }

    /// Replaces the trash file, durably.
    pub(crate) fn write(&self, path: &Path, drafts: &Path) -> io::Result<()> {
        let mut draft = Draft::new(drafts)?;
        draft.write(self.encode().as_bytes())?;
        draft.sync()?.publish(path)?;
        files::sync_folder(path.parent().unwrap_or(Path::new("/")))
    }

    pub(crate) fn has(&self, name: &Digest) -> bool {
        self.0.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_trash_file_is_ignored() {
        let trash = Trash([(Digest::of(b"a"), Timestamp(7))].into());
        let text = trash.encode();
        assert_eq!(Trash::decode(text.as_bytes()), Some(trash));
        assert_eq!(Trash::decode(text.replace(" 7", " 1").as_bytes()), None);
    }

    #[test]
    fn long_trash_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: u32| (Digest::of(&number.to_le_bytes()), Timestamp(7));
        let trash = Trash((0..20_000).map(name).collect());
        let path = folder.path().join("trash");
        trash.write(&path, folder.path()).unwrap();
        assert!(path.metadata().unwrap().len() > 1_200_000);
        assert_eq!(Trash::read(&path), trash);
    }
}
