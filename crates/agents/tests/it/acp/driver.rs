//! An agent of the protocol as the engine asks it.

use std::sync::Arc;

use segno_agents::Acp;
use segno_agents::program::Permissions;
use segno_core::agent::{Answer, Conduct, Error, ErrorKind, Request};
use segno_core::companion::{Companion, Health, Way};
use segno_core::ports::Clock;
use segno_core::usage::{Cost, Usage};

use super::Hand;
use crate::told::Told;
use crate::world::{World, runtime, until, warden};

fn acp(mode: &str, permissions: Permissions) -> Acp {
    let script = format!("{}/tests/it/acp/agent.py", env!("CARGO_MANIFEST_DIR"));
    let argv = ["python3", &script, mode].map(str::to_owned).to_vec();
    let clock = Hand::new() as Arc<dyn Clock>;
    Acp::new(argv, permissions, warden(), None, clock)
}

/// What comes of a question, and what was reported on the way.
fn asked(world: &World, mode: &str, way: Way<'_>) -> (Result<Answer, Error>, Vec<String>) {
    let (acp, lines) = (acp(mode, Permissions::Edit), Told::default());
    let answer = runtime().block_on(acp.ask(world.request(), way, &lines));
    world.assert_empty();
    (answer, lines.lines())
}

const BEGIN: Way<'_> = Way::Begin { id: "unused" };

#[test]
fn a_turn_is_told_in_whole_messages_and_calls_with_their_answers() {
    let mut world = World::new();
    world.system = "You are brief.".into();
    world.input = "go".into();
    let (answer, told) = asked(&world, "entries", BEGIN);
    let answer = answer.unwrap();
    assert_eq!(answer.text, "All is done.");
    let usage = Usage {
        input_tokens: 16,
        output_tokens: 3,
        cost: Cost(500_000),
    };
    assert_eq!(answer.usage, usage);
    assert_eq!(
        told,
        [
            "native s-1",
            "text You are brief.\n\ngo",
            "thought A file is needed.",
            "text I write it.",
            r#"call t-1 Write {"path":"a"}"#,
            "context 9 None",
            "result t-1 true written",
            r#"call t-2 execute {"command":"false"}"#,
            "result t-2 false it failed\nwith 1",
            r#"call t-3 edit {"changes":[{"path":"b","type":"diff"}],"title":"Edit b"}"#,
            "result t-3 true ",
            "text Two ",
            "text of them.",
            r#"raw {"entries":[{"content":"count","status":"pending"}],"type":"plan"}"#,
            "context 10 Some(200)",
            "usage 0 250000",
            "usage 0 500000",
            "Raw { record: \"of_tomorrow\" }",
            "text All is done.",
            r#"call t-4 search {"title":"Never ended"}"#,
            "usage 16 500000",
        ]
    );
}

#[test]
fn leave_follows_the_permissions_and_a_denial_is_noticed() {
    let mut answers = Vec::new();
    for (permissions, conduct) in [
        (Permissions::Read, Conduct::Work),
        (Permissions::Edit, Conduct::Work),
        (Permissions::Edit, Conduct::Look),
        (Permissions::All, Conduct::Work),
    ] {
        let (world, lines) = (World::new(), Told::default());
        let acp = acp("plain", permissions);
        let request = Request {
            conduct,
            ..world.request()
        };
        runtime().block_on(acp.ask(request, BEGIN, &lines)).unwrap();
        let told = lines.lines();
        let granted = told
            .iter()
            .filter(|line| line.contains("this-once"))
            .count();
        let denied = told.iter().filter(|line| line.starts_with("notice"));
        answers.push((granted, denied.cloned().collect::<Vec<_>>()));
        assert!(
            !told.iter().any(|line| line.contains("for-good")),
            "{told:?}"
        );
    }
    let denied = |what: &str| {
        format!(
            "notice python3 was denied leave to use {what}; `acp.permissions` in the settings says what it may do, and whoever plans or reviews only looks"
        )
    };
    let expected = [
        (0, vec![denied("Write a"), denied("rm -rf")]),
        (1, vec![denied("rm -rf")]),
        (0, vec![denied("Write a"), denied("rm -rf")]),
        (2, vec![]),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn a_session_goes_on_and_what_is_replayed_is_not_said_again() {
    let mut world = World::new();
    (world.system, world.input) = ("You are brief.".into(), "go on".into());
    let (answer, told) = asked(&world, "entries", Way::Continue { id: "s-1" });
    // Half a dollar in all, of which 0.2 had been spent before.
    assert_eq!(answer.unwrap().usage.cost, Cost(300_000));
    assert_eq!(told[..2], ["native s-1", "text go on"]);
    assert!(
        !told.iter().any(|line| line.contains("I made it")),
        "{told:?}"
    );
    assert!(!told.iter().any(|line| line.contains("t-0")), "{told:?}");
}

#[test]
fn a_session_that_does_not_come_back_is_not_found() {
    for (mode, id, expected) in [
        ("no-load", "s-1", "the agent cannot bring sessions back"),
        ("plain", "s-7", "No previous sessions found"),
    ] {
        let (answer, told) = asked(&World::new(), mode, Way::Continue { id });
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.message.contains(expected), "{error}");
        assert!(told.is_empty(), "{told:?}");
    }
    let (answer, told) = asked(&World::new(), "other", Way::Continue { id: "s-1" });
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.contains("another session"), "{error}");
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn why_there_is_no_answer_is_told_by_kind() {
    for (mode, kind, expected) in [
        (
            "auth",
            ErrorKind::Auth,
            "log in with the agent's own program",
        ),
        ("die", ErrorKind::Crashed, "no luck today"),
        ("dies", ErrorKind::Crashed, "signal 9"),
        (
            "odd-stop",
            ErrorKind::Invalid,
            "it stopped because of `tired`",
        ),
        ("stops:max_tokens", ErrorKind::Invalid, "may not say more"),
        ("stops:max_turn_requests", ErrorKind::Invalid, "more often"),
        ("stops:refusal", ErrorKind::Invalid, "refuses to go on"),
        ("stops:cancelled", ErrorKind::Crashed, "broken off"),
        ("fails:API Error: 529 busy", ErrorKind::Server, "529"),
        ("fails:API Error: 401 no", ErrorKind::Auth, "401"),
        ("fails:prompt is too long", ErrorKind::ContextFull, "long"),
        (
            "fails:usage limit reached, try again in 2 minutes.",
            ErrorKind::RateLimited(Some(std::time::Duration::from_mins(2))),
            "limit",
        ),
        ("fails:something else", ErrorKind::Server, "something else"),
    ] {
        let (answer, _) = asked(&World::new(), mode, BEGIN);
        let error = answer.unwrap_err();
        assert_eq!(error.kind, kind, "{mode}: {error}");
        assert!(error.message.contains(expected), "{mode}: {error}");
    }
    let missing = ["no-such-agent-anywhere".to_owned()].to_vec();
    let clock = Hand::new() as Arc<dyn Clock>;
    let acp = Acp::new(missing, Permissions::Edit, warden(), None, clock);
    let world = World::new();
    let lines = Told::default();
    let asked = acp.ask(world.request(), BEGIN, &lines);
    let error = runtime().block_on(asked).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}

#[test]
fn what_was_said_before_an_agent_died_is_told() {
    let (answer, told) = asked(&World::new(), "dies", BEGIN);
    assert!(answer.is_err());
    assert_eq!(told, ["native s-1", "text I am about to ..."]);
}

#[test]
fn a_message_that_never_ends_is_not_held() {
    let (answer, told) = asked(&World::new(), "endless", BEGIN);
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("a message has more than"), "{error}");
    assert_eq!(told, ["native s-1"]);
}

#[test]
fn dropping_the_question_ends_the_agent_with_all_that_it_started() {
    let world = World::new();
    runtime().block_on(async {
        let (acp, lines) = (acp("family", Permissions::Edit), Told::default());
        let mut asking = acp.ask(world.request(), BEGIN, &lines);
        let family = async {
            while world.living().len() < 5 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut asking => panic!("it never ends"),
            () = family => {}
        }
    });
    until("the family is gone", || world.living().is_empty());
}

#[test]
fn what_an_agent_keeps_is_its_own_affair_but_for_what_it_brings_back() {
    let world = World::new();
    let agent = acp("entries", Permissions::Edit);
    runtime().block_on(async {
        let record = agent.record("s-1", world.folder()).await.unwrap().unwrap();
        assert_eq!(record.health, Health::Whole);
        // The call and its answer.
        assert_eq!(record.named, Some(vec!["t-0".to_owned(); 2]));
        assert_eq!(record.unanswered, None);
        let unknown = agent.record("s-7", world.folder()).await.unwrap();
        assert_eq!(unknown, None);
        let unable = acp("no-load", Permissions::Edit);
        let unable = unable.record("s-1", world.folder()).await.unwrap();
        assert_eq!(unable, None);
        let ill = acp("die", Permissions::Edit);
        let error = ill.record("s-1", world.folder()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Crashed, "{error}");
        assert!(agent.records().is_none(), "its records are its own affair");
    });
}
