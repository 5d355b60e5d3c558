//! Real agents, as people install them, on a stage of their own: a home, a temporary folder and a
//! folder to work in that nobody else has, and an environment in which they speak to a scripted
//! model server and to nobody else. `make tools` installs them; their keys are made up.

mod agent;
mod client;
mod program;
mod running;
mod stage;
mod workshop;

pub use agent::Agent;
pub use client::{Client, Line};
pub use program::{Program, modules};
pub use running::Running;
pub use stage::Stage;
pub use workshop::Workshop;
