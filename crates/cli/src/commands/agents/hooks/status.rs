//! `segno agents hooks status`: shows whether hooks are installed and work.

use std::process::ExitCode;

use segno_integrations::hooks::entries::{self, Call};
use segno_integrations::hooks::{Agent, Error};
use serde_json::json;

use super::Target;
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Show whether hooks are installed and would work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Agents to check [default: all]
    #[arg(value_parser = crate::commands::agents::agent_parser())]
    agents: Vec<Agent>,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let all = Agent::ALL;
    let agents = if args.agents.is_empty() {
        &all
    } else {
        &args.agents[..]
    };
    for agent in agents {
        let target = Target::find(*agent)?;
        let found = read_calls(&target)?;
        let wrong = faults(&found, &target.call()?);
        let state = match (found.is_empty(), wrong.is_empty()) {
            (true, _) => "absent",
            (_, true) => "installed",
            _ => "outdated",
        };
        let file = target.file().display().to_string();
        if args.json {
            let calls = found.iter().map(|(event, call)| {
                json!({"event": event, "binary": call.binary.display().to_string(), "home": call.home.display().to_string()})
            });
            json_line(&json!({
                "v": 1, "kind": "hooks", "agent": agent.word(), "file": file, "state": state,
                "hooks": calls.collect::<Vec<_>>(), "problems": wrong,
            }));
            continue;
        }
        stdout_line(&format!(
            "{}: {state} ({})",
            agent.word(),
            text::sanitize(&file)
        ));
        for fault in &wrong {
            stdout_line(&format!("  {}", text::sanitize(fault)));
        }
        if state == "outdated" {
            stderr_line(&format!(
                "`segno agents hooks install {}` repairs them",
                agent.word()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read_calls(target: &Target) -> Result<Vec<(String, Call)>, Error> {
    let text = target.settings.read()?;
    let found = text
        .map(|text| entries::find(&text, target.agent))
        .transpose();
    Ok(found.map_err(target.unreadable())?.unwrap_or_default())
}

/// Lists what is wrong with Segno's hooks. Empty if there are none.
fn faults(found: &[(String, Call)], wanted: &Call) -> Vec<String> {
    if found.is_empty() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (_, call) in found {
        let binary = call.binary.display();
        if !entries::is_executable(&call.binary) {
            faults.push(format!("they start {binary}, which no longer exists"));
        } else if call.binary != wanted.binary {
            let here = wanted.binary.display();
            faults.push(format!("they start {binary}, but this is {here}"));
        }
        if call.home != wanted.home {
            let (theirs, here) = (call.home.display(), wanted.home.display());
            faults.push(format!(
                "they write to {theirs}, but sessions are stored in {here}"
            ));
        }
    }
    for event in Agent::EVENTS {
        match found.iter().filter(|(name, _)| name == event).count() {
            0 => faults.push(format!("no hook for {event}")),
            1 => {}
            several => faults.push(format!("{several} hooks for {event}")),
        }
    }
    faults.sort();
    faults.dedup();
    faults
}
