//! Pauses idle chats, and archives those that were silent for long.
//!
//! A chat prompt or a cleanup calls this from time to time. Concurrent calls are safe: each chat is
//! changed under its lease, and only if it is still in the state that the sweep saw.

use std::sync::Arc;
use std::time::Duration;

use segno_core::id::Name;
use segno_core::session::{Kind, Status};
use segno_core::store::Filter;
use segno_engine::observe::NoObserver;
use segno_engine::{Env, history};

use super::{Error, set_idle};
use crate::listing;

/// Who paused the chat, in the journal.
const BY: &str = "the sweep of chats";

/// How long a chat may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// After this it is paused.
    pub idle: Duration,
    /// After this it is archived.
    pub expiry: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(5),
            expiry: Duration::from_mins(30),
        }
    }
}

/// What the sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub paused: Vec<Name>,
    pub expired: Vec<Name>,
}

/// Whether the sweep changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Apply,
    /// Only reports what it would do.
    DryRun,
}

/// Pauses and archives every chat that is due. Skips chats that cannot be read or that have an
/// active run.
pub async fn sweep(env: &Env, limits: Limits, effect: Effect) -> Result<Swept, Error> {
    let now = env.clock.now();
    let mut swept = Swept::default();
    let (listed, _) = listing::list(env, Filter::open()).await?;
    let open = |listed: &&listing::ListedSession| {
        let status = listed.status;
        let rests = status != Status::Running && !status.is_archived() && !status.is_final();
        listed.summary.kind == Kind::Chat && rests
    };
    for listed in listed.iter().filter(open) {
        let summary = &listed.summary;
        let Ok(state) = history::load_state(env, summary.id).await else {
            continue;
        };
        let Some(chat) = state.chat else {
            continue;
        };
        let silent = now.since(chat.last_message_at);
        // A chat that waits for the answer to an agent's question is not idle.
        let idle = listed.status == Status::Waiting && state.questions.is_empty();
        let status = if silent >= limits.expiry {
            Status::Expired
        } else if idle && silent >= limits.idle {
            Status::Paused
        } else {
            continue;
        };
        if effect == Effect::Apply {
            let seen = state.head;
            match set_idle(env, summary, seen, status, BY, Arc::new(NoObserver)).await {
                // Someone continued it, or is about to.
                Ok(None) | Err(Error::Ended(_)) => continue,
                Err(Error::Lease(error)) if error.is_held() => continue,
                rested => rested?,
            };
        }
        let name = summary.name.clone();
        match status {
            Status::Expired => swept.expired.push(name),
            _ => swept.paused.push(name),
        }
    }
    Ok(swept)
}
