//! The sessions that clients start, and the counters of their calls, which are outside of segno: a
//! model server counts the questions of seven patterns, and the agents of plans count themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::crash::kill::Workload;
use crate::crash::model::{self, Model, RETRY_POLICY};
use crate::crash::patterns;
use crate::model::{ModelRequest, ModelResponse, ModelServer};
use crate::sandbox::Sandbox;
use crate::serving::token;

/// How long the model and the agents of plans take for an answer.
const THINKING: Duration = Duration::from_millis(15);
/// The tasks of a plan.
const TASKS: [&str; 2] = ["T1", "T2"];
/// No trial is about a run that is lost too often.
const POLICY: &str = "continuity: {resume: {delay_s: 0, max_attempts: 1000, max_total: 1000}}\n";

/// What a session does: the number of the session says which of the eight patterns it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Asking(Workload),
    Plan,
}

impl Work {
    pub(super) fn of(session: usize) -> Self {
        match Workload::PATTERNS.get(session % (Workload::PATTERNS.len() + 1)) {
            Some(workload) => Self::Asking(*workload),
            None => Self::Plan,
        }
    }

    /// How many calls it takes.
    pub(super) fn calls(self) -> usize {
        match self {
            Self::Asking(workload) => workload.steps(),
            Self::Plan => TASKS.len() * 2,
        }
    }
}

/// The results of undisturbed sessions.
pub(super) struct Expected(Vec<(Workload, Model)>);

impl Expected {
    pub(super) fn new(binary: &Path) -> Self {
        let patterns = Workload::PATTERNS.iter();
        Self(patterns.map(|it| (*it, Model::of(binary, *it))).collect())
    }

    pub(super) fn model(&self, workload: Workload) -> &Model {
        let found = self.0.iter().find(|(known, _)| *known == workload);
        &found.expect("every pattern was run").1
    }
}

/// The name of a session, which is that of its spec. It has no digits: questions may contain it, and
/// answers count by the numbers in questions.
pub(super) fn name(session: usize) -> String {
    format!("session-{}", letter(session))
}

fn letter(session: usize) -> char {
    let session = u8::try_from(session).expect("there are few sessions");
    char::from(b'a' + session)
}

/// How often each session asked each question.
#[derive(Default)]
struct Questions(Mutex<BTreeMap<(usize, String), usize>>);

/// A home with sessions that nobody has started yet.
pub(super) struct Fixture {
    pub(super) sandbox: Sandbox,
    /// A token of the server.
    pub(super) token: String,
    pub(super) sessions: usize,
    questions: Arc<Questions>,
    models: ModelServer,
}

impl Fixture {
    pub(super) fn new(binary: &Path, sessions: usize) -> Self {
        let sandbox = Sandbox::new(binary);
        let questions: Arc<Questions> = Arc::default();
        let asked = Arc::clone(&questions);
        let models = ModelServer::start(move |_, request| answer(&asked, request));
        let fixture = Self {
            token: token(&sandbox, "operate"),
            sandbox,
            sessions,
            questions,
            models,
        };
        for session in 0..sessions {
            fixture.prepare(session);
        }
        fixture
    }

    fn prepare(&self, session: usize) {
        let workspace = self.workspace(session);
        fs::create_dir_all(&workspace).unwrap();
        if Work::of(session) != Work::Plan {
            return;
        }
        let calls = self.calls_file(session).display().to_string();
        let thinking = THINKING.as_secs_f64();
        // It leaves a process behind, which must end with its run, however that ends.
        self.sandbox.write_script(
            &agent(session),
            &format!(
                "#!/bin/sh\necho \"$SEGNO_STEP\" >> {calls}\ncat > /dev/null\nsleep 600 < /dev/null > /dev/null 2>&1 &\nsleep {thinking}\ncase $SEGNO_STEP in\n*/review) echo '{{\"approved\": true, \"severity\": \"none\", \"comments\": []}}' ;;\n*) task=${{SEGNO_STEP#*/}}; echo \"$SEGNO_STEP\" >> \"${{task%%/*}}.txt\"; echo \"I did $SEGNO_STEP.\" ;;\nesac\n"
            ),
        );
        for words in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.org"],
            &["commit", "-q", "--allow-empty", "-m", "Begin"],
        ] {
            self.git(session, words);
        }
    }

    /// What git prints in a session's workspace.
    pub(super) fn git(&self, session: usize, words: &[&str]) -> String {
        let mut command = Command::new("git");
        self.sandbox.set_env(&mut command);
        let output = command
            .args(words)
            .current_dir(self.workspace(session))
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn workspace(&self, session: usize) -> PathBuf {
        self.sandbox.work().join(name(session))
    }

    /// The folder for a session's artifacts.
    pub(super) fn out(&self, session: usize) -> PathBuf {
        self.sandbox.work().join("out").join(name(session))
    }

    fn calls_file(&self, session: usize) -> PathBuf {
        let file = format!("agents/{}.calls", name(session));
        self.sandbox.work().join(file)
    }

    /// What a client sends to start a session. It gives no name, so that a second start would not
    /// be refused.
    pub(super) fn request(&self, session: usize) -> Value {
        let spec = match Work::of(session) {
            Work::Asking(workload) => model::spec_of(workload, &name(session), &self.models.host()),
            Work::Plan => self.plan(session),
        };
        json!({
            "spec": format!("{spec}{POLICY}"),
            "workspace": self.workspace(session),
            "out": self.out(session),
        })
    }

    fn plan(&self, session: usize) -> String {
        let agent = self.sandbox.work().join(agent(session));
        let tasks = TASKS.map(|task| format!("{{id: {task}, title: Write it}}"));
        format!(
            "version: 0\nname: {}\nruntime: {{provider: command, command: [{}], {RETRY_POLICY}}}\nagents: {{a: {{prompt: Work.}}, b: {{prompt: Review.}}}}\npattern: {{type: plan, config: {{agent: a, reviewer: b, approve: none, tasks: [{}]}}}}\n",
            name(session),
            agent.display(),
            tasks.join(", ")
        )
    }

    /// How many calls were made in all.
    pub(super) fn count(&self) -> usize {
        let asked: usize = self.questions.0.lock().unwrap().values().sum();
        let plans = (0..self.sessions).filter(|session| Work::of(*session) == Work::Plan);
        asked + plans.map(|plan| self.plan_calls(plan).len()).sum::<usize>()
    }

    /// How many calls all sessions take if none is repeated.
    pub(super) fn least(&self) -> usize {
        (0..self.sessions).map(|it| Work::of(it).calls()).sum()
    }

    fn plan_calls(&self, session: usize) -> Vec<String> {
        let calls = fs::read_to_string(self.calls_file(session)).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// How often the step of this intent was called so far.
    pub(super) fn calls_of(&self, session: usize, intent: &Value) -> usize {
        if Work::of(session) == Work::Plan {
            let calls = self.plan_calls(session);
            return calls.iter().filter(|path| intent["path"] == **path).count();
        }
        let question = intent["input"].as_str().unwrap_or_default().to_owned();
        let asked = self.questions.0.lock().unwrap();
        asked.get(&(session, question)).copied().unwrap_or_default()
    }

    /// How often each step of a session was called, given its journal. A call without an intent is
    /// named by its question.
    pub(super) fn calls(&self, session: usize, journal: &[Value]) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        if Work::of(session) == Work::Plan {
            for path in self.plan_calls(session) {
                *calls.entry(path).or_default() += 1;
            }
            return calls;
        }
        for ((of, question), count) in &*self.questions.0.lock().unwrap() {
            if *of != session {
                continue;
            }
            let is_intent = |event: &&Value| {
                event["kind"] == "step_started" && event["input"].as_str() == Some(question)
            };
            let path = journal.iter().find(is_intent);
            let path = path.and_then(|event| event["path"].as_str());
            let path = path.map_or_else(|| format!("no step: {question}"), str::to_owned);
            *calls.entry(path).or_default() += count;
        }
        calls
    }
}

/// The program that is the agents of a plan.
fn agent(session: usize) -> String {
    format!("agents/{}.sh", name(session))
}

/// Counts a question, and answers it.
fn answer(questions: &Questions, request: &ModelRequest) -> ModelResponse {
    let prompt = request.body["messages"][0]["content"].to_string();
    let letter = prompt.split(" for session-").nth(1);
    let letter = letter.and_then(|rest| rest.chars().next());
    let session = letter.map_or(usize::MAX, |letter| letter as usize - 'a' as usize);
    let Work::Asking(workload) = Work::of(session) else {
        return ModelResponse::HangUp;
    };
    let question = request.last_message();
    let key = (session, question.clone());
    *questions.0.lock().unwrap().entry(key).or_default() += 1;
    thread::sleep(THINKING);
    ModelResponse::Text(patterns::answer(workload, &question))
}
