//! `segno agents hooks install`: adds hooks to the settings of CLI agents.

use std::process::ExitCode;
use std::sync::Arc;

use segno_integrations::hooks::entries::{self, Call};
use segno_integrations::hooks::receipt::{self, Original, Receipt};
use segno_integrations::hooks::settings::Change;
use segno_integrations::hooks::{Agent, Error};
use segno_store::{Home, LocalDisk};

use super::{CommonArgs, Effect, Outcome, Target};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::stderr_line;

/// Install hooks in the settings of an agent, or repair them.
///
/// Edits settings.json in `$CLAUDE_CONFIG_DIR` or ~/.claude for Claude Code, and hooks.json in
/// `$CODEX_HOME` or ~/.codex for Codex. Other hooks and all other bytes stay unchanged. Codex runs
/// a hook only after you have trusted it: it asks at its next start, and `/hooks` lists them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let effect = args.common.effect();
    for agent in &args.common.agents {
        let target = Target::find(*agent)?;
        if effect == Effect::Apply {
            // Hooks write notifications only into a home folder that exists.
            Home::open(&target.home, Arc::new(LocalDisk))?;
        }
        let outcome = install(&target, effect)?;
        let changed = outcome.before != outcome.after;
        target.report((args.common.json, effect), &outcome, context);
        if changed && effect == Effect::Apply {
            match agent {
                Agent::Claude => stderr_line("new sessions are reported from now on"),
                Agent::Codex => stderr_line(
                    "Codex runs new hooks only after you trust them: start `codex` and accept its review of hooks, or type /hooks in it",
                ),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn install(target: &Target, effect: Effect) -> Result<Outcome, Error> {
    let call = target.call()?;
    let mut outcome = Outcome {
        before: None,
        after: None,
        state: "installed",
    };
    let mut decide = |text: Option<&str>| {
        outcome.before = text.map(str::to_owned);
        let wanted = desired(target, text, &call)?;
        outcome.after = wanted
            .as_ref()
            .map(|(_, filled)| filled.clone())
            .or_else(|| outcome.before.clone());
        Ok(match wanted {
            None => Change::Nothing,
            Some((receipt, filled)) => {
                if effect == Effect::Apply {
                    receipt.store(&target.home)?;
                }
                Change::Write(filled)
            }
        })
    };
    match effect {
        Effect::Apply => target.settings.change(decide)?,
        Effect::DryRun => drop(decide(target.settings.read()?.as_deref())?),
    }
    Ok(outcome)
}

/// Computes the receipt and the text of the settings file. Returns `None` if the file is already
/// right.
fn desired(
    target: &Target,
    text: Option<&str>,
    call: &Call,
) -> Result<Option<(Receipt, String)>, Error> {
    let unreadable = target.unreadable();
    let found = text
        .map(|text| entries::find(text, target.agent))
        .transpose();
    let found = found.map_err(&unreadable)?.unwrap_or_default();
    let count = |event: &str| found.iter().filter(|(name, _)| name == event).count();
    let complete = found.len() == Agent::EVENTS.len()
        && Agent::EVENTS.iter().all(|event| count(event) == 1)
        && found.iter().all(|(_, found)| found == call);
    if complete {
        return Ok(None);
    }
    let command = call.command(target.agent);
    let command = command.ok_or_else(|| Error::Unnameable("it is not UTF-8".into()))?;
    let receipt = Receipt::find(&target.home, target.file());
    let before = receipt::original(receipt.as_ref(), text, target.agent).map_err(&unreadable)?;
    let base = match &before {
        Original::Missing => "{}\n",
        Original::Text(text) => text,
    };
    let filled = entries::add(base, &command).map_err(&unreadable)?;
    let receipt = Receipt::new(target.file(), &before, &filled);
    Ok(Some((receipt, filled.text)))
}
