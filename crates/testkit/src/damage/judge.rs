//! Asking a damaged store everything, and judging what it says.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::Head;
use segno_core::store::Severity;
use segno_engine::resume::Options;
use segno_engine::{Brake, Error, World, doctor, history, resume, sessions};

use super::specimen::STEPS;
use super::world::{Nobody, world};
use super::{Copy, Damage, Depth, Specimen};
use crate::sandbox::{Said, Sandbox, finish};

impl Specimen {
    /// Judges one damage through the libraries, in `copy`.
    pub fn judge(&self, copy: &Copy, damage: &Damage, depth: Depth) -> Verdict {
        copy.restore(&self.files, Some(damage));
        damage.apply(&copy.root(), self);
        self.verdict(&self.answers.in_process, self.ask(copy, depth))
    }

    /// Judges one damage with the real binary, in `copy`.
    pub fn judge_binary(&self, copy: &Copy, damage: &Damage) -> Verdict {
        copy.restore(&self.files, Some(damage));
        damage.apply(&copy.root(), self);
        self.verdict(&self.answers.by_binary, self.ask_binary(copy))
    }

    fn verdict(
        &self,
        expected: &BTreeMap<String, String>,
        heard: BTreeMap<String, Heard>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        for (question, heard) in heard {
            let right = expected.get(&question);
            match heard {
                Heard::Refused(_) if question.starts_with("doctor") => verdict.found = true,
                Heard::Answer(answer) if Some(&answer) == right => {}
                Heard::Refused(reason) => {
                    verdict.refused.insert(question, reason);
                }
                Heard::Answer(answer) => {
                    let right = right.map_or("nothing", String::as_str);
                    verdict.changed.push(format!(
                        "{question}: {} instead of {}",
                        brief(&answer),
                        brief(right)
                    ));
                }
                Heard::Wrong(reason) => verdict.changed.push(format!("{question}: {reason}")),
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

    pub(super) fn ask(&self, copy: &Copy, depth: Depth) -> BTreeMap<String, Heard> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let asked = AssertUnwindSafe(|| runtime.block_on(self.ask_all(copy, depth)));
        catch_unwind(asked).unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "without a word".into());
            BTreeMap::from([("all".into(), Heard::Wrong(format!("it panicked: {said}")))])
        })
    }

    async fn ask_all(&self, copy: &Copy, depth: Depth) -> BTreeMap<String, Heard> {
        let mut heard = BTreeMap::new();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let world = match world(&copy.root(), Arc::clone(&calls)) {
            Ok(world) => world,
            Err(error) => {
                // Nothing can be asked without opening, so this answers everything.
                let refusal = refusal(&error);
                for question in self.answers.in_process.keys() {
                    heard.insert(question.clone(), refusal.clone());
                }
                return heard;
            }
        };
        heard.insert("doctor".into(), examined(&world).await);
        self.ask_reading(&world, "", &mut heard).await;
        let silent = matches!(heard["doctor"], Heard::Answer(_));
        let same = heard.iter().all(|(question, heard)| {
            matches!(heard, Heard::Answer(answer) if self.answers.in_process.get(question).is_none_or(|right| right == answer))
        });
        if depth == Depth::Reading
            || depth == Depth::Needed
                && !matches!(
                    heard[&format!("logs {}", self.interrupted)],
                    Heard::Answer(_)
                )
        {
            return heard;
        }
        heard.insert("resume".into(), self.resumed(&world, &calls).await);
        let mut after = BTreeMap::new();
        self.ask_reading(&world, "after the resume: ", &mut after)
            .await;
        after.retain(|question, _| question.ends_with(&self.completed.to_string()));
        heard.extend(after);
        if silent && same {
            // The second opinion: what had no effect has none after more was written, either.
            heard.insert("doctor after the resume".into(), examined(&world).await);
            if let Heard::Refused(reason) = &heard["doctor after the resume"] {
                let reason = format!("doctor was silent before: {reason}");
                heard.insert("second opinion".into(), Heard::Wrong(reason));
            }
        }
        heard
    }

    async fn ask_reading(&self, world: &World, when: &str, heard: &mut BTreeMap<String, Heard>) {
        match sessions::list(world).await {
            Err(error) => {
                for session in [self.completed, self.interrupted] {
                    heard.insert(format!("{when}list {session}"), refusal(&error));
                }
            }
            Ok((listed, damaged)) => {
                for session in [self.completed, self.interrupted] {
                    let id = session.to_string();
                    let line = listed.iter().find(|listed| listed.summary.id == session);
                    let named = damaged.iter().find(|error| error.to_string().contains(&id));
                    let said = match (line, named) {
                        (Some(line), None) => Heard::Answer(format!("{line:?}")),
                        (None, Some(error)) => Heard::Refused(error.to_string()),
                        (Some(_), Some(_)) => Heard::Wrong("listed and damaged".into()),
                        (None, None) => Heard::Wrong(format!("not listed: {damaged:?}")),
                    };
                    heard.insert(format!("{when}list {session}"), said);
                }
                if listed.len() > 2 {
                    let reason = format!("a session too many: {listed:?}");
                    heard.insert(format!("{when}list"), Heard::Wrong(reason));
                }
            }
        }
        for (session, name) in [(self.completed, "done"), (self.interrupted, "cut")] {
            let said = match sessions::find(world, name).await {
                Ok(summary) => Heard::Answer(format!("{summary:?}")),
                Err(error) => refusal(&error),
            };
            heard.insert(format!("{when}find {name}"), said);
            let said = match world.store.summary(session).await {
                Ok(summary) => match sessions::show(world, summary).await {
                    Ok(shown) => Heard::Answer(format!("{shown:?}")),
                    Err(error) => refusal(&error),
                },
                Err(error) => refusal(&error.into()),
            };
            heard.insert(format!("{when}show {session}"), said);
            let mut lines = String::new();
            let followed = history::follow(world, session, Head::genesis(session), |entry| {
                writeln!(lines, "{entry:?}").unwrap();
                Ok(())
            });
            let said = match followed.await {
                Ok(_) => Heard::Answer(lines),
                Err(error) => refusal(&error),
            };
            heard.insert(format!("{when}logs {session}"), said);
        }
        let workspace = fs::canonicalize(self.sandbox.work()).unwrap();
        let said = match resume::newest(world, &workspace).await {
            Ok(summary) => Heard::Answer(summary.id.to_string()),
            Err(error) => refusal(&error),
        };
        heard.insert(format!("{when}newest"), said);
    }

    async fn resumed(&self, world: &World, calls: &Mutex<Vec<String>>) -> Heard {
        let summary = match world.store.summary(self.interrupted).await {
            Ok(summary) => summary,
            Err(error) => return refusal(&error.into()),
        };
        let resumed = resume::resume(
            world,
            summary,
            Options::default(),
            Arc::new(Nobody),
            Brake::default(),
        )
        .await;
        let calls = calls.lock().unwrap().join(" ");
        let again = (0..STEPS - 1).any(|step| calls.contains(&format!("steps/{step}")));
        match resumed {
            _ if again => Heard::Wrong(format!("finished steps were asked again: {calls}")),
            Ok(outcome) => Heard::Answer(format!(
                "{} {} {} {calls}: {}",
                outcome.state.status, outcome.state.finished, outcome.saved.steps, outcome.output
            )),
            Err(error) => refusal(&error),
        }
    }

    pub(super) fn ask_binary(&self, copy: &Copy) -> BTreeMap<String, Heard> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut heard = BTreeMap::new();
        let says = |words: &[&str]| binary_says(&self.sandbox, copy, words);
        let ids = [self.completed.to_string(), self.interrupted.to_string()];
        // Whatever refuses must say what is damaged: an object with its place or its number.
        let judged = |said: Said, names: &[&str]| match said.status.code() {
            Some(0) => Heard::Answer(said.stdout),
            Some(12 | 17 | 23) if names.iter().any(|name| said.stderr.contains(name)) => {
                Heard::Refused(said.stderr)
            }
            _ => Heard::Wrong(format!("{}: {}", said.status, said.stderr)),
        };
        let objects = [
            "segno.db", "blob", "damaged", "/heads", "/blobs", "/backups",
        ];
        let said = match judged(says(&["doctor"]), &objects) {
            // What is worth knowing is not damage.
            Heard::Answer(_) => Heard::Answer(String::new()),
            other => other,
        };
        heard.insert("doctor".into(), said);
        let listed = says(&["sessions", "list", "--json"]);
        if listed.status.success() {
            for id in &ids {
                let line = listed.stdout.lines().find(|line| line.contains(id));
                let said = match line {
                    Some(line) if line.contains("\"finding\"") => Heard::Refused(line.to_owned()),
                    Some(line) => Heard::Answer(line.to_owned()),
                    None => Heard::Wrong(format!("not listed: {}", listed.stdout)),
                };
                heard.insert(format!("list {id}"), said);
            }
        } else {
            heard.insert("list".into(), judged(listed, &objects));
        }
        for id in &ids {
            let names = [id, "segno.db", "/heads", "/blobs"];
            let said = judged(says(&["sessions", "show", "--json", id]), &names);
            heard.insert(format!("show {id}"), said);
            let said = judged(says(&["logs", "--json", id]), &names);
            heard.insert(format!("logs {id}"), said);
        }
        let _ = fs::remove_file(self.sandbox.work().join("calls.log"));
        let said = says(&["resume", &ids[1]]);
        let calls = self.sandbox.calls().join(" ");
        let again = (0..STEPS - 1).any(|step| calls.contains(&format!("steps/{step}")));
        let said = if again {
            Heard::Wrong(format!("finished steps were asked again: {calls}"))
        } else {
            match judged(said, &[&ids[1], "segno.db", "blob", "/heads"]) {
                Heard::Answer(output) => Heard::Answer(format!("{calls}: {output}")),
                other => other,
            }
        };
        heard.insert("resume".into(), said);
        let said = judged(says(&["logs", "--json", &ids[0]]), &[&ids[0], "segno.db"]);
        heard.insert(format!("after the resume: logs {}", ids[0]), said);
        heard
    }
}

pub(super) fn binary_says(sandbox: &Sandbox, copy: &Copy, words: &[&str]) -> Said {
    let mut command = sandbox.command(words);
    command.env("SEGNO_HOME", copy.root());
    finish(command)
}

#[derive(Debug, Clone)]
pub(super) enum Heard {
    Answer(String),
    Refused(String),
    Wrong(String),
}

/// A refusal that names what is damaged; anything else is another answer.
fn refusal(error: &Error) -> Heard {
    let text = error.to_string();
    match error.kind() {
        Kind::Damaged | Kind::Unavailable | Kind::Invalid | Kind::Forbidden => Heard::Refused(text),
        Kind::NotFound if text.contains("blob") => Heard::Refused(text),
        kind => Heard::Wrong(format!("{kind:?}: {text}")),
    }
}

async fn examined(world: &World) -> Heard {
    match doctor::examine(world, |_, _| {}).await {
        Err(error) => refusal(&error),
        Ok(report) => {
            let damage = report
                .findings
                .iter()
                .find(|finding| finding.severity == Severity::Damage);
            match damage {
                Some(damage) => Heard::Refused(format!("{damage:?}")),
                None => Heard::Answer(String::new()),
            }
        }
    }
}

fn brief(text: &str) -> String {
    let cut = text.floor_char_boundary(200);
    text[..cut].to_owned()
}

/// What became of a damage.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// `doctor` named it.
    pub found: bool,
    /// What was refused, and with which words.
    pub refused: BTreeMap<String, String>,
    /// Answers that differ from the undamaged ones: none may.
    pub changed: Vec<String>,
    /// Neither session can be read.
    pub nothing_usable: bool,
    /// The other session could be read before the resume and cannot after it.
    pub spread: bool,
}

impl Verdict {
    /// Whether nothing noticed it, and nothing had to.
    pub fn without_effect(&self) -> bool {
        !self.found && self.refused.is_empty() && self.changed.is_empty()
    }
}
