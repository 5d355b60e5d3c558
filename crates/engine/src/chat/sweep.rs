//! Pausing chats that nobody goes on with, and archiving them when nothing was said for long.
//!
//! It is called every now and then, by whoever is there: a chat at a prompt, a cleanup. It may be called
//! by several at once; each chat is dealt with under its lease, and only if it still is as it was seen.

use std::sync::Arc;
use std::time::Duration;

use segno_core::id::Name;
use segno_core::session::{Kind, Status};

use super::rest;
use crate::error::Error as Failure;
use crate::observe::Quiet;
use crate::world::World;
use crate::{history, sessions};

/// Who asks for a rest, in the journal.
const BY: &str = "the sweep of chats";

/// For how long nothing may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// After this a chat is paused.
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

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Chats that are paused now.
    pub paused: Vec<Name>,
    /// Chats that are archived now.
    pub expired: Vec<Name>,
}

/// Whether a sweep does what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does.
    Real,
    /// It only says what it would do.
    Foreseen,
}

/// Pauses and archives every chat that it is time for. One that cannot be read, or that somebody runs in
/// this moment, is passed over.
pub async fn sweep(world: &World, limits: Limits, effect: Effect) -> Result<Swept, Failure> {
    let now = world.clock.now();
    let mut swept = Swept::default();
    let (listed, _) = sessions::list(world).await?;
    let open = |listed: &&sessions::Listed| {
        let status = listed.standing;
        let rests = status != Status::Running && !status.is_archived() && !status.is_final();
        listed.summary.kind == Kind::Chat && rests
    };
    for listed in listed.iter().filter(open) {
        let summary = &listed.summary;
        let Ok(state) = history::look(world, summary.id).await else {
            continue;
        };
        let Some(chat) = state.chat else {
            continue;
        };
        let silent = now.since(chat.last_message_at);
        // What waits for an answer to a question of its own is not idle.
        let idle = listed.standing == Status::Waiting && state.questions.is_empty();
        let status = if silent >= limits.expiry {
            Status::Expired
        } else if idle && silent >= limits.idle {
            Status::Paused
        } else {
            continue;
        };
        if effect == Effect::Real {
            let seen = state.head;
            match rest(world, summary, seen, status, BY, Arc::new(Quiet)).await {
                // Somebody went on with it, or is about to.
                Ok(None) | Err(Failure::Held { .. } | Failure::Over { .. }) => continue,
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
