//! What a checkpoint is: one small manifest that names only what is durable already.
//!
//! A checkpoint says where a session stood: its journal up to some entry, and the files of its
//! workspace at that moment. It is kept as two lines of text: the manifest as JSON, and the seal
//! under it, which tells whether the first line is what this installation wrote.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{CheckpointId, SessionId};
use crate::journal::{Run, Seq};
use crate::session::{Status, words};
use crate::time::Timestamp;
use crate::usage::Usage;

/// The version of the format.
pub const VERSION: u32 = 1;

/// Separates seals from every other use of BLAKE3 in the system.
const DOMAIN: &str = "segno 2026 checkpoint seal";

words! {
    /// Why a checkpoint was taken.
    Trigger {
        /// A person asked for it.
        Manual = "manual",
        /// It was time.
        Periodic = "periodic",
        /// A run was paused.
        Pause = "pause",
        /// A step or task was done.
        TaskComplete = "task_complete",
        /// The whole workflow was done.
        Complete = "complete",
        /// A step failed for good.
        Error = "error",
        /// A step took too long.
        Timeout = "timeout",
        /// Segno was told to end.
        Shutdown = "shutdown",
        /// A run was found lost.
        Crash = "crash",
        /// Whoever watched went away.
        Detach = "detach",
        /// What a run may use is used up: tokens, money, steps, the agent's context.
        Exhaustion = "exhaustion",
        /// The session was idle for too long.
        Expiry = "expiry",
    }
}

impl Trigger {
    /// Whether retention never drops it by itself: how it ended, and how it went wrong.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Complete | Self::Error)
    }
}

/// Where a session stood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format's version.
    pub segno_checkpoint: u32,
    /// The checkpoint.
    pub id: CheckpointId,
    /// The session.
    pub session: SessionId,
    /// Why it was taken.
    pub trigger: Trigger,
    /// What a person wrote about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When.
    pub at: Timestamp,
    /// On which machine.
    pub host: String,
    /// By which version of this program.
    pub version: String,
    /// The checkpoint of the same session before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CheckpointId>,
    /// The end of the journal.
    pub journal: Position,
    /// Where the session stood.
    pub status: Status,
    /// Steps that were finished.
    pub finished: u64,
    /// What everything had taken.
    pub usage: Usage,
    /// The folder that the session works in.
    pub workspace: String,
    /// Its files.
    pub files: Files,
    /// How the git repositories in it stood.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<Repository>,
    /// What the environment was, as far as it is no secret and says something.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What else belongs to it, as the files of a snapshot: see [`papers`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub papers: Option<Digest>,
    /// Where it came from, if it was not taken here. What could start a program is not brought back
    /// from it unasked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// When all of it was last read and found sound: what was new when it was taken, and all of it
    /// by `segno checkpoint verify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Timestamp>,
    /// Since when it is let go of: it can be had back until it is erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Timestamp>,
}

/// What the papers of a checkpoint are called.
pub mod papers {
    use crate::companion::Program;

    /// The session, as `segno export` writes it, up to the checkpoint.
    pub const SESSION: &str = "session.jsonl";
    /// What the terminal showed.
    pub const TERMINAL: &str = "terminal.txt";
    /// The folder with what MCP servers had: a file by server.
    pub const MCP: &str = "mcp";

    /// The folder with the records that agents' programs keep of their conversations.
    pub const AGENTS: &str = "agents";

    /// The longest name of a conversation, or of what is beside its record.
    const LONGEST_NAME: usize = 200;

    /// The record that an agent's program has of a conversation, as it was.
    pub fn conversation(program: Program, id: &str) -> String {
        format!("{AGENTS}/{program}/{id}.jsonl")
    }

    /// What the program keeps beside that record.
    pub fn beside(program: Program, id: &str, name: &str) -> String {
        format!("{AGENTS}/{program}/{id}/{name}")
    }

    /// What a paper has of an agent's conversation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Piece<'a> {
        /// The program.
        pub program: Program,
        /// Its name for the conversation.
        pub id: &'a str,
        /// What it is called that lies beside the record; `None` for the record itself.
        pub beside: Option<&'a str>,
    }

    /// Reads the name of such a paper; `None` for any other, and for names that could lead elsewhere.
    pub fn piece(name: &str) -> Option<Piece<'_>> {
        let name = name.strip_prefix(AGENTS)?.strip_prefix('/')?;
        let (program, rest) = name.split_once('/')?;
        let (id, beside) = match rest.split_once('/') {
            Some((id, name)) => (id, Some(name)),
            None => (rest.strip_suffix(".jsonl")?, None),
        };
        let is_plain = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let length = 1..=LONGEST_NAME;
            length.contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
        };
        let program = program.parse().ok()?;
        (is_plain(id) && beside.is_none_or(is_plain)).then_some(Piece {
            program,
            id,
            beside,
        })
    }
}

/// How a git repository stood. What is in it is among the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// Where it is, from the workspace; empty for the workspace itself.
    pub path: String,
    /// The branch; absent if it stands on a commit of no branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What the branch follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits on any branch that no remote is known to have.
    pub unpushed: u64,
    /// Files that differ between the last commit and the index.
    pub staged: u64,
    /// Files that differ between the index and the folder.
    pub modified: u64,
    /// Files and folders that git does not know.
    pub untracked: u64,
    /// Files in conflict.
    pub conflicted: u64,
    /// Stashes.
    pub stashes: u64,
    /// What was begun and not ended: a merge, a rebase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<String>,
    /// Why this is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its git folder, if that lies outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<GitFolder>,
    /// What the session has changed in it since it began; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
}

/// What differs from the commit that a session began at, committed or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Since {
    /// The commit.
    pub commit: String,
    /// How many files and new folders.
    pub files: u64,
    /// The first of them by name.
    pub names: Vec<String>,
}

/// A git folder that lies outside of the workspace, as that of a further worktree does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitFolder {
    /// Where it lay.
    pub folder: String,
    /// What is in it.
    pub snapshot: Digest,
    /// The name under which it knows the worktree; absent if it has no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
}

/// An entry of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The run that wrote it.
    pub run: Run,
    /// Its place.
    pub seq: Seq,
    /// The hash over everything up to it.
    pub hash: Digest,
}

/// The files of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// What the snapshot is called.
    pub snapshot: Digest,
    /// How many files there are.
    pub files: u64,
    /// How long they are, all together.
    pub bytes: u64,
    /// Of these, how many changed while they were read.
    pub unstable: u64,
    /// What could not be read.
    pub skipped: u64,
    /// What was left out because it can be made again.
    pub left_out: u64,
}

/// Why a text is not a checkpoint that was kept here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is not two lines.
    #[error("it has no seal")]
    Unsealed,
    /// The first line is not what was sealed.
    #[error("it was changed after it was written")]
    Altered,
    /// It was sealed with another key.
    #[error("it was not written by this installation")]
    Foreign,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It was written by a newer program.
    #[error("it has format {0}, and this program knows formats up to {VERSION}")]
    Newer(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    digest: Digest,
    seal: Digest,
}

/// Enough of a manifest to know whether the rest can be read.
#[derive(Deserialize)]
struct Version {
    segno_checkpoint: u32,
}

impl Manifest {
    /// Every snapshot that it names.
    pub fn snapshots(&self) -> impl Iterator<Item = Digest> {
        let outside = self.repositories.iter();
        let outside = outside.filter_map(|repository| repository.outside.as_ref());
        std::iter::once(self.files.snapshot)
            .chain(self.papers)
            .chain(outside.map(|outside| outside.snapshot))
    }

    /// The two lines that are kept, sealed with the key of this installation.
    pub fn to_text(&self, key: &[u8; 32]) -> String {
        let line = serde_json::to_string(self).expect("a manifest is plain data");
        let seal = Seal {
            digest: Digest::of(line.as_bytes()),
            seal: seal(key, line.as_bytes()),
        };
        let seal = serde_json::to_string(&seal).expect("a seal is plain data");
        format!("{line}\n{seal}\n")
    }

    /// Reads the two lines back. Everything is verified before anything is believed (P9).
    pub fn from_text(text: &str, key: &[u8; 32]) -> Result<Self, Broken> {
        let body = text.strip_suffix('\n').ok_or(Broken::Unsealed)?;
        let (line, sealed) = body.split_once('\n').ok_or(Broken::Unsealed)?;
        let sealed: Seal = serde_json::from_str(sealed).map_err(|_| Broken::Unsealed)?;
        if sealed.digest != Digest::of(line.as_bytes()) {
            return Err(Broken::Altered);
        }
        if sealed.seal != seal(key, line.as_bytes()) {
            return Err(Broken::Foreign);
        }
        let unreadable = |error: serde_json::Error| Broken::Unreadable(error.to_string());
        let version: Version = serde_json::from_str(line).map_err(unreadable)?;
        if version.segno_checkpoint > VERSION {
            return Err(Broken::Newer(version.segno_checkpoint));
        }
        serde_json::from_str(line).map_err(unreadable)
    }
}

fn seal(key: &[u8; 32], line: &[u8]) -> Digest {
    let key = blake3::derive_key(DOMAIN, key);
    let hash = blake3::keyed_hash(&key, line);
    Digest::from_bytes(hash.as_bytes()).expect("a hash has the length of a digest")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    pub(crate) fn manifest() -> Manifest {
        let digest = Digest::of(b"x");
        Manifest {
            segno_checkpoint: VERSION,
            id: CheckpointId::new(Timestamp(1_794_738_089_000), [1; 10]),
            session: SessionId::new(Timestamp(1_794_738_089_000), [2; 10]),
            trigger: Trigger::Manual,
            note: Some("before the \"rewrite\"\n".into()),
            at: Timestamp(1_794_738_089_000),
            host: "desk".into(),
            version: "0".into(),
            parent: None,
            journal: Position {
                run: Run(1),
                seq: Seq(9),
                hash: digest,
            },
            status: Status::Paused,
            finished: 3,
            usage: Usage::default(),
            workspace: "/work".into(),
            files: Files {
                snapshot: digest,
                files: 2,
                bytes: 10,
                unstable: 0,
                skipped: 0,
                left_out: 1,
            },
            repositories: Vec::new(),
            environment: BTreeMap::from([("TZ".into(), "UTC".into())]),
            papers: None,
            origin: None,
            verified: None,
            pruned: None,
        }
    }

    #[test]
    fn what_was_sealed_reads_back_here_and_nowhere_else() {
        let text = manifest().to_text(&KEY);
        assert_eq!(text.lines().count(), 2);
        assert_eq!(Manifest::from_text(&text, &KEY), Ok(manifest()));
        assert_eq!(Manifest::from_text(&text, &[8; 32]), Err(Broken::Foreign));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let text = manifest().to_text(&KEY).into_bytes();
        for place in 0..text.len() {
            let cut = std::str::from_utf8(&text[..place]).unwrap();
            assert!(Manifest::from_text(cut, &KEY).is_err(), "cut at {place}");
            for bit in 0..8 {
                let mut flipped = text.clone();
                flipped[place] ^= 1 << bit;
                if let Ok(flipped) = std::str::from_utf8(&flipped) {
                    assert!(Manifest::from_text(flipped, &KEY).is_err(), "{place} {bit}");
                }
            }
        }
    }

    #[test]
    fn a_newer_format_is_called_newer_and_not_damaged() {
        let newer = Manifest {
            segno_checkpoint: VERSION + 1,
            ..manifest()
        };
        let text = newer.to_text(&KEY);
        assert_eq!(
            Manifest::from_text(&text, &KEY),
            Err(Broken::Newer(VERSION + 1))
        );
    }

    #[test]
    fn names_of_conversations_read_back_and_lead_nowhere_else() {
        use crate::companion::Program;
        for program in Program::ALL {
            let own = papers::conversation(*program, "5e55-01");
            let piece = papers::piece(&own).unwrap();
            assert_eq!((piece.program, piece.id), (*program, "5e55-01"));
            assert_eq!(piece.beside, None);
            let beside = papers::beside(*program, "5e55-01", "agent-a.jsonl");
            let piece = papers::piece(&beside).unwrap();
            assert_eq!(piece.beside, Some("agent-a.jsonl"));
        }
        for name in [
            "agents/codex/.jsonl",
            "agents/codex/../x.jsonl",
            "agents/codex/...jsonl",
            "agents/codex/a/../x",
            "agents/codex/a/b/c",
            "agents/codex/a/",
            "agents/codex/a/.hidden",
            "agents/codex/a b.jsonl",
            "agents/codex/a\u{e4}.jsonl",
            "agents/codex/a\0.jsonl",
            "agents/other/a.jsonl",
            "agents//a.jsonl",
            "/agents/codex/a.jsonl",
            "session.jsonl",
        ] {
            assert_eq!(papers::piece(name), None, "{name}");
        }
        let long = papers::conversation(Program::Codex, &"a".repeat(201));
        assert_eq!(papers::piece(&long), None);
    }

    #[test]
    fn every_trigger_has_a_word() {
        for trigger in Trigger::ALL {
            assert_eq!(trigger.as_str().parse(), Ok(*trigger));
            let json = serde_json::to_string(trigger).unwrap();
            assert_eq!(json, format!("\"{trigger}\""));
        }
    }
}
