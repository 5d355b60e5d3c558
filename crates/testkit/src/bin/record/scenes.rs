//! The scenes: runs of agents. Each is recorded with the agent's output and its transcript.

use std::time::Duration;

use rustix::process::Signal;
use segno_testkit::model::{Call, Fault, FaultRepeat, ModelServer, Script, Turn, Usage, standard};
use segno_testkit::programs::{Agent, AgentSandbox, Client, Line, Program, Running};
use segno_testkit::sandbox::wait_until;
use serde_json::{Value, json};

use crate::GoldenFolder;
use crate::neutralizer::Neutralizer;

/// The scenes of both agents.
pub(crate) fn shared(golden: &GoldenFolder, agent: Agent) {
    normal(golden, agent);
    killed(golden, agent);
    stopped(golden, agent, "sigint", Signal::INT);
    stopped(golden, agent, "sigterm", Signal::TERM);
    failed(
        golden,
        agent,
        "limited",
        Fault::Limited(Duration::from_secs(1)),
    );
    failed(golden, agent, "too-long", Fault::TooLong);
    failed(golden, agent, "unauthorized", Fault::Unauthorized);
}

/// A stage with its server, and the neutralizer for both.
struct Recording {
    server: ModelServer,
    stage: AgentSandbox,
    neutralizer: Neutralizer,
}

impl Recording {
    fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        let server = ModelServer::scripted(scripts);
        let stage = AgentSandbox::new(&server);
        let neutralizer = Neutralizer::new(&stage, &server);
        Self {
            server,
            stage,
            neutralizer,
        }
    }

    /// Records the output of an agent as `NAME.stream.jsonl` and its transcript as
    /// `NAME.transcript.jsonl` or `NAME.rollout.jsonl`, as the vendors call it.
    fn write(&mut self, golden: &GoldenFolder, agent: Agent, name: &str, lines: &[Value]) {
        golden.write(
            &format!("{name}.stream.jsonl"),
            &mut self.neutralizer,
            lines,
        );
        let session = agent.session(lines);
        if let Some(record) = agent.transcript_path(&self.stage, &session) {
            let kind = match agent {
                Agent::Claude => "transcript",
                Agent::Codex => "rollout",
            };
            let name = format!("{name}.{kind}.jsonl");
            golden.write_file(&name, &mut self.neutralizer, &record);
        }
    }
}

fn normal(golden: &GoldenFolder, agent: Agent) {
    let mut recording = Recording::new([standard()]);
    let (_, lines) = agent
        .start(&recording.stage, &standard().marker())
        .read_to_end();
    recording.write(golden, agent, "normal", &lines);
}

/// A script with a command that takes long enough to be interrupted.
fn interruptible_script() -> Script {
    let slow = "echo slow >> \"$SIGNS\"; sleep 1 && echo slow >> log.txt";
    Script::new(
        "brief",
        [
            Turn::say("I write.").call(Call::write("a.txt", "one\ntwo\n")),
            Turn::say("This takes a while.").call(Call::checked(slow, "grep -qx slow log.txt")),
            Turn::say("Done."),
        ],
    )
}

/// Starts [`interruptible_script`] and returns when its slow command runs and is in the
/// transcript.
fn run_until_command(recording: &Recording, agent: Agent) -> (Running, String) {
    let mut running = agent.start(&recording.stage, &interruptible_script().marker());
    running.read_until(|line| agent.session_id_in(line).is_some());
    let session = agent.session(running.seen());
    wait_until("the command runs and is in the transcript", || {
        let runs = recording
            .stage
            .started_commands()
            .contains(&"slow".to_owned());
        runs && agent
            .read_transcript(&recording.stage, &session)
            .contains("sleep 1")
    });
    (running, session)
}

fn killed(golden: &GoldenFolder, agent: Agent) {
    let mut recording = Recording::new([interruptible_script()]);
    let (running, session) = run_until_command(&recording, agent);
    let lines = running.kill();
    recording.write(golden, agent, "killed", &lines);
    wait_until("no process runs", || recording.stage.processes().is_empty());
    let (_, lines) = agent
        .resume(&recording.stage, &session, "Go on.")
        .read_to_end();
    recording.write(golden, agent, "resumed", &lines);
}

fn stopped(golden: &GoldenFolder, agent: Agent, name: &str, signal: Signal) {
    let mut recording = Recording::new([interruptible_script()]);
    let (running, _) = run_until_command(&recording, agent);
    running.signal(signal);
    let (_, lines) = running.read_to_end();
    recording.write(golden, agent, name, &lines);
    wait_until("no process runs", || recording.stage.processes().is_empty());
}

fn failed(golden: &GoldenFolder, agent: Agent, name: &str, fault: Fault) {
    let first = Turn::say("It begins well.").call(Call::write("a.txt", "a\n"));
    let script = Script::new(name, [first, Turn::fail(fault, FaultRepeat::Always)]);
    let mut recording = Recording::new([script.clone()]);
    let (_, lines) = agent
        .start(&recording.stage, &script.marker())
        .read_to_end();
    recording.write(golden, agent, name, &lines);
}

/// A command that runs in the background, and whose end starts another turn.
pub(crate) fn background(golden: &GoldenFolder) {
    let command = "sleep 1; echo over";
    let call = Call::Background {
        command: command.to_owned(),
    };
    let turns = [
        Turn::say("I do not wait for it.").call(call),
        Turn::say("It runs."),
        Turn::say("It is over."),
    ];
    let script = Script::new("background", turns);
    let mut recording = Recording::new([script.clone()]);
    let (_, lines) = Agent::Claude
        .start(&recording.stage, &script.marker())
        .read_to_end();
    recording.write(golden, Agent::Claude, "background", &lines);
}

/// The agent delegates a part of the task to a subagent.
pub(crate) fn delegated(golden: &GoldenFolder) {
    let below = Script::new(
        "below",
        [
            Turn::say("I look.").call(Call::shell("echo seen")),
            Turn::say("I have seen it."),
        ],
    );
    let prompt = format!("Look at it. {}", below.marker());
    let above = Script::new(
        "above",
        [
            Turn::say("Someone else looks.").call(Call::Delegate { prompt }),
            Turn::say("It was seen."),
        ],
    );
    let mut recording = Recording::new([above.clone(), below]);
    let (_, lines) = Agent::Claude
        .start(&recording.stage, &above.marker())
        .read_to_end();
    recording.write(golden, Agent::Claude, "delegated", &lines);
    let record = recording.stage.transcript(Agent::SESSION).unwrap();
    let folder = record.with_extension("").join("subagents");
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let is_meta = entry.file_name().to_string_lossy().ends_with(".meta.json");
        let kind = if is_meta {
            "meta.json"
        } else {
            "transcript.jsonl"
        };
        let name = format!("delegated.below.{kind}");
        golden.write_file(&name, &mut recording.neutralizer, &entry.path());
    }
}

/// A conversation that is compacted because the user asks for it, and then continues.
pub(crate) fn compacted(golden: &GoldenFolder) {
    let script = Script::new(
        "long",
        [
            Turn::say("I write.").call(Call::write("a.txt", "a\n")),
            Turn::say("So far."),
            Turn::say("And on."),
        ],
    );
    let mut recording = Recording::new([script.clone()]);
    Agent::Claude
        .start(&recording.stage, &script.marker())
        .read_to_end();
    let (_, lines) = Agent::Claude
        .resume(&recording.stage, Agent::SESSION, "/compact")
        .read_to_end();
    golden.write("compacted.stream.jsonl", &mut recording.neutralizer, &lines);
    let (_, lines) = Agent::Claude
        .resume(&recording.stage, Agent::SESSION, "Go on.")
        .read_to_end();
    recording.write(golden, Agent::Claude, "compacted-resumed", &lines);
}

/// A conversation that is compacted because it does not fit any more.
pub(crate) fn compacted_codex(golden: &GoldenFolder) {
    let usage = Usage {
        input: 250_000,
        cached: 0,
        output: 50,
    };
    let script = Script::new(
        "long",
        [
            Turn::say("I write.")
                .call(Call::write("a.txt", "a\n"))
                .using(usage),
            Turn::say("And on."),
        ],
    );
    let mut recording = Recording::new([script.clone()]);
    let (_, lines) = Agent::Codex
        .start(&recording.stage, &script.marker())
        .read_to_end();
    recording.write(golden, Agent::Codex, "compacted", &lines);
}

/// The standard script through an adapter, both sides.
pub(crate) fn adapter(golden: &GoldenFolder, program: Program) {
    let mut recording = Recording::new([standard()]);
    let mut client = Client::start(&recording.stage, program);
    let session = client.session(&recording.stage);
    client.prompt(&session, &standard().marker());
    let line = |line: &Line| match line {
        Line::Sent(message) => json!({"sent": message}),
        Line::Received(message) => json!({"received": message}),
    };
    let lines: Vec<Value> = client.seen().iter().map(line).collect();
    golden.write("normal.duplex.jsonl", &mut recording.neutralizer, &lines);
    assert_eq!(
        recording.server.paid_turns("standard").len(),
        standard().turns()
    );
}
