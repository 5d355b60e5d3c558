//! Runs the real binary in isolation: a cleared environment, its own home and its own workspace.
//! The binary sees nothing of the user's machine and changes nothing there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);

/// How long a test waits for anything before it gives up: one minute on an idle machine, more in
/// proportion to the load per core. A program that takes 2 s alone may take a minute beside others;
/// a lost event never arrives at all.
pub fn deadline() -> Duration {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load
        .split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(1.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    PATIENCE.mul_f64((load / cores as f64).clamp(1.0, 5.0))
}

/// Whether a wait that began at `begun` has reached its deadline.
pub fn is_overdue(begun: Instant) -> bool {
    begun.elapsed() > PATIENCE && begun.elapsed() > deadline()
}

/// A temporary home and workspace for the binary.
pub struct Sandbox {
    binary: PathBuf,
    root: TempDir,
}

/// How a process ended and what it printed.
#[derive(Debug)]
pub struct ProcessOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl ProcessOutput {
    /// The exit code; panics if the process was killed.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("killed: {self:?}"))
    }

    /// Panics unless the process succeeded.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert!(
            self.status.success(),
            "{}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Panics unless the process ended with this code and printed all of `words` on stderr.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{}\n{}",
            self.stdout,
            self.stderr
        );
        for word in words {
            assert!(
                self.stderr.contains(word),
                "{word:?} is not in:\n{}",
                self.stderr
            );
        }
        self
    }

    /// Parses each line of stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Whether the process was killed by SIGKILL or aborted itself with SIGABRT, as crashes do.
    pub fn crashed(&self) -> bool {
        matches!(self.status.signal(), Some(6 | 9)) || self.status.code() == Some(137)
    }
}

impl Sandbox {
    /// A new sandbox for the binary at `binary`. A relative path is resolved against the current
    /// folder, not against the sandbox.
    pub fn new(binary: impl AsRef<Path>) -> Self {
        let binary = std::path::absolute(binary).unwrap();
        let root = TempDir::with_prefix("segno-test-").unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        Self { binary, root }
    }

    /// The same in memory (`/dev/shm`), if the machine has it.
    pub fn in_memory(binary: impl AsRef<Path>) -> Self {
        let binary = std::path::absolute(binary).unwrap();
        let root = memory_dir();
        fs::create_dir(root.path().join("work")).unwrap();
        Self { binary, root }
    }

    /// The workspace.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The home of Segno, which holds the sessions.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Writes a file into the workspace.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes an executable script into the workspace.
    pub fn write_script(&self, name: &str, content: &str) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Replaces `config.toml`.
    pub fn configure(&self, content: &str) {
        let _ = fs::create_dir(self.home());
        fs::set_permissions(self.home(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(self.home().join("config.toml"), content).unwrap();
    }

    /// The content of a file in the workspace; empty if it does not exist.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    /// Sets the sandbox's environment on `command`: cleared, with its own home.
    pub fn set_env(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.root.path())
            .env("SEGNO_HOME", self.home())
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.work())
            .stdin(Stdio::null());
    }

    /// A command that starts the binary with these arguments.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        self.set_env(&mut command);
        command.args(words);
        command
    }

    /// Runs the binary to its end.
    pub fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    /// Starts the binary with its output piped.
    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Writes `chain.yaml`: a chain of `steps` steps with scripted answers of 2 KB. The calls are
    /// counted in `calls.log`.
    pub fn scripted_chain(&self, steps: usize, delay_ms: u64) {
        let answer = "the answer of this step, repeated until it is long enough to matter ";
        self.write(
            "answers.yaml",
            &format!(
                "ledger: calls.log\ndefault:\n  repeat: {{text: \"{answer}\", bytes: 2048}}\n  delay_ms: {delay_ms}\n  usage: {{input_tokens: 100, output_tokens: 20, cost_usd: 0.001}}\n"
            ),
        );
        self.write(
            "chain.yaml",
            &chain_spec("{provider: scripted, script: answers.yaml}", steps),
        );
    }

    /// The same with a real program as the agent. The program counts its calls itself, outside of
    /// segno: `body` runs after the call is counted and before it is answered.
    pub fn command_chain(&self, steps: usize, body: &str) {
        self.write_script(
            "agent.sh",
            &format!(
                "#!/bin/sh\necho \"$SEGNO_RUN $SEGNO_ATTEMPT $SEGNO_STEP $SEGNO_STEP_ID a\" >> calls.log\ncat > /dev/null\n{body}\necho \"answer of $SEGNO_STEP\"\n"
            ),
        );
        self.write(
            "chain.yaml",
            &chain_spec("{provider: command, command: [./agent.sh]}", steps),
        );
    }

    /// The steps that the agent was called for, in order, as the agent counted them.
    pub fn calls(&self) -> Vec<String> {
        let step = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
        self.read("calls.log").lines().map(step).collect()
    }
}

/// An empty folder in memory (`/dev/shm`), if the machine has it.
pub fn memory_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        TempDir::with_prefix_in("segno-test-", memory)
    } else {
        TempDir::with_prefix("segno-test-")
    };
    folder.unwrap()
}

/// The spec of a chain: each step uses the answer before it, and the last answer becomes an
/// artifact.
pub fn chain_spec(runtime: &str, steps: usize) -> String {
    use std::fmt::Write;
    let mut spec = format!(
        "version: 0\nname: chain\nruntime: {runtime}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: chain\n  config:\n    steps:\n"
    );
    for step in 0..steps {
        match step.checked_sub(1) {
            None => writeln!(spec, "      - {{agent: a, input: begin}}").unwrap(),
            Some(before) => writeln!(spec, "      - {{agent: a, input: \"{step} after {{{{ steps[{before}].response | truncate(20) }}}}\"}}").unwrap(),
        }
    }
    let last = steps - 1;
    write!(spec, "outputs:\n  artifacts:\n    - {{path: out.txt, from: \"{{{{ steps[{last}].response }}}}\"}}\n").unwrap();
    spec
}

/// Runs a command to its end.
pub fn run_to_end(mut command: Command) -> ProcessOutput {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    captured_output(&output)
}

/// Waits for a started child and returns its output.
pub fn wait_for_output(child: Child) -> ProcessOutput {
    captured_output(&child.wait_with_output().unwrap())
}

fn captured_output(output: &std::process::Output) -> ProcessOutput {
    ProcessOutput {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits until `condition` holds, and panics after [`deadline`].
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(!is_overdue(begun), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
