//! Adapters for this machine behind the engine's ports: clock, randomness, processes, drivers,
//! snapshots, encryption key, telemetry and git worktrees.

mod archives;
pub(crate) mod clock;
mod drivers;
pub(crate) mod human;
mod key;
mod processes;
mod random;
mod snapshots;
mod spec_verify;
mod telemetry;
mod transfer;
mod worktrees;

pub(crate) use clock::MachineClock;
pub(crate) use drivers::{MachineDrivers, PROCESS_GUARD};
pub(crate) use key::{Keyring, PASSPHRASE, passphrase};
pub(crate) use processes::MachineProcesses;
pub(crate) use random::MachineRandom;
pub(crate) use snapshots::{FileWork, MachineSnapshots};
pub(crate) use telemetry::MachineExporter;
pub(crate) use worktrees::MachineWorktrees;
