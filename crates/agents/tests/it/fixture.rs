//! A workspace of its own for each test, and the list of processes that belong to it.

use std::fs;
use std::path::Path as FilePath;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use segno_agents::{Command, Launch};
use segno_core::agent::{AccessMode, Answer, Driver, Error, Event, Listener, Request};
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::Run;
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

/// How long a test waits for something that should happen within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request to an agent, in a folder that no other test uses.
pub(crate) struct Fixture {
    pub(crate) path: Path,
    pub(crate) attempt: u32,
    pub(crate) agent: String,
    pub(crate) system: String,
    pub(crate) input: String,
    folder: Folder,
}

enum Folder {
    Own(tempfile::TempDir),
    Borrowed(std::path::PathBuf),
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Folder::Own(tempfile::tempdir().unwrap()))
    }

    /// The fixture of another process, which created the folder.
    pub(crate) fn in_folder(folder: &FilePath) -> Self {
        Self::with(Folder::Borrowed(folder.to_owned()))
    }

    fn with(folder: Folder) -> Self {
        Self {
            path: Path::root("steps").join(0),
            attempt: 1,
            agent: "writer".to_owned(),
            system: String::new(),
            input: String::new(),
            folder,
        }
    }

    pub(crate) fn folder(&self) -> &FilePath {
        match &self.folder {
            Folder::Own(folder) => folder.path(),
            Folder::Borrowed(folder) => folder,
        }
    }

    /// The session id is as unique as the folder, so that it marks this fixture's processes.
    pub(crate) fn session(&self) -> SessionId {
        let digest = Digest::of(self.folder().as_os_str().as_encoded_bytes());
        let entropy = digest.as_bytes()[..10].try_into().unwrap();
        SessionId::new(Timestamp(0), entropy)
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            session: self.session(),
            run: Run(7),
            path: &self.path,
            attempt: self.attempt,
            key: Digest::of(b"key"),
            agent: &self.agent,
            system: &self.system,
            input: &self.input,
            workspace: self.folder(),
            window: None,
            conversation_cost: None,
            pass_env: &[],
            access: AccessMode::ReadWrite,
        }
    }

    /// Runs a driver and waits for the result.
    pub(crate) fn ask(&self, driver: &dyn Driver) -> Result<Answer, Error> {
        runtime().block_on(driver.ask(self.request(), &TextLog::default()))
    }

    /// Runs a shell script.
    pub(crate) fn ask_sh(&self, script: &str) -> Result<Answer, Error> {
        self.ask(&sh(script))
    }

    /// The running processes that were started for this fixture, including the guard.
    pub(crate) fn processes(&self) -> Vec<i32> {
        processes_with(&format!("SEGNO_SESSION={}", self.session()))
    }

    /// Asserts that no process of this fixture is running.
    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        let living = self.processes();
        assert!(living.is_empty(), "still there: {living:?}");
    }

    pub(crate) fn touch(&self, name: &str) {
        write(&self.folder().join(name), b"");
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder().join(name).exists()
    }
}

/// The running processes with this variable in their environment.
pub(crate) fn processes_with(mark: &str) -> Vec<i32> {
    let has_mark = |pid: &i32| {
        // The environment of a process that ended and was not reaped is empty.
        read(format!("/proc/{pid}/environ"))
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(has_mark)
        .collect()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A driver for these arguments.
pub(crate) fn command(argv: &[&str]) -> Command {
    Command::new(
        argv.iter().map(ToString::to_string).collect(),
        process_guard(),
    )
}

/// This crate's process guard.
pub(crate) fn process_guard() -> Launch {
    Launch {
        program: env!("CARGO_BIN_EXE_segno-process-guard").into(),
        args: Vec::new(),
    }
}

pub(crate) fn sh(script: &str) -> Command {
    command(&["sh", "-c", script])
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes do not follow a clock that a test turns"
)]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests look at files as others do"
)]
pub(crate) fn read(path: impl AsRef<FilePath>) -> Vec<u8> {
    fs::read(path).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "tests make files as others do")]
pub(crate) fn write(path: &FilePath, content: &[u8]) {
    fs::write(path, content).unwrap();
}

/// Everything that a driver reported.
#[derive(Default)]
pub(crate) struct TextLog {
    pub(crate) text: Mutex<Vec<String>>,
    pub(crate) usage: Mutex<Vec<Usage>>,
}

impl Listener for TextLog {
    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.lock().unwrap().push(text.to_owned()),
            Event::Usage(usage) => self.usage.lock().unwrap().push(usage),
            Event::ConversationId(_)
            | Event::Item(_)
            | Event::Context(_)
            | Event::Report(_)
            | Event::Refused(_)
            | Event::Notice(_) => {}
        }
    }
}
