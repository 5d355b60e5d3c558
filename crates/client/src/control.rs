//! Asks a server to change its sessions.

use std::fmt::Write as _;
use std::sync::Arc;

use segno_core::checkpoint::Manifest;
use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::{RunOptions, StopMode};
use segno_core::note::NoteId;
use segno_core::session::Status;
use segno_core::snapshot::{Captured, OmittedPath, Progress, Restored};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::usage::Usage;
use segno_engine::Env;
use segno_engine::workspace::path_text;
use segno_sessions::cancel::Cancelled;
use segno_sessions::checkpoint::{self, NewCheckpoint, RestoreOutcome};
use segno_sessions::control::{Control, Failed, Pause, PauseOutcome, Reply};
use segno_sessions::fork::{self, ForkPoint, Forked, TargetFolder};
use segno_sessions::notes::{Change, Recorded};
use segno_sessions::start::{self, read_spec};
use segno_sessions::unknown::{Decision, Said};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::Error;

/// Changes the sessions of a server. What is asked is known there by the name of the token.
pub struct RemoteControl {
    connection: Arc<Connection>,
    /// The store of the server, and the disk of this machine.
    env: Env,
}

impl RemoteControl {
    pub fn new(connection: Arc<Connection>, env: Env) -> Self {
        Self { connection, env }
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failed> {
        let posted = self.connection.post(path, &self.key(), body).await;
        posted.map_err(Failed::new)
    }

    /// A new idempotency key.
    fn key(&self) -> String {
        let mut bytes = [0; 16];
        self.env.random.fill(&mut bytes);
        bytes.iter().fold(String::new(), |mut key, byte| {
            let _ = write!(key, "{byte:02x}");
            key
        })
    }

    async fn summary(&self, session: SessionId) -> Result<Summary, Failed> {
        self.env.store.summary(session).await.map_err(Failed::new)
    }

    async fn manifest(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Result<Manifest, Failed> {
        let found = self.env.store.get_checkpoint(session, checkpoint).await;
        let reason = format!("checkpoint {checkpoint} is not listed");
        found
            .map_err(Failed::new)?
            .ok_or_else(|| Failed::new(self.connection.unreadable(reason)))
    }
}

fn only_here(reason: &str) -> Failed {
    Failed::new(Error::OnlyHere {
        reason: reason.to_owned(),
    })
}

/// A path that means the same on the server.
fn text_of(path: &std::path::Path) -> Result<String, Failed> {
    path_text(path).map_err(Failed::new)
}

/// What became of a step, in the words of the API.
fn add_decision(body: &mut Value, decision: &Decision) {
    let (word, result) = match &decision.said {
        Said::Done(result) => ("done", Some(result)),
        Said::Failed(reason) => ("failed", Some(reason)),
        Said::Repeat => ("repeat", None),
    };
    body["in_flight"] = word.into();
    if let Some(result) = result {
        body["result"] = result.as_str().into();
        body["step"] = json!(decision.step);
    }
}

fn route(session: &Summary, what: &str) -> String {
    format!("/api/v1/sessions/{}/{what}", session.id)
}

fn checkpoint_route(manifest: &Manifest, what: &str) -> String {
    let (session, id) = (manifest.session, manifest.id);
    format!("/api/v1/sessions/{session}/checkpoints/{id}/{what}")
}

#[derive(Deserialize)]
struct Stopped {
    kind: String,
    status: Option<Status>,
    checkpoint: Option<CheckpointId>,
    problem: Option<String>,
}

#[derive(Deserialize)]
struct Answered {
    path: Path,
}

#[derive(Deserialize)]
struct Noted {
    notes: Vec<String>,
    waits_for_run: bool,
}

#[derive(Deserialize)]
struct Created {
    session: SessionId,
}

#[derive(Deserialize)]
struct Taken {
    checkpoint: CheckpointId,
    // A server that was killed in between knows the checkpoint only.
    #[serde(default)]
    written: u64,
    #[serde(default)]
    unstable_files: Vec<String>,
    #[serde(default)]
    skipped_files: Vec<Omitted>,
    #[serde(default)]
    excluded_files: Vec<Omitted>,
}

#[derive(Deserialize)]
struct Omitted {
    path: String,
    reason: String,
}

impl From<Omitted> for OmittedPath {
    fn from(omitted: Omitted) -> Self {
        Self {
            path: omitted.path,
            reason: omitted.reason,
        }
    }
}

#[derive(Deserialize)]
struct Verified {
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct Returned {
    folder: String,
    written: u64,
    bytes: u64,
    unchanged: u64,
    removed: Vec<String>,
    disarmed: Vec<String>,
    rescue: Option<CheckpointId>,
}

#[derive(Deserialize)]
struct Copied {
    session: SessionId,
    steps_finished: u64,
    checkpoint: Option<CheckpointId>,
    rescue: Option<CheckpointId>,
    disarmed: Vec<String>,
}

impl Control for RemoteControl {
    fn pause<'a>(&'a self, session: &'a Summary, request: Pause) -> Reply<'a, PauseOutcome> {
        Box::pin(async move {
            let body = json!({
                "now": request.mode == StopMode::Now,
                "reason": request.reason,
                "wait": request.wait,
            });
            let stopped: Stopped = self.post(&route(session, "pause"), &body).await?;
            Ok(match stopped.status {
                Some(status) if stopped.kind == "paused" => PauseOutcome::Stopped {
                    status,
                    checkpoint: stopped.checkpoint,
                    problem: stopped.problem,
                },
                _ => PauseOutcome::Requested,
            })
        })
    }

    fn cancel<'a>(&'a self, session: &'a Summary, mode: StopMode) -> Reply<'a, Cancelled> {
        Box::pin(async move {
            let body = json!({"now": mode == StopMode::Now});
            let stopped: Stopped = self.post(&route(session, "cancel"), &body).await?;
            Ok(match stopped.kind.as_str() {
                "cancelled" => Cancelled::Done,
                _ => Cancelled::Requested,
            })
        })
    }

    fn answer<'a>(
        &'a self,
        session: &'a Summary,
        step: Option<&'a str>,
        text: &'a str,
    ) -> Reply<'a, Path> {
        Box::pin(async move {
            let body = json!({"text": text, "step": step});
            let answered: Answered = self.post(&route(session, "answer"), &body).await?;
            Ok(answered.path)
        })
    }

    fn note<'a>(
        &'a self,
        session: &'a Summary,
        step: Option<Path>,
        change: Change,
    ) -> Reply<'a, Recorded> {
        Box::pin(async move {
            let mut body = match change {
                Change::Write(notes) => {
                    let corrects = notes.iter().find_map(|note| note.corrects);
                    let notes: Vec<_> = notes.into_iter().map(|written| written.note).collect();
                    json!({"notes": notes, "corrects": corrects})
                }
                Change::Withdraw { note, reason } => {
                    json!({"notes": [], "withdraw": {"note": note, "reason": reason}})
                }
            };
            body["step"] = json!(step);
            let noted: Noted = self.post(&route(session, "notes"), &body).await?;
            if noted.waits_for_run {
                return Ok(Recorded::Posted);
            }
            let ids = noted.notes.iter().map(|id| id.parse::<NoteId>());
            let ids = ids.collect::<Result<_, _>>();
            let ids = ids.map_err(|_| {
                Failed::new(
                    self.connection
                        .unreadable("a note has no valid id".to_owned()),
                )
            })?;
            Ok(Recorded::Written(ids))
        })
    }

    fn request_run<'a>(
        &'a self,
        session: &'a Summary,
        options: RunOptions,
        decisions: &'a [Decision],
    ) -> Reply<'a, Summary> {
        Box::pin(async move {
            let mut body = json!(options);
            match decisions {
                [] => {}
                [decision] => add_decision(&mut body, decision),
                _ => return Err(only_here("a request decides about one step")),
            }
            let _: Created = self.post(&route(session, "resume"), &body).await?;
            self.summary(session.id).await
        })
    }

    fn submit<'a>(
        &'a self,
        request: start::Request,
        _: &'a (dyn Fn(&str) + Sync),
    ) -> Reply<'a, Summary> {
        Box::pin(async move {
            // With the files that it refers to.
            let (spec, _) = read_spec(&self.env, &request.spec).map_err(Failed::new)?;
            let body = json!({
                "spec": spec,
                "variables": request.variables,
                "name": request.name,
                "workspace": text_of(&request.workspace)?,
                "out": text_of(&request.out)?,
                "force": request.force,
            });
            let created: Created = self.post("/api/v1/sessions", &body).await?;
            self.summary(created.session).await
        })
    }

    fn checkpoint<'a>(
        &'a self,
        session: &'a Summary,
        note: Option<String>,
        _: &'a Progress,
    ) -> Reply<'a, NewCheckpoint> {
        Box::pin(async move {
            let body = json!({"note": note});
            let taken: Taken = self.post(&route(session, "checkpoints"), &body).await?;
            let manifest = self.manifest(session.id, taken.checkpoint).await?;
            let captured = Captured {
                snapshot: manifest.files.snapshot,
                files: manifest.files.files,
                bytes: manifest.files.bytes,
                written: taken.written,
                unstable: taken.unstable_files,
                skipped: taken.skipped_files.into_iter().map(Into::into).collect(),
                excluded: taken.excluded_files.into_iter().map(Into::into).collect(),
                repositories: manifest.repositories.clone(),
            };
            Ok(NewCheckpoint { manifest, captured })
        })
    }

    fn verify<'a>(&'a self, manifest: &'a Manifest, _: &'a Progress) -> Reply<'a, Vec<String>> {
        Box::pin(async move {
            let path = checkpoint_route(manifest, "verify");
            let verified: Verified = self.post(&path, &json!({})).await?;
            Ok(verified.problems)
        })
    }

    fn restore<'a>(
        &'a self,
        manifest: &'a Manifest,
        request: checkpoint::Request,
        _: &'a Progress,
    ) -> Reply<'a, RestoreOutcome> {
        Box::pin(async move {
            if request.trusted {
                return Err(only_here(
                    "files that could start programs stay disarmed, and `--trust` is for the machine itself",
                ));
            }
            let into = request.into.as_deref().map(text_of).transpose()?;
            let body = json!({"into": into, "exact": request.exact, "dry_run": request.dry_run});
            let path = checkpoint_route(manifest, "restore");
            let returned: Returned = self.post(&path, &body).await?;
            let rescue = match returned.rescue {
                Some(rescue) => Some(self.manifest(manifest.session, rescue).await?),
                None => None,
            };
            Ok(RestoreOutcome {
                folder: returned.folder.into(),
                restored: Restored {
                    written: returned.written,
                    bytes: returned.bytes,
                    unchanged: returned.unchanged,
                    removed: returned.removed,
                    disarmed: returned.disarmed,
                },
                rescue,
            })
        })
    }

    fn fork<'a>(
        &'a self,
        session: &'a Summary,
        request: fork::Request,
        _: &'a Progress,
    ) -> Reply<'a, Forked> {
        Box::pin(async move {
            if request.out.is_some() {
                return Err(only_here("`--out` of a fork is chosen there"));
            }
            let mut body = json!({"name": request.name});
            match request.point {
                ForkPoint::All => {}
                ForkPoint::Before(step) => body["before"] = step.into(),
                ForkPoint::CopyInto(folder) => body["into"] = text_of(&folder)?.into(),
                ForkPoint::AtCheckpoint(manifest, place) => {
                    body["from"] = json!(manifest.id);
                    match place {
                        TargetFolder::Beside => {}
                        TargetFolder::Into(folder) => body["into"] = text_of(&folder)?.into(),
                        TargetFolder::Original => {
                            return Err(only_here(
                                "a fork that replaces the session's own files is made there",
                            ));
                        }
                    }
                }
            }
            let copied: Copied = self.post(&route(session, "fork"), &body).await?;
            Ok(Forked {
                summary: self.summary(copied.session).await?,
                steps: copied.steps_finished,
                usage: Usage::default(),
                checkpoint: copied.checkpoint,
                set_aside: copied.disarmed,
                rescue: copied.rescue,
            })
        })
    }
}
