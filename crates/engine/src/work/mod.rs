//! Sessions that work through a plan: the plan as it is written, a session of it as it stands, and the
//! start of one. The work itself is a pattern like the others.

mod begin;
pub mod checklist;
mod crew;
mod view;

pub use begin::{Request, Seat, read, start};
pub use crew::{Crew, Reviewer};
pub use view::{Plan, Review, Status, Task, plan};
