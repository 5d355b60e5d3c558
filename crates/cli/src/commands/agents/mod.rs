//! `segno agents …`: the subcommands that connect Segno with agents that it did not start.

mod catch_up;
mod hooks;
mod import;
mod watch;

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use segno_core::transcript::TranscriptSource;
use segno_integrations::hooks::Agent;
use segno_integrations::transcripts::programs;

use crate::context::Context;
use crate::failure::Failure;

pub(crate) use catch_up::catch_up;

/// Import, mirror and observe sessions of Claude Code, Codex, Gemini and opencode.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Import(import::Args),
    Watch(watch::Args),
    #[command(subcommand)]
    Hooks(hooks::Command),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Import(args) => args.json,
            Self::Watch(args) => args.json,
            Self::Hooks(command) => command.is_json(),
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Import(args) => import::run(args, context).await,
            Self::Watch(args) => watch::run(&args, context).await,
            Self::Hooks(command) => command.run(context),
        }
    }
}

/// Parses the agents whose conversations can be adopted.
fn source_parser() -> impl TypedValueParser<Value = TranscriptSource> {
    let value = |source: &TranscriptSource| {
        PossibleValue::new(programs::word(*source)).help(programs::name(*source))
    };
    PossibleValuesParser::new(TranscriptSource::ALL.iter().map(value))
        .map(|word| programs::parse(&word).expect("the parser accepts only these words"))
}

/// Parses the agents that have hooks.
fn agent_parser() -> impl TypedValueParser<Value = Agent> {
    let values = Agent::ALL.map(|agent| PossibleValue::new(agent.word()).help(agent.name()));
    PossibleValuesParser::new(values)
        .map(|word| Agent::parse(&word).expect("the parser accepts only these words"))
}
