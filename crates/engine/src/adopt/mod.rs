//! Sessions out of transcripts that agent programs left behind.
//!
//! A transcript becomes a session of one step, whose agent can go on with the conversation. What was
//! said stands in its journal, and the file itself is kept byte for byte. The same transcript is
//! always the same session: one that was adopted before is brought up to date.

mod draft;
mod passage;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use segno_core::agent;
use segno_core::checkpoint::papers;
use segno_core::companion::Program;
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Run};
use segno_core::session::Summary;
use segno_core::state::{self, State};
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;
use segno_core::transcript::{About, Transcript, Transcripts};

use crate::error::Error;
use crate::observe::Quiet;
use crate::pen::Pen;
use crate::world::World;
use crate::{claim, flow, history, start};
use draft::Draft;
use passage::{Passage, Tally};

/// What is to be adopted.
#[derive(Clone)]
pub struct Request {
    /// Whose transcript it is.
    pub program: Program,
    /// Its file.
    pub file: PathBuf,
    /// The folder to go on in; otherwise the one that the conversation is about.
    pub folder: Option<PathBuf>,
    /// The conversations that sessions have already; without them they are looked for when a session
    /// would be made.
    pub own: Option<Arc<Own>>,
    /// Whether anything is written.
    pub effect: Effect,
    /// Told how many bytes were read, of how many.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

/// The conversations that Segno's own sessions have, and which one has each. Their transcripts are no
/// new sessions: two would go on with one conversation.
#[derive(Debug, Clone, Default)]
pub struct Own(HashMap<(Program, String), Name>);

impl Own {
    /// Looks at all sessions.
    pub async fn gather(world: &World) -> Result<Self, Error> {
        let mut own = HashMap::new();
        // What is damaged is told where sessions are listed.
        for summary in world.store.list().await?.into_iter().flatten() {
            let Ok(state) = history::look(world, summary.id).await else {
                continue;
            };
            for (id, program) in state.conversations {
                own.insert((program, id), summary.name.clone());
            }
        }
        Ok(Self(own))
    }
}

/// Whether anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The session is made, or brought up to date.
    Keep,
    /// Only what would be done is told.
    Foresee,
}

/// What became of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Its session.
    pub session: SessionId,
    /// What the session is called; without one if it was only foreseen.
    pub name: Option<Name>,
    /// The program's name for the conversation.
    pub native: String,
    /// What was done.
    pub outcome: Outcome,
    /// How many things that were said were added.
    pub entries: u64,
    /// How far the file was read, in bytes.
    pub bytes: u64,
    /// What could not be read, in words.
    pub damage: Vec<String>,
    /// How many more such things there are.
    pub damage_unlisted: u64,
}

/// What was done about a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A session was made of it.
    New,
    /// Its session was brought up to date.
    Updated,
    /// Its session has all of it.
    Unchanged,
    /// Its session was left as it is: why.
    Left(String),
    /// Nothing was said in it, so there is nothing to make a session of.
    Empty,
}

/// Makes a session of a transcript, or brings the session up to date that was made of it. May be
/// called again at any time, also after a kill, and by several at once: what a transcript says comes
/// into its session once.
pub async fn adopt(world: &World, request: Request) -> Result<Adopted, Error> {
    let program = request.program;
    let nowhere = || Error::NoClient {
        provider: program.as_str(),
        reason: "nobody knows where its transcripts are".to_owned(),
    };
    let transcripts = world.drivers.transcripts(program).ok_or_else(nowhere)?;
    let transcript = open(&*transcripts, &request).await?;
    let about = transcript.about().clone();
    let native = about.id.clone().ok_or_else(|| Error::Unreadable {
        path: request.file.clone(),
        reason: "neither the file nor its name tells which conversation it is".to_owned(),
    })?;
    let adoption = Adoption {
        world,
        transcripts: &*transcripts,
        session: session_of(program, &native),
        native,
        request: &request,
    };
    if !about.anything {
        return Ok(adoption.told(None, Outcome::Empty, Tally::default()));
    }
    adoption.begin(transcript, &about).await
}

/// The session of a conversation: always the same, so that two who adopt it meet at the store.
pub fn session_of(program: Program, native: &str) -> SessionId {
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

/// One transcript on its way into its session.
struct Adoption<'a> {
    world: &'a World,
    transcripts: &'a dyn Transcripts,
    session: SessionId,
    native: String,
    request: &'a Request,
}

impl Adoption<'_> {
    async fn begin(
        &self,
        transcript: Box<dyn Transcript>,
        about: &About,
    ) -> Result<Adopted, Error> {
        let thrown = self.world.store.discarded().await?;
        let thrown = thrown.into_iter().flatten();
        if thrown
            .into_iter()
            .any(|thrown| thrown.session == self.session)
        {
            let reason = format!(
                "its session is in the trash; `segno sessions restore {}` has it back",
                self.session
            );
            return Ok(self.told(None, Outcome::Left(reason), Tally::default()));
        }
        match self.world.store.summary(self.session).await {
            Err(StoreError::NoSession(_)) => {}
            found => return self.update(transcript, &found?).await,
        }
        let own = match &self.request.own {
            Some(own) => Arc::clone(own),
            None => Arc::new(Own::gather(self.world).await?),
        };
        if let Some(name) = own.0.get(&(self.request.program, self.native.clone())) {
            let reason = format!("it is a conversation of session {name}");
            return Ok(self.told(None, Outcome::Left(reason), Tally::default()));
        }
        if self.request.effect == Effect::Foresee {
            let tally = Passage::new(self, 0).read(transcript, None).await?;
            return Ok(self.told(None, Outcome::New, tally));
        }
        match self.make(transcript, about).await {
            // Someone else was faster, and goes on with it.
            Err(Error::Store(StoreError::Exists(_))) => {
                let summary = self.world.store.summary(self.session).await?;
                let transcript = open(self.transcripts, self.request).await?;
                self.update(transcript, &summary).await
            }
            made => made,
        }
    }

    /// Makes the session. What it is made of is durable from the first entries on, so that a kill
    /// leaves a session which the next call brings up to date.
    async fn make(&self, transcript: Box<dyn Transcript>, about: &About) -> Result<Adopted, Error> {
        let papers = self.copy(about).await?;
        let draft = Draft::new(self, about, papers).await?;
        let opening = draft.opening(1, None);
        let quiet = Arc::new(Quiet);
        let (name, state) = start::create(
            self.world,
            self.session,
            draft.created.clone(),
            opening,
            start::Naming::Numbered,
            &*quiet,
        )
        .await?;
        let written = self.write(transcript, &draft, Run(1), state, 1, Vec::new());
        let tally = written.await?;
        Ok(self.told(Some(name), Outcome::New, tally))
    }

    /// Brings the session up to date, unless it is another's business by now.
    async fn update(
        &self,
        mut transcript: Box<dyn Transcript>,
        summary: &Summary,
    ) -> Result<Adopted, Error> {
        let name = Some(summary.name.clone());
        let left =
            |reason: String| Ok(self.told(name.clone(), Outcome::Left(reason), Tally::default()));
        let state = history::look(self.world, self.session).await?;
        let known = match standing(&state, summary) {
            Ok(known) => known,
            Err(reason) => return left(reason),
        };
        if transcript.about().length < known.bytes {
            return left("the file is shorter than what its session has of it".to_owned());
        }
        let same = transcript.digest(known.bytes).await;
        if same.map_err(|error| unreadable(self.request, &error))? != known.digest {
            return left("what its session has of it was changed in the file".to_owned());
        }
        let whole = transcript.about().length == known.bytes;
        let mut tally = Tally::default();
        if !whole {
            let passage = Passage::new(self, known.bytes);
            tally = passage.read(transcript, None).await?;
        }
        if tally.entries == 0 {
            tally.bytes = known.bytes;
            return Ok(self.told(name, Outcome::Unchanged, tally));
        }
        if self.request.effect == Effect::Foresee {
            return Ok(self.told(name, Outcome::Updated, tally));
        }
        let transcript = open(self.transcripts, self.request).await?;
        let about = transcript.about().clone();
        let papers = self.copy(&about).await?;
        let lease = match claim::claim(self.world, summary).await {
            Err(Error::Held { owner, .. }) => {
                let (pid, host) = (owner.pid, owner.host);
                return left(format!(
                    "process {pid} on {host} is at work with its session"
                ));
            }
            lease => lease?,
        };
        match self
            .go_on(transcript, &about, papers, &known, lease.run)
            .await
        {
            Ok(Some(tally)) => Ok(self.told(name, Outcome::Updated, tally)),
            refused => {
                // Nothing was begun, or the next call finds where it stopped.
                let _ = self.world.store.release(self.session, lease.run).await;
                refused?;
                left("someone else brought its session up to date in the same moment".to_owned())
            }
        }
    }

    /// Writes what is new, in a run of its own; `None` if someone else did so meanwhile.
    async fn go_on(
        &self,
        transcript: Box<dyn Transcript>,
        about: &About,
        papers: Digest,
        known: &state::Adopted,
        run: Run,
    ) -> Result<Option<Tally>, Error> {
        let (state, _) = history::open(self.world, self.session).await?;
        if state.adopted.as_ref() != Some(known) {
            return Ok(None);
        }
        let open = state.open.get(&draft::step());
        let attempt = open.map_or(0, |open| open.attempt) + 1;
        let draft = Draft::new(self, about, papers).await?;
        let mut opening: Vec<Event> = vec![self.world.run_started()];
        opening.extend(flow::unknown(&state));
        opening.extend(draft.opening(attempt, Some(known)));
        let written = self.write(transcript, &draft, run, state, attempt, opening);
        Ok(Some(written.await?))
    }

    /// Writes a run: its opening, what the transcript says that is new, and its end.
    async fn write(
        &self,
        transcript: Box<dyn Transcript>,
        draft: &Draft,
        run: Run,
        state: State,
        attempt: u32,
        opening: Vec<Event>,
    ) -> Result<Tally, Error> {
        let from = state.adopted.as_ref().map_or(0, |adopted| adopted.bytes);
        let (pen, scribe) = Pen::new(self.world, self.session, run, state, Arc::new(Quiet));
        let written = async {
            pen.write(opening).await?;
            let to = Some((&pen, draft, attempt));
            let tally = Passage::new(self, from).read(transcript, to).await?;
            pen.close(Draft::ending(attempt), Vec::new()).await?;
            Ok(tally)
        }
        .await;
        drop(pen);
        scribe.await.expect("a pen writes until it is dropped");
        written
    }

    /// Keeps the file byte for byte, before anything speaks of it (P4).
    async fn copy(&self, about: &About) -> Result<Digest, Error> {
        let name = papers::conversation(self.request.program, &self.native);
        Ok(self
            .world
            .snapshots
            .keep_file(name, about.path.clone(), about.length)
            .await?)
    }

    fn told(&self, name: Option<Name>, outcome: Outcome, tally: Tally) -> Adopted {
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

/// What a session has of its transcript, or why it is not to be touched.
fn standing(state: &State, summary: &Summary) -> Result<state::Adopted, String> {
    let name = &summary.name;
    let Some(adopted) = state.adopted.clone() else {
        return Err(format!("session {name} was not made of a transcript"));
    };
    if !state.status.is_resumable() {
        return Err(format!("its session {name} is {}", state.status));
    }
    if adopted.run != state.run {
        return Err(format!(
            "its session {name} went on with Segno since it was adopted"
        ));
    }
    Ok(adopted)
}
