//! Asking agents' programs to tell of sessions that Segno did not start.

mod install;
mod status;
mod uninstall;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use crate::config;
use crate::context::Context;
use crate::failure::Failure;
use crate::hooks::entries::{self, Call};
use crate::hooks::settings::Settings;
use crate::hooks::{Agent, Error};
use crate::output::{data, json_line, plain};

/// Have Claude Code and Codex tell of sessions that Segno did not start.
///
/// A hook is an entry in the program's own settings: it starts `segno` when a session begins, after
/// each turn, and when it ends. That leaves a note for `segno watch` and changes nothing about the
/// session.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Install(install::Args),
    Uninstall(uninstall::Args),
    Status(status::Args),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Install(args) => args.chosen.json,
            Self::Uninstall(args) => args.chosen.json,
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

/// What changing hooks asks for, either way.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// Whose settings
    #[arg(required = true)]
    agents: Vec<Agent>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Chosen {
    fn effect(&self) -> Effect {
        if self.dry_run {
            Effect::Shown
        } else {
            Effect::Real
        }
    }
}

/// Whether anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Real,
    /// It is only shown.
    Shown,
}

/// An agent's hooks, and what they should be.
struct Place {
    agent: Agent,
    settings: Settings,
    home: PathBuf,
}

impl Place {
    fn find(agent: Agent) -> Result<Self, Failure> {
        let (home, _) = config::locations()?;
        let root = agent.root().ok_or(Error::Nowhere(agent))?;
        let settings = Settings::find(&root.join(agent.file()))?;
        Ok(Self {
            agent,
            settings,
            home,
        })
    }

    /// What a hook should call: this program, wherever it is now.
    fn call(&self) -> Result<Call, Error> {
        let binary =
            std::env::current_exe().map_err(|error| Error::Unnameable(error.to_string()))?;
        if !entries::is_there(&binary) {
            let reason = format!("{} is not there any more", binary.display());
            return Err(Error::Unnameable(reason));
        }
        Ok(Call {
            binary,
            home: self.home.clone(),
        })
    }

    /// What is wrong with the text of the file.
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

    /// Says what was done, or would be.
    fn report(&self, args: (bool, Effect), done: &Done, context: &Context) {
        let (json, effect) = args;
        let file = plain::plain(&self.file().display().to_string()).into_owned();
        let (before, after) = (done.before.as_deref(), done.after.as_deref());
        let changed = before != after;
        if json {
            json_line(&json!({
                "v": 1, "kind": "hooks_changed", "agent": self.agent.word(), "file": self.file().display().to_string(),
                "state": done.state, "changed": changed, "dry_run": effect == Effect::Shown,
            }));
            return;
        }
        if !changed {
            data(&format!("{file} is as it should be"));
            return;
        }
        if effect == Effect::Shown {
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            let compared = similar::TextDiff::from_lines(before, after);
            let patch = compared.unified_diff().header(&file, &file).to_string();
            data(plain::lines(&context.redactor.redact(&patch)).trim_end());
            return;
        }
        let what = match (after, done.state) {
            (None, _) => "removed",
            (_, "installed") => "put hooks into",
            _ => "took hooks out of",
        };
        data(&format!("{what} {file}"));
    }
}

/// What became of a settings file.
struct Done {
    before: Option<String>,
    after: Option<String>,
    state: &'static str,
}
