//! Durable runs: a workflow's steps, each done once, whatever happens in between.

pub mod spec;
pub mod template;
