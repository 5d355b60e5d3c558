//! Waits until the sessions of a server change.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::Response;
use segno_core::id::SessionId;
use segno_core::ports::Boxed;
use segno_core::store::{Changed, Watch};
use serde::Deserialize;

use crate::connection::Connection;

/// A frame is much shorter.
const MOST: usize = 1 << 20;

/// Follows the changes of all sessions, through lost connections.
pub(crate) struct RemoteWatch {
    connection: Arc<Connection>,
    stream: Option<Stream>,
}

struct Stream {
    response: Response,
    /// What has arrived of the next frame.
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct Frame {
    sessions: Option<BTreeSet<SessionId>>,
}

impl RemoteWatch {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            stream: None,
        }
    }
}

impl Watch for RemoteWatch {
    fn changed(&mut self) -> Boxed<'_, Changed> {
        Box::pin(async move {
            loop {
                if self.stream.is_none() {
                    match self.connection.stream("/api/v1/changes").await {
                        Ok(response) => {
                            let rest = Vec::new();
                            self.stream = Some(Stream { response, rest });
                        }
                        // The caller looks by itself, finds out why, and calls again.
                        Err(_) => return Changed::Any,
                    }
                }
                let Some(stream) = &mut self.stream else {
                    continue;
                };
                match stream.next().await {
                    Some(changed) => return changed,
                    None => self.stream = None,
                }
            }
        })
    }
}

impl Stream {
    /// The next change; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Changed> {
        loop {
            while let Some(line) = self.line() {
                if let Some(changed) = read(&line) {
                    return Some(changed);
                }
            }
            if self.rest.len() > MOST {
                return None;
            }
            let piece = Connection::piece(&mut self.response).await?;
            self.rest.extend(piece);
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.rest.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

/// The change that a line of the stream tells; `None` for comments and blank lines.
fn read(line: &[u8]) -> Option<Changed> {
    let body = line.strip_prefix(b"data: ")?;
    // What this version does not understand may be about any session.
    let frame: Option<Frame> = serde_json::from_slice(body).ok();
    Some(match frame.and_then(|frame| frame.sessions) {
        Some(sessions) => Changed::Sessions(sessions),
        None => Changed::Any,
    })
}
