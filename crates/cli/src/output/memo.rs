//! Memos for people.

use segno_core::memo::Memo;

use super::plain::count;

/// How much of one text a line shows.
const SHOWN: usize = 120;

/// A memo in a few words.
pub(crate) fn line(memo: &Memo) -> String {
    match memo {
        Memo::Decision(decision) => format!("decision: {}", short(&decision.text)),
        Memo::Error(trouble) => format!("error ({}): {}", trouble.resolution, short(&trouble.text)),
        Memo::Feedback(feedback) => {
            let verdict = if feedback.approved {
                "approves"
            } else {
                "objects"
            };
            let comments = count(feedback.comments.len() as u64, "comment");
            format!("feedback: {} {verdict}, {comments}", feedback.persona)
        }
        Memo::Todo(todo) => format!("todo ({}): {}", todo.progress, short(&todo.text)),
        Memo::Tests(tests) => format!("tests ({}): {}", tests.phase, short(&tests.command)),
        Memo::Todos(list) => format!("a list of {}", count(list.items.len() as u64, "thing")),
        Memo::Files(files) => format!("files: {}", short(&files.paths.join(", "))),
    }
}

/// The beginning of a text, in one line.
pub(crate) fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
