//! The store that is damaged: created by the real binary, with its answers while it is intact.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use segno_core::id::SessionId;

use super::copy::read_home;
use super::judge::{Reply, run_binary};
use super::{Damage, Depth, StoreCopy};
use crate::clock::Seeded;
use crate::sandbox::{Sandbox, wait_until};

/// Steps of the session that was killed; its last one is in flight.
pub(super) const STEPS: usize = 3;
/// The step whose answer is long enough to become a blob.
pub(super) const LONG: &str = "steps/1";

/// Whether the store was closed after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterKill {
    /// As the kill left it, with a write-ahead log.
    Log,
    /// Opened and closed once more, so that everything is in the database file.
    Database,
}

/// A store to damage copies of.
pub struct Specimen {
    pub(super) sandbox: Sandbox,
    /// Every file of the home, by its path below it.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Every link, and where it leads.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    pub completed: SessionId,
    /// The session that was killed.
    pub interrupted: SessionId,
    /// The killed session's database before its last events.
    pub older: Vec<u8>,
    pub(super) answers: Answers,
    /// Held while the real binary runs: its calls are counted in one file.
    pub(super) binary_lock: Mutex<()>,
}

/// The answers of an undamaged store.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers {
    pub(super) in_process: BTreeMap<String, String>,
    pub(super) by_binary: BTreeMap<String, String>,
}

impl Specimen {
    /// Creates one with the real binary.
    pub fn make(binary: &Path, leaves: AfterKill) -> Self {
        let sandbox = Sandbox::new(binary);
        sandbox.write("answers.yaml", &answers(600_000));
        sandbox.write("done.yaml", &spec("done", 2));
        sandbox.write("cut.yaml", &spec("cut", STEPS));
        sandbox.segno(&["run", "done.yaml"]).expect_success();
        let before = sandbox.calls().len();
        let mut child = sandbox.start(&["run", "cut.yaml"]);
        wait_until("the last step is in flight", || {
            sandbox.calls().len() == before + STEPS
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let copy = StoreCopy::new();
        let older = older_database(&sandbox, &copy);
        let mut child = sandbox.start(&["resume", "cut"]);
        wait_until("the last step is in flight again", || {
            sandbox.calls().len() == before + STEPS + 1
        });
        child.kill().unwrap();
        child.wait().unwrap();
        if leaves == AfterKill::Database {
            sandbox.segno(&["sessions", "list"]).expect_success();
        }
        sandbox.write("answers.yaml", &answers(0));
        let (files, links) = read_home(&sandbox.home());
        copy.restore(&files, &links, None);
        let listed = run_binary(&sandbox, &copy, &["sessions", "list", "--json"]).expect_success();
        let id = |name: &str| {
            let lines = listed.json();
            let line = lines.iter().find(|line| line["name"] == name).unwrap();
            line["session"].as_str().unwrap().parse().unwrap()
        };
        let mut specimen = Self {
            completed: id("done"),
            interrupted: id("cut"),
            sandbox,
            files,
            links,
            older,
            answers: Answers::default(),
            binary_lock: Mutex::new(()),
        };
        copy.restore(&specimen.files, &specimen.links, None);
        specimen.answers.in_process = answers_only(specimen.query(&copy, Depth::Whole));
        copy.restore(&specimen.files, &specimen.links, None);
        specimen.answers.by_binary = answers_only(specimen.query_binary(&copy));
        specimen
    }

    /// Files that can be damaged: all but the reserve, empty ones, and those that SQLite creates
    /// anew.
    pub fn targets(&self) -> Vec<PathBuf> {
        let is_target = |(path, content): &(&PathBuf, &Vec<u8>)| {
            !path.ends_with("reserve") && !path.ends_with("journal.db-shm") && !content.is_empty()
        };
        let targets = self.files.iter().filter(is_target);
        targets.map(|(path, _)| path.clone()).collect()
    }

    /// The database of the interrupted session.
    pub fn database(&self) -> PathBuf {
        PathBuf::from(format!("sessions/{}/journal.db", self.interrupted))
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        self.database().with_extension("db-wal")
    }

    /// A random flip; every file is equally likely.
    pub fn random_damage(&self, rng: &Seeded) -> Damage {
        let targets = self.targets();
        let file = targets[usize_below(rng, targets.len())].clone();
        let byte = usize_below(rng, self.files[&file].len());
        let bit = u8::try_from(rng.below(8)).unwrap();
        Damage::Flip { file, byte, bit }
    }
}

/// The database of the session `cut` as it is now, in one file.
fn older_database(sandbox: &Sandbox, copy: &StoreCopy) -> Vec<u8> {
    let (files, links) = read_home(&sandbox.home());
    copy.restore(&files, &links, None);
    run_binary(sandbox, copy, &["show", "cut"]).expect_success();
    fs::read(copy.root().join("names/cut.session/journal.db")).unwrap()
}

pub(super) fn answers_only(replies: BTreeMap<String, Reply>) -> BTreeMap<String, String> {
    let answer = |(question, reply)| match reply {
        Reply::Answer(answer) => (question, answer),
        other => panic!("an undamaged store refuses {question}: {other:?}"),
    };
    replies.into_iter().map(answer).collect()
}

fn usize_below(rng: &Seeded, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap()
}

fn answers(delay_ms: u64) -> String {
    let last = STEPS - 1;
    format!(
        "ledger: calls.log\ndefault: {{text: a short answer}}\nanswers:\n  - step: {LONG}\n    contains: long\n    repeat: {{text: \"{LONG_TEXT}\", bytes: {LONG_BYTES}}}\n  - step: steps/{last}\n    text: {LAST_TEXT}\n    delay_ms: {delay_ms}\n"
    )
}

pub(super) const LONG_TEXT: &str = "words and words ";
pub(super) const LONG_BYTES: usize = 300_000;
pub(super) const LAST_TEXT: &str = "the last answer";

fn spec(name: &str, steps: usize) -> String {
    let mut spec = format!(
        "version: 0\nname: {name}\nruntime: {{provider: scripted, script: answers.yaml}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: chain\n  config:\n    steps:\n"
    );
    for step in 0..steps {
        match step.checked_sub(1) {
            // The blob belongs to the session that was killed, so that its resume needs it.
            Some(0) if name == "cut" => writeln!(spec, "      - {{agent: a, input: a long one}}"),
            Some(before) => writeln!(
                spec,
                "      - {{agent: a, input: \"after {{{{ steps[{before}].response | truncate(20) }}}}\"}}"
            ),
            None => writeln!(spec, "      - {{agent: a, input: begin}}"),
        }
        .unwrap();
    }
    spec
}
