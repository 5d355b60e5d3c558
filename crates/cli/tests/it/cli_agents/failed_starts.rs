//! A start that fails is no evidence against a conversation: the next resume tries it again. And a
//! human can go back to a conversation that was summarized.

use std::process::Command;

use segno_testkit::model::{Call, Script, Turn};
use segno_testkit::programs::{Agent, AgentFixture};
use segno_testkit::sandbox::{ProcessOutput, run_to_end, wait_until};

use super::Fixture;
use crate::segno;

/// Why an agent cannot start.
#[derive(Debug, Clone, Copy)]
enum Obstacle {
    NoProgram,
    NoKey,
    /// The program is killed before it says anything.
    Killed,
    /// The program ends with an error before it says anything, as Claude Code does for a wrong user.
    Refusing,
}

impl Obstacle {
    const ALL: [Self; 4] = [Self::NoProgram, Self::NoKey, Self::Killed, Self::Refusing];

    /// What Segno says.
    const fn expected(self) -> &'static str {
        match self {
            Self::NoProgram => "was not found on PATH",
            Self::NoKey => "",
            Self::Killed => "was killed by signal 9",
            Self::Refusing => "cannot be used with root",
        }
    }

    fn apply(self, workshop: &AgentFixture, command: &mut Command) {
        let program = |script: &str| {
            let path = workshop.sandbox.write_script("broken", script);
            let program = format!("program = {:?}\n", path.display().to_string());
            let section = |name: &str| format!("[{name}]\npermissions = \"all\"\n{program}");
            workshop
                .sandbox
                .configure(&["claude-code", "codex"].map(section).concat());
        };
        match self {
            Self::NoProgram => {
                command.env("PATH", "/usr/bin:/bin");
            }
            Self::NoKey => {
                command.env_remove("ANTHROPIC_API_KEY");
                command.env_remove("CODEX_TEST_KEY");
            }
            Self::Killed => program("#!/bin/sh\nkill -9 $$\n"),
            Self::Refusing => program("#!/bin/sh\necho 'cannot be used with root' >&2\nexit 1\n"),
        }
    }

    fn lift(workshop: &AgentFixture) {
        let section = |name: &str| format!("[{name}]\npermissions = \"all\"\n");
        workshop
            .sandbox
            .configure(&["claude-code", "codex"].map(section).concat());
    }
}

fn with_obstacle(workshop: &AgentFixture, obstacle: Obstacle, words: &[&str]) -> ProcessOutput {
    let mut command = workshop.command(words);
    obstacle.apply(workshop, &mut command);
    let output = run_to_end(command);
    Obstacle::lift(workshop);
    output
}

#[test]
fn failed_start_keeps_the_conversation() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        for obstacle in Obstacle::ALL {
            let output = with_obstacle(&fixture, obstacle, &["resume", "task"]);
            assert_ne!(output.code(), 0, "{agent:?} {obstacle:?} {output:?}");
            let told = &output.stderr;
            assert!(
                told.contains(obstacle.expected()),
                "{agent:?} {obstacle:?} {told}"
            );
        }
        fixture.assert_resumes_with("native");
        let opened = fixture.opened();
        assert!(
            opened.iter().all(|(id, _)| *id == opened[0].0),
            "{agent:?} {opened:?}"
        );
    }
}

#[test]
fn summary_in_which_nothing_was_said_replaces_nothing() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let words = ["resume", "task", "--strategy", "summarized"];
        let output = with_obstacle(&fixture, Obstacle::NoProgram, &words);
        assert_ne!(output.code(), 0, "{output:?}");
        fixture.assert_resumes_with("native");
        let opened = fixture.opened();
        assert_eq!(
            opened.first().unwrap().0,
            opened.last().unwrap().0,
            "{opened:?}"
        );
    }
}

#[test]
fn native_goes_back_to_the_conversation_before_the_summary() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let first = fixture.opened()[0].0.clone();
        let child = fixture
            .workshop
            .start(&["resume", "task", "--strategy", "summarized"]);
        wait_until("the new conversation has gone on", || {
            let said = fixture.events("agent_said");
            let said = said.iter().map(|event| event["entries"].to_string());
            said.collect::<String>().contains("[standard:5]")
        });
        fixture.kill(child);
        let second = fixture.opened().pop().unwrap();
        assert_ne!(second.0, first);
        let plan = |words: &[&str]| {
            let words = [&["resume", "task", "--dry-run", "--json"], words].concat();
            let plan = fixture.segno(&words).expect_success();
            let step = plan.json()[0]["steps"][0].clone();
            let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
            (text("conversation"), text("strategy"))
        };
        // By default the newest conversation continues.
        assert_eq!(plan(&[]), (second.0, "native".to_owned()));
        let back = (first, "native".to_owned());
        assert_eq!(plan(&["--strategy", "native"]), back);
        fixture
            .segno(&["resume", "task", "--strategy", "native"])
            .expect_success();
        assert_eq!(fixture.opened().pop().unwrap(), back, "{agent:?}");
        fixture.assert_done();
        // The old conversation is told what the other one did.
        let sent = fixture.user_messages();
        assert!(sent.contains("[standard:5]"), "{agent:?} {sent}");
    }
}

#[test]
fn conversation_is_found_after_its_home_changed() {
    for agent in Agent::ALL {
        for renamed in [true, false] {
            let fixture = Fixture::killed(agent);
            let (variable, home) = match agent {
                Agent::Claude => (
                    "CLAUDE_CONFIG_DIR",
                    fixture.agent_sandbox.home().join(".claude"),
                ),
                Agent::Codex => ("CODEX_HOME", fixture.agent_sandbox.codex_home()),
            };
            let other = fixture.agent_sandbox.root().join("another-home");
            if renamed {
                std::fs::rename(&home, &other).unwrap();
            } else {
                std::fs::create_dir(&other).unwrap();
                let settings = home.join("config.toml");
                if settings.exists() {
                    std::fs::copy(&settings, other.join("config.toml")).unwrap();
                }
            }
            let mut command = fixture.command(&["resume", "task"]);
            command.env(variable, &other);
            run_to_end(command).expect_success();
            fixture.assert_done();
            // Codex looks for a transcript where it was, so it gets a copy under a new id.
            let is_found = renamed && agent == Agent::Claude;
            let strategy = if is_found { "native" } else { "restored" };
            let opened = fixture.opened();
            assert_eq!(opened.len(), 2, "{agent:?} {opened:?}");
            assert_eq!(opened[1].1, strategy, "{agent:?} {opened:?}");
            let has_new_id = opened[1].0 != opened[0].0;
            assert_eq!(has_new_id, renamed && agent == Agent::Codex, "{agent:?}");
            let paid = fixture.server.paid_turns("standard");
            assert_eq!(paid, [0, 1, 2, 3, 4, 5, 6, 7, 8], "{agent:?}");
        }
    }
}

/// What the model of a chat answers.
fn chat_scripts() -> [Script; 2] {
    let slow = "touch begun; sleep 1; echo slept >> slept";
    [
        Script::new("one", [Turn::say("You are Ada.")]),
        Script::new(
            "two",
            [
                Turn::say("Now slowly.").call(Call::shell(slow)),
                Turn::say("It is done."),
            ],
        ),
    ]
}

#[test]
fn failed_start_keeps_the_conversation_of_a_chat() {
    for agent in Agent::ALL {
        let workshop = AgentFixture::new(segno(), chat_scripts(), "all");
        let one = "I am Ada. [script:one]";
        let words = ["chat", "--agent", agent.cli_name(), "--name", "talk", one];
        workshop.segno(&words).expect_success();
        // The next message cannot be sent to the agent, and is answered later.
        let two = ["chat", "--session", "talk", "Do it. [script:two]"];
        let output = with_obstacle(&workshop, Obstacle::NoProgram, &two);
        assert_ne!(output.code(), 0, "{output:?}");
        let output = with_obstacle(&workshop, Obstacle::NoKey, &["resume", "talk"]);
        assert_ne!(output.code(), 0, "{output:?}");
        let output = workshop.segno(&["resume", "talk"]).expect_success();
        assert!(output.stdout.contains("It is done."), "{output:?}");
        let opened = workshop.conversations("talk");
        let first = &opened[0].0;
        assert!(
            opened[1..]
                .iter()
                .all(|(id, it)| id == first && it == "native"),
            "{agent:?} {opened:?}"
        );
    }
}

#[test]
fn native_goes_back_in_a_chat() {
    for agent in Agent::ALL {
        let workshop = AgentFixture::new(segno(), chat_scripts(), "all");
        let one = "I am Ada. [script:one]";
        let words = ["chat", "--agent", agent.cli_name(), "--name", "talk", one];
        workshop.segno(&words).expect_success();
        let first = workshop.conversations("talk").pop().unwrap().0;
        // The transcript is away while the second message is asked.
        let path = agent
            .transcript_path(&workshop.agent_sandbox, &first)
            .unwrap();
        let away = path.with_extension("away");
        std::fs::rename(&path, &away).unwrap();
        let child = workshop.start(&["chat", "--session", "talk", "Do it. [script:two]"]);
        wait_until("the slow command runs and is written down", || {
            workshop.agent_sandbox.work().join("begun").exists()
                && workshop.is_persisted("talk", "sleep 1")
        });
        workshop.kill(child);
        let second = workshop.conversations("talk").pop().unwrap();
        assert_eq!(second.1, "summarized", "{agent:?}");
        std::fs::rename(&away, &path).unwrap();
        let words = ["resume", "talk", "--strategy", "native"];
        let output = workshop.segno(&words).expect_success();
        assert!(output.stdout.contains("It is done."), "{output:?}");
        let last = workshop.conversations("talk").pop().unwrap();
        assert_eq!(last, (first, "native".to_owned()), "{agent:?}");
    }
}
