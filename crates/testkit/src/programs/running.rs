//! A running agent, read line by line.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::sandbox::deadline;

/// A running agent. It is killed when this is dropped; its child processes may live on.
pub struct Running {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub fn new(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
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

    /// The agent's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the agent has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The lines that were read so far; those that are not JSON are strings.
    pub fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Reads until a line is as wanted.
    #[track_caller]
    pub fn read_until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.lines.recv_timeout(deadline()) {
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

    /// Sends a signal to the agent, and only to it.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Reads to the end.
    pub fn read_to_end(mut self) -> (ExitStatus, Vec<Value>) {
        while let Ok(line) = self.lines.recv_timeout(deadline()) {
            self.seen.push(line);
        }
        let status = self.child.wait().unwrap();
        (status, std::mem::take(&mut self.seen))
    }

    /// Kills the agent with SIGKILL, and returns all its lines.
    pub fn kill(self) -> Vec<Value> {
        self.signal(Signal::KILL);
        self.read_to_end().1
    }
}
