mod keyboard;
mod line;
mod prompt;
mod view;

use std::io::{IsTerminal, Read, stderr, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use segno_agents::program::Permissions;
use segno_core::id::Name;
use segno_core::session::{Kind, Summary};
use segno_engine::chat::{self, Audience, Effect, LONGEST, Opening, Source};
use segno_engine::resume::Options;
use segno_engine::{Outcome, World, sessions};

use super::resume::PermissionsArg;
use super::run::{name, tidied, watch_signals};
use crate::config::Config;
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::{data, json, json_line, plain, say};
use view::View;

/// Talk with an agent: a conversation that survives.
///
/// With a message, or with text on stdin, it is one exchange: the answer is printed. Without, messages
/// are typed at a prompt, and `/help` says what else can be typed there. All that is said is kept, and
/// any agent can go on with it: after a kill, after a reboot, with or without the agent's own record.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to say; `-` takes it from stdin
    message: Option<String>,
    /// Who is spoken to: `claude`, `codex`, or an agent of the spec [default: as config.toml says]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "go_on"])]
    agent: Option<String>,
    /// The spec that names the agent [default: as config.toml says]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "go_on"])]
    spec: Option<PathBuf>,
    /// Go on with this chat instead of opening one
    #[arg(long, value_name = "SESSION", conflicts_with = "go_on")]
    session: Option<String>,
    /// Go on with the newest chat of this folder
    #[arg(long = "continue")]
    go_on: bool,
    /// Forget what was said before: no agent is told of it any more; without a message, that is all
    #[arg(long)]
    clear: bool,
    /// What to call the chat [default: chat, numbered]
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["session", "go_on"])]
    name: Option<Name>,
    /// How often a model may answer within one exchange, with tools or because its answer was cut off
    #[arg(long, value_name = "N", default_value_t = chat::MAX_TURNS, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["session", "go_on"])]
    max_turns: u32,
    /// What agents' programs may do [default: as the settings say, else edit]
    #[arg(long, value_enum, value_name = "WHAT")]
    permissions: Option<PermissionsArg>,
    /// Print the answer and what it took as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A chat as it is meant: one that there is, or one to be opened.
enum Chat {
    There(Box<Summary>),
    New(Box<Opening>),
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let permissions = args.permissions.map(Permissions::from);
    let (world, config) = context.world_with(Keep::Home, permissions)?;
    if args.clear {
        forget(&args, &world).await?;
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
        _ => Some(piped()?),
    };
    let chat = find(args, &world, &config).await?;
    let ran = match message {
        Some(message) => once(&world, chat, &message, json).await,
        None => {
            Box::pin(prompt::talk(
                world.clone(),
                &config,
                chat,
                Options::default(),
            ))
            .await
        }
    };
    // What cannot be swept now can be later.
    let _ = chat::sweep(&world, config.chat.limits, Effect::Real).await;
    tidied(ran, &world, &config).await
}

/// Goes on with a chat at a prompt, if a person is there.
pub(crate) async fn reopened(
    world: &World,
    config: &Config,
    summary: &Summary,
    options: &Options,
) -> Option<Result<ExitCode, Failure>> {
    if summary.kind != Kind::Chat || !stdin().is_terminal() || !stderr().is_terminal() {
        return None;
    }
    let chat = Chat::There(Box::new(summary.clone()));
    Some(Box::pin(prompt::talk(world.clone(), config, chat, options.clone())).await)
}

/// The chat that there is and that is meant, if one is.
async fn meant(args: &Args, world: &World) -> Result<Option<Summary>, Failure> {
    let found = match (&args.session, args.go_on) {
        (Some(reference), _) => sessions::find(world, reference).await?,
        (None, true) => chat::newest(world, &workspace()?).await?,
        (None, false) => return Ok(None),
    };
    chat::is_chat(&found)?;
    Ok(Some(found))
}

/// Forgets what was said in a chat that there is.
async fn forget(args: &Args, world: &World) -> Result<(), Failure> {
    let Some(summary) = meant(args, world).await? else {
        let hint = "`--session NAME` or `--continue` says which chat is meant".to_owned();
        return Err(Failure::usage("`--clear` needs a chat", Some(hint)));
    };
    let view = Arc::new(View::new(world, view::Shown::Notes));
    chat::clear(world, &summary, "the person", Audience::Gone, view).await?;
    say(&format!(
        "what was said in {} is forgotten; it stays in the journal",
        summary.name
    ));
    Ok(())
}

async fn find(args: Args, world: &World, config: &Config) -> Result<Chat, Failure> {
    if let Some(summary) = meant(&args, world).await? {
        return Ok(Chat::There(Box::new(summary)));
    }
    let workspace = workspace()?;
    let own = args.agent.is_some() || args.spec.is_some();
    let settings = &config.chat;
    let (agent, spec) = if own {
        (args.agent, args.spec)
    } else {
        (settings.agent.clone(), settings.spec.clone())
    };
    let opening = Opening {
        source: Source::of(agent, spec.map(|file| workspace.join(file)))?,
        name: args.name,
        workspace,
        max_turns: args.max_turns,
    };
    Ok(Chat::New(Box::new(opening)))
}

/// What is on stdin, as far as it can be a message.
fn piped() -> Result<String, Failure> {
    let mut text = Vec::new();
    let read = stdin().lock().take(LONGEST + 2).read_to_end(&mut text);
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

/// One exchange.
async fn once(world: &World, chat: Chat, message: &str, json: bool) -> Result<ExitCode, Failure> {
    let brake = watch_signals();
    let view = Arc::new(View::new(world, view::Shown::Notes));
    let observer = Arc::clone(&view);
    let audience = Audience::Gone;
    let outcome = match chat {
        Chat::There(summary) => {
            chat::say(world, &summary, message, audience, observer, brake).await?
        }
        Chat::New(opening) => {
            chat::open(world, *opening, message, audience, observer, brake).await?
        }
    };
    print(&outcome, &view, json);
    Ok(ExitCode::SUCCESS)
}

fn print(outcome: &Outcome, view: &View, json: bool) {
    if json {
        json_line(&json::exchange(outcome, &view.usage()));
        return;
    }
    let text = if stdout().is_terminal() {
        plain::lines(&outcome.output)
    } else {
        outcome.output.clone()
    };
    data(&text);
    view::limits(&outcome.state);
}
