//! Extracts notes from a stopped session with a model, where the spec asks for it.
//!
//! What an agent decided is recorded nowhere but in its text. When a run has ended and its
//! checkpoint is taken, its process asks a reader model once for decisions and errors, and records
//! them as notes between runs. This never blocks anything: the time is bounded, anyone may resume
//! meanwhile, and an answer that does not match the schema is not used.

mod answer;
mod question;

use std::path::PathBuf;
use std::time::Duration;

use segno_core::agent::{self, AccessMode, Answer, Request};
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, NotesWritten, Run};
use segno_core::model::{Call, Message};
use segno_core::note::{Note, Source};
use segno_core::session::Status;
use segno_core::state::State;
use segno_core::step::Path;
use segno_core::usage::{Price, Usage};

use crate::between_runs::{self, BetweenRuns};
use crate::env::{AgentDriver, Env};
use crate::observe::Observer;
use crate::resume::context::Fence;
use crate::steps::{final_answer, priced};
use crate::stop::StopToken;
use crate::{history, note_events};

/// How often the reader is asked: an unusable answer is asked for once more.
const MAX_ATTEMPTS: u32 = 2;

/// The agent that reads the conversation.
pub(crate) struct Reader {
    pub(crate) agent: String,
    pub(crate) driver: AgentDriver,
    pub(crate) price: Option<Price>,
    /// The time limit for all of it.
    pub(crate) within: Duration,
    pub(crate) workspace: PathBuf,
}

/// What a reader returned.
struct ReaderResult {
    notes: Vec<Note>,
    usage: Usage,
    /// Why the answer is unusable, if it is.
    refused: Option<String>,
}

/// Extracts notes if the session can be resumed. Errors are reported and do not change the
/// session's status.
pub(crate) async fn extract(
    env: &Env,
    session: SessionId,
    state: &State,
    reader: &Reader,
    stop_token: &StopToken,
    observer: &dyn Observer,
) {
    if !matches!(state.status, Status::Paused | Status::Failed) {
        return;
    }
    let name = &reader.agent;
    let reading = ask_reader(env, session, state, reader, observer);
    let result = tokio::select! {
        result = reading => result,
        () = env.clock.sleep(reader.within) => {
            let within = segno_core::time::format_duration(reader.within);
            Err(format!("no answer within {within}"))
        }
        () = stop_token.next_request() => Err("interrupted".to_owned()),
    };
    let refused = match result {
        Ok(None) => return,
        Ok(Some(result)) => {
            let refused = result.refused.clone();
            match record_notes(env, session, state.head, reader, result).await {
                Ok(()) => refused,
                Err(error) => Some(error.to_string()),
            }
        }
        Err(reason) => Some(reason),
    };
    if let Some(reason) = refused {
        observer.notice(&format!(
            "`{name}` extracted no notes: {reason}; the session is unchanged"
        ));
    }
}

/// Asks the reader; `None` if there is nothing that it has not read.
async fn ask_reader(
    env: &Env,
    session: SessionId,
    state: &State,
    reader: &Reader,
    observer: &dyn Observer,
) -> Result<Option<ReaderResult>, String> {
    let said = question::newest_messages(env, session, &state.handoff).await;
    let said = said.map_err(|error| error.to_string())?;
    if said.is_empty() {
        return Ok(None);
    }
    observer.notice(&format!(
        "`{}` extracts notes from the conversation, for at most {}",
        reader.agent,
        segno_core::time::format_duration(reader.within)
    ));
    let question = question::build(&said, &state.handoff, &Fence::new(&*env.random));
    let (mut usage, mut reason) = (Usage::default(), String::new());
    for attempt in 1..=MAX_ATTEMPTS {
        let input = match attempt {
            1 => question.clone(),
            _ => format!("{question}\n{}", question::retry_prompt(&reason)),
        };
        let answer = call_reader(reader, session, state.run, attempt, &input).await;
        let answer = answer.map_err(|error| error.message)?;
        usage += priced(reader.price, answer.usage);
        match answer::parse(&answer.text) {
            Ok(notes) => {
                let refused = None;
                return Ok(Some(ReaderResult {
                    notes,
                    usage,
                    refused,
                }));
            }
            Err(unusable) => reason = unusable,
        }
    }
    Ok(Some(ReaderResult {
        notes: Vec::new(),
        usage,
        refused: Some(format!("its answer is not usable: {reason}")),
    }))
}

async fn call_reader(
    reader: &Reader,
    session: SessionId,
    run: Run,
    attempt: u32,
    input: &str,
) -> Result<Answer, agent::Error> {
    let path = Path::root("handoff");
    let key = Digest::of_fields(&[session.to_string().as_bytes(), input.as_bytes()]);
    match &reader.driver {
        AgentDriver::Model(model) => {
            let text = input.to_owned();
            let call = Call {
                key,
                system: question::SYSTEM,
                messages: &[Message::User { text }],
                tools: &[],
            };
            final_answer(&model.reply(call, &IgnoreEvents).await?)
        }
        AgentDriver::Stateless(driver) => {
            let request = Request {
                session,
                run,
                path: &path,
                attempt,
                key,
                agent: &reader.agent,
                system: question::SYSTEM,
                input,
                workspace: &reader.workspace,
                window: None,
                access: AccessMode::ReadOnly,
            };
            driver.ask(request, &IgnoreEvents).await
        }
        AgentDriver::CliAgent(_) => Err(agent::Error::new(
            agent::ErrorKind::Invalid,
            "a CLI agent cannot extract notes; it works in the workspace",
        )),
    }
}

/// Records the notes between runs. If a run started meanwhile, they are dropped without an error.
async fn record_notes(
    env: &Env,
    session: SessionId,
    head: Head,
    reader: &Reader,
    result: ReaderResult,
) -> Result<(), between_runs::Error> {
    let used = result.usage != Usage::default();
    if result.refused.is_some() && !used {
        return Ok(());
    }
    let summary = env.store.summary(session).await?;
    let between_runs = match BetweenRuns::acquire(env, &summary).await {
        Err(error) if error.is_held() => return Ok(()),
        begun => begun?,
    };
    let mut resumed = false;
    let since = history::read_events(env, session, head, |entry| {
        resumed |= matches!(entry.event, Event::RunStarted(_));
        Ok(())
    });
    let since = since.await;
    if resumed || since.is_err() {
        between_runs.release().await;
        return Ok(since.map(|_| ())?);
    }
    let notes = result.notes.into_iter();
    let written = NotesWritten {
        source: Source::Model,
        by: reader.agent.clone(),
        path: None,
        notes: notes
            .map(|note| note_events::redact_and_bound(env, note.into()))
            .collect(),
        // What could not be used may be read again.
        read_to: result.refused.is_none().then_some(head.seq),
        usage: result.usage,
    };
    between_runs.append_after_notes(written.into()).await?;
    Ok(())
}

/// Only the complete answer counts.
struct IgnoreEvents;

impl agent::Listener for IgnoreEvents {
    fn on_event(&self, _: agent::Event<'_>) {}
}
