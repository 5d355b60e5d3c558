//! The right next answer also comes if the history is only quoted or summarized.

use segno_testkit::model::{
    Answer, Call, ModelServer, Purpose, Script, Turn, files, standard, standard_files,
};
use segno_testkit::programs::{Agent, AgentSandbox};

/// A session that another agent began, as text: after turn 4, whose outcome is unknown.
const QUOTED_HISTORY: &str = "You take over from another agent. Its task was: [script:standard]\n\
    Assistant: I begin with a plan. [standard:0]\nAssistant: One line was wrong. [standard:3]\n\
    Assistant: This takes a while. [standard:4]\nContinue.";

#[test]
fn agent_continues_from_a_quoted_history() {
    for agent in Agent::ALL {
        let server = ModelServer::scripted([standard()]);
        let stage = AgentSandbox::new(&server);
        let write = |path: &str, text: &str| {
            let path = stage.work().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("plan.md", "# Plan\n\n- [ ] build\n- [ ] check\n");
        write("src/part.txt", "alpha\ndelta\ngamma\n");
        write("log.txt", "place\nslow\n");
        let (status, lines) = agent.start(&stage, QUOTED_HISTORY).read_to_end();
        assert!(status.success(), "{agent:?} {lines:#?}");
        assert_eq!(server.paid_turns("standard"), [5, 6, 7, 8], "{agent:?}");
        assert_eq!(server.repaired_turns("standard")[0], 4, "{agent:?}");
        assert_eq!(files(&stage.work()), standard_files(), "{agent:?}");
        assert_eq!(
            stage.started_commands(),
            ["count"],
            "{agent:?}: what was done is not done again"
        );
    }
}

#[test]
fn compacted_conversation_continues_at_its_turn() {
    let script = Script::new(
        "long",
        [
            Turn::say("I write.").call(Call::write("a.txt", "a\n")),
            Turn::say("So far."),
            Turn::say("And on."),
        ],
    );
    let server = ModelServer::scripted([script.clone()]);
    let stage = AgentSandbox::new(&server);
    Agent::Claude.start(&stage, &script.marker()).read_to_end();
    for prompt in ["/compact", "Continue."] {
        let (status, lines) = Agent::Claude
            .resume(&stage, Agent::SESSION, prompt)
            .read_to_end();
        assert!(status.success(), "{lines:#?}");
    }
    let is_summary = |answer: &Answer| matches!(answer.purpose, Purpose::Summary { .. });
    let answers = server.answers();
    assert_eq!(
        answers.iter().filter(|answer| is_summary(answer)).count(),
        1
    );
    assert_eq!(server.paid_turns("long"), [0, 1, 2]);
    assert_eq!(server.repaired_turns("long"), [0; 0], "{answers:#?}");
}
