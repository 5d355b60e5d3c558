//! Restricts what a program may write, by Landlock, where the kernel has it.
//!
//! The process guard restricts itself before it starts the program, so everything below it inherits
//! the restriction, and nothing can lift it. Such a program also cannot signal processes outside, or
//! read their memory and environment: the kernel allows that only within one restriction, or to root.

use std::path::PathBuf;

use landlock::{
    ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
    path_beneath_rules,
};
use serde::{Deserialize, Serialize};

/// What a program may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Writes {
    /// Whatever the user may.
    Anywhere,
    /// The folder it starts in, and the one in `TMPDIR`.
    WorkspaceAndTemp,
}

/// Devices without a state.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/urandom",
];

impl Writes {
    /// Restricts this thread and all processes that it starts from now on. An older kernel enforces
    /// the part that it knows.
    pub(super) fn restrict(self) -> Result<(), RulesetError> {
        if self == Writes::Anywhere {
            return Ok(());
        }
        let writes = AccessFs::from_write(ABI::V6);
        let places = [PathBuf::from("."), std::env::temp_dir()];
        let places = places.into_iter().chain(DEVICES.map(PathBuf::from));
        Ruleset::default()
            .handle_access(writes)?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?
            .create()?
            .add_rules(path_beneath_rules(places, writes))?
            .restrict_self()?;
        Ok(())
    }
}
