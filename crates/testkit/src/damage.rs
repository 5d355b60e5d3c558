//! Damage to a small store, one at a time, and a judge of what becomes of it.
//!
//! The store is made by the real binary: one session that was completed, and one that was killed in
//! the middle of a chain. A copy gets one [`Damage`]; then everything that can be asked is asked of
//! it. Each answer must be the undamaged one or a refusal that names the damage (P9): never another
//! answer, never a shorter one, and a finished step is never run again (P2, P7).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::agent::{self, Answer, Driver, Listener, Request};
use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::Head;
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::redact::Redactor;
use segno_core::store::{Severity, Store};
use segno_core::time::Timestamp;
use segno_core::usage::Usage;
use segno_engine::resume::Options;
use segno_engine::spec::Provider;
use segno_engine::{Brake, Drivers, Error, Observer, World, doctor, history, resume, sessions};
use segno_store::{Home, LocalDisk, Sqlite};
use tempfile::TempDir;

use crate::clock::Seeded;
use crate::journal::owner;
use crate::sandbox::{Said, Sandbox, finish, until};

/// Steps of the session that was killed; its last is in flight.
const STEPS: usize = 3;
/// The step whose answer is long enough to be a blob.
const LONG: &str = "steps/1";

/// Whether the store was closed after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// As the kill left it, with a write-ahead log.
    Log,
    /// Opened and closed once more, so that everything stands in the database.
    Database,
}

/// A store to damage copies of.
pub struct Specimen {
    sandbox: Sandbox,
    /// Every file of the home, by its path below it.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// The session that was completed.
    pub completed: SessionId,
    /// The session that was killed.
    pub interrupted: SessionId,
    /// The database before the killed session's last entries.
    pub older: Vec<u8>,
    answers: Answers,
    /// Held while the real binary is asked: its calls are counted in one file.
    turn: Mutex<()>,
}

/// What an undamaged store answers.
#[derive(Debug, Clone, Default)]
struct Answers {
    in_process: BTreeMap<String, String>,
    by_binary: BTreeMap<String, String>,
}

impl Specimen {
    /// Makes one with the real binary.
    pub fn make(binary: &Path, leaves: Leaves) -> Self {
        let sandbox = Sandbox::new(binary);
        sandbox.write("answers.yaml", &answers(600_000));
        sandbox.write("done.yaml", &spec("done", 2));
        sandbox.write("cut.yaml", &spec("cut", STEPS));
        sandbox.segno(&["run", "done.yaml"]).good();
        let older = fs::read(sandbox.home().join("segno.db")).unwrap();
        let before = sandbox.calls().len();
        let mut child = sandbox.start(&["run", "cut.yaml"]);
        until("the last step is in flight", || {
            sandbox.calls().len() == before + STEPS
        });
        child.kill().unwrap();
        child.wait().unwrap();
        if leaves == Leaves::Database {
            sandbox.segno(&["sessions", "list"]).good();
        }
        sandbox.write("answers.yaml", &answers(0));
        let files = read_all(&sandbox.home(), Path::new(""));
        let copy = Copy::new();
        copy.restore(&files, None);
        let listed = binary_says(&sandbox, &copy, &["sessions", "list", "--json"]).good();
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
            older,
            answers: Answers::default(),
            turn: Mutex::new(()),
        };
        copy.restore(&specimen.files, None);
        specimen.answers.in_process = plain(specimen.ask(&copy, Depth::Whole));
        copy.restore(&specimen.files, None);
        specimen.answers.by_binary = plain(specimen.ask_binary(&copy));
        specimen
    }

    /// Files that damage is done to: all but the reserve's content and what SQLite makes anew.
    pub fn targets(&self) -> Vec<PathBuf> {
        let told = |path: &&PathBuf| !path.ends_with("reserve") && !path.ends_with("segno.db-shm");
        self.files.keys().filter(told).cloned().collect()
    }

    /// A flip drawn from all files, each file as likely as any other.
    pub fn draw(&self, chance: &Seeded) -> Damage {
        let targets = self.targets();
        let file = targets[usize_below(chance, targets.len())].clone();
        let byte = usize_below(chance, self.files[&file].len());
        let bit = u8::try_from(chance.below(8)).unwrap();
        Damage::Flip { file, byte, bit }
    }

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

    fn ask(&self, copy: &Copy, depth: Depth) -> BTreeMap<String, Heard> {
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

    fn ask_binary(&self, copy: &Copy) -> BTreeMap<String, Heard> {
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

fn plain(heard: BTreeMap<String, Heard>) -> BTreeMap<String, String> {
    let answer = |(question, heard)| match heard {
        Heard::Answer(answer) => (question, answer),
        other => panic!("an undamaged store refuses {question}: {other:?}"),
    };
    heard.into_iter().map(answer).collect()
}

fn usize_below(chance: &Seeded, bound: usize) -> usize {
    usize::try_from(chance.below(bound as u64)).unwrap()
}

fn answers(delay_ms: u64) -> String {
    let last = STEPS - 1;
    format!(
        "ledger: calls.log\ndefault: {{text: a short answer}}\nanswers:\n  - step: {LONG}\n    contains: long\n    repeat: {{text: \"{LONG_TEXT}\", bytes: {LONG_BYTES}}}\n  - step: steps/{last}\n    text: {LAST_TEXT}\n    delay_ms: {delay_ms}\n"
    )
}

const LONG_TEXT: &str = "words and words ";
const LONG_BYTES: usize = 300_000;
const LAST_TEXT: &str = "the last answer";

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

fn binary_says(sandbox: &Sandbox, copy: &Copy, words: &[&str]) -> Said {
    let mut command = sandbox.command(words);
    command.env("SEGNO_HOME", copy.root());
    finish(command)
}

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Reading only.
    Reading,
    /// A resume, too, unless reading the session was refused: a resume reads it the same way.
    Needed,
    /// Everything.
    Whole,
}

/// One thing done to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// One bit is another.
    Flip {
        /// In which file.
        file: PathBuf,
        /// At which byte.
        byte: usize,
        /// Which bit, from the lowest.
        bit: u8,
    },
    /// The file ends early.
    Truncate {
        /// Which one.
        file: PathBuf,
        /// Where.
        length: usize,
    },
    /// The file is gone.
    Gone(PathBuf),
    /// A folder stands in its place.
    Folder(PathBuf),
    /// A link to a copy of it stands in its place.
    Link(PathBuf),
    /// A link that leads nowhere stands in its place.
    DeadLink(PathBuf),
    /// The database is an older one, without a log.
    OlderDatabase,
}

impl Damage {
    /// The file that it is done to.
    pub fn file(&self) -> PathBuf {
        match self {
            Self::Flip { file, .. } | Self::Truncate { file, .. } => file.clone(),
            Self::Gone(file) | Self::Folder(file) | Self::Link(file) | Self::DeadLink(file) => {
                file.clone()
            }
            Self::OlderDatabase => "segno.db".into(),
        }
    }

    fn apply(&self, root: &Path, specimen: &Specimen) {
        let path = root.join(self.file());
        match self {
            Self::Flip { file, byte, bit } => {
                let flipped = specimen.files[file][*byte] ^ (1 << bit);
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(&[flipped], *byte as u64).unwrap();
            }
            Self::Truncate { length, .. } => {
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(*length as u64).unwrap();
            }
            Self::Gone(_) => fs::remove_file(path).unwrap(),
            Self::Folder(_) => {
                fs::remove_file(&path).unwrap();
                fs::create_dir(path).unwrap();
            }
            Self::Link(_) => {
                let elsewhere = root.with_extension("elsewhere");
                fs::rename(&path, &elsewhere).unwrap();
                symlink(elsewhere, path).unwrap();
            }
            Self::DeadLink(_) => {
                fs::remove_file(&path).unwrap();
                symlink("/nowhere/at/all", path).unwrap();
            }
            Self::OlderDatabase => {
                fs::write(&path, &specimen.older).unwrap();
                let _ = fs::remove_file(root.join("segno.db-wal"));
            }
        }
    }
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

#[derive(Debug, Clone)]
enum Heard {
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

/// A folder in memory that is made like the specimen again and again.
pub struct Copy(TempDir);

impl Default for Copy {
    fn default() -> Self {
        Self::new()
    }
}

impl Copy {
    /// An empty one, in memory where the machine has such a place.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            TempDir::with_prefix_in("segno-damage-", memory)
        } else {
            TempDir::with_prefix("segno-damage-")
        };
        Self(folder.unwrap())
    }

    /// One in a folder of the caller's.
    pub fn within(folder: &Path) -> Self {
        Self(TempDir::with_prefix_in("segno-damage-", folder).unwrap())
    }

    /// The home.
    pub fn root(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Makes it as the files say. Files that are only ever read are left alone unless `damage` is
    /// about to change them or did so before.
    fn restore(&self, files: &BTreeMap<PathBuf, Vec<u8>>, damage: Option<&Damage>) {
        let root = self.root();
        let flip = matches!(damage, Some(Damage::Flip { .. }));
        if !flip || !root.exists() || root.with_extension("harmed").exists() {
            let _ = fs::remove_dir_all(&root);
            let _ = fs::remove_file(root.with_extension("elsewhere"));
            let _ = fs::remove_file(root.with_extension("harmed"));
        }
        let _ = fs::remove_file(root.join("segno.db-shm"));
        let _ = fs::remove_file(root.join("segno.db-wal"));
        for (path, content) in files {
            let place = root.join(path);
            let constant = path.starts_with("blobs") || path.ends_with("reserve");
            if (constant && place.exists()) || path.ends_with("segno.db-shm") {
                continue;
            }
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, content).unwrap();
        }
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        let harms_constant = damage.is_some_and(|damage| damage.file().starts_with("blobs"));
        if harms_constant || (damage.is_some() && !flip) {
            fs::write(root.with_extension("harmed"), "").unwrap();
        }
    }
}

fn read_all(root: &Path, below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files.extend(read_all(root, &path));
        } else {
            files.insert(path.clone(), fs::read(root.join(path)).unwrap());
        }
    }
    files
}

fn world(root: &Path, calls: Arc<Mutex<Vec<String>>>) -> Result<World, Error> {
    static REDACTOR: std::sync::LazyLock<Arc<Redactor>> =
        std::sync::LazyLock::new(|| Arc::new(Redactor::new([])));
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let home = Home::open(root, Arc::clone(&disk))?;
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(home, Arc::clone(&clock))?);
    Ok(World {
        store,
        clock,
        random: Arc::new(Seeded::new(1)),
        disk,
        processes: Arc::new(Nobody),
        drivers: Arc::new(Counted(calls)),
        redactor: Arc::clone(&REDACTOR),
        ttl: Duration::from_secs(30),
        version: "0",
    })
}

/// A clock that stands, so that the same store always gives the same answer. Nothing that is asked
/// here waits for time to pass.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_894_738_089_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// No other process lives, and nobody watches.
struct Nobody;

impl Processes for Nobody {
    fn current(&self) -> Owner {
        owner(7)
    }

    fn liveness(&self, _: &Owner) -> Liveness {
        Liveness::Gone
    }

    fn end(&self, _: &Owner) -> std::io::Result<()> {
        Ok(())
    }
}

impl Observer for Nobody {
    fn entry(&self, _: SessionId, _: &segno_core::journal::Entry) {}

    fn notice(&self, _: &str) {}
}

/// Answers as the script does, and counts.
struct Counted(Arc<Mutex<Vec<String>>>);

impl Drivers for Counted {
    fn driver(&self, _: &Provider, _: &Path) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self(Arc::clone(&self.0))))
    }
}

impl Driver for Counted {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        _: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, agent::Error>> {
        self.0.lock().unwrap().push(request.path.to_string());
        let text = LAST_TEXT.to_owned();
        Box::pin(std::future::ready(Ok(Answer {
            text,
            usage: Usage::default(),
        })))
    }
}
