//! The options about steps with an unknown outcome: of `segno resume` and `segno run --resume`.

use std::path::Path as FilePath;

use clap::ValueEnum;
use segno_core::journal::InFlight;
use segno_core::step::Path;
use segno_engine::Env;
use segno_sessions::unknown::{Decision, MAX_RESULT_BYTES, Said};

use crate::context::workspace;
use crate::failure::Failure;

/// What to do about steps that were running when their run crashed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct UnknownOutcome {
    /// What to do about a step that was running when its run crashed [default: as in the spec]
    #[arg(long, value_enum, value_name = "WHAT")]
    in_flight: Option<InFlightArg>,
    /// With `--in-flight done`: the result of the step; with `failed`: what went wrong
    #[arg(long, value_name = "TEXT|@FILE", requires = "in_flight")]
    result: Option<String>,
    /// With `--in-flight done` or `failed`: which step, if the outcome of several is unknown
    #[arg(long, value_name = "PATH", requires = "in_flight", value_parser = path)]
    step: Option<Path>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InFlightArg {
    /// Run it again
    Repeat,
    /// Stop and let a human decide
    Stop,
    /// Ask at the terminal; without one, stop
    Ask,
    /// It took effect: it counts as finished with `--result`
    Done,
    /// It did not take effect: the attempt counts as failed
    Failed,
}

fn path(text: &str) -> Result<Path, String> {
    Path::new(text).map_err(|error| error.to_string())
}

impl UnknownOutcome {
    pub(crate) fn is_given(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether the user says what happened.
    pub(crate) fn is_decision(&self) -> bool {
        let said = [InFlightArg::Done, InFlightArg::Failed];
        self.in_flight.is_some_and(|given| said.contains(&given))
    }

    /// What happens to steps about which nothing is said.
    pub(crate) fn policy(&self) -> Option<InFlight> {
        match self.in_flight? {
            InFlightArg::Repeat => Some(InFlight::Repeat),
            InFlightArg::Stop => Some(InFlight::Stop),
            InFlightArg::Ask => Some(InFlight::Ask),
            InFlightArg::Done | InFlightArg::Failed => None,
        }
    }

    /// What the user says.
    pub(crate) fn decisions(&self, env: &Env) -> Result<Vec<Decision>, Failure> {
        if !self.is_decision() {
            if self.result.is_some() || self.step.is_some() {
                let reason = "`--result` and `--step` need `--in-flight done` or `failed`";
                return Err(Failure::usage(reason, None));
            }
            return Ok(Vec::new());
        }
        let text = self.result.as_deref().map(|given| read(env, given));
        let said = match (self.in_flight, text.transpose()?) {
            (Some(InFlightArg::Failed), text) => Said::Failed(text.unwrap_or_default()),
            (_, Some(text)) => Said::Done(text),
            (_, None) => {
                let hint = "give it with `--result TEXT`, or `--result @FILE`".to_owned();
                let reason = "`--in-flight done` needs the result of the step";
                return Err(Failure::usage(reason, Some(hint)));
            }
        };
        let step = self.step.clone();
        Ok(vec![Decision { step, said }])
    }
}

/// The text, or the content of the file that it names with `@`.
fn read(env: &Env, given: &str) -> Result<String, Failure> {
    let Some(file) = given.strip_prefix('@') else {
        return Ok(given.to_owned());
    };
    let unusable =
        |reason: String| Failure::usage(format!("{file} cannot be read: {reason}"), None);
    let path = workspace()?.join(FilePath::new(file));
    let bytes = env.disk.read(&path, MAX_RESULT_BYTES as u64);
    let bytes = bytes.map_err(|error| unusable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8 text".to_owned()))
}
