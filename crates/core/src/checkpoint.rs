//! Checkpoints: small manifests that reference only data that is already durable.
//!
//! A checkpoint describes a session at one point: its journal up to some event, and the files of its
//! workspace at that time. It is stored as two lines of text: the manifest as JSON, and a seal (keyed
//! hash), which proves that this installation wrote the first line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{CheckpointId, Run, Seq, SessionId};
use crate::session::Status;
use crate::time::Timestamp;
use crate::usage::Usage;
use crate::words::words;

/// The version of the checkpoint format.
pub const VERSION: u32 = 1;

/// Separates seals from every other use of BLAKE3 in Segno.
const DOMAIN: &str = "segno 2026 checkpoint seal";

words! {
    /// Why a checkpoint was taken.
    Trigger {
        /// A user asked for it.
        Manual = "manual",
        /// The checkpoint interval passed.
        Periodic = "periodic",
        /// A run was paused.
        Pause = "pause",
        /// A step or task finished.
        TaskComplete = "task_complete",
        /// The whole workflow finished.
        Complete = "complete",
        /// A step failed permanently.
        Error = "error",
        /// A step timed out.
        Timeout = "timeout",
        /// Segno was asked to shut down.
        Shutdown = "shutdown",
        /// A run was found lost.
        Crash = "crash",
        /// The terminal that showed the session was closed (SIGHUP).
        Detach = "detach",
        /// A resource is used up: tokens, money, steps, the agent's context window.
        Exhaustion = "exhaustion",
        /// The session was idle for too long.
        Expiry = "expiry",
    }
}

impl Trigger {
    /// Whether retention never prunes the checkpoint by itself: final results and errors.
    pub const fn is_protected(self) -> bool {
        matches!(self, Self::Complete | Self::Error)
    }
}

/// The manifest of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub segno_checkpoint: u32,
    pub id: CheckpointId,
    pub session: SessionId,
    pub trigger: Trigger,
    /// The user's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub at: Timestamp,
    pub host: String,
    /// The version of Segno that took the checkpoint.
    pub version: String,
    /// The previous checkpoint of the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CheckpointId>,
    /// The journal's head.
    pub journal: Position,
    /// The session's status.
    pub status: Status,
    /// The number of finished steps.
    pub finished: u64,
    /// The session's total usage.
    pub usage: Usage,
    pub workspace: String,
    /// The files of the workspace.
    pub files: Files,
    /// The state of the git repositories in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<Repository>,
    /// Environment variables that are informative and not secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The snapshot of the checkpoint's attachments: see [`attachments`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "papers")]
    pub attachments: Option<Digest>,
    /// Where the checkpoint was imported from, if it was not taken here. Files of an imported checkpoint
    /// that could start a program are not restored unless the user asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// When the data was last read and verified: new data when the checkpoint was taken, all of it by
    /// `segno checkpoint verify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Timestamp>,
    /// When the checkpoint was pruned: it can be restored until its data is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Timestamp>,
}

/// File names of a checkpoint's attachments.
pub mod attachments {
    use crate::cli_agent::CliAgentKind;

    /// The session up to the checkpoint, as `segno export` writes it.
    pub const SESSION: &str = "session.jsonl";
    /// The terminal output.
    pub const TERMINAL: &str = "terminal.txt";
    /// The folder with the MCP servers' data: one file per server.
    pub const MCP: &str = "mcp";

    /// The folder with the CLI agents' transcripts.
    pub const AGENTS: &str = "agents";

    /// The maximum length of a conversation id, or of the name of a file beside the transcript.
    const LONGEST_NAME: usize = 200;

    /// The name of a CLI agent's transcript, which is stored byte for byte.
    pub fn conversation(program: CliAgentKind, id: &str) -> String {
        format!("{AGENTS}/{program}/{id}.jsonl")
    }

    /// The name of a file that the CLI agent stores beside that transcript.
    pub fn beside(program: CliAgentKind, id: &str, name: &str) -> String {
        format!("{AGENTS}/{program}/{id}/{name}")
    }

    /// The part of a CLI agent's conversation that an attachment contains.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Piece<'a> {
        pub program: CliAgentKind,
        /// The CLI agent's own id of the conversation.
        pub id: &'a str,
        /// The name of a file beside the transcript; `None` for the transcript itself.
        pub beside: Option<&'a str>,
    }

    /// Parses the name of such an attachment; `None` for any other name, and for names that could escape
    /// the folder.
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

/// The state of a git repository. Its content is among the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// The path relative to the workspace; empty for the workspace itself.
    pub path: String,
    /// The branch; absent if HEAD is detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit; absent before the first commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch's upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits on any branch that no git remote is known to have.
    pub unpushed: u64,
    /// Files that differ between the last commit and the index.
    pub staged: u64,
    /// Files that differ between the index and the worktree.
    pub modified: u64,
    /// Untracked files and folders.
    pub untracked: u64,
    pub conflicted: u64,
    /// The names of the first of these.
    #[serde(skip_serializing_if = "ChangedNames::is_empty")]
    pub names: ChangedNames,
    pub stashes: u64,
    /// Unfinished operations: a merge, a rebase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<String>,
    /// Why the state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "trouble")]
    pub error: Option<String>,
    /// The git directory, if it is outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "outside")]
    pub external_git_dir: Option<GitDir>,
    /// What the session has changed since its start; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "since")]
    pub session_changes: Option<SessionChanges>,
}

/// The names of files that differ from the last commit: the first of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangedNames {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untracked: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicted: Vec<String>,
}

impl ChangedNames {
    /// How many names of each kind are listed at most.
    pub const MAX: usize = 100;

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The lists of names.
    pub fn lists_mut(&mut self) -> [&mut Vec<String>; 4] {
        [
            &mut self.staged,
            &mut self.modified,
            &mut self.untracked,
            &mut self.conflicted,
        ]
    }

    /// All names, each once, sorted: what is not committed.
    pub fn uncommitted(&self) -> Vec<&str> {
        let lists = [
            &self.staged,
            &self.modified,
            &self.untracked,
            &self.conflicted,
        ];
        let mut names: Vec<&str> = lists.into_iter().flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The difference from the commit at which a session started, committed or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionChanges {
    pub commit: String,
    /// The number of changed files and new folders.
    pub files: u64,
    /// The first of them by name.
    pub names: Vec<String>,
}

/// A git directory outside of the workspace, for example that of a linked worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitDir {
    /// Its path at the time.
    pub folder: String,
    /// The snapshot of its content.
    pub snapshot: Digest,
    /// The name under which it knows the worktree; absent if that is not a linked worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
}

/// A position in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The run that wrote the event.
    pub run: Run,
    pub seq: Seq,
    /// The hash of the journal up to and including the event.
    pub hash: Digest,
}

/// The snapshot of a workspace, and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The snapshot's id.
    pub snapshot: Digest,
    pub files: u64,
    /// The total size of the files.
    pub bytes: u64,
    /// How many of these files changed while they were read.
    pub unstable: u64,
    /// How many files could not be read.
    pub skipped: u64,
    /// How many paths were excluded because they are regenerable.
    #[serde(rename = "left_out")]
    pub excluded: u64,
}

/// Why a text is not a checkpoint of this installation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The text is not two lines.
    #[error("it has no seal")]
    Unsealed,
    /// The first line is not what was sealed.
    #[error("it was changed after it was written")]
    Altered,
    /// Another key sealed it.
    #[error("it was not written by this installation")]
    Foreign,
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A newer program wrote it.
    #[error("it has format {0}; this version of Segno reads formats up to {VERSION}")]
    Newer(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    digest: Digest,
    seal: Digest,
}

/// The part of a manifest that tells whether this program can parse the rest.
#[derive(Deserialize)]
struct Version {
    segno_checkpoint: u32,
}

impl Manifest {
    /// Every snapshot that the manifest references.
    pub fn snapshots(&self) -> impl Iterator<Item = Digest> {
        let outside = self.repositories.iter();
        let outside = outside.filter_map(|repository| repository.external_git_dir.as_ref());
        std::iter::once(self.files.snapshot)
            .chain(self.attachments)
            .chain(outside.map(|outside| outside.snapshot))
    }

    /// The two lines that are stored, sealed with the key of this installation.
    pub fn to_text(&self, key: &[u8; 32]) -> String {
        let line = serde_json::to_string(self).expect("a manifest serializes to JSON");
        let seal = Seal {
            digest: Digest::of(line.as_bytes()),
            seal: seal(key, line.as_bytes()),
        };
        let seal = serde_json::to_string(&seal).expect("a seal serializes to JSON");
        format!("{line}\n{seal}\n")
    }

    /// Parses the two lines. Verifies everything before it uses anything (P9).
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
                excluded: 1,
            },
            repositories: Vec::new(),
            environment: BTreeMap::from([("TZ".into(), "UTC".into())]),
            attachments: None,
            origin: None,
            verified: None,
            pruned: None,
        }
    }

    #[test]
    fn sealed_manifest_reads_back_only_with_its_key() {
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
    fn newer_format_is_not_reported_as_damage() {
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
    fn conversation_names_round_trip_without_escaping() {
        use crate::cli_agent::CliAgentKind;
        for program in CliAgentKind::ALL {
            let own = attachments::conversation(*program, "5e55-01");
            let piece = attachments::piece(&own).unwrap();
            assert_eq!((piece.program, piece.id), (*program, "5e55-01"));
            assert_eq!(piece.beside, None);
            let beside = attachments::beside(*program, "5e55-01", "agent-a.jsonl");
            let piece = attachments::piece(&beside).unwrap();
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
            assert_eq!(attachments::piece(name), None, "{name}");
        }
        let long = attachments::conversation(CliAgentKind::Codex, &"a".repeat(201));
        assert_eq!(attachments::piece(&long), None);
    }

    #[test]
    fn words_of_triggers_stay_as_they_are() {
        let words: Vec<_> = Trigger::ALL.iter().map(|it| it.as_str()).collect();
        assert_eq!(
            words.join(" "),
            "manual periodic pause task_complete complete error timeout shutdown crash detach \
             exhaustion expiry"
        );
        for trigger in Trigger::ALL {
            assert_eq!(trigger.as_str().parse(), Ok(*trigger));
            let json = serde_json::to_string(trigger).unwrap();
            assert_eq!(json, format!("\"{trigger}\""));
        }
    }

    #[test]
    fn only_final_results_and_errors_are_protected() {
        let is_protected = |trigger: &&Trigger| trigger.is_protected();
        let protected: Vec<_> = Trigger::ALL.iter().filter(is_protected).collect();
        assert_eq!(protected, [&Trigger::Complete, &Trigger::Error]);
    }

    #[test]
    fn all_snapshots_of_a_manifest_are_listed() {
        let [files, attachments, outside] = [b"files", b"paper", b"gitdi"].map(|it| Digest::of(it));
        let mut manifest = manifest();
        manifest.files.snapshot = files;
        assert_eq!(manifest.snapshots().collect::<Vec<_>>(), [files]);
        manifest.attachments = Some(attachments);
        let external_git_dir = Some(GitDir {
            folder: "/elsewhere".into(),
            snapshot: outside,
            worktree: None,
        });
        let linked = Repository {
            external_git_dir,
            ..Repository::default()
        };
        manifest.repositories = vec![Repository::default(), linked];
        let expected = [files, attachments, outside];
        assert_eq!(manifest.snapshots().collect::<Vec<_>>(), expected);
    }

    /// A program in another language computed it: sealed checkpoints must stay readable.
    #[test]
    fn seal_is_stable() {
        let expected = "e24f8c2a51eb618ee0e26640845ac7df5220dcd9b47298e96d7d50ba1b7bfedb";
        assert_eq!(seal(&KEY, b"a line").to_string(), expected);
    }
}
