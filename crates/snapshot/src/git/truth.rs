//! What is known of a repository: plain data that can be written down.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use segno_core::digest::Digest;
use serde::{Deserialize, Serialize};

/// The version of [`Truth`] that is written.
pub(super) const VERSION: u32 = 1;

/// Bytes that are text for most people: names of refs and files. Written as text, or in
/// hexadecimal behind `hex:` where they are not UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl From<&[u8]> for Raw {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<&Path> for Raw {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }
}

impl From<Raw> for String {
    fn from(raw: Raw) -> Self {
        match String::from_utf8(raw.0) {
            Ok(text) if !text.starts_with("hex:") => text,
            Ok(text) => hexadecimal(text.as_bytes()),
            Err(error) => hexadecimal(error.as_bytes()),
        }
    }
}

impl TryFrom<String> for Raw {
    type Error = OidError;

    fn try_from(text: String) -> Result<Self, OidError> {
        let Some(digits) = text.strip_prefix("hex:") else {
            return Ok(Self(text.into_bytes()));
        };
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(OidError);
        let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).map_err(|_| OidError),
            _ => Err(OidError),
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("hex:{}", digits.collect::<String>())
}

/// The id of a git object: 40 or 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// The text is not in hexadecimal digits of the right number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not hexadecimal digits of the right number")]
pub struct OidError;

impl Oid {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()?.try_into().ok()
    }
}

impl TryFrom<String> for Oid {
    type Error = OidError;

    fn try_from(text: String) -> Result<Self, OidError> {
        let digits = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let fits = matches!(text.len(), 40 | 64) && digits;
        fits.then_some(Self(text)).ok_or(OidError)
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// All that is known of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// The version of this description.
    pub version: u32,
    /// Where the repository is, from the workspace's root; empty for the root itself.
    pub path: Raw,
    /// How its objects are named.
    pub format: Format,
    /// Whether git is told that it has no files.
    pub bare: bool,
    /// Where it stands.
    pub head: Head,
    /// What the branch follows.
    pub upstream: Option<Upstream>,
    /// All refs. Those of further worktrees are in their own truth.
    pub refs: Vec<Reference>,
    /// What is stashed, the newest first.
    pub stashes: Vec<Stash>,
    /// What differs from the last commit; `None` if that could not be found out.
    pub status: Option<Status>,
    /// Its submodules.
    pub submodules: Vec<Submodule>,
    /// Where its further worktrees are, as git has written it down.
    pub worktrees: Vec<Raw>,
    /// Its remotes, without credentials.
    pub remotes: Vec<Remote>,
    /// What has been begun and not ended.
    pub activities: Vec<Activity>,
    /// Whether its history is cut short.
    pub shallow: bool,
    /// Whether it fetches objects when they are needed.
    pub partial: bool,
    /// The repository that this is a further worktree of, if that is in the workspace too.
    pub link: Option<Link>,
    /// The settings that come back.
    pub settings: Vec<Setting>,
    /// The settings that come back for this worktree alone.
    pub own_settings: Vec<Setting>,
    /// What could start a program, and does not come back.
    pub inert: Vec<Inert>,
    /// Files of the git folder that are in the pack, each as a blob.
    pub files: Vec<Kept>,
    /// The objects.
    pub pack: Pack,
    /// What has to be fetched before the pack is whole: tips that a remote has.
    pub needs: Vec<Need>,
    /// Objects that should be here and are not: lost, or not fetched yet.
    pub missing: Paths,
    /// What was not captured and why, for people.
    pub notes: Vec<String>,
}

/// How objects are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// As most are.
    Sha1,
    /// With `extensions.objectFormat = sha256`.
    Sha256,
}

/// Where a repository stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The ref it follows (`refs/heads/main`); `None` if it is detached.
    pub branch: Option<Raw>,
    /// The commit; `None` before the first.
    pub commit: Option<Oid>,
}

/// What a branch follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    /// Its short name: `origin/main`.
    pub name: Raw,
    /// How many commits it does not have; `None` if it is gone.
    pub ahead: Option<u64>,
    /// How many commits it has and we do not.
    pub behind: Option<u64>,
}

/// A ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its full name.
    pub name: Raw,
    /// What it leads to.
    pub oid: Oid,
    /// The ref it is another name for.
    pub target: Option<Raw>,
}

/// A stash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stash {
    /// Its commit.
    pub oid: Oid,
    /// What it is called.
    pub message: Raw,
}

/// What differs, as `git status` tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// In the index, not in the last commit.
    pub staged: Paths,
    /// In the files, not in the index.
    pub modified: Paths,
    /// In conflict.
    pub conflicted: Paths,
    /// Not known to git; a folder counts once.
    pub untracked: Paths,
}

/// Names: all are counted, the first are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Raw>,
}

impl Paths {
    /// How many are listed.
    const LISTED: usize = 1000;

    pub(super) fn add(&mut self, name: &[u8]) {
        self.count += 1;
        if self.first.len() < Self::LISTED {
            self.first.push(name.into());
        }
    }
}

/// A submodule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submodule {
    /// Where, from its repository's folder.
    pub path: Raw,
    /// The commit that the index asks for.
    pub oid: Oid,
    /// Where it comes from, without credentials.
    pub url: Option<String>,
}

/// A remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// Where it is, without credentials.
    pub url: String,
}

/// What can be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A merge with conflicts, or not yet committed.
    Merging,
    /// A rebase.
    Rebasing,
    /// Mails being applied.
    Applying,
    /// A cherry-pick.
    CherryPicking,
    /// A revert.
    Reverting,
    /// A bisection.
    Bisecting,
}

/// Where a further worktree belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The repository's path from the workspace's root.
    pub main: Raw,
    /// The name under which the repository knows the worktree.
    pub name: Raw,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its key, in lower case but for the part in the middle.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Something that could start a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inert {
    /// What it is.
    pub kind: InertKind,
    /// Its key or file name.
    pub name: String,
    /// The value, or the start of the file.
    pub content: String,
}

/// What can start a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InertKind {
    /// A setting that is not known to be harmless.
    Setting,
    /// A hook.
    Hook,
    /// Attributes of the repository's own, which choose filters.
    Attributes,
    /// A command in what is left to do of a rebase.
    Todo,
}

/// A file of the git folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its path in the git folder.
    pub path: Raw,
    /// The blob with its content.
    pub oid: Oid,
}

/// A pack, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pack {
    /// How long it is.
    pub bytes: u64,
    /// BLAKE3 of it.
    pub digest: Digest,
    /// How many objects were put into it.
    pub objects: u64,
}

/// What a remote has and the pack has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The remote's name.
    pub remote: String,
    /// Where it is, without credentials.
    pub url: String,
    /// Our name for its ref: `refs/remotes/origin/main`.
    pub name: Raw,
    /// The commit.
    pub oid: Oid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_text_come_back() {
        for bytes in [&b"refs/heads/main"[..], b"\xff\x00x", b"hex:00", b""] {
            let text = String::from(Raw::from(bytes));
            assert_eq!(Raw::try_from(text).unwrap().0, bytes);
        }
        assert!(Raw::try_from("hex:0".to_owned()).is_err());
        assert!(Raw::try_from("hex:zz".to_owned()).is_err());
    }

    #[test]
    fn an_object_id_is_hexadecimal() {
        assert!(Oid::try_from("a".repeat(40)).is_ok());
        assert!(Oid::try_from("a".repeat(64)).is_ok());
        assert!(Oid::try_from("a".repeat(41)).is_err());
        assert!(Oid::try_from("A".repeat(40)).is_err());
        assert!(Oid::try_from(format!("-{}", "a".repeat(39))).is_err());
    }
}
