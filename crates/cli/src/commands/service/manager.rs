//! `systemctl --user`.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process;

use super::Error;
use crate::context::Context;

/// How long one command may take: stopping the service waits for its end.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The end of an error message that is shown.
const MAX_REASON: usize = 500;

/// Runs a command. It must succeed.
pub(super) async fn call(context: &Context, words: &[&str]) -> Result<(), Error> {
    let output = run(context, words).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::ManagerFailed {
        command: words.join(" "),
        reason: reason(&output),
    })
}

/// Whether the systemd of this user responds.
pub(super) async fn check(context: &Context) -> Result<(), Error> {
    let output = run(context, &["show", "--property=Version"]).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::NoManager(reason(&output)))
}

/// The one word that a query prints; `None` if there is no systemd.
pub(super) async fn query(context: &Context, word: &str) -> Option<String> {
    let output = run(context, &[word, super::unit::NAME]).await.ok()?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(printed).filter(|printed| !printed.is_empty())
}

async fn run(context: &Context, words: &[&str]) -> Result<Output, Error> {
    let started = process::Command::new("systemctl")
        .arg("--user")
        .args(words)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    tokio::select! {
        ended = started => ended.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NoManager("there is no `systemctl`".to_owned()),
            _ => Error::NoManager(error.to_string()),
        }),
        () = context.clock.sleep(TIMEOUT) => Err(Error::ManagerFailed {
            command: words.join(" "),
            reason: format!("it did not end within {} s", TIMEOUT.as_secs()),
        }),
    }
}

fn reason(output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stderr);
    let printed: String = printed.trim().chars().take(MAX_REASON).collect();
    match printed.as_str() {
        "" => output.status.to_string(),
        printed => printed.to_owned(),
    }
}
