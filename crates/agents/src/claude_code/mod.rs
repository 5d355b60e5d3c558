//! Claude Code.

pub mod transcript;
