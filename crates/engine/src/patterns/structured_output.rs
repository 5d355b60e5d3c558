//! Asks for an answer of a given shape, and repeats the question if the answer does not match.

use segno_core::agent::AccessMode;
use segno_core::step::Path;

use crate::answers::Answer;
use crate::error::Error;
use crate::scope::Scope;
use crate::steps::{Input, Question, Runner};

/// A question whose answer must have a given shape.
pub(super) struct StructuredQuestion<'a> {
    pub(super) path: Path,
    pub(super) agent: &'a str,
    /// The question: a template, or literal text.
    pub(super) input: Wording<'a>,
    /// The instructions about the shape, which follow the question.
    pub(super) shape: &'a str,
    /// What the repeated question asks for, and nothing else.
    pub(super) alone: &'a str,
    /// How often the question is repeated.
    pub(super) retries: u32,
    pub(super) scope: &'a Scope,
    /// What the agent may do to the workspace.
    pub(super) access: AccessMode,
}

pub(super) enum Wording<'a> {
    Template(&'a str),
    Text(String),
}

/// Asks until the answer can be parsed. Each repetition is a step of its own: an answer that was
/// paid for stays in the journal, even if it is unusable.
pub(super) async fn ask_structured<T>(
    runner: &Runner,
    structured: StructuredQuestion<'_>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(T, Answer), Error> {
    let mut more = structured.shape.to_owned();
    let times = structured.retries + 1;
    for n in 1..=times {
        let input = match &structured.input {
            Wording::Template(source) => Input::TemplateThen(source, &more),
            Wording::Text(words) if words.is_empty() => Input::Text(more.clone()),
            Wording::Text(words) => Input::Text(format!("{words}\n\n{more}")),
        };
        let path = structured.path.nth(n);
        let question = Question {
            path: path.clone(),
            agent: structured.agent,
            input,
            scope: structured.scope,
            tools: None,
            access: structured.access,
        };
        let answer = runner.ask(question).await?;
        let reason = match read(&runner.text(answer).await?) {
            Ok(value) => return Ok((value, answer)),
            Err(reason) => reason,
        };
        if n == times {
            return Err(Error::UnusableAnswer {
                name: runner.id.name.clone(),
                path,
                agent: structured.agent.to_owned(),
                times,
                reason,
            });
        }
        more = format!(
            "{}\n\nYour previous answer was not usable: {reason}. Answer only with {}.",
            structured.shape, structured.alone
        );
    }
    unreachable!("the loop runs at least once")
}
