//! Adopts transcripts: creates sessions from conversations that CLI agents had without Segno.
//!
//! A transcript becomes a session with one step, whose agent can continue the conversation. The
//! messages are in the session's journal, and the file itself is stored byte for byte. The same
//! transcript always maps to the same session: adopting it again updates the session.

mod draft;
mod error;
mod reader;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use segno_core::agent;
use segno_core::checkpoint::attachments;
use segno_core::cli_agent::CliAgentKind;
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Run, RunPurpose};
use segno_core::snapshot;
use segno_core::state::{self, State};
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_core::time::Timestamp;
use segno_core::transcript::{Transcript, TranscriptInfo, Transcripts};
use segno_engine::journal::Writer;
use segno_engine::observe::NoObserver;
use segno_engine::{Env, history, lease, steps};
use segno_sessions::start;

use draft::Draft;
use reader::{Tally, TranscriptReader};

pub use error::Error;

#[derive(Clone)]
pub struct Request {
    /// The CLI agent that wrote it.
    pub program: CliAgentKind,
    pub file: PathBuf,
    /// The folder to continue in; the folder of the conversation if `None`.
    pub folder: Option<PathBuf>,
    /// The conversations that sessions already have. If `None`, they are collected when a session
    /// would be created.
    pub known: Option<Arc<KnownConversations>>,
    pub effect: Effect,
    /// Receives the number of bytes read, and of all bytes.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

/// The conversations of Segno's own sessions, with the session of each. Their transcripts are not
/// adopted, because two sessions would continue one conversation.
#[derive(Debug, Clone, Default)]
pub struct KnownConversations(HashMap<(CliAgentKind, String), Name>);

impl KnownConversations {
    /// Reads all sessions.
    pub async fn collect(env: &Env) -> Result<Self, StoreError> {
        let mut own = HashMap::new();
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
                own.insert((program, id), summary.name.clone());
            }
        }
        Ok(Self(own))
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
    let program = request.program;
    let transcripts = env.drivers.transcripts(program);
    let transcripts = transcripts.ok_or(Error::NoTranscripts { program })?;
    let transcript = open(&*transcripts, &request).await?;
    let about = transcript.info().clone();
    let native = about.id.clone().ok_or_else(|| Error::Unreadable {
        path: request.file.clone(),
        reason: "neither the file nor its name has a conversation id".to_owned(),
    })?;
    let adoption = Adoption {
        env,
        transcripts: &*transcripts,
        session: session_of(program, &native),
        native,
        request: &request,
    };
    if !about.has_messages {
        return Ok(adoption.result(None, Outcome::Empty, Tally::default()));
    }
    adoption.create_or_update(transcript, &about).await
}

/// The id of a conversation's session. It is derived, so that concurrent adoptions conflict in the
/// store.
pub fn session_of(program: CliAgentKind, native: &str) -> SessionId {
    let fields = [
        b"segno adoption",
        program.as_str().as_bytes(),
        native.as_bytes(),
    ];
    let digest = Digest::of_fields(&fields);
    let mut entropy = [0; 10];
    entropy.copy_from_slice(&digest.as_bytes()[6..16]);
    let head = digest.as_bytes()[..6].iter();
    let millis = head.fold(0, |sum: i64, byte| sum << 8 | i64::from(*byte));
    SessionId::new(Timestamp(millis), entropy)
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
            Some(own) => Arc::clone(own),
            None => Arc::new(KnownConversations::collect(self.env).await?),
        };
        if let Some(name) = own.0.get(&(self.request.program, self.native.clone())) {
            let reason = format!("it is a conversation of session `{name}`");
            return Ok(self.result(None, Outcome::Skipped(reason), Tally::default()));
        }
        if self.request.effect == Effect::DryRun {
            let tally = TranscriptReader::new(self, 0)
                .read(transcript, None)
                .await?;
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

    /// Creates the session. The first events already name the transcript, so after a kill the next
    /// call updates the session.
    async fn create(
        &self,
        transcript: Box<dyn Transcript>,
        about: &TranscriptInfo,
    ) -> Result<Adopted, Error> {
        let attachments = self.copy(about).await?;
        let draft = Draft::new(self, about, attachments).await?;
        let opening = draft.opening(1, None);
        let quiet = Arc::new(NoObserver);
        let (name, state) = start::create(
            self.env,
            self.session,
            draft.created.clone(),
            opening,
            start::Naming::Numbered,
            &*quiet,
        )
        .await?;
        let written = self.write(transcript, &draft, Run(1), state, 1, Vec::new());
        let tally = written.await?;
        Ok(self.result(Some(name), Outcome::New, tally))
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
        if transcript.info().length < known.bytes {
            return left("the file is shorter than the part that its session has".to_owned());
        }
        let same = transcript.digest(known.bytes).await;
        if same.map_err(|error| unreadable(self.request, &error))? != known.digest {
            return left("the part that its session has was changed in the file".to_owned());
        }
        let whole = transcript.info().length == known.bytes;
        let mut tally = Tally::default();
        if !whole {
            let reader = TranscriptReader::new(self, known.bytes);
            tally = reader.read(transcript, None).await?;
        }
        if tally.entries == 0 {
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

    /// Appends what is new, in a run of its own; `None` if another process did so meanwhile.
    async fn append_new(
        &self,
        transcript: Box<dyn Transcript>,
        about: &TranscriptInfo,
        attachments: Digest,
        known: &state::ImportedTranscript,
        run: Run,
    ) -> Result<Option<Tally>, Error> {
        let (state, _) = history::load_verified(self.env, self.session).await?;
        if state.imported.as_ref() != Some(known) {
            return Ok(None);
        }
        let open = state.open_steps.get(&draft::step());
        let attempt = open.map_or(0, |open| open.attempt) + 1;
        let draft = Draft::new(self, about, attachments).await?;
        let mut opening: Vec<Event> = vec![self.env.run_started(RunPurpose::Bookkeeping)];
        opening.extend(steps::unknown_step_events(&state));
        opening.extend(draft.opening(attempt, Some(known)));
        let written = self.write(transcript, &draft, run, state, attempt, opening);
        Ok(Some(written.await?))
    }

    /// Writes a run: its opening, the new messages of the transcript, and its end.
    async fn write(
        &self,
        transcript: Box<dyn Transcript>,
        draft: &Draft,
        run: Run,
        state: State,
        attempt: u32,
        opening: Vec<Event>,
    ) -> Result<Tally, Error> {
        let from = state.imported.as_ref().map_or(0, |adopted| adopted.bytes);
        let (journal, writer) =
            Writer::new(self.env, self.session, run, state, Arc::new(NoObserver));
        let written = async {
            journal.write(opening).await?;
            let to = Some((&journal, draft, attempt));
            let tally = TranscriptReader::new(self, from)
                .read(transcript, to)
                .await?;
            journal.close(Draft::ending(attempt), Vec::new()).await?;
            Ok(tally)
        }
        .await;
        drop(journal);
        writer.await.expect("the writer runs until it is dropped");
        written
    }

    /// Stores the file byte for byte, before anything references it (P4).
    async fn copy(&self, about: &TranscriptInfo) -> Result<Digest, snapshot::Error> {
        let name = attachments::conversation(self.request.program, &self.native);
        let snapshots = self.env.snapshots()?;
        let put = snapshots.put_file(name, about.path.clone(), about.length);
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
    if adopted.run != state.run {
        return Err(format!(
            "its session `{name}` was resumed with Segno after the import"
        ));
    }
    Ok(adopted)
}
