//! Streams which sessions changed, for programs and pages that show many of them.

use futures_util::stream::{self, Stream};
use segno_core::store::Changed;
use segno_engine::Env;
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

use super::{HEARTBEAT, stopped};
use crate::observe::metrics::OpenReader;

/// How many changes wait for a slow reader. One that misses some is told that any session may have
/// changed (P10).
pub(super) const WAITING: usize = 256;

struct Reader {
    env: Env,
    changes: broadcast::Receiver<Changed>,
    stop: watch::Receiver<bool>,
    _open: OpenReader,
}

/// A frame for each change, and a comment while there is none. Ends with the server.
pub(super) fn frames(
    env: Env,
    changes: broadcast::Receiver<Changed>,
    stop: watch::Receiver<bool>,
    open: OpenReader,
) -> impl Stream<Item = String> + Send {
    let reader = Reader {
        env,
        changes,
        stop,
        _open: open,
    };
    // Whatever changed before the reader came.
    let first = stream::once(std::future::ready(frame(&Changed::Any)));
    let rest = stream::unfold(reader, |mut reader| async {
        let text = tokio::select! {
            changed = reader.changes.recv() => match changed {
                Ok(changed) => frame(&changed),
                Err(RecvError::Lagged(_)) => frame(&Changed::Any),
                Err(RecvError::Closed) => return None,
            },
            () = reader.env.clock.sleep(HEARTBEAT) => ": heartbeat\n\n".to_owned(),
            () = stopped(&mut reader.stop) => return None,
        };
        Some((text, reader))
    });
    futures_util::StreamExt::chain(first, rest)
}

fn frame(changed: &Changed) -> String {
    let sessions = match changed {
        Changed::Sessions(sessions) => Some(sessions),
        Changed::Any => None,
    };
    let body = json!({"v": 1, "kind": "changed", "sessions": sessions});
    format!("data: {body}\n\n")
}
