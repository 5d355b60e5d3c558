//! Adapters for this machine behind the engine's ports: randomness, processes, drivers,
//! encryption key, telemetry, programs of notices and the user at the terminal.

mod drivers;
pub(crate) mod human;
mod key;
mod launcher;
mod notice_programs;
mod processes;
mod random;
mod spec_verify;
mod telemetry;

pub(crate) use drivers::{MachineDrivers, PROCESS_GUARD, agent_environment};
pub(crate) use key::{Keyring, PASSPHRASE, passphrase};
pub(crate) use launcher::{Launcher, RUN_PENDING};
pub(crate) use notice_programs::MachinePrograms;
pub(crate) use processes::MachineProcesses;
pub(crate) use random::MachineRandom;
pub(crate) use telemetry::MachineExporter;
