//! Extracts notes from a conversation by rules.
//!
//! A [`NoteExtractor`] receives a conversation item by item and finds what needs no model: results of test
//! runs, failures and whether they were fixed since, the agent's todo list, and written files. It trusts
//! only the results of tool calls that do such things: a displayed file that looks like test output does
//! not count. Its memory is bounded for any input, and it starts from the notes of an earlier reader.

mod action;
mod open_error;
mod output;
mod runner;
mod shell;
mod todo;

use std::collections::VecDeque;

use segno_core::conversation::{
    Answer, AssistantPart, Branch, ConversationItem, ItemContent, Outcome, Thread, plain_text,
};
use segno_core::handoff::Handoff;
use segno_core::note::{Files, Note, Phase, Source, Tests, Todo, Todos, WrittenNote};
use segno_core::tool::ToolCall;

use action::{Action, Shell, Status};
use open_error::OpenErrors;
use runner::{Runner, Verdict, View};
use todo::Tasks;

/// How many calls may be without a result at a time.
const OPEN: usize = 200;

/// The maximum length of a call id that is tracked.
const NAME: usize = 200;

/// The notes found in an item.
pub type FoundNotes = Vec<(Source, WrittenNote)>;

/// Extracts notes from a conversation.
#[derive(Debug, Clone, Default)]
pub struct NoteExtractor {
    /// Calls without a result, oldest first.
    open: VecDeque<(String, Action)>,
    open_errors: OpenErrors,
    /// The outcome of the last test run, if known.
    tests: Option<TestOutcome>,
    /// The newest todo list.
    list: Option<Vec<Todo>>,
    tasks: Tasks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestOutcome {
    Failed,
    Passed,
}

impl NoteExtractor {
    /// A reader that continues from earlier notes.
    pub fn new(handoff: &Handoff) -> Self {
        let list = handoff.list.as_ref().map(|kept| &kept.note);
        Self {
            open: VecDeque::new(),
            open_errors: OpenErrors::of(handoff),
            tests: handoff
                .tests
                .as_ref()
                .and_then(|kept| outcome_of(&kept.note)),
            list: list.map(|list| list.items.clone()),
            tasks: list.map(Tasks::of).unwrap_or_default(),
        }
    }

    /// The notes found in an item.
    pub fn read(&mut self, entry: &ConversationItem) -> FoundNotes {
        if entry.branch == Branch::Side {
            return FoundNotes::new();
        }
        match &entry.content {
            ItemContent::Assistant { parts, .. } => {
                let mut found = FoundNotes::new();
                for part in parts {
                    match part {
                        AssistantPart::Call(call) => self.track_call(call, &entry.thread),
                        AssistantPart::Raw { value } if entry.thread == Thread::Main => {
                            let list = todo::list_in_value(value);
                            found.extend(list.and_then(|list| self.replace_list(list, None)));
                        }
                        _ => {}
                    }
                }
                found
            }
            ItemContent::Result(answer) => self.finish_call(answer),
            _ => FoundNotes::new(),
        }
    }

    /// Tracks a tool call until its result arrives.
    fn track_call(&mut self, call: &ToolCall, thread: &Thread) {
        if call.id.len() > NAME {
            return;
        }
        let action = action::action(call);
        // A sub-agent's todo list is part of its parent's work.
        if *thread != Thread::Main && matches!(action, Action::List(_) | Action::Task(_)) {
            return;
        }
        self.open.retain(|(id, _)| *id != call.id);
        self.open.push_back((call.id.clone(), action));
        if self.open.len() > OPEN {
            self.open.pop_front();
        }
    }

    /// Evaluates the result of a tool call.
    fn finish_call(&mut self, answer: &Answer) -> FoundNotes {
        let known = self.open.iter().position(|(id, _)| *id == answer.id);
        let Some((id, action)) = known.and_then(|at| self.open.remove(at)) else {
            return FoundNotes::new();
        };
        let text = plain_text(&answer.parts);
        let text = output::plain(&text);
        let call = Some(id);
        // Codex reports this only as text.
        let unknown = text.starts_with("unsupported call:");
        let failed = answer.outcome == Outcome::Failed || unknown;
        match action {
            Action::Shell(shell) => self.read_shell_result(&shell, &text, answer.outcome, call),
            Action::List(_) | Action::Task(_) if failed => FoundNotes::new(),
            Action::List(list) => self.replace_list(list, call).into_iter().collect(),
            Action::Task(change) => {
                self.tasks.apply(change, &text);
                let list = self.tasks.items();
                self.replace_list(list, call).into_iter().collect()
            }
            Action::Write { subject, .. } | Action::Other { subject } if failed => {
                let (sort, message) = open_error::failure_message("tool failed", &text);
                let open_error =
                    self.open_errors
                        .add_failure(Source::Driver, sort, &subject, &message);
                open_error
                    .map(|open_error| error(open_error, call))
                    .into_iter()
                    .collect()
            }
            Action::Write { subject, paths } => {
                let files = Note::Files(Files { paths });
                let fixed = self.open_errors.mark_fixed(&subject);
                let fixed = fixed.map(|open_error| error(open_error, call.clone()));
                let written = (Source::Driver, written(files, call));
                std::iter::once(written).chain(fixed).collect()
            }
            Action::Other { subject } => {
                let fixed = self.open_errors.mark_fixed(&subject);
                fixed
                    .map(|open_error| error(open_error, call))
                    .into_iter()
                    .collect()
            }
        }
    }

    /// Evaluates the result of a shell command.
    fn read_shell_result(
        &mut self,
        shell: &Shell,
        text: &str,
        outcome: Outcome,
        call: Option<String>,
    ) -> FoundNotes {
        // The command is still running; its outcome is unknown.
        if text.starts_with("Command running in background") {
            return FoundNotes::new();
        }
        let status = open_error::status(text);
        let failed = outcome == Outcome::Failed || status.is_some_and(|status| status != 0);
        let verdict = verdict(&shell.tests, text);
        let red = verdict.as_ref().is_some_and(Verdict::is_red);
        let clean = verdict.as_ref().is_some_and(Verdict::is_clean);
        let masked = shell.status == Status::Masked;
        let reports_error = masked && shell.builds && open_error::reports_error(text);
        let nothing_found = shell.searches && matches!(status, None | Some(1));
        let wrong = (failed && !nothing_found) || red || reports_error;

        let mut found = FoundNotes::new();
        if let Some(verdict) = &verdict
            && let Some(tests) = self.test_result(shell, verdict, failed)
        {
            found.push((Source::Rule, written(Note::Tests(tests), call.clone())));
        }
        let open_error = if wrong {
            let (sort, message) = match &verdict {
                Some(verdict) if red => ("tests failed", message(verdict)),
                _ => open_error::failure_message("command failed", text),
            };
            let denied = sort == "denied";
            let source = if denied { Source::Driver } else { Source::Rule };
            self.open_errors
                .add_failure(source, sort, &shell.subject, &message)
        } else if clean || (!failed && (!masked || (shell.builds && verdict.is_none()))) {
            self.open_errors.mark_fixed(&shell.subject)
        } else {
            None
        };
        found.extend(open_error.map(|open_error| error(open_error, call)));
        found
    }

    /// The test result of a run, if it adds to what is known.
    fn test_result(&mut self, shell: &Shell, verdict: &Verdict, failed: bool) -> Option<Tests> {
        let before = self.tests;
        let phase = if verdict.is_red() {
            self.tests = Some(TestOutcome::Failed);
            Phase::Red
        } else if verdict.is_clean() && !failed {
            self.tests = Some(TestOutcome::Passed);
            match before {
                Some(TestOutcome::Failed) => Phase::Green,
                Some(TestOutcome::Passed) => Phase::Refactor,
                None => Phase::Unknown,
            }
        } else {
            // A run without a result does not replace a known result, unless all tests passed before.
            let tells = match before {
                Some(TestOutcome::Failed) => false,
                Some(TestOutcome::Passed) => failed,
                None => failed || !verdict.is_empty(),
            };
            if !tells {
                return None;
            }
            self.tests = None;
            Phase::Unknown
        };
        Some(Tests {
            phase,
            command: shell.command.clone(),
            failing: verdict.failing.clone(),
            expected: None,
            passed: verdict.passed,
            failed: verdict.failed,
            summary: verdict.summary.join("\n"),
        })
    }

    fn replace_list(
        &mut self,
        list: Vec<Todo>,
        call: Option<String>,
    ) -> Option<(Source, WrittenNote)> {
        if self.list.as_ref() == Some(&list) {
            return None;
        }
        self.list = Some(list.clone());
        let note = Note::Todos(Todos { items: list });
        Some((Source::Driver, written(note, call)))
    }
}

/// The outcome of the test run that a note describes.
fn outcome_of(tests: &Tests) -> Option<TestOutcome> {
    let clean = tests.failed == Some(0) && tests.passed.is_none_or(|count| count > 0);
    match tests.phase {
        Phase::Red => Some(TestOutcome::Failed),
        Phase::Green | Phase::Refactor => Some(TestOutcome::Passed),
        Phase::Unknown => clean.then_some(TestOutcome::Passed),
    }
}

fn verdict(tests: &[(Runner, View)], text: &str) -> Option<Verdict> {
    let read = tests.iter().map(|(runner, view)| runner.read(text, *view));
    read.reduce(|all, next| all.and(&next))
}

/// The error text of a test run with failures.
fn message(verdict: &Verdict) -> String {
    let failing = verdict.failing.iter().take(10).map(String::as_str);
    let lines = verdict.summary.iter().map(String::as_str).chain(failing);
    match lines.collect::<Vec<_>>().join("\n") {
        empty if empty.is_empty() => "tests fail".to_owned(),
        message => message,
    }
}

fn written(note: Note, call: Option<String>) -> WrittenNote {
    WrittenNote {
        note,
        call,
        corrects: None,
    }
}

fn error(
    (source, open_error): (Source, segno_core::note::ErrorNote),
    call: Option<String>,
) -> (Source, WrittenNote) {
    (source, written(Note::Error(open_error), call))
}

#[cfg(test)]
mod tests;
