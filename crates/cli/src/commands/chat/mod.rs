//! `segno chat`: a durable conversation with an agent, one exchange or at a prompt.

mod keyboard;
mod prompt;
mod view;

use std::io::{IsTerminal, Read, stderr, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use segno_agents::program::Permissions;
use segno_core::id::Name;
use segno_core::store::Summary;
use segno_engine::steps::chat::Audience;
use segno_engine::{Env, Outcome};
use segno_sessions as sessions;
use segno_sessions::chat::{self, ChatAgent, Effect, MAX_MESSAGE_BYTES, NewChat};
use segno_sessions::json;
use segno_sessions::resume::Options;
use segno_supervisor::notices::Origin;

use super::agents;
use super::resume::PermissionsArg;
use super::run::{NOTICE_LIMIT, name, watch_signals, with_auto_cleanup};
use crate::config::Config;
use crate::context::{Context, Persistence, notices, workspace};
use crate::failure::Failure;
use crate::output::{json_line, print_result, stderr_line};
use view::View;

/// Chat with an agent in a durable conversation.
///
/// With a message, or with text on stdin, prints one answer. Without, opens a prompt; `/help` lists
/// its commands. Everything is stored, and any agent can continue the conversation after a kill or
/// a reboot, with or without the agent's own transcript.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Message to send; `-` reads it from stdin
    message: Option<String>,
    /// Agent to chat with: `claude`, `codex`, or an agent of the spec [default: `chat.agent` in
    /// config.toml]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue_newest"])]
    agent: Option<String>,
    /// Spec that defines the agent [default: `chat.spec` in config.toml]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "continue_newest"])]
    spec: Option<PathBuf>,
    /// Continue this chat instead of starting one
    #[arg(long, value_name = "SESSION", conflicts_with = "continue_newest")]
    session: Option<String>,
    /// Continue the newest chat in this folder
    #[arg(long = "continue")]
    continue_newest: bool,
    /// Forget the conversation so far: agents no longer receive it. Without a message, do only that
    #[arg(long)]
    clear: bool,
    /// Name of the chat [default: chat, numbered]
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["session", "continue_newest"])]
    name: Option<Name>,
    /// Maximum number of model turns in one exchange, for tool calls and truncated answers
    #[arg(long, value_name = "N", default_value_t = chat::MAX_TURNS, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["session", "continue_newest"])]
    max_turns: u32,
    /// Permissions of CLI agents [default: as in config.toml, else edit]
    #[arg(long, value_enum, value_name = "WHAT")]
    permissions: Option<PermissionsArg>,
    /// Print the answer and its usage as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The chat to use: an existing one, or one to create.
enum Chat {
    Existing(Box<Summary>),
    New(Box<NewChat>),
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let permissions = args.permissions.map(Permissions::from);
    let (env, config) = context.env_with_permissions(Persistence::Home, permissions)?;
    if args.clear {
        clear_conversation(&args, &env).await?;
        if args.message.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let typed = args.message.is_none() && stdin().is_terminal();
    if typed && args.json {
        let hint = "`segno chat --json \"...\"`, or the message on stdin".to_owned();
        return Err(Failure::usage("`--json` needs a message", Some(hint)));
    }
    let json = args.json;
    let message = match &args.message {
        _ if typed => None,
        Some(message) if message != "-" => Some(message.clone()),
        _ => Some(read_stdin()?),
    };
    let chat = find(args, &env, &config).await?;
    let ran = match message {
        Some(message) => run_exchange(&env, &config, chat, &message, json).await,
        None => Box::pin(prompt::run(env.clone(), &config, chat, Options::default())).await,
    };
    // A sweep that fails is repeated later.
    let _ = chat::sweep(&env, config.chat.limits, Effect::Apply).await;
    with_auto_cleanup(ran, &env, &config).await
}

/// Continues a chat at the prompt. Returns `None` if the session is not a chat or there is no
/// terminal.
pub(crate) async fn continue_at_prompt(
    env: &Env,
    config: &Config,
    summary: &Summary,
    options: &Options,
) -> Option<Result<ExitCode, Failure>> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return None;
    }
    match chat::takes_messages(env, summary).await {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return Some(Err(error.into())),
    }
    let chat = Chat::Existing(Box::new(summary.clone()));
    Some(Box::pin(prompt::run(env.clone(), config, chat, options.clone())).await)
}

/// Finds the existing chat that the arguments name, if they name one.
async fn find_existing(args: &Args, env: &Env) -> Result<Option<Summary>, Failure> {
    let found = match (&args.session, args.continue_newest) {
        (Some(reference), _) => sessions::find(env, reference).await?,
        (None, true) => chat::newest(env, &workspace()?).await?,
        (None, false) => return Ok(None),
    };
    chat::is_chat(&found)?;
    Ok(Some(agents::catch_up(env, found).await))
}

/// Clears the conversation of an existing chat.
async fn clear_conversation(args: &Args, env: &Env) -> Result<(), Failure> {
    let Some(summary) = find_existing(args, env).await? else {
        let hint = "select one with `--session NAME` or `--continue`".to_owned();
        return Err(Failure::usage("`--clear` needs a chat", Some(hint)));
    };
    let view = Arc::new(View::new(env, view::Verbosity::Notices));
    chat::clear(env, &summary, "user", Audience::Absent, view).await?;
    stderr_line(&format!(
        "cleared the conversation of {}; it stays in the journal",
        summary.name
    ));
    Ok(())
}

async fn find(args: Args, env: &Env, config: &Config) -> Result<Chat, Failure> {
    if let Some(summary) = find_existing(&args, env).await? {
        return Ok(Chat::Existing(Box::new(summary)));
    }
    let workspace = workspace()?;
    let from_args = args.agent.is_some() || args.spec.is_some();
    let settings = &config.chat;
    let (agent, spec) = if from_args {
        (args.agent, args.spec)
    } else {
        (settings.agent.clone(), settings.spec.clone())
    };
    let opening = NewChat {
        source: ChatAgent::resolve(agent, spec.map(|file| workspace.join(file)))?,
        name: args.name,
        workspace,
        max_turns: args.max_turns,
    };
    Ok(Chat::New(Box::new(opening)))
}

/// Reads a message from stdin, up to the maximum length.
fn read_stdin() -> Result<String, Failure> {
    let mut text = Vec::new();
    let read = stdin()
        .lock()
        .take(MAX_MESSAGE_BYTES + 2)
        .read_to_end(&mut text);
    read.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}"), None))?;
    let mut text = String::from_utf8(text).map_err(|_| {
        let hint = "a message is text".to_owned();
        Failure::usage("stdin is not UTF-8 text", Some(hint))
    })?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Runs one exchange and prints the answer.
async fn run_exchange(
    env: &Env,
    config: &Config,
    chat: Chat,
    message: &str,
    json: bool,
) -> Result<ExitCode, Failure> {
    let stop_token = watch_signals();
    let view = Arc::new(View::new(env, view::Verbosity::Notices));
    let notices = notices(env, config);
    let observer = notices.observe(Arc::clone(&view) as _, Origin::User);
    let audience = Audience::Absent;
    let outcome = match chat {
        Chat::Existing(summary) => {
            chat::send(env, &summary, message, audience, observer, stop_token).await
        }
        Chat::New(opening) => {
            chat::open(env, *opening, message, audience, observer, stop_token).await
        }
    };
    if let Ok(outcome) = &outcome {
        print(outcome, &view, json);
    }
    notices.finish(NOTICE_LIMIT).await;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn print(outcome: &Outcome, view: &View, json: bool) {
    if json {
        json_line(&json::exchange(outcome, &view.usage()));
        return;
    }
    print_result(&outcome.output);
    view::report_limits(&outcome.state);
}
