//! `segno agents hooks uninstall`: removes Segno's hooks from the settings of CLI agents.

use std::process::ExitCode;

use segno_integrations::hooks::Error;
use segno_integrations::hooks::receipt::{self, Original, Receipt};
use segno_integrations::hooks::settings::Change;

use super::{CommonArgs, Effect, Outcome, Target};
use crate::context::Context;
use crate::failure::Failure;

/// Remove Segno's hooks from the settings of an agent.
///
/// If nothing else changed the file since the installation, its original bytes are restored.
/// Otherwise only Segno's hooks are removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let effect = args.common.effect();
    for agent in &args.common.agents {
        let target = Target::find(*agent)?;
        let outcome = uninstall(&target, effect)?;
        target.report((args.common.json, effect), &outcome, context);
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(target: &Target, effect: Effect) -> Result<Outcome, Error> {
    let mut outcome = Outcome {
        before: None,
        after: None,
        state: "absent",
    };
    // Without a settings file there is nothing to remove, and no folder to create.
    let Some(first) = target.settings.read()? else {
        return Ok(outcome);
    };
    let mut decide = |text: Option<&str>| {
        let receipt = Receipt::find(&target.home, target.file());
        let before = receipt::original(receipt.as_ref(), text, target.agent);
        let before = before.map_err(target.unreadable())?;
        outcome.before = text.map(str::to_owned);
        outcome.after = match before {
            Original::Missing => None,
            Original::Text(text) => Some(text),
        };
        Ok(match &outcome.after {
            same if *same == outcome.before => Change::Nothing,
            None => Change::Remove,
            Some(text) => Change::Write(text.clone()),
        })
    };
    match effect {
        Effect::Apply => target.settings.change(decide)?,
        Effect::DryRun => drop(decide(Some(&first))?),
    }
    if effect == Effect::Apply {
        Receipt::delete(&target.home, target.file());
    }
    Ok(outcome)
}
