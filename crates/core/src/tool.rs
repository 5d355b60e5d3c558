//! What a model may ask for, and what is known about doing it twice.

use std::path::Path;

use crate::model::{Tool, ToolCall};
use crate::ports::Boxed;

/// What happens if a tool is run a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It only looks: nothing happens.
    ReadOnly,
    /// The same happens again, and nothing more.
    Repeatable,
    /// Something may happen twice.
    Effectful,
}

/// A tool that is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The tool.
    pub tool: Tool,
    /// What happens if it is run twice.
    pub class: Class,
}

/// Tools that can be run.
pub trait Tools: Send + Sync {
    /// What is offered.
    fn offers(&self) -> &[Offer];

    /// Runs one of them in `workspace`. What goes wrong is told to the model, which may find another
    /// way; it does not fail the step. Dropping the future ends it.
    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<String, String>>;
}
