//! `segno token …`: creates, lists and revokes the tokens of the server.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use segno_core::time::format_duration;
use segno_server::access::{Scope, TokenKind, TokenRecord, Tokens};
use segno_store::LocalDisk;
use serde_json::{Value, json};

use super::serve::server_folder;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::machine::MachineRandom;
use crate::output::{columns, json_line, stderr_line, stdout_line, table};

/// Create, list and revoke the tokens with which programs and browsers use `segno serve`.
///
/// Tokens are stored as digests in the home. Creating and revoking takes effect at once, also for a
/// running server.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Create a token, and print it once.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Name that says who uses it
    name: String,
    /// What it permits: `read` sessions; `operate`: also change them; `admin`: also manage the
    /// server
    #[arg(long, value_name = "SCOPE", default_value = "read", value_parser = PossibleValuesParser::new(Scope::ALL.map(Scope::as_str)))]
    scope: String,
    /// Days after which it expires [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the tokens, and browsers that are logged in.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Print JSON, one token per line
    #[arg(long)]
    json: bool,
}

/// Revoke a token; it is refused at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// Name or id of the token
    token: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Create(args) => args.json,
            Self::List(args) => args.json,
            Self::Revoke(args) => args.json,
        }
    }

    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        // Refuses a home that others can write to.
        context.env(Persistence::Home)?;
        let tokens = tokens(context)?;
        match self {
            Self::Create(args) => create(&args, &tokens),
            Self::List(args) => list(&args, &tokens, context),
            Self::Revoke(args) => revoke(&args, &tokens),
        }
    }
}

/// The tokens of this home.
pub(super) fn tokens(context: &Context) -> Result<Tokens, Failure> {
    let clock = Arc::clone(&context.clock);
    let (disk, random) = (Arc::new(LocalDisk), Arc::new(MachineRandom));
    Ok(Tokens::new(server_folder()?, disk, clock, random))
}

/// The scope of this word, which clap has checked.
pub(super) fn scope(word: &str) -> Scope {
    let mut all = Scope::ALL.into_iter();
    all.find(|scope| scope.as_str() == word)
        .unwrap_or(Scope::Read)
}

fn create(args: &Create, tokens: &Tokens) -> Result<ExitCode, Failure> {
    const DAY: Duration = Duration::from_hours(24);
    let lifetime = args.days.map(|days| DAY * days);
    let scope = scope(&args.scope);
    let created = tokens.create(&args.name, TokenKind::Api, scope, lifetime)?;
    if args.json {
        let mut line = shape("token_created", &created.record);
        line["token"] = created.text.into();
        json_line(&line);
    } else {
        stdout_line(&created.text);
        stderr_line("this token is shown only now; send it as `Authorization: Bearer TOKEN`");
    }
    Ok(ExitCode::SUCCESS)
}

fn list(args: &List, tokens: &Tokens, context: &Context) -> Result<ExitCode, Failure> {
    let records = tokens.list()?;
    if args.json {
        records
            .iter()
            .for_each(|record| json_line(&shape("token", record)));
        return Ok(ExitCode::SUCCESS);
    }
    if records.is_empty() {
        stderr_line("no tokens; `segno token create NAME` makes one");
        return Ok(ExitCode::SUCCESS);
    }
    let now = context.clock.now();
    let rows = records.iter().map(|record| {
        let expires = match record.expires_at() {
            None => "never".to_owned(),
            Some(at) if now < at => format!("in {}", format_duration(at.since(now))),
            Some(_) => "expired".to_owned(),
        };
        let age = format!("{} ago", format_duration(now.since(record.created_at())));
        let scope = record.scope.as_str().to_owned();
        vec![record.name.clone(), scope, age, expires, record.id.clone()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    for line in table::table(
        &["NAME", "SCOPE", "CREATED", "EXPIRES", "ID"],
        &rows,
        columns(),
    ) {
        stdout_line(&line);
    }
    Ok(ExitCode::SUCCESS)
}

fn revoke(args: &Revoke, tokens: &Tokens) -> Result<ExitCode, Failure> {
    let record = tokens.revoke(&args.token)?;
    if args.json {
        json_line(&shape("token_revoked", &record));
    } else {
        stdout_line(&format!("revoked {} ({})", record.name, record.id));
    }
    Ok(ExitCode::SUCCESS)
}

fn shape(kind: &str, record: &TokenRecord) -> Value {
    json!({
        "v": 1,
        "kind": kind,
        "id": record.id,
        "name": record.name,
        "token_kind": record.kind,
        "scope": record.scope,
        "created_at": record.created_at().to_string(),
        "expires_at": record.expires_at().map(|at| at.to_string()),
    })
}
