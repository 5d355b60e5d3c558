//! Parses workflow specs: YAML or JSON in, a [`Workflow`] or all its [`Problems`] out.
//!
//! A spec is untrusted input: size, depth and aliases are bounded, unknown keys are rejected, and
//! every template is compiled before anything runs. What the format allows and this version does
//! not support is rejected by name ([`Fault::Unsupported`]), never ignored.
//!
//! `node` parses text into values with line numbers; `cursor` walks the values and collects
//! problems; `fields` checks a block's keys. One file per block of the format (`runtime`, `inputs`,
//! `agents`, `pattern`, `outputs`, and `workflow` for the top level) has the block's type, its
//! table of keys and its reader. A new key is one line in the table and one in the reader.
//!
//! This module opens no file. The caller supplies the files that a spec refers to (`references`),
//! and resolves `script`.

pub mod binding;
pub mod checklist;
pub mod template;

mod agents;
mod auto_resume;
mod changes;
mod context;
mod cursor;
mod environment;
mod fields;
mod file_changes;
mod handoff;
mod inputs;
mod node;
mod outline;
mod outputs;
mod pattern;
mod pauses;
mod problem;
mod provider;
mod references;
mod runtime;
mod schema;
mod schema_refs;
mod security;
mod skills;
mod startable;
mod telemetry;
mod tools;
mod workflow;

#[cfg(test)]
mod tests;

pub use agents::{Agent, Permission, Permissions};
pub use auto_resume::{AutoResume, OnLost};
pub use binding::bind;
pub use changes::{Change, StepChange, changed_steps};
pub use context::{Compaction, ContextPolicy, Notes, NotesFormat};
pub use environment::{Environment, Secret, Source};
pub use handoff::{Handoff, HandoffReader};
pub use inputs::{Input, Inputs, Type};
pub use outline::{OutlineStep, Predecessor, outline, outline_path};
pub use outputs::{Artifact, PathError, checked_artifact_path};
pub use pattern::find_cycle;
pub use pattern::{
    AgentStep, Approve, Branch, Chain, Choice, Edge, Evaluator, Goal, Graph, HumanQuestion,
    ListStep, Node, Orchestrator, Parallel, Pattern, Plan, Route, Routing, Step, Task, Tasks,
    Worktree,
};
pub use pauses::PausePolicy;
pub use problem::similar;
pub use problem::{Fault, Problem, Problems};
pub use provider::{Api, Inference, Provider, Vendor};
pub use references::FileReader;
pub use runtime::{Budgets, Runtime};
pub use schema::Schema;
pub use security::Guardrails;
pub use skills::Skill;
pub use startable::startable;
pub use telemetry::Telemetry;
pub use tools::{DeclaredTools, Executor, Server, Transport, native as native_tools};
pub use workflow::as_json;
pub use workflow::{Checkpoints, ContextFull, OnLimit, RateLimitPolicy, Workflow, load, parse};
