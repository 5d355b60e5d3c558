//! `segno notice …`: tests and lists the targets of notices.

use std::process::ExitCode;

use segno_supervisor::notices::{Entry, Error, Kind, Notices, Pending, Target, Tested};
use serde_json::{Value, json};

use crate::context::{Context, Persistence, notices};
use crate::failure::Failure;
use crate::output::{columns, json_line, stdout_line, table, text};

/// Test and list where notices about sessions go.
///
/// Notices tell you what happened to a session: on the desktop, by a command, a webhook, Slack,
/// Discord or ntfy. `[[notices]]` in config.toml sets the targets.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Test(Test),
    List(List),
}

/// Send a test notice and say whether it arrived.
#[derive(Debug, clap::Args)]
pub(crate) struct Test {
    /// Target to test [default: all]
    target: Option<String>,
    /// Print JSON, one target per line
    #[arg(long)]
    json: bool,
}

/// List the targets, and the notices that are not delivered yet.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Print JSON, one target or notice per line
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Test(args) => args.json,
            Self::List(args) => args.json,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let (env, config) = context.env(Persistence::Home)?;
        let notices = notices(&env, &config);
        match self {
            Self::Test(args) => test(&args, &notices).await,
            Self::List(args) => list(&args, &notices),
        }
    }
}

async fn test(args: &Test, notices: &Notices) -> Result<ExitCode, Failure> {
    let tested = notices.test(args.target.as_deref()).await?;
    for one in &tested {
        print_tested(one, args.json);
    }
    let failed = tested.into_iter().filter(|one| one.error.is_some());
    let targets: Vec<String> = failed.map(|one| one.target).collect();
    if targets.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Error::NotDelivered { targets }.into())
}

fn print_tested(tested: &Tested, json: bool) {
    let Tested {
        target,
        channel,
        error,
    } = tested;
    if json {
        json_line(
            &json!({"v": 1, "kind": "notice_test", "target": target, "to": channel, "delivered": error.is_none(), "error": error}),
        );
        return;
    }
    let outcome = match error {
        None => "delivered".to_owned(),
        Some(error) => format!("failed: {}", text::sanitize(error)),
    };
    stdout_line(&format!("{target} ({channel}): {outcome}"));
}

fn list(args: &List, notices: &Notices) -> Result<ExitCode, Failure> {
    let pending = notices.pending()?;
    if args.json {
        for target in notices.targets() {
            json_line(&target_shape(target, &pending));
        }
        pending
            .entries
            .iter()
            .for_each(|entry| json_line(&entry_shape(entry)));
        return Ok(ExitCode::SUCCESS);
    }
    if notices.targets().is_empty() {
        return Err(Error::NoTargets.into());
    }
    let row = |target: &Target| {
        let kinds = target.filter.kinds.iter().map(|kind| kind.as_str());
        let kinds = if target.filter.kinds.len() == Kind::ALL.len() {
            "all".to_owned()
        } else {
            kinds.collect::<Vec<_>>().join(", ")
        };
        vec![
            target.name.clone(),
            target.channel.as_str().to_owned(),
            undelivered(target, &pending).to_string(),
            last_error(target, &pending).unwrap_or("-").to_owned(),
            kinds,
        ]
    };
    let rows: Vec<_> = notices.targets().iter().map(row).collect();
    let head = ["TARGET", "TO", "UNDELIVERED", "LAST ERROR", "ON"];
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| stdout_line(line));
    for entry in &pending.entries {
        let targets: Vec<&str> = entry.targets.keys().map(String::as_str).collect();
        let line = format!("{} → {}", entry.notice.title, targets.join(", "));
        stdout_line(&text::sanitize(&line));
    }
    if pending.dropped > 0 {
        let dropped = text::count(pending.dropped as u64, "notice");
        stdout_line(&format!("{dropped} dropped: too many, or too old"));
    }
    Ok(ExitCode::SUCCESS)
}

fn undelivered(target: &Target, pending: &Pending) -> usize {
    let waits = |entry: &&Entry| entry.targets.contains_key(&target.name);
    pending.entries.iter().filter(waits).count()
}

fn last_error<'a>(target: &Target, pending: &'a Pending) -> Option<&'a str> {
    let mut states = pending.states.iter();
    let (_, state) = states.find(|(name, _)| *name == target.name)?;
    state.error.as_deref()
}

fn target_shape(target: &Target, pending: &Pending) -> Value {
    let mut states = pending.states.iter();
    let state = states.find(|(name, _)| *name == target.name);
    json!({
        "v": 1,
        "kind": "notice_target",
        "target": target.name,
        "to": target.channel.as_str(),
        "on": target.filter.kinds,
        "undelivered": undelivered(target, pending),
        "given_up": state.map_or(0, |(_, state)| state.given_up),
        "last_error": last_error(target, pending),
        "dropped": pending.dropped,
    })
}

fn entry_shape(entry: &Entry) -> Value {
    let targets = entry.targets.iter().map(|(name, delivery)| {
        json!({"target": name, "attempts": delivery.attempts, "error": delivery.error})
    });
    json!({
        "v": 1,
        "kind": "notice",
        "id": entry.notice.id(),
        "event": entry.notice.kind,
        "session": entry.notice.session,
        "name": entry.notice.name,
        "title": entry.notice.title,
        "at": entry.notice.at.to_string(),
        "targets": targets.collect::<Vec<_>>(),
    })
}
