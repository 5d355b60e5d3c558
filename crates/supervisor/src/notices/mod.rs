//! Notices: tells people what happened to their sessions.
//!
//! [`notices`] derives notices from journal events. The process that runs a
//! session stores them in an outbox below the home, off the run's path ([`Notices::observe`]), and
//! delivers them while it runs and for a few seconds at its end ([`Notices::finish`]). A server or
//! worker delivers what is left ([`Notices::deliver`]).
//!
//! A stored notice is delivered at least once; what may be a repetition says so and has the same
//! id. A kill between an event's commit and the file of its notice loses that notice; the journal
//! has the event.

mod delivery;
mod error;
mod facts;
mod handle;
mod kind;
mod message;
mod notice;
mod observer;
mod outbox;
mod rate;
mod sender;
mod signature;
mod target;

pub use error::Error;
pub use facts::Facts;
pub use handle::{Notices, Origin, Pending, Settings, Tested};
pub use kind::{Kind, Severity, UnknownKind};
pub use notice::{Notice, checkpoint_notice, notices};
pub use outbox::{Delivery, Entry, TargetState};
pub use sender::Programs;
pub use target::{Channel, Filter, Rate, Source, Target};
