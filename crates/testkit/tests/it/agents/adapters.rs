//! The adapters of the Agent Client Protocol over both agents.

use segno_testkit::model::{ModelServer, Purpose, files, standard, standard_files};
use segno_testkit::programs::{AgentSandbox, Client, Program};
use segno_testkit::sandbox::wait_until;

fn plays_the_standard_script(program: Program) {
    let server = ModelServer::scripted([standard()]);
    let stage = AgentSandbox::new(&server);
    let mut client = Client::start(&stage, program);
    let session = client.session(&stage);
    let prompt = format!("Do the task. {}", standard().marker());
    let stopped = client.prompt(&session, &prompt);
    assert_eq!(stopped, "end_turn", "{:#?}", client.seen());
    let said = format!("{:?}", client.seen());
    assert!(said.contains(program.version()), "another version: {said}");
    assert_eq!(files(&stage.work()), standard_files());
    assert_eq!(server.paid_turns("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(server.repaired_turns("standard"), [0; 0]);
}

#[test]
fn the_adapter_of_claude_code_plays_the_standard_script() {
    plays_the_standard_script(Program::ClaudeAcp);
}

#[test]
fn the_adapter_of_codex_plays_the_standard_script() {
    plays_the_standard_script(Program::CodexAcp);
}

/// The adapter asks for a title when its client leaves it the time, which segno does on a busy
/// machine.
#[test]
fn title_that_codex_acp_asks_for_is_no_turn() {
    let server = ModelServer::scripted([standard()]);
    let stage = AgentSandbox::new(&server);
    let mut client = Client::start(&stage, Program::CodexAcp);
    let session = client.session(&stage);
    client.prompt(&session, &format!("Do the task. {}", standard().marker()));
    wait_until("a title is asked for", || {
        let answers = server.answers();
        answers.iter().any(|one| one.purpose == Purpose::Side)
            || server.paid_turns("standard").len() > 9
    });
    assert_eq!(server.paid_turns("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}
