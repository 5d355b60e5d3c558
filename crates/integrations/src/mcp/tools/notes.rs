//! MCP tools that record, correct and withdraw notes.

use std::time::Duration;

use segno_core::note::{
    Decision, DecisionType, ErrorNote, Feedback, Note, NoteId, Phase, Progress, Resolution,
    Severity, Tests, Todo, WrittenNote,
};
use segno_sessions::notes::{self, Change, Recorded};
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::{choice, count, object, text, texts, word};
use super::{Effect, Tool, parse_args};
use crate::mcp::{BoundSession, Error};

/// How long to wait until the session's run stores a note. After that, the agent is answered
/// without the id of the note.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn definitions() -> Vec<Tool> {
    let tool = |name, title, description, input_schema| Tool {
        name,
        title,
        description,
        input_schema,
        effect: Effect::Adds,
    };
    vec![
        tool(
            "record_decision",
            "Record a decision",
            "Use it when you choose between alternatives, so that the next agent does not choose again. Say why, and what you rejected.",
            object(
                &["text"],
                &json!({
                    "text": text("What was chosen"),
                    "why": text("Why"),
                    "alternatives": texts("What was not chosen"),
                    "type": word("What it is about; `approach` if you leave it out", DecisionType::ALL.iter().map(|word| word.as_str())),
                }),
            ),
        ),
        tool(
            "record_error",
            "Record an error",
            "Use it when something goes wrong that you cannot put right at once. Resolve it with resolve_error when you can.",
            object(
                &["text"],
                &json!({
                    "text": text("What happened, with the words of the error"),
                    "type": text("The sort of it in one or two words, such as `build`"),
                    "subject": text("What was being done: the command, the file"),
                    "resolution": word("What became of it; `unresolved` if you leave it out", Resolution::ALL.iter().map(|word| word.as_str())),
                    "notes": text("More about that"),
                }),
            ),
        ),
        tool(
            "resolve_error",
            "Resolve an error",
            "Use it when an error that was recorded no longer stands in the way. Its name is what record_error answered, such as `e1`.",
            object(
                &["note"],
                &json!({
                    "note": text("The error's name"),
                    "resolution": word("What became of it; `fixed` if you leave it out", Resolution::ALL.iter().map(|word| word.as_str())),
                    "notes": text("How, or why it is left"),
                }),
            ),
        ),
        tool(
            "record_feedback",
            "Record feedback",
            "Use it when someone reviewed the work, you in the part of a reviewer included. One call is one review with all its points.",
            object(
                &["reviewer", "approved"],
                &json!({
                    "reviewer": text("In whose part it was said, such as `security`"),
                    "approved": choice("Whether the work may stay as it is"),
                    "severity": word("How much they mind; `none` if you leave it out", Severity::ALL.iter().map(|word| word.as_str())),
                    "comments": texts("What they said, point by point"),
                    "addressed": choice("Whether it was acted upon already"),
                }),
            ),
        ),
        tool(
            "address_feedback",
            "Say that feedback was acted upon",
            "Use it when you addressed what a reviewer objected to, so that it is not done again. Its name is what record_feedback answered, such as `f1`.",
            object(&["note"], &json!({"note": text("The feedback's name")})),
        ),
        tool(
            "add_todo",
            "Add a thing to do",
            "Use it for something that must not be forgotten and that you do not do now. One call is one thing.",
            object(
                &["text"],
                &json!({
                    "text": text("What is to do"),
                    "progress": word("How it stands; `pending` if you leave it out", Progress::ALL.iter().map(|word| word.as_str())),
                }),
            ),
        ),
        tool(
            "update_todo",
            "Update a thing to do",
            "Use it when something on the list is begun, done or no longer wanted. Its name is what add_todo answered, such as `t1`.",
            object(
                &["note"],
                &json!({
                    "note": text("The name of the thing to do"),
                    "progress": word("How it stands now", Progress::ALL.iter().map(|word| word.as_str())),
                    "text": text("What is to do, if that changes"),
                }),
            ),
        ),
        tool(
            "record_tests",
            "Record how the tests stand",
            "Use it after you ran the tests, and when you know that some are meant to fail for now. The newest record counts.",
            object(
                &["phase", "command"],
                &json!({
                    "phase": word("`red`: tests fail; `green`: what failed passes; `refactor`: all pass and the code is put in order", Phase::ALL.iter().map(|word| word.as_str())),
                    "command": text("What was run"),
                    "failing": texts("Which tests fail"),
                    "expected_failures": texts("Which are meant to fail for now"),
                    "passed": count("How many passed", 0, None),
                    "failed": count("How many failed", 0, None),
                    "summary": text("The runner's own words about all of it"),
                }),
            ),
        ),
        tool(
            "withdraw",
            "Withdraw a note",
            "Use it when something that was recorded is wrong or no longer holds. Only the user can withdraw what the user wrote.",
            object(
                &["note"],
                &json!({"note": text("Its name, such as `d1`"), "reason": text("Why")}),
            ),
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionGiven {
    text: String,
    why: Option<String>,
    #[serde(default)]
    alternatives: Vec<String>,
    r#type: Option<DecisionType>,
}

pub(super) async fn decision(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let DecisionGiven {
        text,
        why,
        alternatives,
        r#type,
    } = parse_args(value)?;
    let decision = Decision {
        decision_type: r#type.unwrap_or(DecisionType::Approach),
        text,
        why,
        alternatives,
    };
    write(bound, Note::Decision(decision).into()).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorGiven {
    text: String,
    r#type: Option<String>,
    subject: Option<String>,
    resolution: Option<Resolution>,
    notes: Option<String>,
}

pub(super) async fn error(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let ErrorGiven {
        text,
        r#type,
        subject,
        resolution,
        notes,
    } = parse_args(value)?;
    let error = ErrorNote {
        kind: r#type.unwrap_or_else(|| "error".to_owned()),
        text,
        subject,
        resolution: resolution.unwrap_or(Resolution::Unresolved),
        notes,
    };
    write(bound, Note::Error(error).into()).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolved {
    note: NoteId,
    resolution: Option<Resolution>,
    notes: Option<String>,
}

pub(super) async fn resolve(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let resolved: Resolved = parse_args(value)?;
    let Note::Error(mut error) = read_note(bound, resolved.note).await? else {
        return Err(wrong_type(resolved.note, "error"));
    };
    error.resolution = resolved.resolution.unwrap_or(Resolution::Fixed);
    error.notes = resolved.notes.or(error.notes);
    correct(bound, resolved.note, Note::Error(error)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedbackGiven {
    reviewer: String,
    approved: bool,
    severity: Option<Severity>,
    #[serde(default)]
    comments: Vec<String>,
    #[serde(default)]
    addressed: bool,
}

pub(super) async fn feedback(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let given: FeedbackGiven = parse_args(value)?;
    let feedback = Feedback {
        persona: given.reviewer,
        approved: given.approved,
        severity: given.severity.unwrap_or(Severity::None),
        comments: given.comments,
        addressed: given.addressed,
    };
    write(bound, Note::Feedback(feedback).into()).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Addressed {
    note: NoteId,
}

pub(super) async fn address(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let Addressed { note } = parse_args(value)?;
    let Note::Feedback(mut feedback) = read_note(bound, note).await? else {
        return Err(wrong_type(note, "feedback"));
    };
    feedback.addressed = true;
    correct(bound, note, Note::Feedback(feedback)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TodoGiven {
    text: String,
    progress: Option<Progress>,
}

pub(super) async fn add_todo(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let TodoGiven { text, progress } = parse_args(value)?;
    let progress = progress.unwrap_or(Progress::Pending);
    write(bound, Note::Todo(Todo { text, progress }).into()).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TodoChanged {
    note: NoteId,
    progress: Option<Progress>,
    text: Option<String>,
}

pub(super) async fn update_todo(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let changed: TodoChanged = parse_args(value)?;
    if changed.progress.is_none() && changed.text.is_none() {
        return Err(Error::NothingToChange);
    }
    let Note::Todo(todo) = read_note(bound, changed.note).await? else {
        return Err(wrong_type(changed.note, "todo"));
    };
    let todo = Todo {
        text: changed.text.unwrap_or(todo.text),
        progress: changed.progress.unwrap_or(todo.progress),
    };
    correct(bound, changed.note, Note::Todo(todo)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestsGiven {
    phase: Phase,
    command: String,
    #[serde(default)]
    failing: Vec<String>,
    expected_failures: Option<Vec<String>>,
    passed: Option<u64>,
    failed: Option<u64>,
    #[serde(default)]
    summary: String,
}

pub(super) async fn tests(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let given: TestsGiven = parse_args(value)?;
    let tests = Tests {
        phase: given.phase,
        command: given.command,
        failing: given.failing,
        expected: given.expected_failures,
        passed: given.passed,
        failed: given.failed,
        summary: given.summary,
    };
    write(bound, Note::Tests(tests).into()).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Withdrawn {
    note: NoteId,
    reason: Option<String>,
}

pub(super) async fn withdraw(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let Withdrawn { note, reason } = parse_args(value)?;
    append(bound, Change::Withdraw { note, reason }).await
}

async fn write(bound: &BoundSession, written: WrittenNote) -> Result<Value, Error> {
    append(bound, Change::Write(vec![written])).await
}

async fn correct(bound: &BoundSession, id: NoteId, note: Note) -> Result<Value, Error> {
    let corrected = WrittenNote {
        corrects: Some(id),
        ..note.into()
    };
    write(bound, corrected).await
}

/// Reads the current version of a note.
async fn read_note(bound: &BoundSession, id: NoteId) -> Result<Note, Error> {
    let (env, summary) = bound.session().await?;
    let handoff = notes::merged(env, &summary).await?;
    Ok(notes::get(&handoff, &summary, id)?)
}

fn wrong_type(note: NoteId, wanted: &'static str) -> Error {
    Error::WrongNoteType { note, wanted }
}

async fn append(bound: &BoundSession, request: Change) -> Result<Value, Error> {
    let _turn = bound.write_order.lock().await;
    let (env, summary) = bound.session().await?;
    let noted =
        notes::record_and_wait(env, &summary, bound.author(), request, STORE_TIMEOUT).await?;
    Ok(match noted {
        Recorded::Written(names) => match names.first() {
            Some(name) => json!({"kept": true, "id": name}),
            None => json!({"kept": true}),
        },
        Recorded::Posted => json!({
            "kept": true,
            "note": "it is safe, and the session's run takes it up when it can; its name is not known yet",
        }),
    })
}
