//! Asking for an answer of a certain shape.

use segno_core::agent::Conduct;
use segno_core::step::Path;
use serde_json::Value;

use crate::answers::Answer;
use crate::error::Error;
use crate::flow::{Flow, Input, Question};
use crate::scope::Scope;

/// A question whose answer must be of a certain shape.
pub(super) struct Demand<'a> {
    pub(super) path: Path,
    pub(super) agent: &'a str,
    /// What is asked: a template, or words of our own.
    pub(super) input: Wording<'a>,
    /// What is said after it, about the shape.
    pub(super) shape: &'a str,
    /// What the answer should be and nothing else, if it was another.
    pub(super) alone: &'a str,
    /// How often an answer of another shape is asked for again.
    pub(super) retries: u32,
    pub(super) scope: &'a Scope,
    /// What is asked to be done to the workspace.
    pub(super) conduct: Conduct,
}

pub(super) enum Wording<'a> {
    Template(&'a str),
    Words(String),
}

/// Asks until the answer can be used. Each time is a step of its own: an answer that was paid for is
/// kept, whatever it is worth.
pub(super) async fn insist<T>(
    flow: &Flow,
    demand: Demand<'_>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(T, Answer), Error> {
    let mut more = demand.shape.to_owned();
    let times = demand.retries + 1;
    for n in 1..=times {
        let input = match &demand.input {
            Wording::Template(source) => Input::Followed(source, &more),
            Wording::Words(words) if words.is_empty() => Input::Words(more.clone()),
            Wording::Words(words) => Input::Words(format!("{words}\n\n{more}")),
        };
        let path = demand.path.again(n);
        let question = Question {
            path: path.clone(),
            agent: demand.agent,
            input,
            scope: demand.scope,
            tools: None,
            conduct: demand.conduct,
        };
        let answer = flow.ask(question).await?;
        let reason = match read(&flow.text(answer).await?) {
            Ok(value) => return Ok((value, answer)),
            Err(reason) => reason,
        };
        if n == times {
            return Err(Error::Unusable {
                name: flow.name.clone(),
                path,
                agent: demand.agent.to_owned(),
                times,
                reason,
            });
        }
        more = format!(
            "{}\n\nYour previous answer could not be used: {reason}. Answer with {} alone.",
            demand.shape, demand.alone
        );
    }
    unreachable!("it is asked at least once")
}

/// The JSON in an answer that `wanted` accepts: the whole answer, a fenced block, or the first that
/// stands in the text.
pub(crate) fn find(text: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let whole = serde_json::from_str(text.trim()).ok();
    if let Some(value) = whole.filter(&wanted) {
        return Some(value);
    }
    let fenced = text.split("```").skip(1).step_by(2).find_map(|block| {
        let block = block.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        let value = serde_json::from_str(block.trim()).ok();
        value.filter(&wanted)
    });
    if fenced.is_some() {
        return fenced;
    }
    let starts = text.match_indices(['{', '[']).map(|(start, _)| start);
    starts.take(MOST_STARTS).find_map(|start| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
        let value = values.next()?.ok();
        value.filter(&wanted)
    })
}

/// A long answer full of brackets is not searched for ever.
const MOST_STARTS: usize = 10_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_found_whole_fenced_and_in_the_text() {
        let route = |value: &Value| value.get("route").is_some();
        let expected = Some(json!({"route": "a"}));
        for text in [
            r#"{"route": "a"}"#,
            "  {\"route\": \"a\"}\n",
            "Sure:\n```json\n{\"route\": \"a\"}\n```\nDone.",
            "```\n{\"route\": \"a\"}\n```",
            r#"I choose {"route": "a"} because {it} is best."#,
            r#"{"note": 1} {"route": "a"}"#,
            r#"[1, {"route": "a"}]"#,
        ] {
            assert_eq!(find(text, route), expected, "{text}");
        }
        for text in [
            "",
            "a",
            "{route: a}",
            r#"{"rout": "a"}"#,
            "[",
            "```json\n```",
        ] {
            assert_eq!(find(text, route), None, "{text}");
        }
    }
}
