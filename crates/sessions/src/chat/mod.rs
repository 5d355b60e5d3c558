//! Chats: conversations with an agent, message by message.
//!
//! A chat is a session. Each user message is a step in its journal and has a run of its own:
//! between messages no process holds the lease, no agent runs, and nothing can be lost. An answered
//! message is never asked again. An interrupted answer is continued by a resume, or abandoned when
//! the user says something else.
//!
//! | status | meaning for a chat |
//! |---|---|
//! | `running` | a message is being answered |
//! | `waiting` | the user is present, and it is their turn |
//! | `paused` | the user left, or said nothing for a while |
//! | `interrupted`, `failed` | an answer was interrupted; a resume continues it |
//! | `expired` | nothing was said for long: archived; a resume or the next message reopens it |
//! | `cancelled` | cancelled permanently |
//!
//! - `exchange` is one message and its answer, inside a run.
//! - `log` reads the conversation from the journal.
//! - `rest` changes a chat without calling an agent.
//! - `sweep` pauses and archives idle chats.

mod error;
mod open;
mod status_change;
mod sweep;

use std::path::Path as Folder;
use std::sync::{Arc, Mutex};

use segno_core::error::{Diagnose, Kind as Sort};
use segno_core::journal::{Ending, ExchangeEnded, Head, InFlight, OnDrift, Run};
use segno_core::session::{Kind, Status};
use segno_core::state::{Chat, State};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::run::{self, RunStart};
use segno_engine::steps::chat::{Audience, Exchange, Log, Past};
use segno_engine::{Env, Observer, Outcome, StopToken, history, lease};
use segno_spec::Workflow;

use crate::listing;
use crate::next_run::{self, Options};
use crate::unknown;

pub use error::{Error, MAX_MESSAGE_BYTES};
pub use open::{ChatAgent, NewChat, open, open_idle};
pub use status_change::{clear, set_idle};
pub use sweep::{Effect, Limits, Swept, sweep};

/// How often a model may reply within one exchange, unless configured otherwise.
pub const MAX_TURNS: u32 = 20;

/// Validates and redacts a message; redacted, because a later run must ask the same (P7, P12).
pub(crate) fn validate_message(
    env: &Env,
    message: &str,
    observer: &dyn Observer,
) -> Result<String, Error> {
    if message.trim().is_empty() {
        return Err(Error::Empty);
    }
    let bytes = message.len() as u64;
    if bytes > MAX_MESSAGE_BYTES {
        return Err(Error::TooLong { bytes });
    }
    let clean = env.redactor.redact(message).into_owned();
    if clean != message {
        observer
            .notice("a likely secret in the message was replaced by a placeholder; pass secrets to agents through the environment");
    }
    Ok(clean)
}

/// Refuses a session that is no chat.
pub fn is_chat(summary: &Summary) -> Result<(), Error> {
    if summary.kind.is_chat() {
        return Ok(());
    }
    Err(Error::NotAChat {
        name: summary.name.clone(),
        kind: summary.kind,
    })
}

/// The newest resumable chat of a workspace that has no active run.
pub async fn newest(env: &Env, workspace: &Folder) -> Result<Summary, Error> {
    let chats = listing::resumable_sessions(env, workspace)
        .await?
        .into_iter();
    let mut chats = chats.filter(|summary| summary.kind.is_chat());
    chats.next_back().ok_or_else(|| {
        let workspace = workspace.to_owned();
        Error::NoChatHere { workspace }
    })
}

/// Sends a message to a chat and returns when it is answered. Abandons an earlier message without
/// answer.
pub async fn send(
    env: &Env,
    summary: &Summary,
    message: &str,
    audience: Audience,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    refuse_while_message_waits(env, summary).await?;
    // People work in the folder while they chat.
    let options = Options {
        on_drift: OnDrift::Accept,
        ..Options::default()
    };
    let sending = send_with(
        env, summary, message, options, audience, observer, stop_token,
    );
    sending.await
}

/// Refuses a message while another one waits for a worker, so that no message is lost.
async fn refuse_while_message_waits(env: &Env, summary: &Summary) -> Result<(), Error> {
    if summary.status != Status::Pending {
        return Ok(());
    }
    let state = history::load_state(env, summary.id).await?;
    match state.request() {
        Some(request) if request.options.message.is_some() => Err(Error::MessageWaits {
            name: summary.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// Like [`send`], with the options of a resume.
pub(crate) async fn send_with(
    env: &Env,
    summary: &Summary,
    message: &str,
    options: Options,
    audience: Audience,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    is_chat(summary)?;
    next_run::check_resumable(summary)?;
    let message = validate_message(env, message, &*observer)?;
    let lease = lease::acquire(env, summary).await?;
    let options = Options {
        // A message without an answer is abandoned, so its outcome needs no decision.
        in_flight: Some(InFlight::Repeat),
        // The message is what is sent, not an addition to it.
        message: None,
        ..options
    };
    let prepared = prepare(env, summary, lease.run, options, &*observer, |chat| {
        (
            Chat::message_path(chat.next_number),
            Some(message),
            audience,
        )
    });
    let (env, run_start) = release_on_error(env, summary, lease.run, prepared.await).await?;
    Ok(Box::pin(run::execute(&env, run_start, observer, stop_token)).await?)
}

/// Continues an interrupted answer, if there is one; otherwise reopens the chat.
pub async fn resume(
    env: &Env,
    summary: &Summary,
    options: Options,
    audience: Audience,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    is_chat(summary)?;
    next_run::check_resumable(summary)?;
    let lease = lease::acquire(env, summary).await?;
    // Read under the lease: someone else may have answered it, or said something else.
    let state = history::load_state(env, summary.id).await;
    let state = release_on_error(env, summary, lease.run, state).await?;
    let Some(path) = unanswered(&state) else {
        if !options.decisions.is_empty() {
            let refused = unknown::Error::NotUnknown {
                name: summary.name.clone(),
                step: None,
                unknown: Vec::new(),
            };
            let refused = Err(next_run::Error::from(refused).into());
            return release_on_error(env, summary, lease.run, refused).await;
        }
        if let Some(message) = options.message.clone() {
            let _ = env.store.release(summary.id, lease.run).await;
            let sending = send_with(
                env, summary, &message, options, audience, observer, stop_token,
            );
            return Box::pin(sending).await;
        }
        let rest = audience.idle_status();
        let reopened =
            status_change::write_run(env, summary, lease.run, Vec::new(), rest, observer).await;
        return release_on_error(env, summary, lease.run, reopened).await;
    };
    let prepared = prepare(env, summary, lease.run, options, &*observer, |_| {
        (path, None, audience)
    });
    let (env, run_start) = release_on_error(env, summary, lease.run, prepared.await).await?;
    Ok(Box::pin(run::execute(&env, run_start, observer, stop_token)).await?)
}

/// Whether a session continues message by message. An adopted conversation does, unless it was
/// adopted by an early version as the only step of a workflow.
pub async fn takes_messages(env: &Env, summary: &Summary) -> Result<bool, history::Error> {
    Ok(match summary.kind {
        Kind::Chat => true,
        Kind::Workflow => false,
        Kind::Agent => history::load_state(env, summary.id).await?.chat.is_some(),
    })
}

/// The message whose answer was interrupted, if there is one.
pub fn unanswered(state: &State) -> Option<Path> {
    let newest = state.chat.as_ref()?.next_number.checked_sub(1)?;
    let path = Chat::message_path(newest);
    state.open_steps.contains_key(&path).then_some(path)
}

/// Releases a lease under which nothing was written: nothing is left behind but a run number.
async fn release_on_error<T, E: Diagnose>(
    env: &Env,
    summary: &Summary,
    run: Run,
    prepared: Result<T, E>,
) -> Result<T, E> {
    if prepared
        .as_ref()
        .is_err_and(|error| error.kind() != Sort::Fenced)
    {
        let _ = env.store.release(summary.id, run).await;
    }
    prepared
}

/// Prepares a run of a chat: which message, its text if it is new, and who waits for the answer.
async fn prepare(
    env: &Env,
    summary: &Summary,
    run: Run,
    options: Options,
    observer: &dyn Observer,
    choose: impl FnOnce(&Chat) -> (Path, Option<String>, Audience),
) -> Result<(Env, RunStart), Error> {
    let (env, mut run_start) =
        Box::pin(next_run::prepare(env, summary, run, options, observer)).await?;
    let chat = run_start
        .state
        .chat
        .clone()
        .ok_or_else(|| history::Error::InvalidJournal {
            session: summary.id,
            reason: "the chat has no opening event".to_owned(),
        })?;
    let (path, message, audience) = choose(&chat);
    let genesis = Head::genesis(summary.id);
    let continues = message.is_none().then_some(&path);
    let log = Log::read(&env, summary.id, genesis, chat.since, continues).await?;
    if message.is_some() {
        let left = run_start.state.open_steps.keys().cloned();
        run_start.opening.extend(left.map(|path| {
            ExchangeEnded {
                path,
                ending: Ending::Abandoned,
                replies: log.tally.replies,
                tool_calls: log.tally.tool_calls,
                model: log.tally.model.clone(),
            }
            .into()
        }));
    }
    let since = match continues {
        Some(_) => log.began.unwrap_or(genesis),
        None => run_start.state.head,
    };
    let message = message.unwrap_or(log.message);
    let past = Past {
        entries: log.entries,
        own: log.own,
        conversations: chat.earlier.iter().chain(&chat.native).cloned().collect(),
    };
    let exchange = exchange(
        &run_start.workflow,
        &chat,
        path,
        message,
        past,
        since,
        audience,
    );
    run_start.exchange = Some(Box::new(exchange));
    Ok((env, run_start))
}

fn exchange(
    workflow: &Workflow,
    chat: &Chat,
    path: Path,
    message: String,
    past: Past,
    since: Head,
    audience: Audience,
) -> Exchange {
    let agent = workflow.agents.get(&chat.agent);
    let model = agent.and_then(|agent| agent.provider.model());
    Exchange {
        path,
        agent: chat.agent.clone(),
        model: model.map(str::to_owned),
        message,
        past,
        max_turns: chat.max_turns,
        since,
        audience,
        ending: Mutex::new(Ending::EndTurn),
    }
}
