//! A workflow whose steps different agents execute, killed in each of them.

use std::collections::BTreeMap;

use segno_testkit::model::{Call, Purpose, Script, Turn, conversation, files};
use segno_testkit::programs::Program;
use segno_testkit::sandbox::wait_until;
use serde_json::json;

use super::acp::{ADAPTERS, WorkflowFixture, argv};

/// The agents, in the order of their steps.
const AGENTS: [&str; 4] = ["claude", "codex", "acp", "api"];

/// A command that writes one line outside the workspace when it starts, and one line when it is
/// done.
fn logged(line: &str) -> Call {
    let work = format!("echo {line} >> \"$SIGNS\"; sleep 0.3 && echo {line} >> log.txt");
    Call::checked(&work, &format!("grep -qx {line} log.txt"))
}

/// The script of each agent's model: four turns, the last without a call.
fn script(agent: &str) -> Script {
    let (first, second) = (format!("{agent}/one.txt"), format!("{agent}/two.txt"));
    let write = |path: &str, text: &str| match agent {
        "api" => Call::Raw {
            name: "file_write".to_owned(),
            input: json!({"path": path, "content": text, "create_dirs": true}),
        },
        _ => Call::write(path, text),
    };
    let command = match agent {
        "api" => write("api/log.txt", "api\n"),
        _ => logged(agent),
    };
    let turns = [
        Turn::say("I begin.").call(write(&first, "one\n")),
        Turn::say("Now a command.").call(command),
        Turn::say("The rest.").call(write(&second, "two\n")),
        Turn::say(&format!("The part of {agent} is done.")),
    ];
    Script::new(agent, turns)
}

fn fixture(adapter: Program) -> WorkflowFixture {
    WorkflowFixture::new(AGENTS.map(script), "all", |host| {
        let argv = argv(adapter);
        let steps = AGENTS.map(|agent| {
            format!("      - {{agent: {agent}, input: \"Do your part. [script:{agent}]\"}}\n")
        });
        format!(
            "version: 0
name: task
runtime: {{provider: anthropic, host: \"{host}\"}}
tools: {{python: [file_write]}}
agents:
  claude: {{prompt: You begin., provider: claude-code}}
  codex: {{prompt: You continue., provider: codex}}
  acp: {{prompt: You continue., provider: acp, command: {argv}}}
  api: {{prompt: You end it., provider: anthropic}}
pattern:
  type: chain
  config:
    steps:
{}",
            steps.concat()
        )
    })
}

/// The files that an undisturbed run leaves.
fn expected() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for agent in AGENTS {
        files.insert(format!("{agent}/one.txt"), "one\n".to_owned());
        files.insert(format!("{agent}/two.txt"), "two\n".to_owned());
    }
    files.insert("api/log.txt".to_owned(), "api\n".to_owned());
    files.insert("log.txt".to_owned(), "claude\ncodex\nacp\n".to_owned());
    files
}

/// Each request of an agent's model: what it was for, how it ended, and its newest message.
fn sent(fixture: &WorkflowFixture, agent: &str) -> Vec<String> {
    let asked = fixture.server.requests();
    let answers = fixture.server.answers().into_iter();
    let own = answers.filter(
        |answer| matches!(&answer.purpose, Purpose::Turn { script, .. } if script == agent),
    );
    own.map(|answer| {
        let newest = conversation(&asked[answer.request_index]).pop();
        format!("{:?} {:?} {newest:?}", answer.purpose, answer.ending)
    })
    .collect()
}

/// Kills the run once in each step, when the step's model is asked for the turn that the seed
/// selects, and resumes to the end.
fn survive(adapter: Program, seed: u64) {
    let fixture = fixture(adapter);
    let mut words = vec!["run", fixture.spec()];
    let mut kills = Vec::new();
    for (number, agent) in AGENTS.into_iter().enumerate() {
        let turn = usize::try_from(seed >> (2 * number)).unwrap() % 3;
        let child = fixture.start(&words);
        wait_until("the model is asked for that turn", || {
            fixture.server.answers().iter().any(|answer| {
                matches!(&answer.purpose, Purpose::Turn { script, turn: at, .. } if script == agent && *at >= turn)
            })
        });
        fixture.kill(child);
        // The step may have continued until it was killed.
        let in_flight = fixture.server.paid_turns(agent).last().copied();
        kills.push(in_flight);
        words = vec!["resume", "task"];
    }
    let output = fixture.segno(&words).expect_success();
    let what = format!("{adapter:?} seed {seed} kills {kills:?}");
    assert_eq!(files(&fixture.agent_sandbox.work()), expected(), "{what}");
    let mut finished: Vec<String> = Vec::new();
    for step in fixture.events("step_finished") {
        finished.push(step["path"].to_string());
    }
    assert_eq!(finished.len(), AGENTS.len(), "{what} {finished:?}");
    finished.dedup();
    assert_eq!(finished.len(), AGENTS.len(), "{what} {finished:?}");
    for (agent, killed) in AGENTS.into_iter().zip(&kills) {
        let paid = fixture.server.paid_turns(agent);
        let mut once = paid.clone();
        once.dedup();
        assert_eq!(once, [0, 1, 2, 3], "{what} {agent} {paid:?} {output:?}");
        // Only the turn in flight may have been asked for again.
        let twice = paid.windows(2).filter(|two| two[0] == two[1]);
        let again: Vec<usize> = twice.map(|two| two[0]).collect();
        assert!(
            again.is_empty() || again.len() == 1 && Some(again[0]) == *killed,
            "{what} {agent} {paid:?} {:#?}",
            sent(&fixture, agent)
        );
    }
    wait_until("nothing runs", || {
        fixture.agent_sandbox.processes().is_empty()
    });
}

#[test]
fn workflow_of_four_agent_types_survives_a_kill_in_each() {
    let given = std::env::var("SEGNO_CRASH_SEED").ok();
    let seed: u64 = given.map_or(1, |seed| seed.parse().unwrap());
    for (number, adapter) in (0..).zip(ADAPTERS) {
        // Each adapter is killed at other turns.
        survive(adapter, seed.wrapping_mul(0x9e37_79b9) >> number);
    }
}
