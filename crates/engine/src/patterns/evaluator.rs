//! Repeats drafts until one has the required score.

use std::fmt::Write;

use minijinja::Value as Shown;
use minijinja::value::Serde;
use segno_core::agent::AccessMode;
use segno_core::step::Path;
use segno_spec::Evaluator;
use serde_json::{Value, json};

use super::Ending;
use super::structured_output::{StructuredQuestion, Wording, ask_structured};
use crate::answers::Answer;
use crate::error::Error;
use crate::scope::{List, Scope, TemplateValue};
use crate::steps::json_answer::find_json;
use crate::steps::{Input, Question, Runner};

/// How many characters of a draft a preview shows.
const PREVIEW_CHARS: usize = 100;

/// The human answers that accept the current draft.
const STOP_WORDS: [&str; 3] = ["stop", "abort", "end"];

const SHAPE: &str = "Answer with JSON: {\"score\": <0 to 100>, \"issues\": [\"<what is wrong>\"], \"fixes\": [\"<what to do about it>\"]}.";

#[derive(Debug, Clone, PartialEq)]
struct Evaluation {
    score: u32,
    issues: Vec<String>,
    fixes: Vec<String>,
}

impl Evaluation {
    fn template_value(&self) -> TemplateValue {
        TemplateValue::fields([
            ("score", TemplateValue::from(self.score)),
            ("issues", TemplateValue::from(self.issues.clone())),
            ("fixes", TemplateValue::from(self.fixes.clone())),
        ])
    }
}

pub(super) async fn run(runner: &Runner, config: &Evaluator) -> Result<Ending, Error> {
    let history = List::default();
    let (mut scope, mut best) = (runner.rendering.scope.clone(), 0);
    let mut revised: Option<(Answer, Evaluation)> = None;
    for iteration in 1..=config.max_iters {
        let prefix = Path::root("iterations").join(iteration);
        let draft_scope = scope.with([("iteration", TemplateValue::from(iteration))]);
        let draft = draft(runner, config, &prefix, revised.as_ref(), &draft_scope).await?;
        let evaluation = evaluate(runner, config, &prefix, draft, &draft_scope).await?;
        best = best.max(evaluation.score);
        let text = runner.text(draft).await?;
        history.push(history_item(iteration, draft, &text, &evaluation));
        let accepted = evaluation.score >= config.min_score;
        let mut stop_early = false;
        if let Some(gate) = &config.review_gate
            && !accepted
            && iteration < config.max_iters
        {
            let more = [
                ("iteration", TemplateValue::from(iteration)),
                ("iteration_index", TemplateValue::from(iteration - 1)),
                ("iterations", TemplateValue::from(history.clone())),
                ("draft", TemplateValue::Answer(draft)),
                ("current_draft", TemplateValue::Answer(draft)),
                ("evaluation", evaluation.template_value()),
                ("current_evaluation", evaluation.template_value()),
            ];
            let said = runner
                .ask_human(&prefix.join("review"), gate, &scope.with(more))
                .await?;
            let words = runner.text(said).await?;
            stop_early = STOP_WORDS
                .iter()
                .any(|word| words.trim().eq_ignore_ascii_case(word));
            scope = runner
                .rendering
                .scope
                .with([("hitl_response", TemplateValue::Answer(said))]);
        }
        if accepted || stop_early {
            let mut more = artifact_values(config, iteration, &evaluation, &history);
            more.push(("draft", TemplateValue::Answer(draft)));
            if stop_early {
                more.push(("early_termination", TemplateValue::from(true)));
            }
            return Ok(Ending {
                last: Some(draft),
                scope: scope.with(more),
            });
        }
        revised = Some((draft, evaluation));
    }
    Err(Error::BelowScore {
        name: runner.id.name.clone(),
        drafts: config.max_iters,
        best,
        needed: config.min_score,
    })
}

/// Asks for the first draft, or for a revision.
async fn draft(
    runner: &Runner,
    config: &Evaluator,
    prefix: &Path,
    before: Option<&(Answer, Evaluation)>,
    scope: &Scope,
) -> Result<Answer, Error> {
    let path = prefix.join("producer");
    let draft_scope;
    let (input, scope) = match before {
        None => (Input::Prompt, scope),
        Some((draft, evaluation)) => {
            draft_scope = scope.with([
                ("draft", TemplateValue::Answer(*draft)),
                ("evaluation", evaluation.template_value()),
            ]);
            let input = match &config.revise_prompt {
                Some(source) => Input::Template(source),
                None if runner.will_skip(&path) => Input::Text(String::new()),
                None => Input::Text(revision_input(&runner.text(*draft).await?, evaluation)),
            };
            (input, &draft_scope)
        }
    };
    let question = Question {
        path,
        agent: &config.producer,
        input,
        scope,
        tools: None,
        access: AccessMode::ReadWrite,
    };
    runner.ask(question).await
}

async fn evaluate(
    runner: &Runner,
    config: &Evaluator,
    prefix: &Path,
    draft: Answer,
    scope: &Scope,
) -> Result<Evaluation, Error> {
    let path = prefix.join("evaluator");
    let input = match &config.input {
        Some(source) => Wording::Template(source),
        None if runner.will_skip(&path) => Wording::Text(String::new()),
        None => {
            let text = runner.text(draft).await?;
            Wording::Text(format!("Evaluate this draft:\n\n{text}"))
        }
    };
    let structured = StructuredQuestion {
        path,
        agent: &config.evaluator,
        input,
        shape: SHAPE,
        alone: "the JSON",
        retries: 1,
        scope: &scope.with([("draft", TemplateValue::Answer(draft))]),
        access: AccessMode::ReadWrite,
    };
    let (evaluation, _) = ask_structured(runner, structured, parse_evaluation).await?;
    Ok(evaluation)
}

fn revision_input(draft: &str, evaluation: &Evaluation) -> String {
    let mut text = format!(
        "Revise this draft:\n\n{draft}\n\nIts score is {} of 100.",
        evaluation.score
    );
    for (what, list) in [("Issues", &evaluation.issues), ("Fixes", &evaluation.fixes)] {
        if !list.is_empty() {
            let _ = write!(text, "\n\n{what}:");
            for item in list {
                let _ = write!(text, "\n- {item}");
            }
        }
    }
    text.push_str("\n\nAnswer only with the improved draft.");
    text
}

/// Why a text is not an evaluation.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse_evaluation(text).map(drop)
}

fn parse_evaluation(text: &str) -> Result<Evaluation, String> {
    let found = find_json(text, |value| value.get("score").is_some());
    let found = found.ok_or("it has no {\"score\": …}")?;
    let score = match &found["score"] {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let score = score.filter(|score| score.fract() == 0.0 && (0.0..=100.0).contains(score));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was just checked"
    )]
    let score = score.ok_or_else(|| {
        format!(
            "its score is {}, not a whole number from 0 to 100",
            found["score"]
        )
    })? as u32;
    Ok(Evaluation {
        score,
        issues: texts(&found, "issues")?,
        fixes: texts(&found, "fixes")?,
    })
}

fn texts(value: &Value, key: &str) -> Result<Vec<String>, String> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items
            .iter()
            .map(|item| {
                item.as_str()
                    .map_or_else(|| item.to_string(), str::to_owned)
            })
            .collect()),
        Some(other) => Err(format!("its {key} are {other}, not a list of texts")),
    }
}

/// A draft and its evaluation, for templates.
fn history_item(
    iteration: u32,
    draft: Answer,
    text: &str,
    evaluation: &Evaluation,
) -> TemplateValue {
    let preview: String = text.chars().take(PREVIEW_CHARS).collect();
    let judged = json!({
        "score": evaluation.score,
        "issues": evaluation.issues,
        "fixes": evaluation.fixes,
        "feedback": evaluation.issues.join("; "),
    });
    TemplateValue::fields([
        ("iteration", TemplateValue::from(iteration)),
        ("score", TemplateValue::from(evaluation.score)),
        ("issues", TemplateValue::from(evaluation.issues.clone())),
        ("fixes", TemplateValue::from(evaluation.fixes.clone())),
        ("draft_preview", TemplateValue::from(preview)),
        ("draft", TemplateValue::Answer(draft)),
        (
            "evaluation",
            TemplateValue::Value(Shown::from(Serde(judged))),
        ),
    ])
}

/// What artifact templates see.
fn artifact_values(
    config: &Evaluator,
    iterations: u32,
    evaluation: &Evaluation,
    history: &List,
) -> Vec<(&'static str, TemplateValue)> {
    vec![
        ("iterations", TemplateValue::from(iterations)),
        ("iteration", TemplateValue::from(iterations)),
        ("final_score", TemplateValue::from(evaluation.score)),
        ("min_score", TemplateValue::from(config.min_score)),
        ("max_iters", TemplateValue::from(config.max_iters)),
        ("history", TemplateValue::from(history.clone())),
        ("evaluation", evaluation.template_value()),
        ("last_evaluation", evaluation.template_value()),
    ]
}
