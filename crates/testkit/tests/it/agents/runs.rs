//! Undisturbed runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use segno_testkit::model::{
    Ending, ModelServer, Purpose, Script, Turn, files, standard, standard_files,
};
use segno_testkit::programs::{Agent, AgentSandbox, Program};

fn runs_to_the_end(agent: Agent) {
    let server = ModelServer::scripted([standard()]);
    let stage = AgentSandbox::new(&server);
    let prompt = format!("Do the task. {}", standard().marker());
    let (status, lines) = agent.start(&stage, &prompt).read_to_end();
    assert!(status.success(), "{status} {lines:#?}");
    assert_eq!(files(&stage.work()), standard_files(), "{lines:#?}");
    assert_eq!(server.paid_turns("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        server.repaired_turns("standard"),
        [0; 0],
        "{:#?}",
        server.answers()
    );
    assert_eq!(stage.started_commands(), ["place", "slow", "count"]);
    let said = serde_json::to_string(&lines).unwrap();
    assert!(
        said.contains("Done: the plan, three files and a count."),
        "{said}"
    );
    assert!(
        said.contains("First it must be clear what is wanted."),
        "{said}"
    );
    let session = agent.session(&lines);
    assert!(
        agent == Agent::Codex || session == Agent::SESSION,
        "{session}"
    );
    assert!(
        agent.transcript_path(&stage, &session).is_some(),
        "no record of {session}"
    );
}

#[test]
fn the_real_claude_code_plays_the_standard_script_to_the_end() {
    runs_to_the_end(Agent::Claude);
}

#[test]
fn the_real_codex_plays_the_standard_script_to_the_end() {
    runs_to_the_end(Agent::Codex);
}

#[test]
fn requests_without_a_script_are_not_turns() {
    for agent in Agent::ALL {
        let server = ModelServer::scripted([standard()]);
        let stage = AgentSandbox::new(&server);
        let (_, lines) = agent
            .start(&stage, "Say something without a script.")
            .read_to_end();
        let said = serde_json::to_string(&lines).unwrap();
        assert!(
            said.contains("No script of this server is named."),
            "{said}"
        );
        let answers = server.answers();
        assert!(
            answers.iter().all(|answer| answer.ending == Ending::Whole),
            "{answers:?}"
        );
        let turn = |purpose: &Purpose| matches!(purpose, Purpose::Turn { .. });
        assert!(
            !answers.iter().any(|answer| turn(&answer.purpose)),
            "{answers:?}"
        );
    }
}

#[test]
fn agents_are_on_the_path_of_a_stage() {
    let server = ModelServer::scripted([standard()]);
    let stage = AgentSandbox::new(&server);
    for (name, program) in [("claude", Program::ClaudeCode), ("codex", Program::Codex)] {
        let said = Command::new("/bin/sh")
            .args(["-c", &format!("{name} --version")])
            .env_clear()
            .envs(stage.environment().iter().cloned())
            .output()
            .unwrap();
        let version = String::from_utf8_lossy(&said.stdout);
        assert!(version.contains(program.version()), "{name}: {said:?}");
    }
}

#[test]
fn scripts_work_without_an_agent() {
    let script = Script::new("words", [Turn::say("One."), Turn::say("Two.")]);
    let server = ModelServer::scripted([script.clone()]);
    let ask = |path: &str, messages: serde_json::Value| {
        let body = serde_json::json!({"stream": true, "messages": messages}).to_string();
        let mut stream = TcpStream::connect(server.host().trim_start_matches("http://")).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for path in ["/v1/messages", "/v1/chat/completions"] {
        let first = serde_json::json!({"role": "user", "content": script.marker()});
        let answer = ask(path, serde_json::json!([first]));
        assert!(
            answer.contains("One.") && answer.contains("[words:0]"),
            "{answer}"
        );
        let said = serde_json::json!({"role": "assistant", "content": "One. [words:0]"});
        let more = serde_json::json!({"role": "user", "content": "And?"});
        let answer = ask(path, serde_json::json!([first, said, more]));
        assert!(
            answer.contains("Two.") && answer.contains("[words:1]"),
            "{answer}"
        );
    }
    assert_eq!(server.paid_turns("words"), [0, 1, 0, 1]);
}
