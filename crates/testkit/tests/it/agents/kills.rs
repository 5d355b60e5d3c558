//! Agents that are killed and go on with their own means.

use segno_testkit::model::{
    Call, ModelServer, Outcome, Part, Role, Script, Turn, conversation, files, standard,
    standard_files,
};
use segno_testkit::programs::{Agent, Stage};
use segno_testkit::sandbox::until;

/// What becomes of a command whose agent is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It goes on, and is done some time.
    Done,
    /// The shell goes with the agent; what the shell had started does not.
    CutOff,
}

fn is_killed_in_a_command_and_goes_on(agent: Agent, end: End) {
    let server = ModelServer::scripted([standard()]);
    let stage = Stage::new(&server);
    let prompt = format!("Do the task. {}", standard().marker());
    let mut running = agent.start(&stage, &prompt);
    running.until(|line| agent.named(line).is_some());
    let session = agent.session(running.seen());
    let has_begun = || stage.signs().contains(&"slow".to_owned());
    until("the command runs and is written down", || {
        has_begun() && agent.kept(&stage, &session).contains("sleep 1")
    });
    running.kill();
    // What the agent started may go on without it. Whoever resumes waits for it, or ends it.
    until("nothing runs", || stage.processes().is_empty());
    let log = std::fs::read_to_string(stage.work().join("log.txt")).unwrap();
    assert_eq!(log.contains("slow"), end == End::Done, "{log}");
    let (status, lines) = agent.resume(&stage, &session, "Go on.").end();
    assert!(status.success(), "{status} {lines:#?}");
    assert_eq!(agent.session(&lines), session);
    assert_eq!(files(&stage.work()), standard_files());
    let signs: &[&str] = match end {
        End::Done => &["place", "slow", "count"],
        End::CutOff => &["place", "slow", "slow", "count"],
    };
    assert_eq!(stage.signs(), signs);
    let paid = server.paid("standard");
    assert_eq!(paid, [0, 1, 2, 3, 4, 5, 6, 7, 8], "{:#?}", server.answers());
    assert_eq!(server.mended("standard"), [4]);
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
fn claude_code_killed_in_a_command_goes_on_and_looks_before_it_acts() {
    is_killed_in_a_command_and_goes_on(Agent::Claude, End::Done);
}

#[test]
fn codex_killed_in_a_command_goes_on_and_looks_before_it_acts() {
    is_killed_in_a_command_and_goes_on(Agent::Codex, End::CutOff);
}

#[test]
fn an_agent_killed_in_the_middle_of_an_answer_gets_the_same_answer_again() {
    for agent in Agent::ALL {
        let script = Script::new(
            "half",
            [
                Turn::say("First.").call(Call::write("first.txt", "first\n")),
                Turn::say("Half of this is sent, and then nothing more.").held(),
            ],
        );
        let server = ModelServer::scripted([script.clone()]);
        let stage = Stage::new(&server);
        let mut running = agent.start(&stage, &script.marker());
        running.until(|line| agent.named(line).is_some());
        let session = agent.session(running.seen());
        let written = match agent {
            Agent::Claude => "File created successfully",
            Agent::Codex => "Success. Updated the following files",
        };
        // Claude Code says things before it writes them down.
        until("half is sent and the first turn is written down", || {
            server.holds("half", 1) && agent.kept(&stage, &session).contains(written)
        });
        running.kill();
        server.release("half", 1);
        let (status, lines) = agent.resume(&stage, &session, "Go on.").end();
        assert!(status.success(), "{agent:?} {status} {lines:#?}");
        let said = serde_json::to_string(&lines).unwrap();
        assert!(said.contains("nothing more."), "{agent:?} {said}");
        assert_eq!(server.paid("half"), [0, 1, 1], "{agent:?}");
        assert_eq!(server.mended("half"), [0; 0], "{agent:?}");
    }
}
