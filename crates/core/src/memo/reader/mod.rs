//! Reading memos out of what is said, by rule.
//!
//! A [`Reader`] hears a conversation entry by entry and finds what needs no model to be understood: how
//! test runs went, what failed and whether it works since, what an agent means to do, which files it
//! wrote. It believes only what tools answered to calls that do such things: a file that is shown and
//! looks like the output of a test run is none. It holds a bounded amount, whatever it hears, and
//! begins with what an earlier one found.

mod deed;
mod output;
mod runner;
mod shell;
mod todo;
mod trouble;

use std::collections::VecDeque;

use deed::{Deed, Shell, Status};
use runner::{Runner, Verdict, View};
use todo::Tasks;
use trouble::Troubles;

use super::{Files, Handoff, Memo, Phase, Source, Tests, Todo, Todos, Written};
use crate::conversation::{Answer, Branch, Entry, Outcome, Said, Thread, Utterance, words};
use crate::model::ToolCall;

/// How many calls may be without an answer at a time.
const OPEN: usize = 200;

/// The longest name of a call that is followed.
const NAME: usize = 200;

/// What is found in an entry.
pub type Found = Vec<(Source, Written)>;

/// Reads a conversation.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// Calls that have no answer, oldest first.
    open: VecDeque<(String, Deed)>,
    troubles: Troubles,
    /// How the tests stood when that was last known.
    tests: Option<Standing>,
    /// The list that was told last.
    list: Option<Vec<Todo>>,
    tasks: Tasks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Failed,
    Passed,
}

impl Reader {
    /// One that goes on where others stopped.
    pub fn new(handoff: &Handoff) -> Self {
        let list = handoff.list.as_ref().map(|kept| &kept.memo);
        Self {
            open: VecDeque::new(),
            troubles: Troubles::of(handoff),
            tests: handoff.tests.as_ref().and_then(|kept| stood(&kept.memo)),
            list: list.map(|list| list.items.clone()),
            tasks: list.map(Tasks::of).unwrap_or_default(),
        }
    }

    /// What an entry tells.
    pub fn read(&mut self, entry: &Entry) -> Found {
        if entry.branch == Branch::Side {
            return Found::new();
        }
        match &entry.said {
            Said::Assistant { parts, .. } => {
                let mut found = Found::new();
                for part in parts {
                    match part {
                        Utterance::Call(call) => self.asked(call, &entry.thread),
                        Utterance::Raw { value } if entry.thread == Thread::Main => {
                            let list = todo::told(value);
                            found.extend(list.and_then(|list| self.tell_list(list, None)));
                        }
                        _ => {}
                    }
                }
                found
            }
            Said::Result(answer) => self.answered(answer),
            _ => Found::new(),
        }
    }

    /// A tool is asked for.
    fn asked(&mut self, call: &ToolCall, thread: &Thread) {
        if call.id.len() > NAME {
            return;
        }
        let deed = deed::deed(call);
        // What those below an agent mean to do is part of what it means to do.
        if *thread != Thread::Main && matches!(deed, Deed::List(_) | Deed::Task(_)) {
            return;
        }
        self.open.retain(|(id, _)| *id != call.id);
        self.open.push_back((call.id.clone(), deed));
        if self.open.len() > OPEN {
            self.open.pop_front();
        }
    }

    /// A tool has answered.
    fn answered(&mut self, answer: &Answer) -> Found {
        let known = self.open.iter().position(|(id, _)| *id == answer.id);
        let Some((id, deed)) = known.and_then(|at| self.open.remove(at)) else {
            return Found::new();
        };
        let text = words(&answer.parts);
        let text = output::plain(&text);
        let call = Some(id);
        // Codex says so in words alone.
        let unknown = text.starts_with("unsupported call:");
        let failed = answer.outcome == Outcome::Failed || unknown;
        match deed {
            Deed::Shell(shell) => self.ran(&shell, &text, answer.outcome, call),
            Deed::List(_) | Deed::Task(_) if failed => Found::new(),
            Deed::List(list) => self.tell_list(list, call).into_iter().collect(),
            Deed::Task(change) => {
                self.tasks.make(change, &text);
                let list = self.tasks.items();
                self.tell_list(list, call).into_iter().collect()
            }
            Deed::Write { subject, .. } | Deed::Other { subject } if failed => {
                let (sort, told) = trouble::complaint("tool failed", &text);
                let trouble = self.troubles.wrong(Source::Driver, sort, &subject, &told);
                trouble
                    .map(|trouble| error(trouble, call))
                    .into_iter()
                    .collect()
            }
            Deed::Write { subject, paths } => {
                let files = Memo::Files(Files { paths });
                let fixed = self.troubles.well(&subject);
                let fixed = fixed.map(|trouble| error(trouble, call.clone()));
                let written = (Source::Driver, written(files, call));
                std::iter::once(written).chain(fixed).collect()
            }
            Deed::Other { subject } => {
                let fixed = self.troubles.well(&subject);
                fixed
                    .map(|trouble| error(trouble, call))
                    .into_iter()
                    .collect()
            }
        }
    }

    /// Commands were run.
    fn ran(&mut self, shell: &Shell, text: &str, outcome: Outcome, call: Option<String>) -> Found {
        // It goes on, and nobody knows how it will end.
        if text.starts_with("Command running in background") {
            return Found::new();
        }
        let status = trouble::status(text);
        let failed = outcome == Outcome::Failed || status.is_some_and(|status| status != 0);
        let verdict = verdict(&shell.tests, text);
        let red = verdict.as_ref().is_some_and(Verdict::is_red);
        let clean = verdict.as_ref().is_some_and(Verdict::is_clean);
        let masked = shell.status == Status::Masked;
        let complains = masked && shell.builds && trouble::complains(text);
        let nothing_found = shell.searches && matches!(status, None | Some(1));
        let wrong = (failed && !nothing_found) || red || complains;

        let mut found = Found::new();
        if let Some(verdict) = &verdict
            && let Some(tests) = self.tested(shell, verdict, failed)
        {
            found.push((Source::Rule, written(Memo::Tests(tests), call.clone())));
        }
        let trouble = if wrong {
            let (sort, told) = match &verdict {
                Some(verdict) if red => ("tests failed", told(verdict)),
                _ => trouble::complaint("command failed", text),
            };
            let denied = sort == "denied";
            let source = if denied { Source::Driver } else { Source::Rule };
            self.troubles.wrong(source, sort, &shell.subject, &told)
        } else if clean || (!failed && (!masked || (shell.builds && verdict.is_none()))) {
            self.troubles.well(&shell.subject)
        } else {
            None
        };
        found.extend(trouble.map(|trouble| error(trouble, call)));
        found
    }

    /// How the tests stand after a run, if it tells more than is known.
    fn tested(&mut self, shell: &Shell, verdict: &Verdict, failed: bool) -> Option<Tests> {
        let before = self.tests;
        let phase = if verdict.is_red() {
            self.tests = Some(Standing::Failed);
            Phase::Red
        } else if verdict.is_clean() && !failed {
            self.tests = Some(Standing::Passed);
            match before {
                Some(Standing::Failed) => Phase::Green,
                Some(Standing::Passed) => Phase::Refactor,
                None => Phase::Unknown,
            }
        } else {
            // A run that tells nothing does not make what is known unknown, unless all was well.
            let tells = match before {
                Some(Standing::Failed) => false,
                Some(Standing::Passed) => failed,
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

    fn tell_list(&mut self, list: Vec<Todo>, call: Option<String>) -> Option<(Source, Written)> {
        if self.list.as_ref() == Some(&list) {
            return None;
        }
        self.list = Some(list.clone());
        let memo = Memo::Todos(Todos { items: list });
        Some((Source::Driver, written(memo, call)))
    }
}

/// How tests stood, by a memo about them.
fn stood(tests: &Tests) -> Option<Standing> {
    let clean = tests.failed == Some(0) && tests.passed.is_none_or(|count| count > 0);
    match tests.phase {
        Phase::Red => Some(Standing::Failed),
        Phase::Green | Phase::Refactor => Some(Standing::Passed),
        Phase::Unknown => clean.then_some(Standing::Passed),
    }
}

fn verdict(tests: &[(Runner, View)], text: &str) -> Option<Verdict> {
    let read = tests.iter().map(|(runner, view)| runner.read(text, *view));
    read.reduce(|all, next| all.and(&next))
}

/// What a run with failures says, as an error.
fn told(verdict: &Verdict) -> String {
    let failing = verdict.failing.iter().take(10).map(String::as_str);
    let lines = verdict.summary.iter().map(String::as_str).chain(failing);
    match lines.collect::<Vec<_>>().join("\n") {
        empty if empty.is_empty() => "tests fail".to_owned(),
        told => told,
    }
}

fn written(memo: Memo, call: Option<String>) -> Written {
    Written {
        memo,
        call,
        corrects: None,
    }
}

fn error((source, trouble): (Source, super::Trouble), call: Option<String>) -> (Source, Written) {
    (source, written(Memo::Error(trouble), call))
}

#[cfg(test)]
mod tests;
