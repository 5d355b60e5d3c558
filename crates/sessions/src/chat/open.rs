//! Opens a chat: chooses the agent and sends the first message.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::cli_agent::CliAgentKind;
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{ChatOpened, Event, Run, RunEnded, RunPurpose, SessionCreated};
use segno_core::session::{Kind, Status};
use segno_core::state::{Chat, State};
use segno_core::store::Summary;
use segno_engine::run::{self, RunStart};
use segno_engine::steps::Agents;
use segno_engine::steps::chat::Past;
use segno_engine::workspace::path_text;
use segno_engine::{Env, Observer, Outcome, StopToken, journal};
use segno_spec as spec;
use segno_spec::Workflow;

use super::{Audience, Error, exchange, validate_message};
use crate::start::{self, Naming, Request, create, load_text, read_spec};

/// The default name of a chat.
const NAME: &str = "chat";

/// The chat to open.
#[derive(Debug, Clone)]
pub struct NewChat {
    pub source: ChatAgent,
    pub name: Option<Name>,
    pub workspace: PathBuf,
    /// How often the model may reply within one exchange.
    pub max_turns: u32,
}

/// Where the agent comes from.
#[derive(Debug, Clone)]
pub enum ChatAgent {
    /// A CLI agent, without a spec.
    Program(CliAgentKind),
    /// An agent of a spec; if none is named, its only one.
    Spec {
        file: PathBuf,
        agent: Option<String>,
    },
    /// The same for a spec that has no file.
    Text { spec: String, agent: Option<String> },
}

impl ChatAgent {
    /// Resolves the user's choice: an agent of a spec, or a CLI agent by name.
    pub fn resolve(agent: Option<String>, file: Option<PathBuf>) -> Result<Self, Error> {
        if let Some(file) = file {
            return Ok(Self::Spec { file, agent });
        }
        let agent = agent.ok_or(Error::NoAgent)?;
        let name = if agent == "claude" {
            "claude-code"
        } else {
            &agent
        };
        match name.parse() {
            // ACP is a protocol, not a program: a spec must say which program speaks it.
            Ok(CliAgentKind::Acp) | Err(_) => Err(Error::UnknownAgent {
                agent,
                place: None,
                known: Vec::new(),
            }),
            Ok(program) => Ok(Self::Program(program)),
        }
    }

    /// The spec as text, parsed, and its path; and the agent.
    fn read(&self, env: &Env) -> Result<(String, Workflow, PathBuf, String), Error> {
        match self {
            Self::Program(program) => {
                let text = chat_spec(*program);
                let workflow = spec::parse(&text).expect("a generated spec is valid");
                Ok((text, workflow, PathBuf::new(), program.to_string()))
            }
            Self::Spec { file, agent } => {
                let (text, workflow) = read_spec(env, file)?;
                let agent = choose_agent(&workflow, agent.as_deref(), file)?;
                Ok((text, workflow, file.clone(), agent))
            }
            Self::Text { spec, agent } => {
                let (text, workflow) = load_text(spec)?;
                let place = Path::new("the text");
                let agent = choose_agent(&workflow, agent.as_deref(), place)?;
                Ok((text, workflow, PathBuf::new(), agent))
            }
        }
    }
}

fn choose_agent(workflow: &Workflow, agent: Option<&str>, file: &Path) -> Result<String, Error> {
    let agents: Vec<String> = workflow.agents.keys().cloned().collect();
    match (agent, &agents[..]) {
        (Some(agent), _) if agents.iter().any(|known| known == agent) => Ok(agent.to_owned()),
        (Some(agent), _) => Err(Error::UnknownAgent {
            agent: agent.to_owned(),
            place: Some(file.to_owned()),
            known: agents,
        }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Error::AmbiguousAgent {
            place: file.to_owned(),
            agents,
        }),
    }
}

/// The spec of a chat with a CLI agent.
fn chat_spec(program: CliAgentKind) -> String {
    format!(
        "# Made for a chat.\nversion: 0\nname: {NAME}\nruntime: {{provider: {program}}}\nagents: {{{program}: {{prompt: \"\"}}}}\npattern: {{type: chain, config: {{steps: [{{agent: {program}, input: \"\"}}]}}}}\n"
    )
}

/// Opens a chat with its first message and returns when that is answered.
pub async fn open(
    env: &Env,
    opening: NewChat,
    message: &str,
    audience: Audience,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    let message = validate_message(env, message, &*observer)?;
    let (text, workflow, file, agent) = opening.source.read(env)?;
    let notice = |message: &str| observer.notice(message);
    let (env, secrets) = &env.for_workflow(&workflow, &file, &notice);
    let folder = &opening.workspace;
    let preparing = Agents::prepare(env, &workflow, secrets, &file, folder, &*observer);
    let agents = preparing.await?;
    let created = describe(env, &opening, &text, &workflow, &file, &notice).await?;
    let session = start::new_id(env);
    let naming = naming(&opening);
    let opened = vec![opened(agent, &opening)];
    let creating = create(env, session, created, opened, naming, &*observer);
    let (name, state) = creating.await?;
    let chat = state.chat.clone().expect("it was just opened");
    let (path, past) = (Chat::message_path(chat.next_number), Past::default());
    let exchange = exchange(&workflow, &chat, path, message, past, state.head, audience);
    let run_start = RunStart {
        exchange: Some(Box::new(exchange)),
        ..RunStart::first(session, name, workflow, agents, state)
    };
    Ok(Box::pin(run::execute(env, run_start, observer, stop_token)).await?)
}

/// Opens a chat without a message. The next message is its first.
pub async fn open_idle(
    env: &Env,
    session: SessionId,
    opening: NewChat,
    notice: &(dyn Fn(&str) + Sync),
) -> Result<Summary, Error> {
    let (text, workflow, file, agent) = opening.source.read(env)?;
    let (env, _) = &env.for_workflow(&workflow, &file, notice);
    let created = describe(env, &opening, &text, &workflow, &file, notice).await?;
    let opened = opened(agent, &opening);
    let at = env.clock.now();
    let seal = |created: SessionCreated| {
        let ended = RunEnded {
            status: Status::Paused,
            error: None,
            output: None,
        };
        let started = env.run_started(RunPurpose::Bookkeeping);
        let events = [created.into(), started, opened.clone(), ended.into()];
        let events = events.into_iter().map(|event| (at, event)).collect();
        start::seal(&mut State::empty(session), session, Run(1), events)
    };
    start::create_sealed(env, session, &created, naming(&opening), seal).await?;
    Ok(env.store.summary(session).await?)
}

fn opened(agent: String, opening: &NewChat) -> Event {
    ChatOpened {
        agent,
        max_turns: opening.max_turns,
    }
    .into()
}

fn naming(opening: &NewChat) -> Naming {
    match opening.name {
        Some(_) => Naming::Given,
        None => Naming::Numbered,
    }
}

/// The first event of a chat. Stores its spec.
async fn describe(
    env: &Env,
    opening: &NewChat,
    text: &str,
    workflow: &Workflow,
    file: &Path,
    notice: &(dyn Fn(&str) + Sync),
) -> Result<SessionCreated, Error> {
    let request = Request {
        spec: file.to_owned(),
        variables: BTreeMap::new(),
        name: opening.name.clone(),
        workspace: opening.workspace.clone(),
        out: opening.workspace.clone(),
        force: false,
    };
    let variables = start::bind(env, workflow, &request, notice)?;
    let (spec, _) = journal::redact_and_store(env, text).await?;
    Ok(SessionCreated {
        name: opening
            .name
            .clone()
            .unwrap_or_else(|| Name::sanitized(NAME)),
        session_kind: Kind::Chat,
        workspace: path_text(&opening.workspace)?,
        spec_path: path_text(file)?,
        spec,
        spec_digest: Digest::of(text.as_bytes()),
        variables,
        out: path_text(&opening.workspace)?,
        force: false,
        commit: None,
        pattern: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_agent_chat_spec_parses() {
        for program in [CliAgentKind::ClaudeCode, CliAgentKind::Codex] {
            let workflow = spec::parse(&chat_spec(program)).unwrap();
            assert_eq!(
                workflow.agents.keys().collect::<Vec<_>>(),
                [program.as_str()]
            );
        }
    }

    #[test]
    fn only_cli_agents_need_no_spec() {
        for name in ["claude", "claude-code", "codex"] {
            assert!(matches!(
                ChatAgent::resolve(Some(name.into()), None),
                Ok(ChatAgent::Program(_))
            ));
        }
        for name in [Some("acp"), Some("nobody"), None] {
            assert!(
                ChatAgent::resolve(name.map(str::to_owned), None).is_err(),
                "{name:?}"
            );
        }
    }
}
