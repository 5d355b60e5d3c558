//! `segno agents hooks …`: manages the hooks through which CLI agents report sessions that Segno did not
//! start.

mod install;
mod status;
mod uninstall;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_integrations::hooks::entries::{self, Call};
use segno_integrations::hooks::settings::Settings;
use segno_integrations::hooks::{Agent, Error};
use serde_json::json;

use crate::config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Install hooks so that Claude Code and Codex report their sessions.
///
/// A hook is an entry in the agent's own settings. It runs `segno` when a session starts, after
/// each turn, and when it ends. The hook only writes a notification for `segno agents watch` and does not
/// affect the session.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Install(install::Args),
    Uninstall(uninstall::Args),
    Status(status::Args),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Install(args) => args.common.json,
            Self::Uninstall(args) => args.common.json,
            Self::Status(args) => args.json,
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Install(args) => install::run(args, context),
            Self::Uninstall(args) => uninstall::run(args, context),
            Self::Status(args) => status::run(args),
        }
    }
}

/// Arguments of `install` and `uninstall`.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Agents whose settings are changed
    #[arg(required = true, value_parser = super::agent_parser())]
    agents: Vec<Agent>,
    /// Show the change without writing it
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl CommonArgs {
    fn effect(&self) -> Effect {
        if self.dry_run {
            Effect::DryRun
        } else {
            Effect::Apply
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Apply,
    /// A dry run: the change is only shown.
    DryRun,
}

/// The settings file of an agent, and the home folder that its hooks should write to.
struct Target {
    agent: Agent,
    settings: Settings,
    home: PathBuf,
}

impl Target {
    fn find(agent: Agent) -> Result<Self, Failure> {
        let (home, _) = config::locations()?;
        let root = agent.root().ok_or(Error::NoRoot(agent))?;
        let settings = Settings::find(&root.join(agent.settings_file()))?;
        Ok(Self {
            agent,
            settings,
            home,
        })
    }

    /// The command that a hook should run: this executable, at its current path.
    fn call(&self) -> Result<Call, Error> {
        let binary =
            std::env::current_exe().map_err(|error| Error::Unnameable(error.to_string()))?;
        if !entries::is_executable(&binary) {
            let reason = format!("{} no longer exists", binary.display());
            return Err(Error::Unnameable(reason));
        }
        Ok(Call {
            binary,
            home: self.home.clone(),
        })
    }

    /// Returns a function that builds the error for an unparsable settings file.
    fn unreadable(&self) -> impl Fn(String) -> Error {
        let path = self.settings.path.clone();
        move |reason| Error::Unreadable {
            path: path.clone(),
            reason,
        }
    }

    fn file(&self) -> &Path {
        &self.settings.path
    }

    /// Prints what was changed, or would be.
    fn report(&self, args: (bool, Effect), outcome: &Outcome, context: &Context) {
        let (json, effect) = args;
        let file = text::sanitize(&self.file().display().to_string()).into_owned();
        let (before, after) = (outcome.before.as_deref(), outcome.after.as_deref());
        let changed = before != after;
        if json {
            json_line(&json!({
                "v": 1, "kind": "hooks_changed", "agent": self.agent.word(), "file": self.file().display().to_string(),
                "state": outcome.state, "changed": changed, "dry_run": effect == Effect::DryRun,
            }));
            return;
        }
        if !changed {
            stdout_line(&format!("{file} is up to date"));
            return;
        }
        if effect == Effect::DryRun {
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            let compared = similar::TextDiff::from_lines(before, after);
            let patch = compared.unified_diff().header(&file, &file).to_string();
            stdout_line(text::sanitize_lines(&context.redactor.redact(&patch)).trim_end());
            return;
        }
        let what = match (after, outcome.state) {
            (None, _) => "removed",
            (_, "installed") => "installed hooks in",
            _ => "removed hooks from",
        };
        stdout_line(&format!("{what} {file}"));
    }
}

/// The result of a change: the text of the settings file before and after.
struct Outcome {
    before: Option<String>,
    after: Option<String>,
    state: &'static str,
}
