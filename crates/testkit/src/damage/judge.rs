//! Runs all read commands and a resume on a damaged store, and judges the answers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::Head;
use segno_core::store::{Filter, Severity};
use segno_engine::{Env, StopToken, history};
use segno_sessions as sessions;
use segno_sessions::doctor;
use segno_sessions::resume::{self, Options};

use super::env::{NoProcesses, env};
use super::specimen::STEPS;
use super::{Damage, Depth, Specimen, StoreCopy};
use crate::sandbox::{ProcessOutput, Sandbox, run_to_end};

impl Specimen {
    /// Judges one damage through the libraries, in `copy`.
    pub fn judge(&self, copy: &StoreCopy, damage: &Damage, depth: Depth) -> Verdict {
        copy.restore(&self.files, &self.links, Some(damage));
        damage.apply(&copy.root(), self);
        self.verdict(&self.answers.in_process, self.query(copy, depth))
    }

    /// Judges one damage with the real binary, in `copy`.
    pub fn judge_binary(&self, copy: &StoreCopy, damage: &Damage) -> Verdict {
        copy.restore(&self.files, &self.links, Some(damage));
        damage.apply(&copy.root(), self);
        self.verdict(&self.answers.by_binary, self.query_binary(copy))
    }

    fn verdict(
        &self,
        expected: &BTreeMap<String, String>,
        replies: BTreeMap<String, Reply>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        for (question, reply) in replies {
            let right = expected.get(&question);
            match reply {
                Reply::Refused(_) if question.starts_with("doctor") => verdict.found = true,
                Reply::Answer(answer) if Some(&answer) == right => {}
                Reply::Refused(reason) => {
                    verdict.refused.insert(question, reason);
                }
                Reply::Answer(answer) => {
                    let right = right.map_or("nothing", String::as_str);
                    verdict.changed.push(format!(
                        "{question}: {} instead of {}",
                        shorten(&answer),
                        shorten(right)
                    ));
                }
                Reply::Wrong(reason) => verdict.changed.push(format!("{question}: {reason}")),
            }
        }
        let stuck = |session: SessionId| {
            let logs = format!("logs {session}");
            verdict.refused.contains_key(&logs)
        };
        verdict.nothing_usable = stuck(self.completed) && stuck(self.interrupted);
        let spread = format!("after the resume: logs {}", self.completed);
        verdict.spread = verdict.refused.contains_key(&spread) && !stuck(self.completed);
        verdict
    }

    pub(super) fn query(&self, copy: &StoreCopy, depth: Depth) -> BTreeMap<String, Reply> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let query = AssertUnwindSafe(|| runtime.block_on(self.query_all(copy, depth)));
        catch_unwind(query).unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "no message".into());
            BTreeMap::from([("all".into(), Reply::Wrong(format!("it panicked: {said}")))])
        })
    }

    async fn query_all(&self, copy: &StoreCopy, depth: Depth) -> BTreeMap<String, Reply> {
        let mut replies = BTreeMap::new();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let env = match env(&copy.root(), Arc::clone(&calls)) {
            Ok(env) => env,
            Err(error) => {
                // Without an open store there is no other answer, so the error answers everything.
                let refusal = refusal(&error);
                for question in self.answers.in_process.keys() {
                    replies.insert(question.clone(), refusal.clone());
                }
                return replies;
            }
        };
        replies.insert("doctor".into(), doctor_reply(&env).await);
        self.query_reading(&env, "", &mut replies).await;
        let silent = matches!(replies["doctor"], Reply::Answer(_));
        let same = replies.iter().all(|(question, reply)| {
            matches!(reply, Reply::Answer(answer) if self.answers.in_process.get(question).is_none_or(|right| right == answer))
        });
        if depth == Depth::Reading
            || depth == Depth::Needed
                && !matches!(
                    replies[&format!("logs {}", self.interrupted)],
                    Reply::Answer(_)
                )
        {
            return replies;
        }
        replies.insert("resume".into(), self.resumed(&env, &calls).await);
        let mut after = BTreeMap::new();
        self.query_reading(&env, "after the resume: ", &mut after)
            .await;
        after.retain(|question, _| question.ends_with(&self.completed.to_string()));
        replies.extend(after);
        if silent && same {
            // The second opinion: what had no effect must have none after more was written, either.
            replies.insert("doctor after the resume".into(), doctor_reply(&env).await);
            if let Reply::Refused(reason) = &replies["doctor after the resume"] {
                let reason = format!("doctor found nothing before: {reason}");
                replies.insert("second opinion".into(), Reply::Wrong(reason));
            }
        }
        replies
    }

    async fn query_reading(&self, env: &Env, when: &str, replies: &mut BTreeMap<String, Reply>) {
        match sessions::list(env, Filter::default()).await {
            Err(error) => {
                for session in [self.completed, self.interrupted] {
                    replies.insert(format!("{when}list {session}"), refusal(&error));
                }
            }
            Ok((listed, damaged)) => {
                for session in [self.completed, self.interrupted] {
                    let id = session.to_string();
                    let line = listed.iter().find(|listed| listed.summary.id == session);
                    let named = damaged.iter().find(|error| error.to_string().contains(&id));
                    let said = match (line, named) {
                        (Some(line), None) => Reply::Answer(format!("{line:?}")),
                        (None, Some(error)) => Reply::Refused(error.to_string()),
                        (Some(_), Some(_)) => Reply::Wrong("listed and damaged".into()),
                        (None, None) => Reply::Wrong(format!("not listed: {damaged:?}")),
                    };
                    replies.insert(format!("{when}list {session}"), said);
                }
                if listed.len() > 2 {
                    let reason = format!("too many sessions: {listed:?}");
                    replies.insert(format!("{when}list"), Reply::Wrong(reason));
                }
            }
        }
        for (session, name) in [(self.completed, "done"), (self.interrupted, "cut")] {
            let said = match sessions::find(env, name).await {
                Ok(summary) => Reply::Answer(format!("{summary:?}")),
                Err(error) => refusal(&error),
            };
            replies.insert(format!("{when}find {name}"), said);
            let said = match env.store.summary(session).await {
                Ok(summary) => match sessions::show(env, summary).await {
                    Ok(shown) => Reply::Answer(format!("{shown:?}")),
                    Err(error) => refusal(&error),
                },
                Err(error) => refusal(&error),
            };
            replies.insert(format!("{when}show {session}"), said);
            let mut lines = String::new();
            let followed = history::read_events(env, session, Head::genesis(session), |entry| {
                writeln!(lines, "{entry:?}").unwrap();
                Ok(())
            });
            let said = match followed.await {
                Ok(_) => Reply::Answer(lines),
                Err(error) => refusal(&error),
            };
            replies.insert(format!("{when}logs {session}"), said);
        }
        let workspace = fs::canonicalize(self.sandbox.work()).unwrap();
        let said = match resume::newest(env, &workspace).await {
            Ok(summary) => Reply::Answer(summary.id.to_string()),
            Err(error) => refusal(&error),
        };
        replies.insert(format!("{when}newest"), said);
    }

    async fn resumed(&self, env: &Env, calls: &Mutex<Vec<String>>) -> Reply {
        let summary = match env.store.summary(self.interrupted).await {
            Ok(summary) => summary,
            Err(error) => return refusal(&error),
        };
        let resumed = resume::resume(
            env,
            summary,
            Options::default(),
            Arc::new(NoProcesses),
            StopToken::default(),
        )
        .await;
        let calls = calls.lock().unwrap().join(" ");
        let again = (0..STEPS - 1).any(|step| calls.contains(&format!("steps/{step}")));
        match resumed {
            _ if again => Reply::Wrong(format!("finished steps were asked again: {calls}")),
            Ok(outcome) => Reply::Answer(format!(
                "{} {} {} {calls}: {}",
                outcome.state.status, outcome.state.finished, outcome.saved.steps, outcome.output
            )),
            Err(error) => refusal(&error),
        }
    }

    pub(super) fn query_binary(&self, copy: &StoreCopy) -> BTreeMap<String, Reply> {
        let _lock = self
            .binary_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut replies = BTreeMap::new();
        let run = |words: &[&str]| run_binary(&self.sandbox, copy, words);
        let ids = [self.completed.to_string(), self.interrupted.to_string()];
        // A refusal must say what is damaged: an object with its path or its number.
        let reply_of = |said: ProcessOutput, names: &[&str]| match said.status.code() {
            Some(0) => Reply::Answer(said.stdout),
            Some(12 | 17 | 23) if names.iter().any(|name| said.stderr.contains(name)) => {
                Reply::Refused(said.stderr)
            }
            _ => Reply::Wrong(format!("{}: {}", said.status, said.stderr)),
        };
        let objects = [
            "journal.db",
            "blob",
            "damaged",
            "/heads",
            "/blobs",
            "/backups",
        ];
        let said = match reply_of(run(&["doctor"]), &objects) {
            // Findings of lower severity are not damage.
            Reply::Answer(_) => Reply::Answer(String::new()),
            other => other,
        };
        replies.insert("doctor".into(), said);
        let listed = run(&["sessions", "list", "--json"]);
        if listed.status.success() {
            for id in &ids {
                let line = listed.stdout.lines().find(|line| line.contains(id));
                let said = match line {
                    Some(line) if line.contains("\"finding\"") => Reply::Refused(line.to_owned()),
                    Some(line) => Reply::Answer(line.to_owned()),
                    None => Reply::Wrong(format!("not listed: {}", listed.stdout)),
                };
                replies.insert(format!("list {id}"), said);
            }
        } else {
            replies.insert("list".into(), reply_of(listed, &objects));
        }
        for id in &ids {
            let names = [id, "journal.db", "/heads", "/blobs"];
            let said = reply_of(run(&["show", "--json", id]), &names);
            replies.insert(format!("show {id}"), said);
            let said = reply_of(run(&["logs", "--json", id]), &names);
            replies.insert(format!("logs {id}"), said);
        }
        let _ = fs::remove_file(self.sandbox.work().join("calls.log"));
        let said = run(&["resume", &ids[1]]);
        let calls = self.sandbox.calls().join(" ");
        let again = (0..STEPS - 1).any(|step| calls.contains(&format!("steps/{step}")));
        let said = if again {
            Reply::Wrong(format!("finished steps were asked again: {calls}"))
        } else {
            match reply_of(said, &[&ids[1], "journal.db", "blob", "/heads"]) {
                Reply::Answer(output) => Reply::Answer(format!("{calls}: {output}")),
                other => other,
            }
        };
        replies.insert("resume".into(), said);
        let said = reply_of(run(&["logs", "--json", &ids[0]]), &[&ids[0], "journal.db"]);
        replies.insert(format!("after the resume: logs {}", ids[0]), said);
        replies
    }
}

pub(super) fn run_binary(sandbox: &Sandbox, copy: &StoreCopy, words: &[&str]) -> ProcessOutput {
    let mut command = sandbox.command(words);
    command.env("SEGNO_HOME", copy.root());
    run_to_end(command)
}

#[derive(Debug, Clone)]
pub(super) enum Reply {
    Answer(String),
    Refused(String),
    Wrong(String),
}

/// A refusal that names what is damaged; anything else is a different answer.
fn refusal(error: &dyn Diagnose) -> Reply {
    let text = error.to_string();
    match error.kind() {
        Kind::Damaged | Kind::Unavailable | Kind::Unusable | Kind::Forbidden => {
            Reply::Refused(text)
        }
        Kind::NotFound if text.contains("blob") => Reply::Refused(text),
        kind => Reply::Wrong(format!("{kind:?}: {text}")),
    }
}

async fn doctor_reply(env: &Env) -> Reply {
    match doctor::verify(
        env,
        segno_core::snapshot::Depth::Structure,
        |_, _| {},
        &|_, _| {},
    )
    .await
    {
        Err(error) => refusal(&error),
        Ok(report) => {
            let damage = report
                .findings
                .iter()
                .find(|finding| finding.severity == Severity::Damage);
            match damage {
                Some(damage) => Reply::Refused(format!("{damage:?}")),
                None => Reply::Answer(String::new()),
            }
        }
    }
}

fn shorten(text: &str) -> String {
    let cut = text.floor_char_boundary(200);
    text[..cut].to_owned()
}

/// The effect of a damage.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// `doctor` reported it.
    pub found: bool,
    /// The questions that were refused, with the error messages.
    pub refused: BTreeMap<String, String>,
    /// Answers that differ from the undamaged ones; must be empty.
    pub changed: Vec<String>,
    /// Neither session can be read.
    pub nothing_usable: bool,
    /// The other session could be read before the resume and cannot be read after it.
    pub spread: bool,
}

impl Verdict {
    /// Whether nothing detected it, and nothing had to.
    pub fn without_effect(&self) -> bool {
        !self.found && self.refused.is_empty() && self.changed.is_empty()
    }
}
