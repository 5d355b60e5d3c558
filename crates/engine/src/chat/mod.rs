//! Chats: conversations with an agent, message by message.
//!
//! A chat is a session. Each message of the person is a step of its journal, and has a run of its own:
//! while nobody waits for an answer nothing holds the lease, no program runs, and nothing can be lost.
//! What is answered is never asked again; what was broken off is answered by a resume, or left when
//! the person says something else.
//!
//! | status | what it means for a chat |
//! |---|---|
//! | `running` | a message is being answered |
//! | `waiting` | the person is there, and it is their turn |
//! | `paused` | the person left, or said nothing for a while |
//! | `interrupted`, `failed` | an answer was broken off; a resume goes on with it |
//! | `expired` | nothing was said for long: archived, and reopened by a resume or the next message |
//! | `cancelled` | given up |
//!
//! - `exchange` is one message and its answer, inside a run.
//! - `log` reads what was said before.
//! - `rest` is everything that is done to a chat without asking anyone.
//! - `sweep` pauses and archives what nobody goes on with.

mod error;
mod exchange;
mod log;
mod opening;
mod rest;
mod sweep;

use std::path::Path as Folder;
use std::sync::{Arc, Mutex};

use segno_core::error::{Diagnose, Kind as Sort};
use segno_core::journal::{Ending, ExchangeEnded, Head, InFlight, Run};
use segno_core::session::{Kind, Status, Summary};
use segno_core::state::{Chat, State};
use segno_core::step::Path;

use crate::drift::OnDrift;
use crate::error::Error as Failure;
use crate::observe::Observer;
use crate::resume::{self, Options};
use crate::run::{self, Begin, Outcome};
use crate::spec::Workflow;
use crate::stop::Brake;
use crate::world::World;
use crate::{claim, history};

pub use error::Error;
pub use exchange::Exchange;
pub use opening::{Opening, Source, open};
pub use rest::{clear, rest};
pub use sweep::{Effect, Limits, Swept, sweep};

use exchange::Past;
use log::Log;
pub(crate) use log::Tally;

/// The longest message, in bytes.
pub const LONGEST: u64 = 1 << 20;

/// How often a model may answer within one exchange, unless someone says otherwise.
pub const MAX_TURNS: u32 = 20;

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person who will say more.
    Here,
    /// Nobody who will say more soon.
    Gone,
}

impl Audience {
    /// Where a chat stands when there is nothing to answer.
    pub fn rest(self) -> Status {
        match self {
            Self::Here => Status::Waiting,
            Self::Gone => Status::Paused,
        }
    }
}

/// A message as it is taken: with secrets replaced, since a later run must ask the same (P7, P12).
pub(crate) fn checked(
    world: &World,
    message: &str,
    observer: &dyn Observer,
) -> Result<String, Failure> {
    if message.trim().is_empty() {
        return Err(Error::Empty.into());
    }
    let bytes = message.len() as u64;
    if bytes > LONGEST {
        return Err(Error::TooLong { bytes }.into());
    }
    let clean = world.redactor.redact(message).into_owned();
    if clean != message {
        observer
            .notice("what looks like a secret in the message was replaced by a placeholder; hand secrets to agents through the environment");
    }
    Ok(clean)
}

/// Refuses a session that is no chat.
pub fn is_chat(summary: &Summary) -> Result<(), Failure> {
    if summary.kind == Kind::Chat {
        return Ok(());
    }
    Err(Error::Other {
        name: summary.name.clone(),
        kind: summary.kind,
    }
    .into())
}

/// The newest chat of a folder that can go on and that nobody runs.
pub async fn newest(world: &World, workspace: &Folder) -> Result<Summary, Failure> {
    let chats = resume::candidates(world, workspace).await?.into_iter();
    let mut chats = chats.filter(|summary| summary.kind == Kind::Chat);
    chats.next_back().ok_or_else(|| {
        let workspace = workspace.to_owned();
        Error::NoneHere { workspace }.into()
    })
}

/// Says something in a chat, and returns when it is answered. A message that has no answer yet is left.
pub async fn say(
    world: &World,
    summary: &Summary,
    message: &str,
    audience: Audience,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Failure> {
    is_chat(summary)?;
    resume::over(summary)?;
    let message = checked(world, message, &*observer)?;
    let lease = claim::claim(world, summary).await?;
    let options = Options {
        // What has no answer is left, so that there is nothing to decide about it.
        in_flight: Some(InFlight::Repeat),
        // People work in the folder while they talk.
        on_drift: OnDrift::Accept,
        ..Options::default()
    };
    let begun = begin(world, summary, lease.run, options, &*observer, |chat| {
        (Chat::path(chat.next), Some(message), audience)
    });
    let (world, begin) = released(world, summary, lease.run, begun.await).await?;
    Box::pin(run::execute(&world, begin, observer, brake)).await
}

/// Goes on with what was broken off, if anything was; otherwise the chat is reopened.
pub async fn go_on(
    world: &World,
    summary: &Summary,
    options: Options,
    audience: Audience,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Failure> {
    is_chat(summary)?;
    resume::over(summary)?;
    let lease = claim::claim(world, summary).await?;
    // Looked at under the lease: someone else may have answered it, or said something else.
    let state = history::look(world, summary.id).await;
    let state = released(world, summary, lease.run, state).await?;
    let Some(path) = unanswered(&state) else {
        let rest = audience.rest();
        let reopened = rest::write(world, summary, lease.run, Vec::new(), rest, observer).await;
        return released(world, summary, lease.run, reopened).await;
    };
    let begun = begin(world, summary, lease.run, options, &*observer, |_| {
        (path, None, audience)
    });
    let (world, begin) = released(world, summary, lease.run, begun.await).await?;
    Box::pin(run::execute(&world, begin, observer, brake)).await
}

/// The message that was broken off, if one was.
pub fn unanswered(state: &State) -> Option<Path> {
    let newest = state.chat.as_ref()?.next.checked_sub(1)?;
    let path = Chat::path(newest);
    state.open.contains_key(&path).then_some(path)
}

/// Lets go of a lease under which nothing was begun: nothing is left behind but a run number.
async fn released<T>(
    world: &World,
    summary: &Summary,
    run: Run,
    begun: Result<T, Failure>,
) -> Result<T, Failure> {
    if begun
        .as_ref()
        .is_err_and(|error| error.kind() != Sort::Fenced)
    {
        let _ = world.store.release(summary.id, run).await;
    }
    begun
}

/// Gets a run of a chat ready: which message, what it says if it is new, and who waits for the answer.
async fn begin(
    world: &World,
    summary: &Summary,
    run: Run,
    options: Options,
    observer: &dyn Observer,
    choose: impl FnOnce(&Chat) -> (Path, Option<String>, Audience),
) -> Result<(World, Begin), Failure> {
    let (world, mut begin) =
        Box::pin(resume::begin(world, summary, run, options, observer)).await?;
    let chat = begin.state.chat.clone().ok_or_else(|| Failure::Senseless {
        session: summary.id,
        reason: "it is a chat that was never opened".to_owned(),
    })?;
    let (path, message, audience) = choose(&chat);
    let genesis = Head::genesis(summary.id);
    let goes_on = message.is_none().then_some(&path);
    let log = Log::read(&world, summary.id, genesis, chat.since, goes_on).await?;
    if message.is_some() {
        let left = begin.state.open.keys().cloned();
        begin.opening.extend(left.map(|path| {
            ExchangeEnded {
                path,
                ending: Ending::Left,
                replies: log.tally.replies,
                tool_calls: log.tally.tool_calls,
                model: log.tally.model.clone(),
            }
            .into()
        }));
    }
    let since = match goes_on {
        Some(_) => log.began.unwrap_or(genesis),
        None => begin.state.head,
    };
    let message = message.unwrap_or(log.message);
    let past = Past {
        entries: log.entries,
        own: log.own,
        native: chat.native.clone(),
    };
    let exchange = exchange(&begin.workflow, &chat, path, message, past, since, audience);
    begin.exchange = Some(Box::new(exchange));
    Ok((world, begin))
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
