//! Isolated folders in which agents run, and an environment without access to the network.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Agent;
use super::program::{NODE, Program, installed};
use crate::model::ModelServer;

/// The folders and the environment in which agents run. Dropping it kills the remaining processes
/// and deletes the folders.
pub struct AgentSandbox {
    root: TempDir,
    environment: Vec<(&'static str, OsString)>,
    /// Whether the homes of the agents were renamed.
    renamed: AtomicBool,
    /// Whether the agents' own variables name other folders than before.
    changed: AtomicBool,
}

impl Drop for AgentSandbox {
    /// Kills the remaining processes: adapters and agents that were killed leave processes behind,
    /// which would write into folders that are being deleted.
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(|pid| send(pid, Signal::KILL));
        }
    }
}

/// How often processes are listed again, since they can start others in the meantime.
const ROUNDS: usize = 100;

/// Settings that keep Claude Code from doing anything by itself.
const QUIET: [(&str, &str); 6] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "1"),
    // Without it Claude Code refuses to work without approval as root, as in containers.
    ("IS_SANDBOX", "1"),
];

impl AgentSandbox {
    /// A new stage whose agents use the models of `server`.
    pub fn new(server: &ModelServer) -> Self {
        let root = TempDir::with_prefix("segno-stage-").unwrap();
        for folder in ["home", "codex", "tmp", "work"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let stage = Self {
            environment: environment(root.path(), server),
            renamed: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            root,
        };
        fs::write(stage.codex_home().join("config.toml"), config(server)).unwrap();
        stage
    }

    /// The folder that contains all the others.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The workspace.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The home, which contains Claude Code's `.claude`.
    pub fn home(&self) -> PathBuf {
        self.root.path().join(self.named("home", "renamed-home"))
    }

    fn named(&self, name: &'static str, renamed: &'static str) -> &'static str {
        if self.renamed.load(Ordering::Relaxed) {
            renamed
        } else {
            name
        }
    }

    /// Renames the homes of the agents. Segno, started afterwards, is told the new ones.
    pub fn rename_homes(&self) {
        let before = [self.home(), self.codex_home()];
        self.renamed.store(true, Ordering::Relaxed);
        let after = [self.home(), self.codex_home()];
        for (before, after) in before.iter().zip(after) {
            fs::rename(before, after).unwrap();
        }
    }

    /// `CODEX_HOME`.
    pub fn codex_home(&self) -> PathBuf {
        if self.changed.load(Ordering::Relaxed) {
            return self.root.path().join("other-codex");
        }
        self.root.path().join(self.named("codex", "renamed-codex"))
    }

    /// `CLAUDE_CONFIG_DIR`, if it is set.
    pub fn claude_config_dir(&self) -> Option<PathBuf> {
        let is_changed = self.changed.load(Ordering::Relaxed);
        is_changed.then(|| self.root.path().join("other-claude"))
    }

    /// Makes the agents' own variables name other folders, which have only their settings. Segno,
    /// started afterwards, is told.
    pub fn change_variables(&self) {
        let settings = self.codex_home().join("config.toml");
        self.changed.store(true, Ordering::Relaxed);
        fs::create_dir(self.codex_home()).unwrap();
        fs::copy(settings, self.codex_home().join("config.toml")).unwrap();
    }

    /// The lines that scripted commands wrote when they started: see the standard script.
    pub fn started_commands(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.path().join("signs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The environment that a process needs to start these agents, or to be one.
    pub fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }

    /// A command that starts an agent in the workspace.
    pub fn command(&self, program: Program, words: &[&str]) -> Command {
        let start = program.words();
        let mut command = Command::new(&start[0]);
        command
            .args(&start[1..])
            .args(words)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// A command that gives Claude Code a prompt; it needs no approvals.
    pub fn claude(&self, prompt: &str, words: &[&str]) -> Command {
        let mut command = self.command(Program::ClaudeCode, &["-p", prompt]);
        command.args(["--output-format", "stream-json", "--verbose"]);
        command.arg("--dangerously-skip-permissions").args(words);
        command
    }

    /// A command that gives Codex a prompt; it needs no approvals. `words` are the arguments of a
    /// resume.
    pub fn codex(&self, prompt: &str, words: &[&str]) -> Command {
        let mut command = self.command(Program::Codex, &["exec"]);
        command.args(words).arg("--json");
        command.arg("--dangerously-bypass-approvals-and-sandbox");
        command.arg("--skip-git-repo-check").arg(prompt);
        command
    }

    /// The running processes that were started here, whatever their parent is now. They are
    /// recognized by their environment.
    pub fn processes(&self) -> Vec<u32> {
        let root = self.root.path().as_os_str().as_encoded_bytes();
        let is_ours = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(root.len()).any(|part| part == root)
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    /// The processes of an agent's program: an agent may start itself again.
    pub fn programs(&self, agent: Agent) -> Vec<u32> {
        let names: &[&str] = match agent {
            // The second is the copy that its adapter brings.
            Agent::Claude => &["claude.exe", "claude"],
            Agent::Codex => &["codex"],
        };
        let is_it = |pid: &u32| {
            let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
            let name = file.as_deref().and_then(Path::file_name);
            name.is_some_and(|name| names.iter().any(|known| name == *known))
        };
        self.processes().into_iter().filter(is_it).collect()
    }

    /// The process guards of segno.
    pub fn guards(&self) -> Vec<u32> {
        let is_guard = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.ends_with(b"\0__process-guard\0")
        };
        self.processes().into_iter().filter(is_guard).collect()
    }

    /// Kills the process guards.
    pub fn kill_guards(&self) {
        for pid in self.guards() {
            send(pid, Signal::KILL);
        }
    }

    /// Kills segno, and its guards before they can end anything.
    pub fn kill_guards_after(&self, segno: &mut Child) {
        let guards = self.guards();
        // A stopped guard does not see that segno is gone.
        guards.iter().for_each(|pid| send(*pid, Signal::STOP));
        segno.kill().unwrap();
        segno.wait().unwrap();
        guards.iter().for_each(|pid| send(*pid, Signal::KILL));
    }

    /// Claude Code's transcript of a session, if there is one.
    pub fn transcript(&self, session: &str) -> Option<PathBuf> {
        let name = format!("{session}.jsonl");
        let own = self.claude_config_dir();
        let own = own.unwrap_or_else(|| self.home().join(".claude"));
        find_below(&own.join("projects"), &|path| path.ends_with(&name))
    }

    /// Codex's transcript (rollout) of a thread, if there is one.
    pub fn rollout(&self, thread: &str) -> Option<PathBuf> {
        let ending = format!("-{thread}.jsonl");
        let is = |path: &Path| path.to_string_lossy().ends_with(&ending);
        find_below(&self.codex_home().join("sessions"), &is)
    }
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, signal));
}

fn environment(root: &Path, server: &ModelServer) -> Vec<(&'static str, OsString)> {
    let at = |name: &str| root.join(name).into_os_string();
    let node = installed(NODE);
    let path = [
        node.parent().unwrap().to_owned(),
        installed(".bin"),
        "/usr/local/bin".into(),
        "/usr/bin".into(),
        "/bin".into(),
    ];
    let mut environment = vec![
        ("PATH", std::env::join_paths(path).unwrap()),
        ("HOME", at("home")),
        ("CODEX_HOME", at("codex")),
        ("TMPDIR", at("tmp")),
        ("CLAUDE_CODE_TMPDIR", at("tmp")),
        ("SIGNS", at("signs")),
        ("LANG", "C.UTF-8".into()),
        ("TERM", "dumb".into()),
        ("SHELL", "/bin/bash".into()),
        ("ANTHROPIC_BASE_URL", server.host().into()),
        ("ANTHROPIC_API_KEY", "sk-ant-test-0000000000000000".into()),
        ("CODEX_TEST_KEY", "sk-test-0000000000000000".into()),
    ];
    environment.extend(QUIET.map(|(name, value)| (name, value.into())));
    environment
}

/// Codex's settings: the scripted server, a model whose tools are known, and no background
/// activity.
fn config(server: &ModelServer) -> String {
    format!(
        r#"model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{}/v1"
env_key = "CODEX_TEST_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[features]
plugins = false
daemon_auto_start = false
unbounded_connection_retries = false
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
"#,
        server.host()
    )
}

/// The first file below a folder that `wanted` accepts.
fn find_below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if wanted(&path) {
            return Some(path);
        }
        if let Some(found) = path.is_dir().then(|| find_below(&path, wanted)).flatten() {
            return Some(found);
        }
    }
    None
}
