//! The objects of a repository: which are wanted, and the pack they go into.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::scope::peek;

use super::error::Error;
use super::program::{Git, Input};
use super::truth::{Kept, Oid, Pack, Paths};

/// How many commits at the edge of what is left out are looked at for the files they have.
const EDGES: usize = 64;

/// What a pack should have.
pub(super) struct Want<'a> {
    /// Where to start.
    pub(super) tips: Vec<Oid>,
    /// What is left out, with all that is reachable from it.
    pub(super) without: Vec<Oid>,
    /// The commit that the repository is at.
    pub(super) head: Option<&'a Oid>,
    /// Whether the logs of all refs count as tips.
    pub(super) logs: bool,
    /// Whether what the index has counts as tips.
    pub(super) index: bool,
    /// Blobs that come along.
    pub(super) files: &'a [Kept],
}

/// What there is of it.
pub(super) struct Found {
    list: PathBuf,
    count: u64,
    /// What should be there and is not.
    pub(super) missing: Paths,
}

impl Want<'_> {
    /// Lists the objects. Those that are missing are listed apart, and stop nothing.
    /// The list is kept in `scratch`.
    pub(super) fn find(&self, git: &Git, scratch: &Path) -> Result<Found, Error> {
        let mut missing = Paths::default();
        let there = present(git, self.tips.iter().chain(&self.without))?;
        for tip in self.tips.iter().filter(|tip| !there.contains(*tip)) {
            missing.add(tip.as_str().as_bytes());
        }
        let mut input = String::new();
        for tip in self.tips.iter().filter(|tip| there.contains(*tip)) {
            input.push_str(tip.as_str());
            input.push('\n');
        }
        let without: Vec<&Oid> = self
            .without
            .iter()
            .filter(|oid| there.contains(*oid))
            .collect();
        for oid in &without {
            input.extend(["^", oid.as_str(), "\n"]);
        }
        for edge in self.edges(git, &without)? {
            input.extend(["^", edge.as_str(), "^{tree}\n"]);
        }
        let list = scratch.join("objects");
        let count = self.walk(git, &input, &list, &mut missing)?;
        Ok(Found {
            list,
            count,
            missing,
        })
    }

    fn walk(&self, git: &Git, input: &str, list: &Path, missing: &mut Paths) -> Result<u64, Error> {
        let opened = OpenOptions::new().write(true).create_new(true).open(list);
        let mut file = BufWriter::new(opened.map_err(|error| Error::file(list, &error))?);
        let mut count = 0;
        let mut take = |line: &[u8]| {
            if let Some(oid) = line.strip_prefix(b"?") {
                missing.add(oid);
                return Ok(());
            }
            count += 1;
            file.write_all(line).and_then(|()| file.write_all(b"\n"))
        };
        for kept in self.files {
            take(kept.oid.as_str().as_bytes()).map_err(|error| Error::file(list, &error))?;
        }
        let mut args = vec!["rev-list", "--objects", "--missing=print"];
        args.extend(self.index.then_some("--indexed-objects"));
        args.extend(self.logs.then_some("--reflog"));
        args.push("--stdin");
        let mut rest: Vec<u8> = Vec::new();
        git.run(&args, Input::Bytes(input.as_bytes()), &mut |piece| {
            rest.extend_from_slice(piece);
            let end = rest.iter().rposition(|byte| *byte == b'\n');
            let Some(end) = end else {
                return Ok(());
            };
            for line in rest[..end].split(|byte| *byte == b'\n') {
                take(line)?;
            }
            rest.drain(..=end);
            Ok(())
        })?;
        file.flush().map_err(|error| Error::file(list, &error))?;
        Ok(count)
    }

    /// The commits where what is left out begins. The files of the index that they have are left
    /// out too; git by itself would take all of the index.
    fn edges(&self, git: &Git, without: &[&Oid]) -> Result<Vec<Oid>, Error> {
        let Some(head) = self.head.filter(|_| !without.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut input = format!("{head}\n");
        for oid in without {
            input.extend(["^", oid.as_str(), "\n"]);
        }
        let args = ["rev-list", "--boundary", "--stdin", "--missing=allow-any"];
        let answer = git.ask(&args, Input::Bytes(input.as_bytes()))?;
        if answer.is_empty() {
            return Ok(vec![head.clone()]);
        }
        let lines = answer.split(|byte| *byte == b'\n');
        let edges = lines.filter_map(|line| Oid::from_bytes(line.strip_prefix(b"-")?));
        let edges: Vec<Oid> = edges.take(EDGES).collect();
        let there = present(git, &edges)?;
        Ok(edges
            .into_iter()
            .filter(|edge| there.contains(edge))
            .collect())
    }
}

impl Found {
    /// Writes the pack. It needs no object from outside to be read.
    pub(super) fn pack(&self, git: &Git, out: &mut dyn Write) -> Result<Pack, Error> {
        let list = peek::open(&self.list).map_err(|error| Error::file(&self.list, &error))?;
        let (mut hasher, mut bytes) = (blake3::Hasher::new(), 0);
        // What is packed is copied as it is. What is not is packed fast rather than small: looking
        // for differences takes minutes where there are many loose objects.
        let args = [
            "pack-objects",
            "--stdout",
            "-q",
            "--delta-base-offset",
            "--window=0",
            "--compression=1",
        ];
        let mut sink = |piece: &[u8]| -> io::Result<()> {
            hasher.update(piece);
            bytes += piece.len() as u64;
            out.write_all(piece)
        };
        git.run(&args, Input::File(list), &mut sink)?;
        let digest = Digest::from_bytes(hasher.finalize().as_bytes());
        Ok(Pack {
            bytes,
            digest: digest.expect("BLAKE3 gives 32 bytes"),
            objects: self.count,
        })
    }
}

/// Which of these objects are there.
pub(super) fn present<'a>(
    git: &Git,
    oids: impl IntoIterator<Item = &'a Oid>,
) -> Result<BTreeSet<Oid>, Error> {
    let wanted: BTreeSet<&Oid> = oids.into_iter().collect();
    if wanted.is_empty() {
        return Ok(BTreeSet::new());
    }
    let lines = wanted.iter().map(|oid| format!("{oid}\n"));
    let input = lines.collect::<String>();
    let args = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
    let answer = git.ask(&args, Input::Bytes(input.as_bytes()))?;
    let lines = answer.split(|byte| *byte == b'\n');
    let found = lines.filter(|line| !line.ends_with(b" missing"));
    let oids = found.filter_map(|line| Oid::from_bytes(line.split(|byte| *byte == b' ').next()?));
    Ok(oids.collect())
}

/// The content of these blobs, in order.
pub(super) fn blobs(git: &Git, oids: &[&Oid]) -> Result<Vec<Vec<u8>>, Error> {
    if oids.is_empty() {
        return Ok(Vec::new());
    }
    let lines = oids.iter().map(|oid| format!("{oid}\n"));
    let input = lines.collect::<String>();
    let args = ["cat-file", "--batch=%(objecttype) %(objectsize)"];
    let answer = git.ask(&args, Input::Bytes(input.as_bytes()))?;
    let mut rest = answer.as_slice();
    let contents = oids.iter().map(|oid| {
        let (content, after) = blob(rest).ok_or_else(|| {
            let reason = "it is not in the pack, or no blob";
            Error::damaged(format!("the object {oid}"), reason)
        })?;
        rest = after;
        Ok(content.to_vec())
    });
    contents.collect()
}

/// One answer: `blob <length>`, a line feed, the content, a line feed; and what follows.
fn blob(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let length = answer[..end].strip_prefix(b"blob ")?;
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    let (content, after) = answer[end + 1..].split_at_checked(length)?;
    Some((content, after.strip_prefix(b"\n")?))
}
