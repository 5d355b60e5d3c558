//! A model reads what was said when a session has stopped, where its spec says so.
//!
//! What an agent decided stands nowhere but in its words. When a run has ended and its checkpoint is
//! kept, the process that ran it asks a reader once what was decided and what went wrong, and notes
//! that between runs. It is never in the way: it has a bounded time, anyone may resume meanwhile, and
//! an answer that does not hold to the form is not used.

mod answer;
mod question;

use std::path::PathBuf;
use std::time::Duration;

use segno_core::agent::{self, Answer, Conduct, Request};
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, MemosWritten, Run};
use segno_core::memo::{Memo, Source};
use segno_core::model::{Call, Message};
use segno_core::session::Status;
use segno_core::state::State;
use segno_core::step::Path;
use segno_core::usage::{Price, Usage};

use crate::context::Fence;
use crate::error::Error;
use crate::flow::{answer as words_of, priced};
use crate::history;
use crate::interlude::Interlude;
use crate::memos;
use crate::observe::Observer;
use crate::stop::Brake;
use crate::world::{Speaker, World};

/// How often it is asked: an answer that cannot be used is asked for once more.
const TRIES: u32 = 2;

/// Who reads.
pub(crate) struct Reader {
    pub(crate) agent: String,
    pub(crate) speaker: Speaker,
    pub(crate) price: Option<Price>,
    /// How long all of it may take.
    pub(crate) within: Duration,
    pub(crate) workspace: PathBuf,
}

/// What a reader brought.
struct Brought {
    memos: Vec<Memo>,
    usage: Usage,
    /// Why nothing of it can be used, if so.
    refused: Option<String>,
}

/// Has what was said read, if the session stands where somebody may go on with it. Whatever goes wrong
/// is told, and changes nothing about how the session stands.
pub(crate) async fn extract(
    world: &World,
    session: SessionId,
    state: &State,
    reader: &Reader,
    brake: &Brake,
    observer: &dyn Observer,
) {
    if !matches!(state.status, Status::Paused | Status::Failed) {
        return;
    }
    let name = &reader.agent;
    let reading = read(world, session, state, reader, observer);
    let brought = tokio::select! {
        brought = reading => brought,
        () = world.clock.sleep(reader.within) => {
            let within = segno_core::time::human(reader.within);
            Err(format!("it has not answered within {within}"))
        }
        () = brake.next() => Err("it was broken off".to_owned()),
    };
    let refused = match brought {
        Ok(None) => return,
        Ok(Some(brought)) => {
            let refused = brought.refused.clone();
            match keep(world, session, state.head, reader, brought).await {
                Ok(()) => refused,
                Err(error) => Some(error.to_string()),
            }
        }
        Err(reason) => Some(reason),
    };
    if let Some(reason) = refused {
        observer.notice(&format!(
            "`{name}` brought no memos: {reason}; the session stands as it stood"
        ));
    }
}

/// Asks the reader; `None` if nothing was said that it has not read.
async fn read(
    world: &World,
    session: SessionId,
    state: &State,
    reader: &Reader,
    observer: &dyn Observer,
) -> Result<Option<Brought>, String> {
    let told = |error: Error| error.to_string();
    let said = question::newest(world, session, &state.handoff).await;
    let said = said.map_err(told)?;
    if said.is_empty() {
        return Ok(None);
    }
    observer.notice(&format!(
        "`{}` reads what was decided, for {} at most",
        reader.agent,
        segno_core::time::human(reader.within)
    ));
    let question = question::question(&said, &state.handoff, &Fence::new(&*world.random));
    let (mut usage, mut reason) = (Usage::default(), String::new());
    for attempt in 1..=TRIES {
        let again = match attempt {
            1 => question.clone(),
            _ => format!("{question}\n{}", question::again(&reason)),
        };
        let answer = ask(reader, session, state.run, attempt, &again).await;
        let answer = answer.map_err(|error| error.message)?;
        usage += priced(reader.price, answer.usage);
        match answer::read(&answer.text) {
            Ok(memos) => {
                let refused = None;
                return Ok(Some(Brought {
                    memos,
                    usage,
                    refused,
                }));
            }
            Err(unusable) => reason = unusable,
        }
    }
    Ok(Some(Brought {
        memos: Vec::new(),
        usage,
        refused: Some(format!("its answer cannot be used: {reason}")),
    }))
}

async fn ask(
    reader: &Reader,
    session: SessionId,
    run: Run,
    attempt: u32,
    input: &str,
) -> Result<Answer, agent::Error> {
    let path = Path::first("handoff");
    let key = Digest::of_fields(&[session.to_string().as_bytes(), input.as_bytes()]);
    match &reader.speaker {
        Speaker::Model(model) => {
            let text = input.to_owned();
            let call = Call {
                key,
                system: question::SYSTEM,
                messages: &[Message::User { text }],
                tools: &[],
            };
            words_of(&model.reply(call, &Nobody).await?)
        }
        Speaker::Agent(driver) => {
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
                conduct: Conduct::Look,
            };
            driver.ask(request, &Nobody).await
        }
        Speaker::Companion(_) => Err(agent::Error::new(
            agent::ErrorKind::Invalid,
            "it works by itself, and does not only answer",
        )),
    }
}

/// Notes what was brought between runs. If somebody went on meanwhile, it is too late, and no error.
async fn keep(
    world: &World,
    session: SessionId,
    head: Head,
    reader: &Reader,
    brought: Brought,
) -> Result<(), Error> {
    let used = brought.usage != Usage::default();
    if brought.refused.is_some() && !used {
        return Ok(());
    }
    let summary = world.store.summary(session).await?;
    let interlude = match Interlude::begin(world, &summary).await {
        Err(Error::Held { .. }) => return Ok(()),
        begun => begun?,
    };
    let mut went_on = false;
    let since = history::follow(world, session, head, |entry| {
        went_on |= matches!(entry.event, Event::RunStarted(_));
        Ok(())
    });
    let since = since.await;
    if went_on || since.is_err() {
        interlude.leave().await;
        return since.map(|_| ());
    }
    let memos = brought.memos.into_iter();
    let written = MemosWritten {
        source: Source::Model,
        by: reader.agent.clone(),
        path: None,
        memos: memos.map(|memo| memos::clean(world, memo.into())).collect(),
        // What could not be used may be read again.
        read_to: brought.refused.is_none().then_some(head.seq),
        usage: brought.usage,
    };
    interlude.note(written.into()).await?;
    Ok(())
}

/// Only the whole answer counts.
struct Nobody;

impl agent::Listener for Nobody {
    fn hear(&self, _: agent::Event<'_>) {}
}
