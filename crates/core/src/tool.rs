//! Tools that a model may request, and whether they are safe to run twice.

use std::path::Path;

use crate::model::{Tool, ToolCall};
use crate::ports::Boxed;

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
