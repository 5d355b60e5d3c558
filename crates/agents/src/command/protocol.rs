//! The messages that driver and process guard exchange over the control socket. Both are always the
//! same build, so the messages have no version.
//!
//! Driver: one line of JSON, a [`SpawnRequest`]; then the prompt's bytes and nothing more until it
//! closes or, if the request says so, everything that the program is to read until then. Guard: one
//! line of JSON, a [`Status`], when the tree has ended.

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};

use super::confinement::Writes;

/// The program that the guard starts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    /// The program and its arguments; never empty.
    pub(crate) argv: Vec<String>,
    pub(crate) input: Input,
    pub(crate) writes: Writes,
}

/// The program's stdin.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    /// A prompt of this many bytes, followed by end of file.
    Prompt(u64),
    /// Everything that is sent, as it arrives.
    Open,
}

/// How the program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Exited(i32),
    Signaled(i32),
    NotStarted {
        errno: i32,
    },
    /// The agent has ended, but this many of its processes could not be killed.
    Left(usize),
    /// The guard itself failed.
    Failed(String),
}

impl SpawnRequest {
    pub(crate) fn to_line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads a request and the prompt that follows it.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<(Self, Vec<u8>)> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let request: Self = serde_json::from_slice(&line)?;
        let length = match request.input {
            Input::Prompt(length) => length,
            Input::Open => 0,
        };
        let mut prompt = Vec::new();
        from.take(length).read_to_end(&mut prompt)?;
        if prompt.len() as u64 == length {
            Ok((request, prompt))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Status {
    pub(crate) fn to_line(&self) -> Vec<u8> {
        line(self)
    }

    /// `None` if this is not one complete line.
    pub(crate) fn from_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
    }

    /// The guard's own exit code, as a shell would set it.
    pub(crate) fn exit_code(&self) -> u8 {
        let code = match self {
            Status::Exited(code) => code & 0xFF,
            Status::Signaled(signal) => 128 + (signal & 0x7F),
            Status::NotStarted { .. } => 127,
            Status::Left(_) | Status::Failed(_) => 125,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("strings and numbers serialize to JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawn_request_reads_back_with_its_prompt() {
        let request = SpawnRequest {
            argv: vec!["a\nb".into(), "\"".into()],
            input: Input::Prompt(3),
            writes: Writes::WorkspaceAndTemp,
        };
        let mut sent = request.to_line();
        sent.extend(b"x\ny");
        assert_eq!(
            SpawnRequest::read(&mut sent.as_slice()).unwrap(),
            (request, b"x\ny".to_vec())
        );
        sent.pop();
        assert!(SpawnRequest::read(&mut sent.as_slice()).is_err());
    }

    #[test]
    fn incomplete_status_is_none() {
        let line = Status::Exited(0).to_line();
        assert_eq!(Status::from_line(&line), Some(Status::Exited(0)));
        assert_eq!(Status::from_line(&line[..line.len() - 1]), None);
        assert_eq!(Status::from_line(b""), None);
    }

    #[test]
    fn exit_code_follows_shell_convention() {
        assert_eq!(Status::Exited(3).exit_code(), 3);
        assert_eq!(Status::Signaled(9).exit_code(), 137);
    }
}
