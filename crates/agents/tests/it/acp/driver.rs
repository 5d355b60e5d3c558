//! The ACP driver as the engine uses it.

use std::sync::Arc;

use segno_agents::Acp;
use segno_agents::program::Permissions;
use segno_core::agent::{AccessMode, Answer, Error, ErrorKind, Request};
use segno_core::cli_agent::{CliAgent, ConversationMode, Examination, Health, KnownItems};
use segno_core::ports::Clock;
use segno_core::usage::{Cost, Usage};

use super::ManualClock;
use crate::event_log::EventLog;
use crate::fixture::{Fixture, process_guard, runtime, until};

fn acp(mode: &str, permissions: Permissions) -> Acp {
    let script = format!("{}/tests/it/acp/agent.py", env!("CARGO_MANIFEST_DIR"));
    let argv = ["python3", &script, mode].map(str::to_owned).to_vec();
    let clock = ManualClock::new() as Arc<dyn Clock>;
    Acp::new(argv, permissions, process_guard(), None, clock)
}

/// The result of a request, and the events reported meanwhile.
fn run_prompt(
    fixture: &Fixture,
    mode: &str,
    way: ConversationMode<'_>,
) -> (Result<Answer, Error>, Vec<String>) {
    let (acp, lines) = (acp(mode, Permissions::Edit), EventLog::default());
    let answer = runtime().block_on(acp.ask(fixture.request(), way, &lines));
    fixture.assert_empty();
    (answer, lines.lines())
}

const BEGIN: ConversationMode<'_> = ConversationMode::Start { id: "unused" };

#[test]
fn turn_is_reported_in_messages_calls_and_results() {
    let mut fixture = Fixture::new();
    fixture.system = "You are brief.".into();
    fixture.input = "go".into();
    let (answer, events) = run_prompt(&fixture, "entries", BEGIN);
    let answer = answer.unwrap();
    assert_eq!(answer.text, "All is done.");
    let usage = Usage {
        input_tokens: 16,
        output_tokens: 3,
        cost: Cost(500_000),
    };
    assert_eq!(answer.usage, usage);
    assert_eq!(
        events,
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
fn approval_follows_permissions_and_refusals_are_reported() {
    let mut answers = Vec::new();
    for (permissions, access) in [
        (Permissions::Read, AccessMode::ReadWrite),
        (Permissions::Edit, AccessMode::ReadWrite),
        (Permissions::Edit, AccessMode::ReadOnly),
        (Permissions::All, AccessMode::ReadWrite),
    ] {
        let (fixture, lines) = (Fixture::new(), EventLog::default());
        let acp = acp("plain", permissions);
        let request = Request {
            access,
            ..fixture.request()
        };
        runtime().block_on(acp.ask(request, BEGIN, &lines)).unwrap();
        let events = lines.lines();
        let granted = events
            .iter()
            .filter(|line| line.contains("this-once"))
            .count();
        let denied = events.iter().filter(|line| line.starts_with("refused"));
        answers.push((granted, denied.cloned().collect::<Vec<_>>()));
        assert!(
            !events.iter().any(|line| line.contains("for-good")),
            "{events:?}"
        );
    }
    let denied = |what: &str, why: &str| format!("refused {what} {why}");
    let (own, read) = ("permissions", "read_only");
    let expected = [
        (0, vec![denied("Write a", own), denied("rm -rf", own)]),
        (1, vec![denied("rm -rf", own)]),
        (0, vec![denied("Write a", read), denied("rm -rf", read)]),
        (2, vec![]),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn resumed_session_does_not_repeat_the_replay() {
    let mut fixture = Fixture::new();
    (fixture.system, fixture.input) = ("You are brief.".into(), "go on".into());
    let (answer, events) = run_prompt(&fixture, "entries", ConversationMode::Resume { id: "s-1" });
    // Half a dollar in all, of which 0.2 had been spent before.
    assert_eq!(answer.unwrap().usage.cost, Cost(300_000));
    assert_eq!(events[..2], ["native s-1", "text go on"]);
    assert!(
        !events.iter().any(|line| line.contains("I made it")),
        "{events:?}"
    );
    assert!(
        !events.iter().any(|line| line.contains("t-0")),
        "{events:?}"
    );
}

#[test]
fn unloadable_session_is_no_conversation() {
    for (mode, id, expected) in [
        (
            "no-load",
            "s-1",
            "the agent does not support `session/load`",
        ),
        ("plain", "s-7", "No previous sessions found"),
    ] {
        let (answer, events) = run_prompt(&Fixture::new(), mode, ConversationMode::Resume { id });
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoConversation, "{error}");
        assert!(error.message.contains(expected), "{error}");
        assert!(events.is_empty(), "{events:?}");
    }
    let (answer, events) = run_prompt(
        &Fixture::new(),
        "other",
        ConversationMode::Resume { id: "s-1" },
    );
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.contains("another session"), "{error}");
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn missing_answers_map_to_error_kinds() {
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
            "it stopped with reason `tired`",
        ),
        ("stops:max_tokens", ErrorKind::Invalid, "output limit"),
        (
            "stops:max_turn_requests",
            ErrorKind::Invalid,
            "model requests per turn",
        ),
        ("stops:refusal", ErrorKind::Invalid, "refuses to continue"),
        ("stops:cancelled", ErrorKind::Crashed, "turn was cancelled"),
        ("fails:API Error: 529 busy", ErrorKind::Server, "529"),
        ("fails:API Error: 401 no", ErrorKind::Auth, "401"),
        ("fails:prompt is too long", ErrorKind::ContextFull, "long"),
        (
            "fails:usage limit reached, try again in 2 minutes.",
            ErrorKind::RateLimited(Some(std::time::Duration::from_mins(2))),
            "limit",
        ),
        ("fails:something else", ErrorKind::Server, "something else"),
        (
            "system-error:Missing environment variable: `KEY`.\n\n",
            ErrorKind::Auth,
            "Missing environment variable: `KEY`.",
        ),
        ("system-error:", ErrorKind::Unknown, "its turn failed"),
    ] {
        let (answer, _) = run_prompt(&Fixture::new(), mode, BEGIN);
        let error = answer.unwrap_err();
        assert_eq!(error.kind, kind, "{mode}: {error}");
        assert!(error.message.contains(expected), "{mode}: {error}");
    }
    let missing = ["no-such-agent-anywhere".to_owned()].to_vec();
    let clock = ManualClock::new() as Arc<dyn Clock>;
    let acp = Acp::new(missing, Permissions::Edit, process_guard(), None, clock);
    let fixture = Fixture::new();
    let lines = EventLog::default();
    let asked = acp.ask(fixture.request(), BEGIN, &lines);
    let error = runtime().block_on(asked).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoProgram, "{error}");
}

#[test]
fn messages_before_a_crash_are_reported() {
    let (answer, events) = run_prompt(&Fixture::new(), "dies", BEGIN);
    assert!(answer.is_err());
    assert_eq!(events, ["native s-1", "text I am about to ..."]);
}

#[test]
fn endless_message_is_refused() {
    let (answer, events) = run_prompt(&Fixture::new(), "endless", BEGIN);
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("a message has more than"), "{error}");
    assert_eq!(events, ["native s-1"]);
}

#[test]
fn dropped_request_kills_the_whole_process_tree() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (acp, lines) = (acp("family", Permissions::Edit), EventLog::default());
        let mut asking = acp.ask(fixture.request(), BEGIN, &lines);
        let family = async {
            while fixture.processes().len() < 5 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut asking => panic!("it never ends"),
            () = family => {}
        }
    });
    until("the family is gone", || fixture.processes().is_empty());
}

#[test]
fn acp_session_is_known_only_by_loading_it() {
    let fixture = Fixture::new();
    let agent = acp("entries", Permissions::Edit);
    runtime().block_on(async {
        let record = agent
            .transcript_state("s-1", fixture.folder(), Examination::StartProgram)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(record.health, Health::Intact);
        // The call and its result.
        let known = KnownItems::Ids(vec!["t-0".to_owned(); 2]);
        assert_eq!(record.known, Some(known));
        assert_eq!(record.unanswered, None);
        // Without starting it, nothing is known.
        let record = agent
            .transcript_state(
                "s-1",
                std::path::Path::new("/no/such/folder"),
                Examination::FilesOnly,
            )
            .await
            .unwrap()
            .unwrap();
        assert_eq!(record.health, Health::Unexamined);
        let unknown = agent
            .transcript_state("s-7", fixture.folder(), Examination::StartProgram)
            .await
            .unwrap();
        assert_eq!(unknown, None);
        let unable = acp("no-load", Permissions::Edit);
        let unable = unable
            .transcript_state("s-1", fixture.folder(), Examination::StartProgram)
            .await
            .unwrap();
        assert_eq!(unable, None);
        let empty = acp("notice", Permissions::Edit);
        let empty = empty
            .transcript_state("s-1", fixture.folder(), Examination::StartProgram)
            .await
            .unwrap();
        assert_eq!(empty.unwrap().health, Health::Empty, "only a notice");
        let ill = acp("die", Permissions::Edit);
        let error = ill
            .transcript_state("s-1", fixture.folder(), Examination::StartProgram)
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Crashed, "{error}");
        assert!(
            agent.transcript_files().is_none(),
            "its records are its own affair"
        );
    });
}
