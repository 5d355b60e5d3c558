//! `segno state …`: reads and changes what agents stored.

use std::process::ExitCode;
use std::time::Duration;

use segno_core::agent_state::{Expected, Key};
use segno_core::note::Source;
use segno_core::state::StoredValue;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_sessions::agent_state::{self, Change, Changed, find_agent};
use segno_sessions::notes::Author;
use serde_json::{Value, json};

use super::note::find_session;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{columns, json_line, stderr_line, stdout_line, table, text};
use crate::remote::Reach;

/// How long to wait until the session's run has decided a change.
const RUN_TIMEOUT: Duration = Duration::from_secs(3);

/// Read and change what agents stored for their later steps.
///
/// Agents store JSON values under keys. A value that you change takes effect at once for the agent's
/// tools, and for the templates of every step that is not finished.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(List),
    Get(Get),
    Set(Set),
    Delete(Delete),
}

/// List the values of all agents.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// List only the values of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print JSON, one value per line
    #[arg(long)]
    json: bool,
}

/// Print a value as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// Key of the value
    key: Key,
    #[command(flatten)]
    place: Place,
}

/// Set a value.
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// Key: a letter or `_`, then letters, digits and `_`
    key: Key,
    /// New value: JSON; anything else is stored as text
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    condition: Condition,
}

/// Delete a value.
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// Key of the value
    key: Key,
    #[command(flatten)]
    place: Place,
    /// Delete only if this is the current value
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    expect: Option<String>,
}

/// Whose value it is, and how the result is printed.
#[derive(Debug, clap::Args)]
struct Place {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// Agent that the value belongs to [default: the only agent of the session]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What must be there for a change.
#[derive(Debug, clap::Args)]
struct Condition {
    /// Set it only if this is the current value
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    expect: Option<String>,
    /// Set it only if there is no value
    #[arg(long, conflicts_with = "expect")]
    expect_absent: bool,
}

impl Command {
    /// Where the command can work, and its name.
    pub(crate) fn reach(&self) -> (Reach, &'static str) {
        match self {
            Self::List(_) => (Reach::Anywhere, "state list"),
            Self::Get(_) => (Reach::Anywhere, "state get"),
            Self::Set(_) => (Reach::Home, "state set"),
            Self::Delete(_) => (Reach::Home, "state delete"),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            Self::Get(args) => args.place.json,
            Self::Set(args) => args.place.json,
            Self::Delete(args) => args.place.json,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let (env, _) = context.env(Persistence::Home)?;
        match self {
            Self::List(args) => list(&args, &env).await,
            Self::Get(args) => get(&args, &env).await,
            Self::Set(args) => set(args, &env).await,
            Self::Delete(args) => delete(args, &env).await,
        }
    }
}

async fn list(args: &List, env: &Env) -> Result<ExitCode, Failure> {
    let summary = find_session(env, args.session.as_deref()).await?;
    let agent = match &args.agent {
        Some(name) => Some(find_agent(env, &summary, Some(name)).await?),
        None => None,
    };
    let states = agent_state::read(env, &summary).await?;
    let wanted = |of: &str| agent.as_deref().is_none_or(|agent| agent == of);
    let values = states.iter().filter(|(agent, ..)| wanted(agent));
    if args.json {
        values.for_each(|(agent, key, stored)| json_line(&shape(&summary, agent, key, stored)));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |(agent, key, stored): (&str, &Key, &StoredValue)| {
        let place = match &stored.path {
            Some(path) => format!("{} in {path}", stored.by),
            None => stored.by.clone(),
        };
        let value = stored.value.to_string();
        vec![agent.to_owned(), key.to_string(), place, value]
    };
    let rows: Vec<_> = values.map(row).collect();
    if rows.is_empty() {
        stderr_line(&format!("no agent of {} stored a value", summary.name));
        return Ok(ExitCode::SUCCESS);
    }
    for line in table::table(&["AGENT", "KEY", "SET BY", "VALUE"], &rows, columns()) {
        stdout_line(&line);
    }
    Ok(ExitCode::SUCCESS)
}

async fn get(args: &Get, env: &Env) -> Result<ExitCode, Failure> {
    let (summary, agent) = args.place.find(env).await?;
    let states = agent_state::read(env, &summary).await?;
    let stored = agent_state::get(&states, &summary, &agent, &args.key)?;
    if args.place.json {
        json_line(&shape(&summary, &agent, &args.key, stored));
    } else {
        json_line(&stored.value);
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(args: Set, env: &Env) -> Result<ExitCode, Failure> {
    let value = parse(&args.value);
    if value.is_null() {
        let message = "`null` is not a value";
        let hint = format!("`segno state delete {}` deletes the key", args.key);
        return Err(Failure::usage(message, Some(hint)));
    }
    let Condition {
        expect,
        expect_absent,
    } = args.condition;
    let expected = expect.map(|text| Expected::of(parse(&text)));
    let expected = expected.or(expect_absent.then_some(Expected::Absent));
    change(env, args.place, args.key, Some(value), expected).await
}

async fn delete(args: Delete, env: &Env) -> Result<ExitCode, Failure> {
    let expected = args.expect.map(|text| Expected::of(parse(&text)));
    if expected.is_none() {
        let (summary, agent) = args.place.find(env).await?;
        let states = agent_state::read(env, &summary).await?;
        agent_state::get(&states, &summary, &agent, &args.key)?;
    }
    change(env, args.place, args.key, None, expected).await
}

async fn change(
    env: &Env,
    place: Place,
    key: Key,
    value: Option<Value>,
    expected: Option<Expected>,
) -> Result<ExitCode, Failure> {
    let (summary, agent) = place.find(env).await?;
    let author = Author {
        source: Source::User,
        by: std::env::var("USER").unwrap_or_else(|_| "segno state".into()),
        path: None,
    };
    let what = match &value {
        Some(value) => format!("{key} of {agent} is {value}"),
        None => format!("{key} of {agent} is deleted"),
    };
    let request = Change {
        agent: agent.clone(),
        key: key.clone(),
        value: value.clone(),
        expected,
    };
    let changed = agent_state::change(env, &summary, author, request, RUN_TIMEOUT).await?;
    if place.json {
        json_line(&json!({
            "v": 1,
            "kind": "agent_state_changed",
            "session": summary.id,
            "name": summary.name,
            "agent": agent,
            "key": key,
            "value": value,
            "waits_for_run": changed == Changed::Posted,
        }));
    } else if changed == Changed::Posted {
        stdout_line(&format!(
            "sent to the run of {}, which decides it",
            summary.name
        ));
    } else {
        stdout_line(&text::sanitize(&what));
    }
    Ok(ExitCode::SUCCESS)
}

impl Place {
    async fn find(&self, env: &Env) -> Result<(Summary, String), Failure> {
        let summary = find_session(env, self.session.as_deref()).await?;
        let agent = find_agent(env, &summary, self.agent.as_deref()).await?;
        Ok((summary, agent))
    }
}

/// A value on the command line: JSON, or text.
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn shape(summary: &Summary, agent: &str, key: &Key, stored: &StoredValue) -> Value {
    json!({
        "v": 1,
        "kind": "agent_state",
        "session": summary.id,
        "agent": agent,
        "key": key,
        "value": stored.value,
        "at": stored.at.to_string(),
        "seq": stored.seq,
        "source": stored.source,
        "by": stored.by,
        "step": stored.path,
    })
}
