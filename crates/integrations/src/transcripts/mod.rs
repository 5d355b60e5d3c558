//! Adopts transcripts: creates sessions from conversations that CLI agents had without Segno.
//!
//! A transcript becomes a chat with its agent. The messages are in the session's journal, with the
//! times that they have in the transcript, and the file itself is stored byte for byte. The same
//! transcript always maps to the same session: adopting it again adds what is new, also after Segno
//! continued the conversation itself.

mod batches;
mod draft;
mod error;
mod many;
mod own_runs;
pub mod programs;
mod reader;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent;
use segno_core::checkpoint::attachments;
use segno_core::cli_agent::CliAgentKind;
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::Run;
use segno_core::session::Kind;
use segno_core::snapshot;
use segno_core::state::{self, State};
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_core::time::Timestamp;
use segno_core::transcript::{Transcript, TranscriptInfo, TranscriptSource, Transcripts};
use segno_engine::{Env, history, lease};

use draft::Draft;
use own_runs::OwnRuns;
use reader::{Mirror, Tally, TranscriptReader};

pub use error::Error;
pub use many::adopt_many;

#[derive(Clone)]
pub struct Request {
    /// The program that wrote it.
    pub source: TranscriptSource,
    pub file: PathBuf,
    /// The folder to continue in; the folder of the conversation if `None`.
    pub folder: Option<PathBuf>,
    /// The conversations that sessions already have, as they were read at some time. They are read
    /// again when a session would be created of a conversation that began later.
    pub known: Option<Arc<KnownConversations>>,
    pub effect: Effect,
    /// Receives the number of bytes read, and of all bytes.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

/// The conversations of Segno's own sessions, with the session of each. Their transcripts are not
/// adopted, because two sessions would continue one conversation.
#[derive(Debug, Clone)]
pub struct KnownConversations {
    sessions: HashMap<(CliAgentKind, String), Name>,
    /// When they were collected.
    at: Timestamp,
}

/// How long before its first message the session of a conversation may have been created.
const SESSION_FIRST: Duration = Duration::from_mins(1);

impl KnownConversations {
    /// Reads all sessions.
    pub async fn collect(env: &Env) -> Result<Self, StoreError> {
        let (at, mut sessions) = (env.clock.now(), HashMap::new());
        // `sessions::list` reports damaged sessions; here they are skipped.
        for summary in env
            .store
            .list(Filter::default())
            .await?
            .into_iter()
            .flatten()
        {
            let Ok(state) = history::load_state(env, summary.id).await else {
                continue;
            };
            for (id, program) in state.conversations {
                sessions.insert((program, id), summary.name.clone());
            }
        }
        Ok(Self { sessions, at })
    }

    /// Whether they contain every conversation of a session that began at this time.
    fn cover(&self, started_at: Option<Timestamp>) -> bool {
        started_at.is_some_and(|started_at| started_at.after(SESSION_FIRST) < self.at)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Creates or updates the session.
    Apply,
    /// Only reports what would be done.
    DryRun,
}

/// The result for one transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    pub session: SessionId,
    /// `None` if no session exists, as in a dry run.
    pub name: Option<Name>,
    /// The agent's id of the conversation.
    pub native: String,
    pub outcome: Outcome,
    /// How many messages were added.
    pub entries: u64,
    /// How far the file was read, in bytes.
    pub bytes: u64,
    /// Parts of the file that could not be read, as sentences.
    pub damage: Vec<String>,
    /// How many more such parts there are.
    pub damage_unlisted: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    New,
    Updated,
    /// The session already has all of it.
    Unchanged,
    /// The session was not changed, for this reason.
    Skipped(String),
    /// The transcript has no messages, so there is no session.
    Empty,
}

/// Creates the session of a transcript, or updates it. Can be called again at any time, also after
/// a kill, and concurrently: each message is added to the session once.
pub async fn adopt(env: &Env, request: Request) -> Result<Adopted, Error> {
    let source = request.source;
    let transcripts = env.drivers.transcripts(source);
    let transcripts = transcripts.ok_or(Error::NoTranscripts { program: source })?;
    let transcript = open(&*transcripts, &request).await?;
    let about = transcript.info().clone();
    let native = about.id.clone().ok_or_else(|| Error::Unreadable {
        path: request.file.clone(),
        reason: "neither the file nor its name has a conversation id".to_owned(),
    })?;
    let session = existing_or_new(env, source, &native, about.started_at).await?;
    let adoption = Adoption {
        env,
        transcripts: &*transcripts,
        session,
        native,
        request: &request,
    };
    if !about.has_messages {
        return Ok(adoption.result(None, Outcome::Empty, Tally::default()));
    }
    adoption.create_or_update(transcript, &about).await
}

/// Adds what an adopted conversation has had since, before Segno continues it. Does nothing for
/// other sessions, or if there is no transcript any more.
pub async fn catch_up(env: &Env, summary: &Summary) -> Result<Option<Adopted>, Error> {
    if summary.kind != Kind::Agent {
        return Ok(None);
    }
    let state = history::load_state(env, summary.id).await?;
    let Some(imported) = state.imported else {
        return Ok(None);
    };
    let candidates = TranscriptSource::ALL.iter().copied();
    for source in candidates.filter(|source| source.program() == imported.program) {
        let Some(transcripts) = env.drivers.transcripts(source) else {
            continue;
        };
        let Ok(Some(file)) = transcripts.find(&imported.native_id).await else {
            continue;
        };
        let ids = [
            session_of(source, &imported.native_id, None),
            earlier_session_of(imported.program, &imported.native_id),
        ];
        // A fork of an adopted session has a conversation of its own.
        let is_of_conversation = |id: &SessionId| id.to_bytes()[6..] == summary.id.to_bytes()[6..];
        if !ids.iter().any(is_of_conversation) {
            continue;
        }
        let request = Request {
            source,
            file,
            folder: None,
            known: None,
            effect: Effect::Apply,
            progress: Arc::new(|_, _| {}),
        };
        return adopt(env, request).await.map(Some);
    }
    Ok(None)
}

/// The session that has a conversation, or the id of the one to create.
async fn existing_or_new(
    env: &Env,
    source: TranscriptSource,
    native: &str,
    started_at: Option<Timestamp>,
) -> Result<SessionId, StoreError> {
    let earlier = earlier_session_of(source.program(), native);
    match env.store.summary(earlier).await {
        Err(StoreError::NoSession(_)) => Ok(session_of(source, native, started_at)),
        Ok(_) | Err(StoreError::Damaged { .. }) => Ok(earlier),
        Err(error) => Err(error),
    }
}

/// Times that a conversation can have begun at: from 2001 to 2100.
const PLAUSIBLE: std::ops::Range<i64> = 978_307_200_000..4_102_444_800_000;

/// The id of a conversation's session. It is derived, so that concurrent adoptions conflict in the
/// store. Ids order sessions by the time at which they began, so it contains that time.
pub fn session_of(
    source: TranscriptSource,
    native: &str,
    started_at: Option<Timestamp>,
) -> SessionId {
    let at = started_at.filter(|at| PLAUSIBLE.contains(&at.0));
    let (_, entropy) = digest_of(source.as_str(), native);
    SessionId::new(at.unwrap_or(Timestamp(0)), entropy)
}

/// The id that earlier versions gave it.
fn earlier_session_of(program: CliAgentKind, native: &str) -> SessionId {
    let (digest, entropy) = digest_of(program.as_str(), native);
    let head = digest.as_bytes()[..6].iter();
    let millis = head.fold(0, |sum: i64, byte| sum << 8 | i64::from(*byte));
    SessionId::new(Timestamp(millis), entropy)
}

fn digest_of(program: &str, native: &str) -> (Digest, [u8; 10]) {
    let fields = [b"segno adoption", program.as_bytes(), native.as_bytes()];
    let digest = Digest::of_fields(&fields);
    let mut entropy = [0; 10];
    entropy.copy_from_slice(&digest.as_bytes()[6..16]);
    (digest, entropy)
}

async fn open(
    transcripts: &dyn Transcripts,
    request: &Request,
) -> Result<Box<dyn Transcript>, Error> {
    let opened = transcripts.open(request.file.clone()).await;
    opened.map_err(|error| unreadable(request, &error))
}

fn unreadable(request: &Request, error: &agent::Error) -> Error {
    Error::Unreadable {
        path: request.file.clone(),
        reason: error.message.clone(),
    }
}

/// The adoption of one transcript.
struct Adoption<'a> {
    env: &'a Env,
    transcripts: &'a dyn Transcripts,
    session: SessionId,
    native: String,
    request: &'a Request,
}

impl Adoption<'_> {
    async fn create_or_update(
        &self,
        transcript: Box<dyn Transcript>,
        about: &TranscriptInfo,
    ) -> Result<Adopted, Error> {
        let trashed = self.env.store.list_trash().await?;
        let trashed = trashed.into_iter().flatten();
        if trashed
            .into_iter()
            .any(|trashed| trashed.session == self.session)
        {
            let reason = format!(
                "its session is in the trash; `segno sessions restore {}` restores it",
                self.session
            );
            return Ok(self.result(None, Outcome::Skipped(reason), Tally::default()));
        }
        match self.env.store.summary(self.session).await {
            Err(StoreError::NoSession(_)) => {}
            found => return self.update(transcript, &found?).await,
        }
        let own = match &self.request.known {
            Some(own) if own.cover(about.started_at) => Arc::clone(own),
            _ => Arc::new(KnownConversations::collect(self.env).await?),
        };
        let conversation = (self.request.source.program(), self.native.clone());
        if let Some(name) = own.sessions.get(&conversation) {
            let reason = format!("it is a conversation of session `{name}`");
            return Ok(self.result(None, Outcome::Skipped(reason), Tally::default()));
        }
        if self.request.effect == Effect::DryRun {
            let reader = TranscriptReader::new(self, 0, OwnRuns::default());
            let tally = reader.count(transcript).await?;
            return Ok(self.result(None, Outcome::New, tally));
        }
        match self.create(transcript, about).await {
            // Another process created the session, so this one updates it.
            Err(Error::History(history::Error::Store(StoreError::Exists(_)))) => {
                let summary = self.env.store.summary(self.session).await?;
                let transcript = open(self.transcripts, self.request).await?;
                self.update(transcript, &summary).await
            }
            made => made,
        }
    }

    /// Creates the session. Its first events already name the transcript, so after a kill the next
    /// call updates the session.
    async fn create(
        &self,
        transcript: Box<dyn Transcript>,
        about: &TranscriptInfo,
    ) -> Result<Adopted, Error> {
        let attachments = self.copy(about).await?;
        let draft = Draft::new(self, about, attachments).await?;
        let journal = Mirror::create(self, &draft, about.started_at);
        let reader = TranscriptReader::new(self, 0, OwnRuns::default());
        let (tally, name) = reader.write(transcript, journal).await?;
        Ok(self.result(name, Outcome::New, tally))
    }

    /// Updates the session, unless it cannot be updated any more.
    async fn update(
        &self,
        mut transcript: Box<dyn Transcript>,
        summary: &Summary,
    ) -> Result<Adopted, Error> {
        let name = Some(summary.name.clone());
        let left = |reason: String| {
            Ok(self.result(name.clone(), Outcome::Skipped(reason), Tally::default()))
        };
        let state = history::load_state(self.env, self.session).await?;
        let known = match adopted_part(&state, summary) {
            Ok(known) => known,
            Err(reason) => return left(reason),
        };
        let (from, own) = match self.new_part(&mut *transcript, &known).await? {
            Ok(part) => part,
            Err(reason) => return left(reason),
        };
        let is_whole = transcript.info().length == from;
        // Earlier versions adopted a conversation as one step; now it becomes a chat.
        let is_chat = state.chat.is_some();
        let mut tally = Tally::default();
        if !is_whole {
            let reader = TranscriptReader::new(self, from, own);
            tally = reader.count(transcript).await?;
        }
        if tally.entries == 0 && is_chat {
            tally.bytes = known.bytes;
            return Ok(self.result(name, Outcome::Unchanged, tally));
        }
        if self.request.effect == Effect::DryRun {
            return Ok(self.result(name, Outcome::Updated, tally));
        }
        let transcript = open(self.transcripts, self.request).await?;
        let about = transcript.info().clone();
        let attachments = self.copy(&about).await?;
        let lease = match lease::acquire(self.env, summary).await {
            Err(lease::Error::Held { owner, .. } | lease::Error::HeldByStopped { owner, .. }) => {
                let (pid, host) = (owner.pid, owner.host);
                return left(format!("process {pid} on {host} is running its session"));
            }
            lease => lease?,
        };
        match self
            .append_new(transcript, &about, attachments, &known, lease.run)
            .await
        {
            Ok(Some(tally)) => Ok(self.result(name, Outcome::Updated, tally)),
            refused => {
                // Nothing was appended, or the next call continues where this one stopped.
                let _ = self.env.store.release(self.session, lease.run).await;
                refused?;
                left("another process updated its session at the same time".to_owned())
            }
        }
    }

    /// Where the new part of the transcript begins, and what Segno itself did in it; or why it
    /// cannot be told apart from the known part.
    async fn new_part(
        &self,
        transcript: &mut dyn Transcript,
        known: &state::ImportedTranscript,
    ) -> Result<Result<(u64, OwnRuns), String>, Error> {
        let mut own = OwnRuns::read(self.env, self.session, known).await?;
        let reason = if transcript.info().length < known.bytes {
            "the file is shorter than the part that its session has"
        } else {
            let same = transcript.digest(known.bytes).await;
            if same.map_err(|error| unreadable(self.request, &error))? == known.digest {
                return Ok(Ok((known.bytes, own)));
            }
            "the part that its session has was changed in the file"
        };
        if own.rewrote || !self.request.source.is_append_only() {
            own.know_the_past();
            return Ok(Ok((0, own)));
        }
        Ok(Err(reason.to_owned()))
    }

    /// Appends what is new, in a run of its own; `None` if another process did so meanwhile.
    async fn append_new(
        &self,
        mut transcript: Box<dyn Transcript>,
        about: &TranscriptInfo,
        attachments: Digest,
        known: &state::ImportedTranscript,
        run: Run,
    ) -> Result<Option<Tally>, Error> {
        let (state, _) = history::load_verified(self.env, self.session).await?;
        if state.imported.as_ref() != Some(known) || !state.status.is_resumable() {
            return Ok(None);
        }
        // Read again under the lease: Segno may have continued it in between.
        let Ok((from, own)) = self.new_part(&mut *transcript, known).await? else {
            return Ok(None);
        };
        let draft = Draft::new(self, about, attachments).await?;
        let journal = Mirror::update(self, &draft, run, &state);
        let reader = TranscriptReader::new(self, from, own);
        let (tally, _) = reader.write(transcript, journal).await?;
        Ok(Some(tally))
    }

    /// Stores the file byte for byte, before anything references it (P4).
    async fn copy(&self, about: &TranscriptInfo) -> Result<Digest, snapshot::Error> {
        let program = self.request.source.program();
        let name = attachments::conversation(program, &self.native);
        let snapshots = self.env.snapshots()?;
        let put = snapshots.put_file(name, about.content.clone(), about.length);
        put.await
    }

    fn result(&self, name: Option<Name>, outcome: Outcome, tally: Tally) -> Adopted {
        Adopted {
            session: self.session,
            name,
            native: self.native.clone(),
            outcome,
            entries: tally.entries,
            bytes: tally.bytes,
            damage: tally.damage,
            damage_unlisted: tally.damage_unlisted,
        }
    }
}

/// What a session has of its transcript, or why it must not be changed.
fn adopted_part(state: &State, summary: &Summary) -> Result<state::ImportedTranscript, String> {
    let name = &summary.name;
    let Some(adopted) = state.imported.clone() else {
        return Err(format!(
            "session `{name}` was not imported from a transcript"
        ));
    };
    if !state.status.is_resumable() {
        return Err(format!("its session `{name}` is {}", state.status));
    }
    Ok(adopted)
}
