//! The real agents, driven directly: what the scripted server and the stage promise to every other
//! test that drives them.

mod acp;
mod faults;
mod histories;
mod kills;
mod runs;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use segno_testkit::programs::Stage;
use segno_testkit::sandbox::DEADLINE;
use serde_json::Value;

/// A session id as Claude Code wants them.
const SESSION: &str = "5e550000-0000-4000-8000-000000000001";

/// The agents that are told apart in these tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Claude,
    Codex,
}

const AGENTS: [Agent; 2] = [Agent::Claude, Agent::Codex];

impl Agent {
    fn start(self, stage: &Stage, prompt: &str) -> Running {
        Running::new(match self {
            Self::Claude => stage.claude(prompt, &["--session-id", SESSION]),
            Self::Codex => stage.codex(prompt, &[]),
        })
    }

    fn resume(self, stage: &Stage, session: &str, prompt: &str) -> Running {
        Running::new(match self {
            Self::Claude => stage.claude(prompt, &["--resume", session]),
            Self::Codex => stage.codex(prompt, &["resume", session]),
        })
    }

    fn names_session(self, line: &Value) -> bool {
        match self {
            Self::Claude => line["session_id"].is_string(),
            Self::Codex => line["thread_id"].is_string(),
        }
    }

    /// The agent's own record of a session; empty if there is none yet.
    fn kept(self, stage: &Stage, session: &str) -> String {
        let path = match self {
            Self::Claude => stage.transcript(session),
            Self::Codex => stage.rollout(session),
        };
        path.map(|path| std::fs::read_to_string(path).unwrap())
            .unwrap_or_default()
    }

    /// What the agent's record says of a file that was written.
    fn word_of_success(self) -> &'static str {
        match self {
            Self::Claude => "File created successfully",
            Self::Codex => "Success. Updated the following files",
        }
    }

    /// The id of the session, from what a run has said.
    fn session(self, lines: &[Value]) -> String {
        let ids = lines.iter().filter_map(|line| match self {
            Self::Claude => line["session_id"].as_str(),
            Self::Codex => line["thread_id"].as_str(),
        });
        ids.map(str::to_owned)
            .next()
            .unwrap_or_else(|| panic!("{self:?} named no session: {lines:?}"))
    }
}

/// An agent that runs, read line by line.
struct Running {
    child: Child,
    lines: mpsc::Receiver<Value>,
    seen: Vec<Value>,
}

impl Running {
    fn new(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Reads until a line is as wanted.
    #[track_caller]
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(error) => panic!("{error}; so far: {:#?}", self.seen),
            }
        }
    }

    /// Reads to the end.
    fn end(mut self) -> (ExitStatus, Vec<Value>) {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_mins(1)) {
            self.seen.push(line);
        }
        (self.child.wait().unwrap(), self.seen)
    }

    /// Kills the agent, and only it, as a crash of it would.
    fn kill(mut self) -> Vec<Value> {
        self.child.kill().unwrap();
        self.end().1
    }
}
