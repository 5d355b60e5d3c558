//! Drafts, until one is good enough.

use std::fmt::Write;

use minijinja::Value as Shown;
use minijinja::value::Serde;
use segno_core::agent::Conduct;
use segno_core::step::Path;
use serde_json::{Value, json};

use super::Ending;
use super::insist::{Demand, Wording, find, insist};
use crate::answers::Answer;
use crate::error::Error;
use crate::flow::{Flow, Input, Question};
use crate::scope::{List, Scope, Seen};
use crate::spec::Evaluator;

/// How much of a draft a preview shows.
const PREVIEW: usize = 100;

/// What a person says to end it with the draft that there is.
const ENOUGH: [&str; 3] = ["stop", "abort", "end"];

const SHAPE: &str = "Answer with JSON: {\"score\": <0 to 100>, \"issues\": [\"<what is wrong>\"], \"fixes\": [\"<what to do about it>\"]}.";

#[derive(Debug, Clone, PartialEq)]
struct Evaluation {
    score: u32,
    issues: Vec<String>,
    fixes: Vec<String>,
}

impl Evaluation {
    fn seen(&self) -> Seen {
        Seen::fields([
            ("score", Seen::from(self.score)),
            ("issues", Seen::from(self.issues.clone())),
            ("fixes", Seen::from(self.fixes.clone())),
        ])
    }
}

pub(super) async fn run(flow: &Flow, config: &Evaluator) -> Result<Ending, Error> {
    let history = List::default();
    let (mut scope, mut best) = (flow.scope.clone(), 0);
    let mut revised: Option<(Answer, Evaluation)> = None;
    for iteration in 1..=config.max_iters {
        let place = Path::first("iterations").then(iteration);
        let around = scope.with([("iteration", Seen::from(iteration))]);
        let draft = draft(flow, config, &place, revised.as_ref(), &around).await?;
        let evaluation = judge(flow, config, &place, draft, &around).await?;
        best = best.max(evaluation.score);
        let text = flow.text(draft).await?;
        history.push(entry(iteration, draft, &text, &evaluation));
        let accepted = evaluation.score >= config.min_score;
        let mut enough = false;
        if let Some(gate) = &config.review_gate
            && !accepted
            && iteration < config.max_iters
        {
            let more = [
                ("iteration", Seen::from(iteration)),
                ("iteration_index", Seen::from(iteration - 1)),
                ("iterations", Seen::from(history.clone())),
                ("draft", Seen::Answer(draft)),
                ("current_draft", Seen::Answer(draft)),
                ("evaluation", evaluation.seen()),
                ("current_evaluation", evaluation.seen()),
            ];
            let said = flow
                .ask_person(&place.then("review"), gate, &scope.with(more))
                .await?;
            let words = flow.text(said).await?;
            enough = ENOUGH
                .iter()
                .any(|word| words.trim().eq_ignore_ascii_case(word));
            scope = flow.scope.with([("hitl_response", Seen::Answer(said))]);
        }
        if accepted || enough {
            let mut more = left(config, iteration, &evaluation, &history);
            more.push(("draft", Seen::Answer(draft)));
            if enough {
                more.push(("early_termination", Seen::from(true)));
            }
            return Ok(Ending {
                last: Some(draft),
                scope: scope.with(more),
            });
        }
        revised = Some((draft, evaluation));
    }
    Err(Error::BelowScore {
        name: flow.name.clone(),
        drafts: config.max_iters,
        best,
        needed: config.min_score,
    })
}

/// The first draft, or a better one.
async fn draft(
    flow: &Flow,
    config: &Evaluator,
    place: &Path,
    before: Option<&(Answer, Evaluation)>,
    scope: &Scope,
) -> Result<Answer, Error> {
    let path = place.then("producer");
    let around;
    let (input, scope) = match before {
        None => (Input::Prompt, scope),
        Some((draft, evaluation)) => {
            around = scope.with([
                ("draft", Seen::Answer(*draft)),
                ("evaluation", evaluation.seen()),
            ]);
            let input = match &config.revise_prompt {
                Some(source) => Input::Template(source),
                None if flow.has(&path) => Input::Words(String::new()),
                None => Input::Words(asked_again(&flow.text(*draft).await?, evaluation)),
            };
            (input, &around)
        }
    };
    let question = Question {
        path,
        agent: &config.producer,
        input,
        scope,
        tools: None,
        conduct: Conduct::Work,
    };
    flow.ask(question).await
}

async fn judge(
    flow: &Flow,
    config: &Evaluator,
    place: &Path,
    draft: Answer,
    scope: &Scope,
) -> Result<Evaluation, Error> {
    let path = place.then("evaluator");
    let input = match &config.input {
        Some(source) => Wording::Template(source),
        None if flow.has(&path) => Wording::Words(String::new()),
        None => {
            let text = flow.text(draft).await?;
            Wording::Words(format!("Evaluate this draft:\n\n{text}"))
        }
    };
    let demand = Demand {
        path,
        agent: &config.evaluator,
        input,
        shape: SHAPE,
        alone: "the JSON",
        retries: 1,
        scope: &scope.with([("draft", Seen::Answer(draft))]),
        conduct: Conduct::Work,
    };
    let (evaluation, _) = insist(flow, demand, evaluation_in).await?;
    Ok(evaluation)
}

fn asked_again(draft: &str, evaluation: &Evaluation) -> String {
    let mut text = format!(
        "Revise this draft:\n\n{draft}\n\nIt was given {} of 100.",
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
    text.push_str("\n\nAnswer with the improved draft alone.");
    text
}

fn evaluation_in(text: &str) -> Result<Evaluation, String> {
    let found = find(text, |value| value.get("score").is_some());
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

/// A draft and what was said about it.
fn entry(iteration: u32, draft: Answer, text: &str, evaluation: &Evaluation) -> Seen {
    let preview: String = text.chars().take(PREVIEW).collect();
    let judged = json!({
        "score": evaluation.score,
        "issues": evaluation.issues,
        "fixes": evaluation.fixes,
        "feedback": evaluation.issues.join("; "),
    });
    Seen::fields([
        ("iteration", Seen::from(iteration)),
        ("score", Seen::from(evaluation.score)),
        ("issues", Seen::from(evaluation.issues.clone())),
        ("fixes", Seen::from(evaluation.fixes.clone())),
        ("draft_preview", Seen::from(preview)),
        ("draft", Seen::Answer(draft)),
        ("evaluation", Seen::Value(Shown::from(Serde(judged)))),
    ])
}

/// What artifacts see.
fn left(
    config: &Evaluator,
    iterations: u32,
    evaluation: &Evaluation,
    history: &List,
) -> Vec<(&'static str, Seen)> {
    vec![
        ("iterations", Seen::from(iterations)),
        ("iteration", Seen::from(iterations)),
        ("final_score", Seen::from(evaluation.score)),
        ("min_score", Seen::from(config.min_score)),
        ("max_iters", Seen::from(config.max_iters)),
        ("history", Seen::from(history.clone())),
        ("evaluation", evaluation.seen()),
        ("last_evaluation", evaluation.seen()),
    ]
}
