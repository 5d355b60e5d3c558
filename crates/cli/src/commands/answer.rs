//! `segno answer`: shows the open questions of a session, or answers one.

use std::io::Read;
use std::process::ExitCode;

use segno_core::journal::RunOptions;
use segno_sessions as sessions;
use segno_sessions::answer::{self, OpenQuestion};
use segno_sessions::json as shapes;
use segno_sessions::resume::{self, Options};
use serde_json::json;

use super::follow;
use super::run::{run_with_progress, watch_signals};
use crate::context::{Context, Persistence, notices};
use crate::failure::Failure;
use crate::machine::human;
use crate::output::{json_line, stdout_line, text};

/// Maximum length of an answer in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Show the open questions of a session, or answer one.
///
/// The answer is stored in the session. A waiting run receives it immediately; otherwise it applies
/// when the session is resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    session: String,
    /// The answer, or `-` to read it from stdin [default: show the open questions]
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Step whose question is answered, if several steps ask
    #[arg(long, value_name = "STEP", requires = "text")]
    step: Option<String>,
    /// Resume the session after answering
    #[arg(long, requires = "text")]
    resume: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (mut env, config) = context.env(Persistence::Home)?;
    let summary = sessions::find(&env, &args.session).await?;
    let Some(text) = args.text else {
        for asked in answer::open_questions(&env, &summary).await? {
            show(&asked, args.json);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let text = if text == "-" { stdin()? } else { text };
    let by = std::env::var("USER").unwrap_or_else(|_| "segno answer".into());
    let control = context.control(&env, by);
    let path = control
        .answer(&summary, args.step.as_deref(), &text)
        .await?;
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "answered", "session": summary.id, "name": summary.name, "path": path}),
        );
    } else {
        stdout_line(&format!(
            "{} ({}): {path} is answered",
            summary.name, summary.id
        ));
    }
    if !args.resume {
        return Ok(ExitCode::SUCCESS);
    }
    if context.remote.is_some() {
        let wanted = (RunOptions::default(), &[][..]);
        return follow::run(&env, &*control, &summary, wanted, args.json).await;
    }
    env.human = human::at_terminal(args.json);
    let stop_token = watch_signals();
    let notices = notices(&env, &config);
    run_with_progress(&env, &notices, args.json, async |progress| {
        resume::resume(&env, summary, Options::default(), progress, stop_token).await
    })
    .await
}

fn show(asked: &OpenQuestion, json: bool) {
    if json {
        return json_line(&shapes::question(asked));
    }
    stdout_line(&format!(
        "{}: {}",
        asked.path,
        text::sanitize_lines(&asked.question.prompt)
    ));
    if let Some(context) = &asked.context {
        for line in text::sanitize_lines(context).lines() {
            stdout_line(&format!("  {line}"));
        }
    }
    if let Some(default) = &asked.question.default {
        stdout_line(&format!("  default: {}", text::sanitize(default)));
    }
    if let Some(until) = asked.question.until() {
        stdout_line(&format!("  until {until}"));
    }
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin()
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text);
    match read {
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(Failure::usage(
            format!("an answer has at most {MAX_BYTES} bytes"),
            None,
        )),
        Ok(_) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(Failure::usage(
            format!("the answer on stdin cannot be read: {error}"),
            None,
        )),
    }
}
