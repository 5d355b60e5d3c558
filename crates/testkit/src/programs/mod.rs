//! Real CLI agents, as users install them, in isolation: each stage has its own home, temporary
//! folder and workspace, and an environment in which the agents connect to a scripted model server
//! and to nothing else. `make tools` installs the agents; their keys are made up.

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
pub use stage::AgentSandbox;
pub use workshop::AgentFixture;
