//! The real Claude Code and the real Codex, with hooks in their settings.

use std::fs;
use std::path::{Path, PathBuf};

use segno_testkit::model::{ModelServer, files, standard, standard_files};
use segno_testkit::programs::{Agent, Running, Stage};
use segno_testkit::sandbox::{Sandbox, finish, until};
use serde_json::{Value, json};

use super::{commands, notes};
use crate::sandbox;

struct Scene {
    agent: Agent,
    server: ModelServer,
    stage: Stage,
    sandbox: Sandbox,
}

impl Scene {
    fn new(agent: Agent) -> Self {
        let server = ModelServer::scripted([standard()]);
        Self {
            agent,
            stage: Stage::new(&server),
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

    /// Settings with a hook of somebody else's, which leaves a line for each event.
    fn with_others(&self) -> PathBuf {
        let told = self.stage.root().join("others");
        let hook = |event: &str| {
            let command = format!("echo {event} >> '{}'", told.display());
            json!([{"hooks": [{"type": "command", "command": command}]}])
        };
        let settings = json!({"hooks": {"Stop": hook("Stop"), "SessionEnd": hook("SessionEnd")}});
        fs::create_dir_all(self.settings().parent().unwrap()).unwrap();
        fs::write(self.settings(), settings.to_string()).unwrap();
        told
    }

    /// Installs hooks that start the binary at `binary`.
    fn install(&self, binary: &Path) {
        let mut command = std::process::Command::new(binary);
        self.sandbox.furnish(&mut command);
        for (name, value) in self.stage.environment() {
            command.env(name, value);
        }
        let said = finish({
            command.args(["hooks", "install", self.word()]);
            command
        })
        .good();
        let trust = said.stderr.contains("only after you trusted them");
        assert_eq!(trust, self.agent == Agent::Codex, "{said:?}");
    }

    /// Runs the agent, and returns its session and what it said last. Its task is done as ever.
    fn play(&self) -> (String, String) {
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
        let (status, lines) = Running::new(command).end();
        assert!(status.success(), "{status}: {lines:#?}");
        assert_eq!(files(&self.stage.work()), standard_files());
        assert_eq!(self.server.paid("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        (self.agent.session(&lines), last(&lines))
    }

    fn spooled(&self) -> Vec<Value> {
        notes(&self.sandbox.home())
    }
}

/// The last thing that the agent said.
fn last(lines: &[Value]) -> String {
    let words = lines.iter().rev().find_map(|line| {
        let said = line["result"]
            .as_str()
            .or_else(|| line["item"]["text"].as_str());
        said.map(str::to_owned)
    });
    words.unwrap()
}

const DONE: &str = "Done: the plan, three files and a count.";

#[test]
fn a_session_that_segno_did_not_start_is_noted_and_otherwise_undisturbed() {
    for agent in Agent::ALL {
        let scene = Scene::new(agent);
        let told = scene.with_others();
        let before = fs::read_to_string(scene.settings()).unwrap();
        scene.install(scene.sandbox.binary());
        let (session, said) = scene.play();
        assert!(said.contains(DONE), "{agent:?} {said}");
        until("the note is there", || scene.spooled().len() == 1);
        let note = scene.spooled().remove(0);
        assert_eq!(note["session"], session.as_str(), "{agent:?}");
        let record = agent.record(&scene.stage, &session).unwrap();
        assert_eq!(note["file"].as_str().map(Path::new), Some(record.as_path()));
        until("the hooks of others fired", || {
            let told = fs::read_to_string(&told).unwrap_or_default();
            told.contains("Stop\n") && told.contains("SessionEnd\n")
        });
        let mut command = scene.sandbox.command(&["hooks", "uninstall", scene.word()]);
        command.envs(
            scene
                .stage
                .environment()
                .iter()
                .map(|(name, value)| (name, value)),
        );
        finish(command).good();
        assert_eq!(
            fs::read_to_string(scene.settings()).unwrap(),
            before,
            "{agent:?}"
        );
    }
}

#[test]
fn a_hook_whose_program_is_gone_or_broken_does_not_disturb_the_agent() {
    for agent in Agent::ALL {
        for broken in [
            None,
            Some("#!/bin/sh\necho '{\"decision\":\"block\",\"reason\":\"no\"}' >&2\nexit 2\n"),
        ] {
            let scene = Scene::new(agent);
            let told = scene.with_others();
            let copy = scene.stage.root().join("segno");
            fs::copy(scene.sandbox.binary(), &copy).unwrap();
            scene.install(&copy);
            fs::remove_file(&copy).unwrap();
            if let Some(script) = broken {
                let path = scene.sandbox.script("broken", script);
                fs::copy(path, &copy).unwrap();
            }
            let (_, said) = scene.play();
            assert!(said.contains(DONE), "{agent:?} {said}");
            assert!(scene.spooled().is_empty());
            until("the hooks of others fired", || {
                fs::read_to_string(&told)
                    .unwrap_or_default()
                    .contains("Stop\n")
            });
        }
    }
}

#[test]
fn codex_does_not_run_hooks_that_nobody_trusted() {
    let scene = Scene::new(Agent::Codex);
    scene.install(scene.sandbox.binary());
    assert_eq!(
        commands(&fs::read_to_string(scene.settings()).unwrap(), "Stop").len(),
        1
    );
    let prompt = format!("Do the task. {}", standard().marker());
    let (status, lines) = Running::new(scene.stage.codex(&prompt, &[])).end();
    assert!(
        status.success() && last(&lines).contains(DONE),
        "{lines:#?}"
    );
    assert!(scene.spooled().is_empty());
}
