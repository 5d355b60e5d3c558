//! A server's sessions, for the command line of another machine.
//!
//! [`RemoteStore`] reads them: it is a [`Store`](segno_core::store::Store), so that every command
//! that reads works unchanged. It verifies the journals that it receives (P9). [`RemoteControl`]
//! sends what users ask for; the server does it as if the user were there. [`Connection`] is how
//! both reach the server.

mod address;
mod connection;
mod control;
mod error;
mod owners;
mod problem;
mod store;
mod tls;
mod watch;

use std::sync::Arc;

pub use address::Address;
pub use connection::Connection;
pub use control::RemoteControl;
pub use error::Error;
pub use owners::RemoteOwners;
pub use store::RemoteStore;

/// What a command line needs to work with a server's sessions.
pub struct Remote {
    pub connection: Arc<Connection>,
    pub store: Arc<RemoteStore>,
    pub owners: Arc<RemoteOwners>,
}

impl Remote {
    pub fn new(connection: Connection, here: segno_core::lease::Owner) -> Self {
        let connection = Arc::new(connection);
        let owners = Arc::new(RemoteOwners::new(here));
        let store = RemoteStore::new(Arc::clone(&connection), Arc::clone(&owners));
        Self {
            connection,
            store: Arc::new(store),
            owners,
        }
    }
}
