//! Undisturbed runs.

use segno_testkit::model::{Ending, ModelServer, Purpose, files, standard, standard_files};
use segno_testkit::programs::{Agent, Stage};

fn runs_to_the_end(agent: Agent) {
    let server = ModelServer::scripted([standard()]);
    let stage = Stage::new(&server);
    let prompt = format!("Do the task. {}", standard().marker());
    let (status, lines) = agent.start(&stage, &prompt).end();
    assert!(status.success(), "{status} {lines:#?}");
    assert_eq!(files(&stage.work()), standard_files(), "{lines:#?}");
    assert_eq!(server.paid("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(server.mended("standard"), [0; 0], "{:#?}", server.answers());
    assert_eq!(stage.signs(), ["place", "slow", "count"]);
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
        agent.record(&stage, &session).is_some(),
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
fn every_request_is_a_turn_of_the_script_or_is_known_to_be_none() {
    for agent in Agent::ALL {
        let server = ModelServer::scripted([standard()]);
        let stage = Stage::new(&server);
        let (_, lines) = agent.start(&stage, "Say something without a script.").end();
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
