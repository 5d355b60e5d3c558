//! Opening a chat: who is spoken to, and the first message.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::companion::Program;
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{ChatOpened, SessionCreated};
use segno_core::session::Kind;
use segno_core::state::Chat;

use super::exchange::Past;
use super::{Audience, Error, checked, exchange};
use crate::error::Error as Failure;
use crate::flow::Cast;
use crate::observe::Observer;
use crate::pen;
use crate::run::{self, Begin, Outcome};
use crate::spec::{self, Workflow};
use crate::start::{self, Naming, Request, create, read_spec, text_of};
use crate::stop::Brake;
use crate::world::World;

/// What a chat is called that nobody named.
const NAME: &str = "chat";

/// A chat that a person wants.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Who is spoken to.
    pub source: Source,
    /// What to call it.
    pub name: Option<Name>,
    /// The folder to work in.
    pub workspace: PathBuf,
    /// How often the model may answer within one exchange.
    pub max_turns: u32,
}

/// Where the agent comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A program that needs no spec.
    Program(Program),
    /// An agent of a spec; the only one, if none is named.
    Spec {
        /// The spec's file.
        file: PathBuf,
        /// The agent.
        agent: Option<String>,
    },
}

impl Source {
    /// Whom a person means: an agent of a spec, or a program by its name.
    pub fn of(agent: Option<String>, file: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(file) = file {
            return Ok(Self::Spec { file, agent });
        }
        let agent = agent.ok_or(Error::Nobody)?;
        let name = if agent == "claude" {
            "claude-code"
        } else {
            &agent
        };
        match name.parse() {
            // It is no program by itself: a spec says which one speaks it.
            Ok(Program::Acp) | Err(_) => Err(Error::Stranger {
                agent,
                place: None,
                known: Vec::new(),
            }
            .into()),
            Ok(program) => Ok(Self::Program(program)),
        }
    }

    /// The spec as text, as it is used, and where it is; and the agent.
    fn read(&self, world: &World) -> Result<(String, Workflow, PathBuf, String), Failure> {
        match self {
            Self::Program(program) => {
                let text = text(*program);
                let workflow = spec::parse(&text).expect("a spec that is made here can be read");
                Ok((text, workflow, PathBuf::new(), program.to_string()))
            }
            Self::Spec { file, agent } => {
                let (text, workflow) = read_spec(world, file)?;
                let agent = choose(&workflow, agent.as_deref(), file)?;
                Ok((text, workflow, file.clone(), agent))
            }
        }
    }
}

fn choose(workflow: &Workflow, agent: Option<&str>, file: &Path) -> Result<String, Error> {
    let agents: Vec<String> = workflow.agents.keys().cloned().collect();
    match (agent, &agents[..]) {
        (Some(agent), _) if agents.iter().any(|known| known == agent) => Ok(agent.to_owned()),
        (Some(agent), _) => Err(Error::Stranger {
            agent: agent.to_owned(),
            place: Some(file.to_owned()),
            known: agents,
        }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Error::Several {
            place: file.to_owned(),
            agents,
        }),
    }
}

/// The spec of a chat with a program.
fn text(program: Program) -> String {
    format!(
        "# Made for a chat.\nversion: 0\nname: {NAME}\nruntime: {{provider: {program}}}\nagents: {{{program}: {{prompt: \"\"}}}}\npattern: {{type: chain, config: {{steps: [{{agent: {program}, input: \"\"}}]}}}}\n"
    )
}

/// Opens a chat with its first message, and returns when that is answered.
pub async fn open(
    world: &World,
    opening: Opening,
    message: &str,
    audience: Audience,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Failure> {
    let message = checked(world, message, &*observer)?;
    let (text, workflow, file, agent) = opening.source.read(world)?;
    let notice = |message: &str| observer.notice(message);
    let (world, secrets) = &world.for_workflow(&workflow, &file, &notice);
    let request = Request {
        spec: file.clone(),
        variables: BTreeMap::new(),
        name: opening.name.clone(),
        workspace: opening.workspace.clone(),
        out: opening.workspace.clone(),
        force: false,
    };
    let variables = start::bind(world, &workflow, &request, &notice)?;
    let folder = &opening.workspace;
    let gathered = Cast::gather(world, &workflow, secrets, &file, folder, &*observer);
    let cast = gathered.await?;
    let (spec, _) = pen::keep(world, &text).await?;
    let mut entropy = [0; 10];
    world.random.fill(&mut entropy);
    let session = SessionId::new(world.clock.now(), entropy);
    let created = SessionCreated {
        name: opening.name.clone().unwrap_or_else(|| Name::like(NAME)),
        session_kind: Kind::Chat,
        workspace: text_of(&opening.workspace)?,
        spec_path: text_of(&file)?,
        spec,
        spec_digest: Digest::of(text.as_bytes()),
        variables,
        out: text_of(&opening.workspace)?,
        force: false,
        commit: None,
    };
    let naming = match opening.name {
        Some(_) => Naming::Given,
        None => Naming::Numbered,
    };
    let opened = ChatOpened {
        agent,
        max_turns: opening.max_turns,
    };
    let opened = vec![opened.into()];
    let made = create(world, session, created, opened, naming, &*observer);
    let (name, state) = made.await?;
    let chat = state.chat.clone().expect("it was just opened");
    let (path, past) = (Chat::path(chat.next), Past::default());
    let exchange = exchange(&workflow, &chat, path, message, past, state.head, audience);
    let begin = Begin {
        exchange: Some(Box::new(exchange)),
        ..Begin::first(session, name, workflow, cast, state)
    };
    Box::pin(run::execute(world, begin, observer, brake)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_made_up_spec_of_a_program_can_be_read() {
        for program in [Program::ClaudeCode, Program::Codex] {
            let workflow = spec::parse(&text(program)).unwrap();
            assert_eq!(
                workflow.agents.keys().collect::<Vec<_>>(),
                [program.as_str()]
            );
        }
    }

    #[test]
    fn a_program_is_named_without_a_spec_and_anyone_else_is_not() {
        for name in ["claude", "claude-code", "codex"] {
            assert!(matches!(
                Source::of(Some(name.into()), None),
                Ok(Source::Program(_))
            ));
        }
        for name in [Some("acp"), Some("nobody"), None] {
            assert!(
                Source::of(name.map(str::to_owned), None).is_err(),
                "{name:?}"
            );
        }
    }
}
