//! Finds digests in files whose format cannot be relied on.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use segno_core::digest::Digest;

use crate::error::Error;
use crate::files;

/// The length of a digest in text.
const LENGTH: usize = 64;

/// Everything that looks like a digest in the files below a folder, two levels deep. Empty if the
/// folder does not exist.
pub(crate) fn named_digests(folder: &Path) -> Result<HashSet<Digest>, Error> {
    let mut found = HashSet::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let names = match files::names(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names.map_err(|error| Error::at(&folder, error))?,
        };
        for name in names {
            let path = folder.join(name);
            let kind = path.symlink_metadata().map(|metadata| metadata.file_type());
            match kind.map_err(|error| Error::at(&path, error))? {
                kind if kind.is_dir() && depth < 2 => folders.push((path, depth + 1)),
                kind if kind.is_file() => {
                    let bytes = read(&path).map_err(|error| Error::at(&path, error))?;
                    found.extend(digests_in(&bytes));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// The longest part of a file that is read: longer than any checkpoint.
const LONGEST: u64 = 64 * 1024 * 1024;

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file: File = files::open(path)?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn digests_in(bytes: &[u8]) -> impl Iterator<Item = Digest> {
    let words = bytes.split(|byte| !byte.is_ascii_hexdigit());
    let words = words.filter(|word| word.len() == LENGTH);
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_found_in_damaged_text() {
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        let text = format!("{{\"files\":{{\"snapshot\":\"{one}\",\u{fffd}\"x\":{other}0 {other}");
        let found: Vec<Digest> = digests_in(text.as_bytes()).collect();
        assert_eq!(found, [one, other]);
    }
}
