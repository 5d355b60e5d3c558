//! Codex.

pub mod transcript;
