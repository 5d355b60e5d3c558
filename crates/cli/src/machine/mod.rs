//! This machine: the real clock, chance, processes and drivers behind the ports.

mod archives;
mod carry;
pub(crate) mod clock;
mod drivers;
mod key;
pub(crate) mod people;
mod processes;
mod random;
mod snapshots;
mod spec_verify;
mod telemetry;
mod worktrees;

pub(crate) use clock::MachineClock;
pub(crate) use drivers::{MachineDrivers, WARDEN};
pub(crate) use key::{Keyring, PASSPHRASE, passphrase};
pub(crate) use processes::MachineProcesses;
pub(crate) use random::MachineRandom;
pub(crate) use snapshots::{MachineSnapshots, Place};
pub(crate) use telemetry::MachineExporter;
pub(crate) use worktrees::MachineWorktrees;
