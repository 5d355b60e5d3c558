//! Tools that a model may request, and whether they are safe to run twice.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ports::Boxed;

/// A tool call that a model requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    pub input: serde_json::Value,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    pub output: String,
    pub is_error: bool,
}

/// A tool that a model may request.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// The JSON schema of the tool's input.
    pub schema: serde_json::Value,
}

/// What happens if a tool is run a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectClass {
    /// The tool only reads: nothing happens.
    ReadOnly,
    /// The tool is idempotent.
    Repeatable,
    /// An effect may happen twice.
    Effectful,
}

/// A tool that is offered to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    pub tool: Tool,
    /// What happens if the tool is run twice.
    pub class: EffectClass,
}

/// Tools that can be run.
pub trait Tools: Send + Sync {
    /// The tools to offer to the model.
    fn offered_tools(&self) -> &[OfferedTool];

    /// Runs a tool in `workspace`. An error is returned to the model, which may try something else; it
    /// does not fail the step. Dropping the future kills the tool.
    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<String, String>>;
}
