//! Runs a program for its effect: it gets an input, and its output is ignored.

use std::env;
use std::path::Path;

use segno_core::agent::Error;

use super::child_process::{ChildProcess, Launch};
use super::confinement::Writes;
use super::environment::{AgentEnvironment, VENDORS};
use super::output::Sink;

const IF_MISSING: &str = "install it, or correct the command";

/// Reads what a program prints, so that it never waits, and forgets it.
struct Ignored;

impl Sink for Ignored {
    fn push(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// Runs `argv` below a process guard with `input` on its stdin, until it exits or `stop` returns a
/// reason to kill it. Nothing that it started is left. An exit code other than 0 is an error.
pub async fn run_program(
    guard: &Launch,
    argv: &[String],
    input: &str,
    environment: &AgentEnvironment,
    stop: impl Future<Output = Error> + Send,
) -> Result<(), Error> {
    let folder = env::var_os("HOME").filter(|home| Path::new(home).is_dir());
    let child = ChildProcess {
        guard,
        argv,
        workspace: Path::new(folder.as_deref().unwrap_or("/".as_ref())),
        inherit: environment.for_program(&VENDORS, &[]),
        writes: Writes::Anywhere,
        variables: &[],
        input: &[input],
        if_missing: IF_MISSING,
    };
    let ended = child.run(&mut Ignored, stop).await?;
    child.check_exit(&ended).map_or(Ok(()), Err)
}
