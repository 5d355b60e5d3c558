//! Puts what was captured into a git folder that is being made.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;

use super::error::Error;
use super::objects::blobs;
use super::program::{Git, Input};
use super::shadow::PATIENCE;
use super::truth::{Inert, Kept, Oid, Setting, Truth};
use super::{config, files, kept};

/// Writes the settings that can start no program; the others are listed.
pub(super) fn settings(git_dir: &Path, truth: &Truth, inert: &mut Vec<Inert>) -> Result<(), Error> {
    let (mut settings, refused) = config::divide(&truth.settings);
    let (mut own, others) = config::divide(&truth.own_settings);
    inert.extend(refused.into_iter().chain(others));
    own.retain(|setting| setting.key != "core.bare");
    settings.retain(|setting| setting.key != "core.bare");
    settings.push(Setting {
        key: "core.bare".into(),
        value: truth.bare.to_string(),
    });
    let content = config::write(truth.format, None, &settings);
    files::write(&git_dir.join("config"), &content)?;
    if own.is_empty() {
        return Ok(());
    }
    let content = config::entries(&own);
    files::write(&git_dir.join("config.worktree"), content.as_bytes())
}

/// Unpacks the objects, and compares the pack with what was written down.
pub(super) fn objects(git: &Git, truth: &Truth, pack: &mut (dyn Read + Send)) -> Result<(), Error> {
    let mut checked = Checked {
        inner: pack,
        hasher: blake3::Hasher::new(),
        bytes: 0,
        limit: truth.pack.bytes,
    };
    // Not slower than a megabyte a second, beside what everything takes.
    let limit = PATIENCE + Duration::from_secs(truth.pack.bytes / 1_000_000);
    let git = git.clone().within_time(limit);
    let result = git.ask(&["index-pack", "--stdin"], Input::Stream(&mut checked));
    // Git stops reading at what it takes for the end.
    let rest = io::copy(&mut checked, &mut io::sink());
    let digest = Digest::from_bytes(checked.hasher.finalize().as_bytes());
    if checked.bytes != truth.pack.bytes || digest != Some(truth.pack.digest) || rest.is_err() {
        let reason = "its checksum or length differs";
        return Err(Error::damaged(
            format!("the pack of {}", truth.path),
            reason,
        ));
    }
    result.map(drop)
}

/// Counts and hashes what is read, up to a byte more than expected.
struct Checked<'a> {
    inner: &'a mut (dyn Read + Send),
    hasher: blake3::Hasher,
    bytes: u64,
    limit: u64,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes > self.limit {
            return Ok(0);
        }
        let length = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        self.bytes += length as u64;
        Ok(length)
    }
}

/// Puts the files of the git folder back, without what would start a program.
pub(super) fn files(
    git: &Git,
    git_dir: &Path,
    truth: &Truth,
    inert: &mut Vec<Inert>,
) -> Result<(), Error> {
    let wanted = truth.files.iter().filter(|kept| !is_log(kept));
    for (path, content) in contents(git, wanted)? {
        let to = git_dir.join(&path);
        let is_index = path == Path::new("index");
        if is_index {
            check_index(&content)?;
        }
        if let Some(content) = kept::tame(&path, content, inert) {
            files::write(&to, &content)?;
        }
        if is_index {
            files::age(&to)?;
        }
    }
    Ok(())
}

/// Puts the logs of refs back. Comes after the refs: git writes down when it sets a ref that has a
/// log.
pub(super) fn logs(git: &Git, git_dir: &Path, truth: &Truth) -> Result<(), Error> {
    let wanted = truth.files.iter().filter(|kept| is_log(kept));
    for (path, content) in contents(git, wanted)? {
        files::write(&git_dir.join(path), &content)?;
    }
    Ok(())
}

fn is_log(kept: &Kept) -> bool {
    kept.path.as_path().starts_with("logs")
}

/// What kept files have in them.
fn contents<'a>(
    git: &Git,
    files: impl Iterator<Item = &'a Kept>,
) -> Result<Vec<(PathBuf, Vec<u8>)>, Error> {
    let files: Vec<&Kept> = files.collect();
    let oids: Vec<&Oid> = files.iter().map(|kept| &kept.oid).collect();
    let paths = files.iter().map(|kept| kept.path.as_path().to_owned());
    Ok(paths.zip(blobs(git, &oids)?).collect())
}

/// Refuses an index that names what no repository may have.
fn check_index(content: &[u8]) -> Result<(), Error> {
    for name in crate::scope::index_names(content).unwrap_or_default() {
        let name = name.strip_suffix(b"/").unwrap_or(&name);
        let mut parts = name.split(|byte| *byte == b'/');
        if parts.any(|part| part.is_empty() || part == b".." || part.eq_ignore_ascii_case(b".git"))
        {
            let shown = String::from_utf8_lossy(name).into_owned();
            return Err(Error::damaged("the index", format!("it names {shown}")));
        }
    }
    Ok(())
}
