use std::io::Read;
use std::process::ExitCode;

use segno_engine::answer::{self, Asked};
use segno_engine::resume::{self, Options};
use segno_engine::sessions;
use serde_json::json;

use super::run::{conduct, watch_signals};
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::machine::people;
use crate::output::{data, json_line, plain};

/// The longest answer that is read.
const LONGEST: u64 = 1024 * 1024;

/// Answer what a session asks, or see what it asks.
///
/// The answer is kept with the session. A run that waits takes it at once; otherwise it counts when
/// the session is resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// The answer, or `-` to read it from stdin [default: show what is asked]
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// The step that asks, where several do
    #[arg(long, value_name = "STEP", requires = "text")]
    step: Option<String>,
    /// Go on with the session at once
    #[arg(long, requires = "text")]
    resume: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (mut world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let Some(text) = args.text else {
        for asked in answer::open(&world, &summary).await? {
            show(&asked, args.json);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let text = if text == "-" { stdin()? } else { text };
    let by = std::env::var("USER").unwrap_or_else(|_| "segno answer".into());
    let path = answer::answer(&world, &summary, args.step.as_deref(), &text, &by).await?;
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "answered", "session": summary.id, "name": summary.name, "path": path}),
        );
    } else {
        data(&format!(
            "{} ({}): {path} is answered",
            summary.name, summary.id
        ));
    }
    if !args.resume {
        return Ok(ExitCode::SUCCESS);
    }
    world.people = people::here(args.json);
    let brake = watch_signals();
    conduct(&world, args.json, async |progress| {
        resume::resume(&world, summary, Options::default(), progress, brake).await
    })
    .await
}

fn show(asked: &Asked, json: bool) {
    if json {
        return json_line(&json!({
            "v": 1,
            "kind": "question",
            "path": asked.path,
            "prompt": asked.question.prompt,
            "context": asked.context,
            "default": asked.question.default,
            "validation": asked.question.validation,
            "asked_at": asked.question.asked_at.to_string(),
            "until": asked.question.until().map(|until| until.to_string()),
        }));
    }
    data(&format!(
        "{}: {}",
        asked.path,
        plain::lines(&asked.question.prompt)
    ));
    if let Some(context) = &asked.context {
        for line in plain::lines(context).lines() {
            data(&format!("  {line}"));
        }
    }
    if let Some(default) = &asked.question.default {
        data(&format!("  default: {}", plain::plain(default)));
    }
    if let Some(until) = asked.question.until() {
        data(&format!("  until {until}"));
    }
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(LONGEST + 1).read_to_string(&mut text);
    match read {
        Ok(_) if text.len() as u64 > LONGEST => Err(Failure::usage(
            format!("an answer has at most {LONGEST} bytes"),
            None,
        )),
        Ok(_) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(Failure::usage(
            format!("the answer on stdin cannot be read: {error}"),
            None,
        )),
    }
}
