//! Asking Codex.

use std::ffi::OsStr;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use segno_core::agent::{Answer, Error, Listener, Request};
use segno_core::companion::{Companion, Program, Record, Records, Way};
use segno_core::ports::{Boxed, Clock};
use segno_core::usage::Usage;

use super::stream::{Known, Stream};
use super::tail::Tail;
use crate::command::output::{Line, Lines};
use crate::command::{Errand, Inherit};
use crate::program::{LONGEST_LINE, Permissions, Setup, variables};
use crate::record;
use crate::reset::timed;
use crate::transcript::Native;

/// Speaks to Codex.
pub struct Codex {
    setup: Setup,
    records: record::Records,
    clock: Arc<dyn Clock>,
}

impl Codex {
    /// The one that `setup` starts.
    pub fn new(setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self {
            records: record::Records::new(Native::Codex, &setup),
            setup,
            clock,
        }
    }

    /// The program and its arguments. What it is asked is not among them, so that no word of it can
    /// be taken for a flag.
    fn argv(&self, request: &Request<'_>, way: Way<'_>) -> Vec<String> {
        let mut argv = vec![self.setup.program.clone()];
        argv.extend(["exec", "--json", "--skip-git-repo-check"].map(str::to_owned));
        argv.push(
            match self.setup.permissions.under(request.conduct) {
                Permissions::Read => "--sandbox=read-only",
                Permissions::Edit => "--sandbox=workspace-write",
                Permissions::All => "--dangerously-bypass-approvals-and-sandbox",
            }
            .to_owned(),
        );
        argv.extend(
            self.setup
                .model
                .iter()
                .map(|model| format!("--model={model}")),
        );
        let service = self.setup.service.iter();
        argv.extend(service.flat_map(|service| service.codex(request)));
        if let Way::Continue { id } = way {
            argv.extend(["resume".to_owned(), id.to_owned()]);
        }
        argv.push("-".to_owned());
        argv
    }

    async fn answer(
        &self,
        request: Request<'_>,
        way: Way<'_>,
        listener: &dyn Listener,
    ) -> Result<Answer, Error> {
        let argv = self.argv(&request, way);
        let mut tail = Tail::new(&self.setup.home);
        let (expected, before) = match way {
            Way::Begin { .. } => (None, Usage::default()),
            Way::Continue { id } => {
                let used = record::used(Native::Codex, &self.setup.home, id).await?;
                tail.skip(id);
                (Some(id), used)
            }
        };
        let system = request.system.trim();
        let (above, between) = match way {
            Way::Begin { .. } if !system.is_empty() => (system, "\n\n"),
            _ => ("", ""),
        };
        let named = variables(&request);
        let errand = Errand {
            warden: &self.setup.warden,
            argv: &argv,
            workspace: request.workspace,
            inherit: Inherit::All,
            variables: &named
                .each_ref()
                .map(|(name, value)| (*name, OsStr::new(value))),
            input: &[above, between, request.input],
        };
        let known = Known {
            expected,
            before,
            window: self.setup.window,
            mark: format!("{}.", request.attempt),
        };
        let mut stream = Stream::new(known, tail, listener);
        let mut lines = Lines::new(LONGEST_LINE, |line: Line<'_>| stream.line(line));
        // How long it may take is the engine's to say: it drops the future.
        let ended = errand.run(&mut lines, pending()).await?;
        let answer = stream.finish(errand.judge(&ended));
        answer.map_err(|error| timed(error, &*self.clock))
    }
}

impl Companion for Codex {
    fn program(&self) -> Program {
        Program::Codex
    }

    fn lets_choose(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        way: Way<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, way, listener))
    }

    fn record<'a>(
        &'a self,
        id: &'a str,
        _folder: &'a Path,
    ) -> Boxed<'a, Result<Option<Record>, Error>> {
        Box::pin(record::look(Native::Codex, &self.setup.home, id))
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(&self.records)
    }
}
