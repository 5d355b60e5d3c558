//! Compares the journals at the end with what clients saw, with the calls that were counted outside,
//! and with undisturbed runs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::{Followed, Report, by_session};
use super::fixture::{Expected, Fixture, Work, name};
use super::processes::printed;
use crate::crash::model::{answers, artifacts_in, finished};
use crate::crash::trial::{Violation, describe, lines};

/// Which calls may have been made twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    /// None: every run survived.
    None,
    /// Those that were in flight when their run was killed.
    InFlight,
}

pub(super) struct Checker<'a> {
    pub(super) fixture: &'a Fixture,
    pub(super) expected: &'a Expected,
    pub(super) repeats: Repeats,
    pub(super) violations: Vec<Violation>,
}

impl Checker<'_> {
    /// Checks every session, after all of them should be completed.
    pub(super) fn check(&mut self, reports: &[Report]) {
        self.check_list();
        let followed = by_session(reports);
        for session in 0..self.fixture.sessions {
            let journal = self.journal(session);
            self.check_calls(session, &journal);
            self.check_result(session, &journal);
            if let Some(followed) = followed.get(&session) {
                self.check_followed(followed, &journal);
            }
        }
        for text in printed(self.fixture) {
            if text.contains("panicked") {
                self.damage(text);
            }
        }
        let said = self.fixture.sandbox.segno(&["doctor"]);
        if !said.status.success() {
            self.damage(format!("doctor: {}", describe(&said)));
        }
    }

    fn damage(&mut self, what: String) {
        self.violations.push(Violation::Damage(what));
    }

    /// Each session was started once, and is completed.
    fn check_list(&mut self) {
        let said = self
            .fixture
            .sandbox
            .segno(&["sessions", "list", "--all", "--json"]);
        let mut names = Vec::new();
        for listed in lines(&said.stdout) {
            if listed["status"] != "completed" {
                let what = format!("{} is {}", listed["name"], listed["status"]);
                self.violations.push(Violation::Stuck(what));
            }
            names.push(listed["name"].as_str().unwrap_or_default().to_owned());
        }
        names.sort();
        let mut wanted: Vec<String> = (0..self.fixture.sessions).map(name).collect();
        wanted.sort();
        for twice in names.iter().filter(|name| !wanted.contains(name)) {
            let what = format!("session {twice} was started by nobody");
            self.violations.push(Violation::Repeat(what));
        }
        for lost in wanted.iter().filter(|name| !names.contains(name)) {
            let what = format!("session {lost} is not listed: {}", describe(&said));
            self.violations.push(Violation::Loss(what));
        }
    }

    fn journal(&mut self, session: usize) -> Vec<Value> {
        let said = self
            .fixture
            .sandbox
            .segno(&["logs", &name(session), "--json"]);
        if !said.status.success() {
            self.damage(format!("logs {}: {}", name(session), describe(&said)));
        }
        lines(&said.stdout)
    }

    /// P6, P7: each call has an intent of its own, and none came after the answer was journaled.
    fn check_calls(&mut self, session: usize, journal: &[Value]) {
        let name = name(session);
        let count = |kind: &str, path: &str| {
            let events = journal.iter().filter(|it| it["kind"] == kind);
            events.filter(|it| it["path"] == path).count()
        };
        for (path, calls) in self.fixture.calls(session, journal) {
            let (intents, ends) = (count("step_started", &path), count("step_finished", &path));
            if calls > intents {
                let what = format!("{name}: {calls} calls of {path}, {intents} intents");
                self.violations.push(Violation::Loss(what));
            }
            if self.repeats == Repeats::None && calls != 1 {
                let what = format!("{name}: {path} was called {calls} times");
                self.violations.push(Violation::Repeat(what));
            }
            if ends != 1 {
                let what = format!("{name}: {path} was finished {ends} times");
                self.violations.push(Violation::Repeat(what));
            }
        }
        let mut ended = Vec::new();
        for event in journal {
            let path = &event["path"];
            if event["kind"] == "step_finished" {
                ended.push(path);
            } else if event["kind"] == "step_started" && ended.contains(&path) {
                let what = format!("{name}: {path} was started after its end");
                self.violations.push(Violation::Repeat(what));
            }
        }
        let runs = journal.iter().filter(|it| it["kind"] == "run_started");
        let runs = runs.count();
        if self.repeats == Repeats::None && runs != 1 {
            let what = format!("{name} was run {runs} times");
            self.violations.push(Violation::Repeat(what));
        }
    }

    /// The result is that of an undisturbed run.
    fn check_result(&mut self, session: usize, journal: &[Value]) {
        let name = name(session);
        let found = answers(journal);
        let Work::Asking(workload) = Work::of(session) else {
            return self.check_commits(session, &found);
        };
        let model = self.expected.model(workload);
        if found != model.answers {
            self.damage(format!("{name}: {found:?} instead of {:?}", model.answers));
        }
        let artifacts = artifacts_in(&self.fixture.out(session));
        if artifacts != model.artifacts {
            let names: Vec<&String> = artifacts.keys().collect();
            self.damage(format!("{name}: the artifacts are {names:?}"));
        }
    }

    /// Each task of a plan has one commit.
    fn check_commits(&mut self, session: usize, answers: &BTreeMap<String, Value>) {
        let log = self
            .fixture
            .git(session, &["log", "--reverse", "--format=%s"]);
        let commits: Vec<&str> = log.lines().collect();
        if commits != ["Begin", "T1: Write it", "T2: Write it"] {
            self.damage(format!("{}: the commits are {commits:?}", name(session)));
        }
        let paths: Vec<&String> = answers.keys().collect();
        let wanted = [
            "begin",
            "tasks/T1/1/review",
            "tasks/T1/1/work",
            "tasks/T1/commit",
        ];
        let second = ["tasks/T2/1/review", "tasks/T2/1/work", "tasks/T2/commit"];
        if paths != [&wanted[..], &second].concat() {
            self.damage(format!("{}: the steps are {paths:?}", name(session)));
        }
    }

    /// The client got the whole journal, each event once, and no answer that it saw was asked for
    /// again.
    fn check_followed(&mut self, followed: &Followed, journal: &[Value]) {
        let name = name(followed.session);
        if followed.events != journal {
            let seen = followed.events.iter().zip(journal);
            let differs = seen.clone().position(|(seen, event)| seen != event);
            let what = format!(
                "{name}: the client saw {} events of {}; they differ at {differs:?}",
                followed.events.len(),
                journal.len()
            );
            self.violations.push(Violation::Loss(what));
        }
        for (intent, before) in &followed.finished {
            let now = self.fixture.calls_of(followed.session, intent);
            if now != *before {
                let path = &intent["path"];
                let what = format!("{name}: {path} was finished after {before} calls, now {now}");
                self.violations.push(Violation::Repeat(what));
            }
        }
        let steps = journal.iter().filter_map(finished).count();
        if steps != followed.finished.len() {
            let seen = followed.finished.len();
            self.damage(format!("{name}: {seen} of {steps} ends of steps were seen"));
        }
    }
}
