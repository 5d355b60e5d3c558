//! Adapters for this machine behind the engine's ports: randomness, processes, drivers,
//! encryption key, telemetry and the user at the terminal.

mod drivers;
pub(crate) mod human;
mod key;
mod processes;
mod random;
mod spec_verify;
mod telemetry;

pub(crate) use drivers::{MachineDrivers, PROCESS_GUARD};
pub(crate) use key::{Keyring, PASSPHRASE, passphrase};
pub(crate) use processes::MachineProcesses;
pub(crate) use random::MachineRandom;
pub(crate) use telemetry::MachineExporter;
