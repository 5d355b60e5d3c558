//! What driver and warden say to each other over the control socket. Both are always the same
//! build, so the words have no version.
//!
//! Driver: one line of JSON, an [`Order`]; then the prompt's bytes and silence until it closes, or,
//! if the order says so, whatever the program is to read until then.
//! Warden: one line of JSON, a [`Status`], when everything is over.

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};

/// What the warden is to start.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The program and its arguments; never empty.
    pub(crate) argv: Vec<String>,
    /// What the program reads.
    pub(crate) input: Input,
}

/// What a program reads.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    /// A prompt of so many bytes, and then its end.
    Prompt(u64),
    /// Everything that is sent, as it comes.
    Open,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// The agent exited with this code.
    Exited(i32),
    /// The agent was ended by this signal.
    Signaled(i32),
    /// The agent could not be started.
    NotStarted {
        /// The system's error number.
        errno: i32,
    },
    /// The agent is over, but so many of its processes could not be ended.
    Left(usize),
    /// The warden could not do its work.
    Failed(String),
}

impl Order {
    /// The order as it is sent.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads an order and the prompt after it.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<(Self, Vec<u8>)> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let order: Self = serde_json::from_slice(&line)?;
        let length = match order.input {
            Input::Prompt(length) => length,
            Input::Open => 0,
        };
        let mut prompt = Vec::new();
        from.take(length).read_to_end(&mut prompt)?;
        if prompt.len() as u64 == length {
            Ok((order, prompt))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Status {
    /// The status as it is sent.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads a status; `None` if this is not one whole line of it.
    pub(crate) fn from_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
    }

    /// The warden's own exit code, in the manner of a shell.
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
    let mut line = serde_json::to_vec(message).expect("text and numbers are always JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_reads_back_with_its_prompt() {
        let order = Order {
            argv: vec!["a\nb".into(), "\"".into()],
            input: Input::Prompt(3),
        };
        let mut sent = order.to_line();
        sent.extend(b"x\ny");
        assert_eq!(
            Order::read(&mut sent.as_slice()).unwrap(),
            (order, b"x\ny".to_vec())
        );
        sent.pop();
        assert!(Order::read(&mut sent.as_slice()).is_err());
    }

    #[test]
    fn half_a_status_is_none() {
        let line = Status::Exited(0).to_line();
        assert_eq!(Status::from_line(&line), Some(Status::Exited(0)));
        assert_eq!(Status::from_line(&line[..line.len() - 1]), None);
        assert_eq!(Status::from_line(b""), None);
    }

    #[test]
    fn the_exit_code_is_what_a_shell_would_give() {
        assert_eq!(Status::Exited(3).exit_code(), 3);
        assert_eq!(Status::Signaled(9).exit_code(), 137);
    }
}
