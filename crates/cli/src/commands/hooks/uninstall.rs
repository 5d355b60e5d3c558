use std::process::ExitCode;

use super::{Chosen, Done, Effect, Place};
use crate::context::Context;
use crate::failure::Failure;
use crate::hooks::Error;
use crate::hooks::receipt::{self, Before, Receipt};
use crate::hooks::settings::Change;

/// Take our hooks out of an agent's settings.
///
/// If nobody else changed the file since, it becomes what it was, byte for byte; otherwise our
/// entries go and everything else stays.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) chosen: Chosen,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let effect = args.chosen.effect();
    for agent in &args.chosen.agents {
        let place = Place::find(*agent)?;
        let done = uninstall(&place, effect)?;
        place.report((args.chosen.json, effect), &done, context);
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(place: &Place, effect: Effect) -> Result<Done, Error> {
    let mut done = Done {
        before: None,
        after: None,
        state: "absent",
    };
    // Without a file there is nothing to take out, and no folder to make for it.
    let Some(first) = place.settings.read()? else {
        return Ok(done);
    };
    let mut decide = |text: Option<&str>| {
        let receipt = Receipt::find(&place.home, place.file());
        let before = receipt::before(receipt.as_ref(), text, place.agent);
        let before = before.map_err(place.unreadable())?;
        done.before = text.map(str::to_owned);
        done.after = match before {
            Before::Missing => None,
            Before::Text(text) => Some(text),
        };
        Ok(match &done.after {
            same if *same == done.before => Change::Nothing,
            None => Change::Remove,
            Some(text) => Change::Write(text.clone()),
        })
    };
    match effect {
        Effect::Real => place.settings.change(decide)?,
        Effect::Shown => drop(decide(Some(&first))?),
    }
    if effect == Effect::Real {
        Receipt::forget(&place.home, place.file());
    }
    Ok(done)
}
