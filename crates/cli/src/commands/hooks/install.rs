use std::process::ExitCode;
use std::sync::Arc;

use segno_store::{Home, LocalDisk};

use super::{Chosen, Done, Effect, Place};
use crate::context::Context;
use crate::failure::Failure;
use crate::hooks::entries::{self, Call};
use crate::hooks::receipt::{self, Before, Receipt};
use crate::hooks::settings::Change;
use crate::hooks::{Agent, Error};
use crate::output::say;

/// Put hooks into an agent's settings, or mend those that are there.
///
/// Claude Code's are in settings.json in `$CLAUDE_CONFIG_DIR` or ~/.claude, Codex's in hooks.json in
/// `$CODEX_HOME` or ~/.codex. Hooks of others stay, and so does every other byte. Codex runs a hook
/// only after you have trusted it: it asks at its next start, and `/hooks` in it shows them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) chosen: Chosen,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let effect = args.chosen.effect();
    for agent in &args.chosen.agents {
        let place = Place::find(*agent)?;
        if effect == Effect::Real {
            // Hooks leave their notes only in a home that is there.
            Home::open(&place.home, Arc::new(LocalDisk))?;
        }
        let done = install(&place, effect)?;
        let changed = done.before != done.after;
        place.report((args.chosen.json, effect), &done, context);
        if changed && effect == Effect::Real {
            match agent {
                Agent::Claude => say("sessions that begin from now on are told of"),
                Agent::Codex => say(
                    "Codex runs new hooks only after you trusted them: start `codex` and accept its review of hooks, or type /hooks in it",
                ),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn install(place: &Place, effect: Effect) -> Result<Done, Error> {
    let call = place.call()?;
    let mut done = Done {
        before: None,
        after: None,
        state: "installed",
    };
    let mut decide = |text: Option<&str>| {
        done.before = text.map(str::to_owned);
        let wanted = wanted(place, text, &call)?;
        done.after = wanted
            .as_ref()
            .map(|(_, filled)| filled.clone())
            .or_else(|| done.before.clone());
        Ok(match wanted {
            None => Change::Nothing,
            Some((receipt, filled)) => {
                if effect == Effect::Real {
                    receipt.keep(&place.home)?;
                }
                Change::Write(filled)
            }
        })
    };
    match effect {
        Effect::Real => place.settings.change(decide)?,
        Effect::Shown => drop(decide(place.settings.read()?.as_deref())?),
    }
    Ok(done)
}

/// What the file should be; `None` if it is.
fn wanted(
    place: &Place,
    text: Option<&str>,
    call: &Call,
) -> Result<Option<(Receipt, String)>, Error> {
    let unreadable = place.unreadable();
    let found = text
        .map(|text| entries::ours(text, place.agent))
        .transpose();
    let found = found.map_err(&unreadable)?.unwrap_or_default();
    let count = |event: &str| found.iter().filter(|(name, _)| name == event).count();
    let complete = found.len() == Agent::EVENTS.len()
        && Agent::EVENTS.iter().all(|event| count(event) == 1)
        && found.iter().all(|(_, found)| found == call);
    if complete {
        return Ok(None);
    }
    let command = call.command(place.agent);
    let command = command.ok_or_else(|| Error::Unnameable("it is not UTF-8".into()))?;
    let receipt = Receipt::find(&place.home, place.file());
    let before = receipt::before(receipt.as_ref(), text, place.agent).map_err(&unreadable)?;
    let base = match &before {
        Before::Missing => "{}\n",
        Before::Text(text) => text,
    };
    let filled = entries::fill(base, &command).map_err(&unreadable)?;
    let receipt = Receipt::new(place.file(), &before, &filled);
    Ok(Some((receipt, filled.text)))
}
