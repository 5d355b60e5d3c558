//! The right next answer comes also to those who know the history only from hearsay.

use segno_testkit::model::{ModelServer, files, standard, standard_files};
use segno_testkit::programs::{Agent, Stage};

/// A session that another agent began, told in words: after turn 4, whose outcome is unknown.
const TOLD: &str = "You take over from another agent. Its task was: [script:standard]\n\
    Assistant: I begin with a plan. [standard:0]\nAssistant: One line was wrong. [standard:3]\n\
    Assistant: This takes a while. [standard:4]\nGo on.";

#[test]
fn an_agent_that_is_told_what_another_one_did_goes_on_there() {
    for agent in Agent::ALL {
        let server = ModelServer::scripted([standard()]);
        let stage = Stage::new(&server);
        let write = |path: &str, text: &str| {
            let path = stage.work().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("plan.md", "# Plan\n\n- [ ] build\n- [ ] check\n");
        write("src/part.txt", "alpha\ndelta\ngamma\n");
        write("log.txt", "place\nslow\n");
        let (status, lines) = agent.start(&stage, TOLD).end();
        assert!(status.success(), "{agent:?} {lines:#?}");
        assert_eq!(server.paid("standard"), [5, 6, 7, 8], "{agent:?}");
        assert_eq!(server.mended("standard")[0], 4, "{agent:?}");
        assert_eq!(files(&stage.work()), standard_files(), "{agent:?}");
        assert_eq!(
            stage.signs(),
            ["count"],
            "{agent:?}: what was done is not done again"
        );
    }
}
