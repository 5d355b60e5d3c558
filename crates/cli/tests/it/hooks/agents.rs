//! The real Claude Code and the real Codex, with hooks in their settings.

use std::fs;
use std::path::{Path, PathBuf};

use segno_testkit::model::{ModelServer, files, standard, standard_files};
use segno_testkit::programs::{Agent, AgentSandbox, Running};
use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};
use serde_json::{Value, json};

use super::{commands, spool_files};
use crate::sandbox;

struct Scene {
    agent: Agent,
    server: ModelServer,
    stage: AgentSandbox,
    sandbox: Sandbox,
}

impl Scene {
    fn new(agent: Agent) -> Self {
        let server = ModelServer::scripted([standard()]);
        Self {
            agent,
            stage: AgentSandbox::new(&server),
            server,
            sandbox: sandbox(),
        }
    }

    fn word(&self) -> &'static str {
        match self.agent {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
        }
    }

    fn settings(&self) -> PathBuf {
        match self.agent {
            Agent::Claude => self.stage.home().join(".claude/settings.json"),
            Agent::Codex => self.stage.codex_home().join("hooks.json"),
        }
    }

    /// Writes settings with another program's hooks, which append one line to a log for each event.
    /// Returns the log.
    fn write_foreign_hooks(&self) -> PathBuf {
        let log = self.stage.root().join("others");
        let hook = |event: &str| {
            let command = format!("echo {event} >> '{}'", log.display());
            json!([{"hooks": [{"type": "command", "command": command}]}])
        };
        let settings = json!({"hooks": {"Stop": hook("Stop"), "SessionEnd": hook("SessionEnd")}});
        fs::create_dir_all(self.settings().parent().unwrap()).unwrap();
        fs::write(self.settings(), settings.to_string()).unwrap();
        log
    }

    /// Installs hooks that start the binary at `binary`.
    fn install(&self, binary: &Path) {
        let mut command = std::process::Command::new(binary);
        self.sandbox.set_env(&mut command);
        for (name, value) in self.stage.environment() {
            command.env(name, value);
        }
        let output = run_to_end({
            command.args(["agents", "hooks", "install", self.word()]);
            command
        })
        .expect_success();
        let trust = output.stderr.contains("only after you trust them");
        assert_eq!(trust, self.agent == Agent::Codex, "{output:?}");
    }

    /// Runs the agent, asserts that its task is done, and returns its session and its last message.
    fn run_agent(&self) -> (String, String) {
        let prompt = format!("Do the task. {}", standard().marker());
        let command = match self.agent {
            Agent::Claude => self
                .stage
                .claude(&prompt, &["--session-id", Agent::SESSION]),
            Agent::Codex => {
                let mut command = self.stage.codex(&prompt, &[]);
                command.arg("--dangerously-bypass-hook-trust");
                command
            }
        };
        let (status, lines) = Running::new(command).read_to_end();
        assert!(status.success(), "{status}: {lines:#?}");
        assert_eq!(files(&self.stage.work()), standard_files());
        assert_eq!(
            self.server.paid_turns("standard"),
            [0, 1, 2, 3, 4, 5, 6, 7, 8]
        );
        (self.agent.session(&lines), last_message(&lines))
    }

    fn spool_files(&self) -> Vec<Value> {
        spool_files(&self.sandbox.home())
    }
}

/// The agent's last message.
fn last_message(lines: &[Value]) -> String {
    let words = lines.iter().rev().find_map(|line| {
        let message = line["result"]
            .as_str()
            .or_else(|| line["item"]["text"].as_str());
        message.map(str::to_owned)
    });
    words.unwrap()
}

const DONE: &str = "Done: the plan, three files and a count.";

#[test]
fn hook_reports_a_foreign_session_without_disturbing_it() {
    for agent in Agent::ALL {
        let scene = Scene::new(agent);
        let log = scene.write_foreign_hooks();
        let before = fs::read_to_string(scene.settings()).unwrap();
        scene.install(scene.sandbox.binary());
        let (session, message) = scene.run_agent();
        assert!(message.contains(DONE), "{agent:?} {message}");
        wait_until("the note is there", || scene.spool_files().len() == 1);
        let spool_file = scene.spool_files().remove(0);
        assert_eq!(spool_file["session"], session.as_str(), "{agent:?}");
        let transcript = agent.transcript_path(&scene.stage, &session).unwrap();
        assert_eq!(
            spool_file["file"].as_str().map(Path::new),
            Some(transcript.as_path())
        );
        wait_until("the hooks of others fired", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            log.contains("Stop\n") && log.contains("SessionEnd\n")
        });
        let mut command = scene
            .sandbox
            .command(&["agents", "hooks", "uninstall", scene.word()]);
        command.envs(
            scene
                .stage
                .environment()
                .iter()
                .map(|(name, value)| (name, value)),
        );
        run_to_end(command).expect_success();
        assert_eq!(
            fs::read_to_string(scene.settings()).unwrap(),
            before,
            "{agent:?}"
        );
    }
}

#[test]
fn missing_or_broken_hook_does_not_disturb_the_agent() {
    for agent in Agent::ALL {
        for broken in [
            None,
            Some("#!/bin/sh\necho '{\"decision\":\"block\",\"reason\":\"no\"}' >&2\nexit 2\n"),
        ] {
            let scene = Scene::new(agent);
            let log = scene.write_foreign_hooks();
            let copy = scene.stage.root().join("segno");
            fs::copy(scene.sandbox.binary(), &copy).unwrap();
            scene.install(&copy);
            fs::remove_file(&copy).unwrap();
            if let Some(script) = broken {
                let path = scene.sandbox.write_script("broken", script);
                fs::copy(path, &copy).unwrap();
            }
            let (_, message) = scene.run_agent();
            assert!(message.contains(DONE), "{agent:?} {message}");
            assert!(scene.spool_files().is_empty());
            wait_until("the hooks of others fired", || {
                fs::read_to_string(&log)
                    .unwrap_or_default()
                    .contains("Stop\n")
            });
        }
    }
}

#[test]
fn codex_runs_only_trusted_hooks() {
    let scene = Scene::new(Agent::Codex);
    scene.install(scene.sandbox.binary());
    assert_eq!(
        commands(&fs::read_to_string(scene.settings()).unwrap(), "Stop").len(),
        1
    );
    let prompt = format!("Do the task. {}", standard().marker());
    let (status, lines) = Running::new(scene.stage.codex(&prompt, &[])).read_to_end();
    assert!(
        status.success() && last_message(&lines).contains(DONE),
        "{lines:#?}"
    );
    assert!(scene.spool_files().is_empty());
}

/// Why `install` refuses such files: hooks in them would never run (decision 0061).
#[test]
fn agents_ignore_settings_with_comments_or_trailing_commas() {
    for agent in [Agent::Claude, Agent::Codex] {
        for end in ["}\n", ",}\n", "}\n// mine\n"] {
            let scene = Scene::new(agent);
            let log = scene.write_foreign_hooks();
            let text = fs::read_to_string(scene.settings()).unwrap();
            let text = text.strip_suffix('}').unwrap();
            fs::write(scene.settings(), format!("{text}{end}")).unwrap();
            scene.run_agent();
            let ran = fs::read_to_string(log).is_ok();
            assert_eq!(ran, end == "}\n", "{agent:?} {end:?}");
        }
    }
}
