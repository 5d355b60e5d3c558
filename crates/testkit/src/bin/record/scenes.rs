//! The scenes: runs of agents, each with what it said and what it kept.

use std::time::Duration;

use rustix::process::Signal;
use segno_testkit::model::{Call, Fault, ModelServer, Often, Script, Turn, Usage, standard};
use segno_testkit::programs::{Agent, Client, Line, Program, Running, Stage};
use segno_testkit::sandbox::until;
use serde_json::{Value, json};

use crate::Album;
use crate::neutral::Neutral;

/// What both agents are recorded at.
pub(crate) fn shared(album: &Album, agent: Agent) {
    normal(album, agent);
    killed(album, agent);
    stopped(album, agent, "sigint", Signal::INT);
    stopped(album, agent, "sigterm", Signal::TERM);
    failed(
        album,
        agent,
        "limited",
        Fault::Limited(Duration::from_secs(1)),
    );
    failed(album, agent, "too-long", Fault::TooLong);
    failed(album, agent, "unauthorized", Fault::Unauthorized);
}

/// A stage with its server, and what takes their traces away.
struct Set {
    server: ModelServer,
    stage: Stage,
    neutral: Neutral,
}

impl Set {
    fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        let server = ModelServer::scripted(scripts);
        let stage = Stage::new(&server);
        let neutral = Neutral::new(&stage, &server);
        Self {
            server,
            stage,
            neutral,
        }
    }

    /// Keeps what an agent said as `NAME.stream.jsonl` and what it keeps as
    /// `NAME.transcript.jsonl` or `NAME.rollout.jsonl`, as the vendors call it.
    fn keep(&mut self, album: &Album, agent: Agent, name: &str, lines: &[Value]) {
        album.keep(&format!("{name}.stream.jsonl"), &mut self.neutral, lines);
        let session = agent.session(lines);
        if let Some(record) = agent.record(&self.stage, &session) {
            let kind = match agent {
                Agent::Claude => "transcript",
                Agent::Codex => "rollout",
            };
            let name = format!("{name}.{kind}.jsonl");
            album.keep_file(&name, &mut self.neutral, &record);
        }
    }
}

fn normal(album: &Album, agent: Agent) {
    let mut set = Set::new([standard()]);
    let (_, lines) = agent.start(&set.stage, &standard().marker()).end();
    set.keep(album, agent, "normal", &lines);
}

/// A script with a command that takes long enough to be interrupted.
fn brief() -> Script {
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

/// Starts the brief script and returns when its slow command runs and is written down.
fn in_the_command(set: &Set, agent: Agent) -> (Running, String) {
    let mut running = agent.start(&set.stage, &brief().marker());
    running.until(|line| agent.named(line).is_some());
    let session = agent.session(running.seen());
    until("the command runs and is written down", || {
        let runs = set.stage.signs().contains(&"slow".to_owned());
        runs && agent.kept(&set.stage, &session).contains("sleep 1")
    });
    (running, session)
}

fn killed(album: &Album, agent: Agent) {
    let mut set = Set::new([brief()]);
    let (running, session) = in_the_command(&set, agent);
    let lines = running.kill();
    set.keep(album, agent, "killed", &lines);
    until("nothing runs", || set.stage.processes().is_empty());
    let (_, lines) = agent.resume(&set.stage, &session, "Go on.").end();
    set.keep(album, agent, "resumed", &lines);
}

fn stopped(album: &Album, agent: Agent, name: &str, signal: Signal) {
    let mut set = Set::new([brief()]);
    let (running, _) = in_the_command(&set, agent);
    running.signal(signal);
    let (_, lines) = running.end();
    set.keep(album, agent, name, &lines);
    until("nothing runs", || set.stage.processes().is_empty());
}

fn failed(album: &Album, agent: Agent, name: &str, fault: Fault) {
    let first = Turn::say("It begins well.").call(Call::write("a.txt", "a\n"));
    let script = Script::new(name, [first, Turn::fail(fault, Often::Always)]);
    let mut set = Set::new([script.clone()]);
    let (_, lines) = agent.start(&set.stage, &script.marker()).end();
    set.keep(album, agent, name, &lines);
}

/// A command that goes on while the model does, and whose end begins another turn.
pub(crate) fn background(album: &Album) {
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
    let mut set = Set::new([script.clone()]);
    let (_, lines) = Agent::Claude.start(&set.stage, &script.marker()).end();
    set.keep(album, Agent::Claude, "background", &lines);
}

/// A part of the task is given to an agent below this one.
pub(crate) fn delegated(album: &Album) {
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
    let mut set = Set::new([above.clone(), below]);
    let (_, lines) = Agent::Claude.start(&set.stage, &above.marker()).end();
    set.keep(album, Agent::Claude, "delegated", &lines);
    let record = set.stage.transcript(Agent::SESSION).unwrap();
    let folder = record.with_extension("").join("subagents");
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let is_meta = entry.file_name().to_string_lossy().ends_with(".meta.json");
        let kind = if is_meta {
            "meta.json"
        } else {
            "transcript.jsonl"
        };
        let name = format!("delegated.below.{kind}");
        album.keep_file(&name, &mut set.neutral, &entry.path());
    }
}

/// A conversation that is summed up because a person says so, and goes on.
pub(crate) fn compacted(album: &Album) {
    let script = Script::new(
        "long",
        [
            Turn::say("I write.").call(Call::write("a.txt", "a\n")),
            Turn::say("So far."),
            Turn::say("And on."),
        ],
    );
    let mut set = Set::new([script.clone()]);
    Agent::Claude.start(&set.stage, &script.marker()).end();
    let (_, lines) = Agent::Claude
        .resume(&set.stage, Agent::SESSION, "/compact")
        .end();
    album.keep("compacted.stream.jsonl", &mut set.neutral, &lines);
    let (_, lines) = Agent::Claude
        .resume(&set.stage, Agent::SESSION, "Go on.")
        .end();
    set.keep(album, Agent::Claude, "compacted-resumed", &lines);
}

/// A conversation that is summed up because it does not fit any more.
pub(crate) fn compacted_codex(album: &Album) {
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
    let mut set = Set::new([script.clone()]);
    let (_, lines) = Agent::Codex.start(&set.stage, &script.marker()).end();
    set.keep(album, Agent::Codex, "compacted", &lines);
}

/// The standard script through an adapter, both sides.
pub(crate) fn adapter(album: &Album, program: Program) {
    let mut set = Set::new([standard()]);
    let mut client = Client::start(&set.stage, program);
    let session = client.session(&set.stage);
    client.prompt(&session, &standard().marker());
    let line = |line: &Line| match line {
        Line::Sent(message) => json!({"sent": message}),
        Line::Received(message) => json!({"received": message}),
    };
    let lines: Vec<Value> = client.seen().iter().map(line).collect();
    album.keep("normal.duplex.jsonl", &mut set.neutral, &lines);
    assert_eq!(set.server.paid("standard").len(), standard().turns());
}
