//! `segno demo`: kills a scripted run and resumes it, to show that no answered call is repeated.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use segno_core::ports::{Access, Disk};
use segno_store::LocalDisk;

use crate::failure::Failure;
use crate::output::{stdout_line, text};

/// Watch a run being killed and resumed. Needs no network and no API key.
///
/// Runs a chain of five steps with scripted answers in a separate folder, kills it with SIGKILL in
/// the middle, resumes it, and counts the calls. The scripted agent keeps the count, outside of
/// Segno's journal.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the demo's files in this folder [default: a temporary folder, deleted at the end]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

const SPEC: &str = include_str!("demo/tides.yaml");
const SCRIPT: &str = include_str!("demo/answers.yaml");

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = match &args.keep {
        Some(folder) => crate::context::workspace()?.join(folder),
        None => std::env::temp_dir().join(format!("segno-demo-{}", std::process::id())),
    };
    let result = prepare(&folder).and_then(|()| run_demo(&folder));
    if args.keep.is_none() {
        remove(&folder);
    }
    let repeated = result.map_err(|error| {
        Failure::usage(
            format!("the demo failed in {}: {error}", folder.display()),
            None,
        )
    })?;
    Ok(if repeated == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn prepare(folder: &Path) -> std::io::Result<()> {
    LocalDisk.create_folder(folder, Access::Private)?;
    LocalDisk.create(&folder.join("tides.yaml"), SPEC.as_bytes(), Access::Private)?;
    LocalDisk.create(
        &folder.join("answers.yaml"),
        SCRIPT.as_bytes(),
        Access::Private,
    )
}

/// Runs the demo. Returns how many answered calls were repeated.
fn run_demo(folder: &Path) -> std::io::Result<usize> {
    let segno = |words: &[&str]| {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(words)
            .current_dir(folder)
            .env("SEGNO_HOME", folder.join("home"))
            .stdin(Stdio::null());
        command
    };

    stdout_line("$ segno run tides.yaml");
    let mut child = segno(&["run", "tides.yaml", "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let events = BufReader::new(child.stdout.take().expect("it was just piped"));
    for event in events.lines() {
        let event: serde_json::Value = serde_json::from_str(&event?)?;
        let path = event["path"].as_str().unwrap_or_default();
        match event["kind"].as_str() {
            Some("step_finished") => stdout_line(&format!("  ✓ {path}")),
            Some("step_started") => stdout_line(&format!(
                "  … {path} {}",
                event["agent"].as_str().unwrap_or_default()
            )),
            _ => {}
        }
        if event["kind"] == "step_started" && path == "steps/3" {
            while !calls(folder)?.contains(&path.to_owned()) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            // SIGKILL: no warning, no handler, no time to save anything.
            child.kill()?;
        }
    }
    let status = child.wait()?;
    stdout_line(&format!(
        "  ✗ killed while steps/3 was in flight ({status})\n"
    ));
    let answered: BTreeSet<String> = calls(folder)?
        .into_iter()
        .filter(|step| step != "steps/3")
        .collect();

    stdout_line("$ segno resume");
    let resumed = segno(&["resume"]).stdout(Stdio::piped()).output()?;
    for line in String::from_utf8_lossy(&resumed.stderr).lines() {
        stdout_line(&text::sanitize(line));
    }
    if !resumed.status.success() {
        return Err(std::io::Error::other(format!(
            "segno resume: {}",
            resumed.status
        )));
    }

    let all = calls(folder)?;
    let repeated = all.iter().filter(|step| answered.contains(*step)).count() - answered.len();
    stdout_line(&format!(
        "\n{} calls were made for 5 steps: the one in flight was repeated, and of the {} answered calls {repeated}.",
        all.len(),
        answered.len(),
    ));
    stdout_line(&format!(
        "finished steps skipped: {}, answered calls repeated: {repeated}",
        answered.len()
    ));
    Ok(repeated)
}

/// The steps that were called, from the log of the scripted agent.
fn calls(folder: &Path) -> std::io::Result<Vec<String>> {
    let log = LocalDisk.read(&folder.join("calls.log"), 1024 * 1024)?;
    let step = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
    Ok(String::from_utf8_lossy(&log).lines().map(step).collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the demo made this folder a moment ago and nobody else uses it"
)]
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}
