//! Compiles a resume context from what is known about a session.

use std::fmt::Write;

use segno_core::handoff::{Handoff, NoteContent, NoteList, StoredNote};
use segno_core::journal::Seq;
use segno_core::note::{Decision, ErrorNote, Feedback, Progress, Source, Tests, Todo};
use segno_core::snapshot::WorkspaceStatus;
use segno_core::usage::Usage;

use super::sanitize::one_line;
use super::{BYTES_PER_TOKEN, Fragment, Origin, ResumeContext, Section};
use crate::workspace;

/// How many characters of the issue are shown.
const ISSUE_CHARS: usize = 500;
/// How many characters of one text are shown.
const TEXT_CHARS: usize = 400;
/// How many decisions are shown.
const MAX_DECISIONS: usize = 5;
/// How many resolved errors are shown.
const MAX_RESOLVED: usize = 3;
/// How many comments of one reviewer are shown.
const MAX_COMMENTS: usize = 3;
/// How many files are named.
const MAX_FILES: usize = 30;

/// The sections by priority: the first get their space first.
const PRIORITY: &[Section] = &[
    Section::Session,
    Section::Next,
    Section::Issue,
    Section::Plan,
    Section::Errors,
    Section::Tests,
    Section::Decisions,
    Section::Feedback,
    Section::Pending,
    Section::Git,
    Section::Todos,
    Section::More,
    Section::Done,
    Section::Files,
];

/// The input of [`compile`].
#[derive(Debug, Clone)]
pub struct ContextInput<'a> {
    /// The session's name.
    pub name: &'a str,
    /// How many times the session was started or resumed, an active run included.
    pub session_number: u64,
    /// What the session is about, in the user's words.
    pub issue: Option<&'a str>,
    /// The tasks in order, as far as they are known; of finished ones, the newest.
    pub tasks: &'a [Task],
    /// The number of finished tasks.
    pub done: u64,
    /// The merged notes.
    pub handoff: &'a Handoff,
    /// The workspace status; absent if it was not read.
    pub workspace_status: Option<&'a WorkspaceStatus>,
    /// Why the previous run ended.
    pub ended: Option<&'a str>,
    pub usage: Usage,
    /// Whether the reader may have Segno's MCP tools.
    pub has_tools: bool,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    /// What it is about, if it has a title.
    pub title: Option<String>,
    pub standing: TaskStatus,
}

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    Done,
    /// Started, not finished.
    Started,
    Failed,
    /// Not started.
    Pending,
}

/// Compiles a resume context of at most `tokens` tokens.
pub fn compile(known: &ContextInput<'_>, tokens: usize) -> ResumeContext {
    let fragments = [
        Some(session(known)),
        issue(known),
        Some(plan(known)),
        Some(done(known)),
        Some(pending(known)),
        Some(decisions(known.handoff)),
        Some(errors(known.handoff)),
        known.workspace_status.map(git),
        tests(known.handoff),
        feedback(known.handoff),
        todos(known.handoff),
        files(known.handoff),
        Some(next(known)),
        Some(more(known)),
    ];
    fit_to_budget(fragments.into_iter().flatten().collect(), tokens)
}

/// The notes that people added after a journal event, one line each.
pub(crate) fn human_notes_after(handoff: &Handoff, seq: Seq) -> Vec<String> {
    fn new<T>(shelf: &NoteList<T>, seq: Seq) -> impl Iterator<Item = &StoredNote<T>> {
        let noted = move |note: &&StoredNote<T>| note.source == Source::User && note.seq > seq;
        shelf.active().filter(noted)
    }
    let mut lines = Vec::new();
    lines.extend(new(&handoff.decisions, seq).map(decision));
    lines.extend(new(&handoff.errors, seq).map(error));
    lines.extend(new(&handoff.feedback, seq).flat_map(feedback_lines));
    lines.extend(new(&handoff.todos, seq).map(|note| todo(&id_prefix(note), &note.note)));
    lines
}

fn fragment(section: Section, origin: Origin, lines: Vec<String>) -> Fragment {
    Fragment {
        section,
        origin,
        lines,
        omitted: 0,
    }
}

/// Cuts what does not fit, least important sections first.
fn fit_to_budget(mut fragments: Vec<Fragment>, tokens: usize) -> ResumeContext {
    let mut room = tokens * BYTES_PER_TOKEN;
    for section in PRIORITY {
        for fragment in &mut fragments {
            if fragment.section == *section {
                room -= truncate_to(fragment, room);
            }
        }
    }
    fragments.retain(|fragment| !fragment.lines.is_empty());
    ResumeContext { fragments }
}

/// Cuts a fragment to `room` bytes, and returns how many bytes it takes.
fn truncate_to(fragment: &mut Fragment, room: usize) -> usize {
    // The title, the blank line between fragments, and the line that says how much is omitted.
    let around =
        fragment.section.title().len() + "## \n\n(18446744073709551615 more omitted)\n".len();
    let (mut used, mut note) = (around, 0);
    for line in &fragment.lines {
        if used + line.len() + 1 > room {
            break;
        }
        used += line.len() + 1;
        note += 1;
    }
    fragment.omitted = fragment.lines.len() - note;
    fragment.lines.truncate(note);
    if note == 0 { 0 } else { used }
}

fn session(known: &ContextInput<'_>) -> Fragment {
    let Usage {
        input_tokens,
        output_tokens,
        cost,
    } = known.usage;
    let lines = vec![
        format!(
            "{}, session number {}",
            one_line(known.name, TEXT_CHARS),
            known.session_number
        ),
        format!("used so far: {input_tokens} tokens read, {output_tokens} written, {cost}"),
    ];
    fragment(Section::Session, Origin::Journal, lines)
}

fn issue(known: &ContextInput<'_>) -> Option<Fragment> {
    let issue = one_line(known.issue?, ISSUE_CHARS);
    // The prefix keeps quoted text from starting a line, where it could look like a title.
    let lines = vec![format!("> {issue}")];
    (!issue.is_empty()).then(|| fragment(Section::Issue, Origin::Journal, lines))
}

fn tasks_with<'a>(
    known: &'a ContextInput<'_>,
    wanted: fn(TaskStatus) -> bool,
) -> impl Iterator<Item = &'a Task> {
    known.tasks.iter().filter(move |task| wanted(task.standing))
}

fn next_task<'a>(known: &'a ContextInput<'_>) -> Option<&'a Task> {
    tasks_with(known, |standing| {
        matches!(standing, TaskStatus::Started | TaskStatus::Failed)
    })
    .next()
    .or_else(|| tasks_with(known, |standing| standing == TaskStatus::Pending).next())
}

fn plan(known: &ContextInput<'_>) -> Fragment {
    let left = tasks_with(known, |standing| standing != TaskStatus::Done).count() as u64;
    let mut lines = vec![format!("{} of {} done", known.done, known.done + left)];
    let begun = tasks_with(known, |standing| {
        matches!(standing, TaskStatus::Started | TaskStatus::Failed)
    });
    lines.extend(begun.map(|task| format!("in progress: {}", task_label(task))));
    fragment(Section::Plan, Origin::Journal, lines)
}

fn task_label(task: &Task) -> String {
    let id = one_line(&task.id, TEXT_CHARS);
    match &task.title {
        Some(title) => format!("**{id}** {}", one_line(title, TEXT_CHARS)),
        None => format!("**{id}**"),
    }
}

fn done(known: &ContextInput<'_>) -> Fragment {
    // The newest tasks say most about the current state.
    let done: Vec<&Task> = tasks_with(known, |standing| standing == TaskStatus::Done).collect();
    let lines = done
        .iter()
        .rev()
        .map(|task| format!("- [x] {}", task_label(task)));
    let mut lines = or_none(lines.collect(), "nothing yet");
    push_more(&mut lines, known.done.saturating_sub(done.len() as u64));
    fragment(Section::Done, Origin::Journal, lines)
}

fn pending(known: &ContextInput<'_>) -> Fragment {
    let pending = tasks_with(known, |standing| standing != TaskStatus::Done);
    let lines = pending.map(|task| match task.standing {
        TaskStatus::Failed => format!("- [ ] {} (failed)", task_label(task)),
        TaskStatus::Started => format!("- [ ] {} (started)", task_label(task)),
        TaskStatus::Pending | TaskStatus::Done => format!("- [ ] {}", task_label(task)),
    });
    fragment(
        Section::Pending,
        Origin::Journal,
        or_none(lines.collect(), "nothing"),
    )
}

fn or_none(lines: Vec<String>, none: &str) -> Vec<String> {
    if lines.is_empty() {
        vec![none.to_owned()]
    } else {
        lines
    }
}

fn id_prefix<T>(note: &StoredNote<T>) -> String {
    note.id.map(|id| format!("{id} ")).unwrap_or_default()
}

/// The author, so that the reader can judge the note.
fn author<T>(note: &StoredNote<T>) -> String {
    format!(" ({}: {})", note.source, one_line(&note.by, 80))
}

fn decisions(handoff: &Handoff) -> Fragment {
    let standing: Vec<_> = handoff.decisions.active().collect();
    let newest = standing.iter().rev().take(MAX_DECISIONS);
    let mut lines = or_none(newest.map(|note| decision(note)).collect(), "none");
    push_more(
        &mut lines,
        standing.len().saturating_sub(MAX_DECISIONS) as u64,
    );
    fragment(Section::Decisions, Origin::Notes, lines)
}

fn decision(note: &StoredNote<Decision>) -> String {
    let Decision {
        decision_type: matter,
        text,
        why,
        alternatives,
    } = &note.note;
    let mut text_line = format!(
        "- {}[{matter}] {}",
        id_prefix(note),
        one_line(text, TEXT_CHARS)
    );
    if let Some(why) = why {
        let _ = write!(text_line, " Why: {}", one_line(why, TEXT_CHARS));
    }
    if !alternatives.is_empty() {
        let _ = write!(
            text_line,
            " Not chosen: {}",
            one_line(&alternatives.join("; "), TEXT_CHARS)
        );
    }
    text_line + &author(note)
}

fn push_more(lines: &mut Vec<String>, more: u64) {
    if more > 0 {
        lines.push(format!("({more} more available on request)"));
    }
}

fn errors(handoff: &Handoff) -> Fragment {
    let (open, settled): (Vec<_>, Vec<_>) = handoff
        .errors
        .active()
        .partition(|note| !note.note.is_resolved());
    let open = open.iter().rev();
    let newest = settled.iter().rev().take(MAX_RESOLVED);
    let lines = open.chain(newest).map(|note| error(note)).collect();
    let mut lines = or_none(lines, "none");
    push_more(
        &mut lines,
        settled.len().saturating_sub(MAX_RESOLVED) as u64,
    );
    fragment(Section::Errors, Origin::Notes, lines)
}

fn error(note: &StoredNote<ErrorNote>) -> String {
    let ErrorNote {
        kind: sort,
        text,
        subject,
        resolution,
        notes,
    } = &note.note;
    let mut text_line = format!(
        "- {}[{resolution}] {}: ",
        id_prefix(note),
        one_line(sort, 80)
    );
    if let Some(subject) = subject {
        let _ = write!(text_line, "{}: ", one_line(subject, TEXT_CHARS));
    }
    text_line.push_str(&one_line(text, TEXT_CHARS));
    if let Some(notes) = notes {
        let _ = write!(text_line, " Notes: {}", one_line(notes, TEXT_CHARS));
    }
    text_line + &author(note)
}

fn git(workspace_status: &WorkspaceStatus) -> Fragment {
    let told = format!("the folder{}", workspace::describe_status(workspace_status));
    fragment(Section::Git, Origin::Git, vec![one_line(&told, 4000)])
}

fn tests(handoff: &Handoff) -> Option<Fragment> {
    let note = handoff.tests.as_ref()?;
    let Tests {
        phase,
        command,
        failing,
        expected,
        passed,
        failed,
        summary,
    } = &note.note;
    let mut lines = vec![format!("phase: {phase}{}", author(note))];
    if !command.is_empty() {
        lines.push(format!("last run: {}", one_line(command, TEXT_CHARS)));
    }
    let counted = [(passed, "passed"), (failed, "failed")].into_iter();
    let counted = counted.filter_map(|(count, what)| count.map(|count| format!("{count} {what}")));
    let counted: Vec<String> = counted.collect();
    if !counted.is_empty() {
        lines.push(counted.join(", "));
    }
    lines.extend(
        failing
            .iter()
            .map(|test| format!("- fails: {}", one_line(test, TEXT_CHARS))),
    );
    let expected = expected.iter().flatten();
    lines
        .extend(expected.map(|test| format!("- expected to fail: {}", one_line(test, TEXT_CHARS))));
    if !summary.is_empty() {
        lines.push(format!("summary: {}", one_line(summary, TEXT_CHARS)));
    }
    Some(fragment(Section::Tests, Origin::Notes, lines))
}

fn feedback(handoff: &Handoff) -> Option<Fragment> {
    let open = handoff.feedback.active().rev();
    let open = open.filter(|note| !note.note.is_resolved());
    let lines: Vec<String> = open.flat_map(feedback_lines).collect();
    (!lines.is_empty()).then(|| fragment(Section::Feedback, Origin::Notes, lines))
}

fn feedback_lines(note: &StoredNote<Feedback>) -> Vec<String> {
    let Feedback {
        persona,
        severity,
        comments,
        ..
    } = &note.note;
    let mut lines = vec![format!(
        "- {}{} ({severity})",
        id_prefix(note),
        one_line(persona, 80)
    )];
    let told = comments.iter().take(MAX_COMMENTS);
    lines.extend(told.map(|comment| format!("  - {}", one_line(comment, TEXT_CHARS))));
    if comments.len() > MAX_COMMENTS {
        let more = comments.len() - MAX_COMMENTS;
        lines.push(format!("  - ({more} more available on request)"));
    }
    lines
}

fn todo(name: &str, todo: &Todo) -> String {
    let Todo { text, progress } = todo;
    let begun = match progress {
        Progress::InProgress => " (started)",
        _ => "",
    };
    format!("- [ ] {name}{}{begun}", one_line(text, TEXT_CHARS))
}

fn todos(handoff: &Handoff) -> Option<Fragment> {
    let single = handoff.todos.active();
    let single = single.map(|note| (id_prefix(note), &note.note));
    let listed = handoff.list.iter().flat_map(|note| &note.note.items);
    let listed = listed.map(|it| (String::new(), it));
    let lines: Vec<String> = single
        .chain(listed)
        .filter(|(_, it)| !it.is_resolved())
        .map(|(name, it)| todo(&name, it))
        .collect();
    (!lines.is_empty()).then(|| fragment(Section::Todos, Origin::Notes, lines))
}

fn files(handoff: &Handoff) -> Option<Fragment> {
    let newest = handoff.files.iter().rev().take(MAX_FILES);
    let mut lines: Vec<String> = newest
        .map(|path| format!("- {}", one_line(path, TEXT_CHARS)))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let more = handoff.files.len().saturating_sub(MAX_FILES) as u64 + handoff.earlier_files;
    if more > 0 {
        lines.push(format!("({more} more written earlier)"));
    }
    Some(fragment(Section::Files, Origin::Notes, lines))
}

fn next(known: &ContextInput<'_>) -> Fragment {
    let next = next_task(known).map_or_else(|| "unknown".to_owned(), task_label);
    let ended = known.ended.map(|ended| one_line(ended, TEXT_CHARS));
    let lines = vec![
        format!("next: {next}"),
        format!(
            "reason for the stop: {}",
            ended.unwrap_or_else(|| "unknown".to_owned())
        ),
    ];
    fragment(Section::Next, Origin::Journal, lines)
}

fn more(known: &ContextInput<'_>) -> Fragment {
    let tools = if known.has_tools {
        "the tools `read_history` and `search_history` of the MCP server `segno`, or "
    } else {
        ""
    };
    let told = format!(
        "for details, use {tools}the commands `segno note list {0}`, `segno context {0}` and `segno logs {0}`",
        one_line(known.name, TEXT_CHARS)
    );
    fragment(Section::More, Origin::Journal, vec![told])
}

#[cfg(test)]
mod tests;
