//! Runs the programs that notices are sent to, below the process guard.

use std::sync::Arc;
use std::time::Duration;

use segno_agents::command::run_program;
use segno_core::agent::{Error, ErrorKind};
use segno_core::ports::{Boxed, Clock};
use segno_supervisor::notices::Programs;

use super::drivers::{agent_environment, process_guard};

pub(crate) struct MachinePrograms {
    pub(crate) clock: Arc<dyn Clock>,
    /// Environment variables that programs get, although they look like secrets.
    pub(crate) pass_env: Vec<String>,
}

impl Programs for MachinePrograms {
    fn run<'a>(
        &'a self,
        argv: &'a [String],
        input: &'a str,
        limit: Duration,
    ) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let expired = async {
                self.clock.sleep(limit).await;
                let message = format!("it was killed after {} s", limit.as_secs());
                Error::new(ErrorKind::Timeout, message)
            };
            let (guard, environment) = (process_guard(), agent_environment(&self.pass_env));
            let ran = run_program(&guard, argv, input, &environment, expired);
            ran.await.map_err(|error| error.message)
        })
    }
}
