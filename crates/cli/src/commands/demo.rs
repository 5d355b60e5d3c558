use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use segno_core::ports::{Access, Disk};
use segno_store::LocalDisk;

use crate::failure::Failure;
use crate::output::{data, plain};

/// Watch a run being killed and coming back. Needs no network and no key.
///
/// Runs a chain of five steps with scripted answers in a folder of its own, kills it with SIGKILL in
/// the middle, resumes it, and counts the calls that were made: the count is kept by the scripted
/// agent, outside of Segno's journal.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the demo's files here, to look at them [default: a temporary folder, removed at the end]
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
    let played = prepare(&folder).and_then(|()| play(&folder));
    if args.keep.is_none() {
        remove(&folder);
    }
    let repeated = played.map_err(|error| {
        Failure::usage(
            format!(
                "the demo could not be played in {}: {error}",
                folder.display()
            ),
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

/// Plays it, and returns how many answered calls were made again.
fn play(folder: &Path) -> std::io::Result<usize> {
    let segno = |words: &[&str]| {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(words)
            .current_dir(folder)
            .env("SEGNO_HOME", folder.join("home"))
            .stdin(Stdio::null());
        command
    };

    data("$ segno run tides.yaml");
    let mut child = segno(&["run", "tides.yaml", "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let events = BufReader::new(child.stdout.take().expect("it was just piped"));
    for event in events.lines() {
        let event: serde_json::Value = serde_json::from_str(&event?)?;
        let path = event["path"].as_str().unwrap_or_default();
        match event["kind"].as_str() {
            Some("step_finished") => data(&format!("  ✓ {path}")),
            Some("step_started") => data(&format!(
                "  … {path} {}",
                event["agent"].as_str().unwrap_or_default()
            )),
            _ => {}
        }
        if event["kind"] == "step_started" && path == "steps/3" {
            while !calls(folder)?.contains(&path.to_owned()) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            // No warning, no handler, no chance to save anything.
            child.kill()?;
        }
    }
    let status = child.wait()?;
    data(&format!(
        "  ✗ killed while steps/3 was in flight ({status})\n"
    ));
    let answered: BTreeSet<String> = calls(folder)?
        .into_iter()
        .filter(|step| step != "steps/3")
        .collect();

    data("$ segno resume");
    let resumed = segno(&["resume"]).stdout(Stdio::piped()).output()?;
    for line in String::from_utf8_lossy(&resumed.stderr).lines() {
        data(&plain::plain(line));
    }
    if !resumed.status.success() {
        return Err(std::io::Error::other(format!(
            "segno resume: {}",
            resumed.status
        )));
    }

    let all = calls(folder)?;
    let repeated = all.iter().filter(|step| answered.contains(*step)).count() - answered.len();
    data(&format!(
        "\n{} calls were made for 5 steps: the one in flight was asked again, and of the {} answered calls {repeated} repeated.",
        all.len(),
        answered.len(),
    ));
    data(&format!(
        "finished steps skipped: {}, answered calls repeated: {repeated}",
        answered.len()
    ));
    Ok(repeated)
}

/// The steps that were asked, as the scripted agent counted them.
fn calls(folder: &Path) -> std::io::Result<Vec<String>> {
    let ledger = LocalDisk.read(&folder.join("calls.log"), 1024 * 1024)?;
    let step = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
    Ok(String::from_utf8_lossy(&ledger).lines().map(step).collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the demo made this folder a moment ago and nobody else uses it"
)]
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}
