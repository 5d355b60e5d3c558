//! Code that a model wrote.
//!
//! It runs below a warden, so that nothing it starts outlives it, and without the environment, where
//! keys are. That is a broom and not a jail: it can do what the person who started Segno can do.

use std::ffi::OsStr;
use std::time::Duration;

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::tool::Class;
use serde_json::Value;

use super::{Bench, Native, Run, text};
use crate::command::output::Answer;
use crate::command::{Errand, Inherit};

/// How many seconds it may run if nothing is said, and at most.
const USUAL: u64 = 30;
const LONGEST: u64 = 300;

/// How much it may write.
const LIMIT: usize = 1 << 20;

pub(super) const PYTHON_EXEC: Native = Native {
    name: "python_exec",
    description: "Runs Python code in the workspace, and tells what it printed.",
    class: Class::Effectful,
    takes: &[
        ("code", "string", true, "the program"),
        (
            "timeout",
            "integer",
            false,
            "how many seconds it may run (30, at most 300)",
        ),
    ],
    run: Run::Later(|input, bench| Box::pin(python(input, bench))),
};

async fn python(input: &Value, bench: &Bench<'_>) -> Result<String, String> {
    let seconds = input["timeout"].as_u64().unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&seconds) {
        return Err(format!("`timeout` must be from 1 to {LONGEST} seconds"));
    }
    let workspace = bench.place.root();
    let errand = Errand {
        warden: &bench.gear.warden,
        // Isolated: neither the environment nor files of the workspace decide what is imported.
        argv: &["python3", "-I", "-"].map(str::to_owned),
        workspace,
        inherit: Inherit::Path,
        variables: &[
            ("HOME", workspace.as_os_str()),
            ("LANG", OsStr::new("C.UTF-8")),
        ],
        input: &[text(input, "code")],
    };
    let stop = async {
        bench.gear.clock.sleep(Duration::from_secs(seconds)).await;
        let message = format!("python3 was ended: it ran longer than {seconds} seconds");
        Error::new(ErrorKind::Timeout, message)
    };
    let mut printed = Answer::new("python3", LIMIT, &Nobody);
    let ended = errand.run(&mut printed, stop).await;
    let ended = ended.map_err(|error| error.message)?;
    let printed = printed.into_text();
    match errand.judge(&ended) {
        None if printed.is_empty() => Ok("it ran, and printed nothing".to_owned()),
        None => Ok(printed),
        Some(failure) => Err(match printed.trim_end() {
            "" => failure.message,
            text => format!("{text}\n{}", failure.message),
        }),
    }
}

/// What is printed is told at the end.
struct Nobody;

impl Listener for Nobody {
    fn hear(&self, _: Event<'_>) {}
}
