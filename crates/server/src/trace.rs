//! What becomes known about a request while it is handled, for the reports about it.

use std::sync::{Arc, OnceLock};

use segno_core::id::SessionId;
use segno_core::ports::Random;

/// A request. Clones share what is known.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Known>);

struct Known {
    id: String,
    token: OnceLock<String>,
    session: OnceLock<SessionId>,
    operation: OnceLock<String>,
}

impl Trace {
    /// A new request, with an id of its own.
    pub(crate) fn new(random: &dyn Random) -> Self {
        Self(Arc::new(Known {
            id: random_hex(random),
            token: OnceLock::new(),
            session: OnceLock::new(),
            operation: OnceLock::new(),
        }))
    }

    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    /// The name of the token that was sent, if it is valid.
    pub(crate) fn token(&self) -> Option<&str> {
        self.0.token.get().map(String::as_str)
    }

    pub(crate) fn set_token(&self, name: &str) {
        let _ = self.0.token.set(name.to_owned());
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        self.0.session.get().copied()
    }

    pub(crate) fn set_session(&self, session: SessionId) {
        let _ = self.0.session.set(session);
    }

    /// What marks the effect of a request with a key.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.0.operation.get().map(String::as_str)
    }

    pub(crate) fn set_operation(&self, mark: &str) {
        let _ = self.0.operation.set(mark.to_owned());
    }
}

/// 16 unpredictable hexadecimal digits.
pub(crate) fn random_hex(random: &dyn Random) -> String {
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    format!("{:016x}", u64::from_le_bytes(bytes))
}
