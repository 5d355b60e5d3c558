//! Sessions that work through a plan: the plan's text format, the progress of a session, and the
//! start of one. The execution itself is a pattern like the others (`patterns::plan`).

mod begin;
mod error;
mod roles;
mod view;

pub use begin::{Request, WorkFolder, read, start};
pub use error::Error;
pub use roles::{Reviewer, Roles};
pub(crate) use view::plan_at;
pub use view::{Plan, Review, Status, Task, plan};
