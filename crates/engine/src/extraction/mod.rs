//! Extracts notes from a session that stops with a model, where the spec asks for it.
//!
//! What an agent decided is recorded nowhere but in its text. Before a run pauses or fails, its
//! process asks a reader once for decisions and errors, and journals them as notes, so that the
//! checkpoint of the pause contains them. The time is bounded, another stop request ends the
//! reading, and an answer that does not match the schema is not used: the run pauses all the same.

mod answer;
mod question;

use std::time::Duration;

use segno_core::agent::{self, AccessMode, Answer, Request};
use segno_core::cli_agent::{ConversationMode, new_conversation_id};
use segno_core::digest::Digest;
use segno_core::journal::{NotesWritten, Seq};
use segno_core::model::{Call, Message};
use segno_core::note::{Note, Source};
use segno_core::step::Path;
use segno_core::usage::{Price, Usage};

use crate::env::AgentDriver;
use crate::note_events;
use crate::resume::context::Fence;
use crate::steps::{Runner, final_answer, priced};

/// How often the reader is asked: an unusable answer is asked for once more.
const MAX_ATTEMPTS: u32 = 2;

/// The agent that reads the conversation.
pub(crate) struct Reader {
    pub(crate) agent: String,
    pub(crate) driver: AgentDriver,
    pub(crate) price: Option<Price>,
    /// The time limit for all of it.
    pub(crate) within: Duration,
}

/// What a reader returned.
#[derive(Default)]
struct ReaderResult {
    notes: Vec<Note>,
    usage: Usage,
    /// Why the answer is unusable, if it is.
    refused: Option<String>,
}

/// Extracts notes from what the session has said so far. Errors are reported, and change nothing.
pub(crate) async fn extract(runner: &Runner, reader: &Reader) {
    let name = &reader.agent;
    let result = tokio::select! {
        result = ask_reader(runner, reader) => result,
        () = runner.env.clock.sleep(reader.within) => {
            let within = segno_core::time::format_duration(reader.within);
            Err(format!("no answer within {within}"))
        }
        () = runner.stop_token.next_request() => Err("interrupted".to_owned()),
    };
    let refused = match result {
        Ok(None) => return,
        Ok(Some((result, read_to))) => {
            let refused = result.refused.clone();
            match record_notes(runner, reader, result, read_to).await {
                Ok(()) => refused,
                Err(error) => Some(error.to_string()),
            }
        }
        Err(reason) => Some(reason),
    };
    if let Some(reason) = refused {
        runner.observer.notice(&format!(
            "`{name}` extracted no notes: {reason}; the session stops without them"
        ));
    }
}

/// Asks the reader. Returns also the last event that it read; `None` if there is nothing that it has
/// not read.
async fn ask_reader(
    runner: &Runner,
    reader: &Reader,
) -> Result<Option<(ReaderResult, Seq)>, String> {
    let (env, session) = (&runner.env, runner.id.session);
    let flushed = runner.journal.flush().await;
    flushed.map_err(|error| error.to_string())?;
    let state = runner.journal.state();
    let said = question::newest_messages(env, session, &state.handoff).await;
    let said = said.map_err(|error| error.to_string())?;
    if said.is_empty() {
        return Ok(None);
    }
    runner.observer.notice(&format!(
        "`{}` extracts notes from the conversation, for at most {}",
        reader.agent,
        segno_core::time::format_duration(reader.within)
    ));
    let question = question::build(&said, &state.handoff, &Fence::new(&*env.random));
    let (mut result, mut reason) = (ReaderResult::default(), String::new());
    for attempt in 1..=MAX_ATTEMPTS {
        let input = match attempt {
            1 => question.clone(),
            _ => format!("{question}\n{}", question::retry_prompt(&reason)),
        };
        let answer = call_reader(runner, reader, attempt, &input).await;
        let answer = answer.map_err(|error| error.message)?;
        result.usage += priced(reader.price, answer.usage);
        match answer::parse(&answer.text) {
            Ok(notes) => {
                result.notes = notes;
                return Ok(Some((result, state.head.seq)));
            }
            Err(unusable) => reason = unusable,
        }
    }
    result.refused = Some(format!("its answer is not usable: {reason}"));
    Ok(Some((result, state.head.seq)))
}

async fn call_reader(
    runner: &Runner,
    reader: &Reader,
    attempt: u32,
    input: &str,
) -> Result<Answer, agent::Error> {
    let (id, path) = (&runner.id, Path::root("handoff"));
    let key = Digest::of_fields(&[id.session.to_string().as_bytes(), input.as_bytes()]);
    let request = Request {
        session: id.session,
        run: id.run,
        path: &path,
        attempt,
        key,
        agent: &reader.agent,
        system: question::SYSTEM,
        input,
        workspace: &id.workspace,
        window: None,
        conversation_cost: None,
        pass_env: &runner.policy.pass_env,
        access: AccessMode::InputOnly,
    };
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
        AgentDriver::Stateless(driver) => driver.ask(request, &IgnoreEvents).await,
        AgentDriver::CliAgent(cli_agent) => {
            let conversation = new_conversation_id(&*runner.env.random);
            let way = ConversationMode::Start { id: &conversation };
            cli_agent.ask(request, way, &IgnoreEvents).await
        }
    }
}

/// Journals the notes.
async fn record_notes(
    runner: &Runner,
    reader: &Reader,
    result: ReaderResult,
    read_to: Seq,
) -> Result<(), segno_core::store::Error> {
    if result.refused.is_some() && result.usage == Usage::default() {
        return Ok(());
    }
    let notes = result.notes.into_iter();
    let written = NotesWritten {
        source: Source::Model,
        by: reader.agent.clone(),
        path: None,
        notes: notes
            .map(|note| note_events::redact_and_bound(&runner.env, note.into()))
            .collect(),
        // What could not be used may be read again.
        read_to: result.refused.is_none().then_some(read_to),
        usage: result.usage,
    };
    runner.journal.write(vec![written.into()]).await?;
    Ok(())
}

/// Only the complete answer counts.
struct IgnoreEvents;

impl agent::Listener for IgnoreEvents {
    fn on_event(&self, _: agent::Event<'_>) {}
}
