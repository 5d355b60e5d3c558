//! Renders notes for users.

use segno_core::note::{Feedback, Note};

use super::text::count;

/// Maximum length of a text in a line, in characters.
const SHOWN: usize = 120;

/// Summarizes a note in one line.
pub(crate) fn line(note: &Note) -> String {
    match note {
        Note::Decision(decision) => format!("decision: {}", short(&decision.text)),
        Note::Error(error) => format!("error ({}): {}", error.resolution, short(&error.text)),
        Note::Feedback(feedback) => {
            let comments = count(feedback.comments.len() as u64, "comment");
            format!("feedback: {}, {comments}", verdict(feedback))
        }
        Note::Todo(todo) => format!("todo ({}): {}", todo.progress, short(&todo.text)),
        Note::Tests(tests) => format!("tests ({}): {}", tests.phase, short(&tests.command)),
        Note::Todos(list) => format!("todo list: {}", count(list.items.len() as u64, "item")),
        Note::Files(files) => format!("files: {}", short(&files.paths.join(", "))),
    }
}

/// Renders all fields of a note.
pub(crate) fn fields(note: &Note) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    match note {
        Note::Decision(decision) => {
            lines.push(("decision", decision.text.clone()));
            lines.push(("type", decision.decision_type.to_string()));
            lines.extend(decision.why.iter().map(|why| ("why", why.clone())));
            let others = decision.alternatives.iter();
            lines.extend(others.map(|other| ("rejected", other.clone())));
        }
        Note::Error(error) => {
            lines.push(("error", error.text.clone()));
            lines.push(("type", error.kind.clone()));
            let subject = error.subject.iter();
            lines.extend(subject.map(|subject| ("about", subject.clone())));
            lines.push(("resolution", error.resolution.to_string()));
            lines.extend(error.notes.iter().map(|notes| ("notes", notes.clone())));
        }
        Note::Feedback(feedback) => {
            lines.push(("feedback", verdict(feedback)));
            lines.push(("severity", feedback.severity.to_string()));
            let comments = feedback.comments.iter();
            lines.extend(comments.map(|comment| ("comment", comment.clone())));
            let addressed = if feedback.addressed { "yes" } else { "no" };
            lines.push(("addressed", addressed.to_owned()));
        }
        Note::Todo(todo) => {
            lines.push(("todo", todo.text.clone()));
            lines.push(("progress", todo.progress.to_string()));
        }
        Note::Tests(_) | Note::Todos(_) | Note::Files(_) => lines.push(("content", line(note))),
    }
    lines
}

fn verdict(feedback: &Feedback) -> String {
    let verdict = if feedback.approved {
        "approves"
    } else {
        "objects"
    };
    format!("{} {verdict}", feedback.persona)
}

/// The start of a text, on one line.
pub(crate) fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
