//! Agents that are killed and resume with their own option.

use segno_testkit::model::{
    Call, ModelServer, Outcome, Part, Role, Script, Turn, conversation, files, standard,
    standard_files,
};
use segno_testkit::programs::{Agent, AgentSandbox};
use segno_testkit::sandbox::wait_until;

/// What happens to a command whose agent is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It continues, and completes.
    Done,
    /// The shell ends with the agent; its child processes do not.
    CutOff,
}

fn resumes_after_kill_in_command(agent: Agent, end: End) {
    let server = ModelServer::scripted([standard()]);
    let stage = AgentSandbox::new(&server);
    let prompt = format!("Do the task. {}", standard().marker());
    let mut running = agent.start(&stage, &prompt);
    running.read_until(|line| agent.session_id_in(line).is_some());
    let session = agent.session(running.seen());
    let has_begun = || stage.started_commands().contains(&"slow".to_owned());
    wait_until("the command runs and is written down", || {
        has_begun() && agent.read_transcript(&stage, &session).contains("sleep 1")
    });
    running.kill();
    // Child processes of the agent may outlive it. A resume must wait for them, or kill them.
    wait_until("nothing runs", || stage.processes().is_empty());
    let log = std::fs::read_to_string(stage.work().join("log.txt")).unwrap();
    assert_eq!(log.contains("slow"), end == End::Done, "{log}");
    let (status, lines) = agent.resume(&stage, &session, "Go on.").read_to_end();
    assert!(status.success(), "{status} {lines:#?}");
    assert_eq!(agent.session(&lines), session);
    assert_eq!(files(&stage.work()), standard_files());
    let signs: &[&str] = match end {
        End::Done => &["place", "slow", "count"],
        End::CutOff => &["place", "slow", "slow", "count"],
    };
    assert_eq!(stage.started_commands(), signs);
    let paid = server.paid_turns("standard");
    assert_eq!(paid, [0, 1, 2, 3, 4, 5, 6, 7, 8], "{:#?}", server.answers());
    assert_eq!(server.repaired_turns("standard"), [4]);
    let sent = conversation(&server.request("standard", 8).unwrap());
    assert!(sent.contains(&Part::Text(Role::User, prompt)), "{sent:#?}");
    assert!(
        sent.contains(&Part::Text(Role::User, "Go on.".into())),
        "{sent:#?}"
    );
    let unknown = |part: &&Part| matches!(part, Part::Result(_, Outcome::Unknown, _));
    assert_eq!(sent.iter().filter(unknown).count(), 1, "{sent:#?}");
}

#[test]
fn killed_claude_code_resumes_and_checks_its_command() {
    resumes_after_kill_in_command(Agent::Claude, End::Done);
}

#[test]
fn killed_codex_resumes_and_checks_its_command() {
    resumes_after_kill_in_command(Agent::Codex, End::CutOff);
}

#[test]
fn agent_killed_mid_answer_gets_the_answer_again() {
    for agent in Agent::ALL {
        let script = Script::new(
            "half",
            [
                Turn::say("First.").call(Call::write("first.txt", "first\n")),
                Turn::say("Half of this is sent, and then nothing more.").held(),
            ],
        );
        let server = ModelServer::scripted([script.clone()]);
        let stage = AgentSandbox::new(&server);
        let mut running = agent.start(&stage, &script.marker());
        running.read_until(|line| agent.session_id_in(line).is_some());
        let session = agent.session(running.seen());
        let written = match agent {
            Agent::Claude => "File created successfully",
            Agent::Codex => "Success. Updated the following files",
        };
        // Claude Code prints lines before it writes them to its transcript.
        wait_until("half is sent and the first turn is written down", || {
            server.is_held("half", 1) && agent.read_transcript(&stage, &session).contains(written)
        });
        running.kill();
        server.release("half", 1);
        let (status, lines) = agent.resume(&stage, &session, "Go on.").read_to_end();
        assert!(status.success(), "{agent:?} {status} {lines:#?}");
        let said = serde_json::to_string(&lines).unwrap();
        assert!(said.contains("nothing more."), "{agent:?} {said}");
        assert_eq!(server.paid_turns("half"), [0, 1, 1], "{agent:?}");
        assert_eq!(server.repaired_turns("half"), [0; 0], "{agent:?}");
    }
}
