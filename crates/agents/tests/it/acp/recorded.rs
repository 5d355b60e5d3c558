//! Recordings of real agents: each is parsed to its end.

use std::sync::Arc;

use segno_agents::acp::{Connection, Outcome, Policy, Replayed, Stop, Tokens, Update};
use segno_agents::program::Permissions;
use segno_agents::{Acp, SegnoMcpServer};
use segno_core::agent::{Answer, ErrorKind};
use segno_core::cli_agent::{CliAgent, ConversationMode};
use segno_core::ports::Clock;
use segno_core::usage::Usage;

use super::{ManualClock, config, words};
use crate::event_log::EventLog;
use crate::fixture::{Fixture, process_guard, runtime};

/// The program that replays a recording.
fn argv(name: &str) -> [String; 3] {
    let place = format!("{}/tests/it/acp", env!("CARGO_MANIFEST_DIR"));
    let recording = format!("{place}/recorded/{name}.txt");
    let script = format!("{place}/recorded.py");
    ["python3".to_owned(), script, recording]
}

/// The answer that the driver gives under the access mode `edit`, and what it reports.
fn drive(name: &str) -> (Answer, Vec<String>) {
    let (fixture, log) = (Fixture::new(), EventLog::default());
    let service = SegnoMcpServer {
        name: "segno",
        program: "segno".into(),
        args: vec!["mcp".into()],
        env: Vec::new(),
        inherited_variables: Vec::new(),
    };
    let clock = ManualClock::new() as Arc<dyn Clock>;
    let (argv, guard) = (argv(name).to_vec(), process_guard());
    let acp = Acp::new(argv, Permissions::Edit, guard, Some(service), clock);
    let way = ConversationMode::Start { id: "unused" };
    let answer = runtime().block_on(acp.ask(fixture.request(), way, &log));
    fixture.assert_empty();
    (answer.unwrap(), log.lines())
}

async fn open(fixture: &Fixture, name: &str) -> Connection {
    let argv = argv(name);
    let mut config = config(&ManualClock::new());
    config.policy = Policy::All;
    let mut agent = Connection::open(&argv, &[], fixture.folder(), config)
        .await
        .unwrap();
    agent.initialize().await.unwrap();
    agent
}

async fn ask(agent: &mut Connection, session: &str) -> (Vec<Update>, Outcome) {
    super::run_prompt(agent, session, "go").await.unwrap()
}

fn count(updates: &[Update], wanted: fn(&Update) -> bool) -> usize {
    updates.iter().filter(|update| wanted(update)).count()
}

#[test]
fn claude_works_on_a_file() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = open(&fixture, "claude").await;
        let session = agent.new_session(fixture.folder()).await.unwrap();
        let (updates, outcome) = ask(&mut agent, &session.id).await;
        assert_eq!(outcome.stop, Stop::EndTurn);
        assert_eq!(
            words(&updates).concat(),
            "I will create the file.Now I edit it.Check it in the shell.Done: hello.txt now says \
             alpha, gamma."
        );
        let started = |update: &Update| matches!(update, Update::ToolStarted(_));
        assert_eq!(count(&updates, started), 4);
        let granted = |update: &Update| matches!(update, Update::Permission { granted: true, .. });
        assert_eq!(count(&updates, granted), 2);
        let cost = |update: &Update| matches!(update, Update::Context { cost: Some(_), .. });
        assert_eq!(count(&updates, cost), 1);
        assert!(outcome.tokens.unwrap().total.is_some());
    });
}

#[test]
fn opencode_works_on_a_file() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = open(&fixture, "opencode").await;
        let session = agent.new_session(fixture.folder()).await.unwrap();
        let (updates, outcome) = ask(&mut agent, &session.id).await;
        let tokens = Tokens {
            input: Some(7744),
            output: Some(20),
            total: Some(7764),
            ..Tokens::default()
        };
        assert_eq!(outcome.tokens, Some(tokens));
        let started = |update: &Update| matches!(update, Update::ToolStarted(_));
        assert_eq!(count(&updates, started), 4);
        let last = "Done: hello.txt now says alpha, gamma.";
        assert!(words(&updates).concat().ends_with(last));
    });
}

#[test]
fn codex_loads_a_session() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = open(&fixture, "codex-load").await;
        let id = "01a1de1e-6f2d-70b1-a3e5-97bda570350a";
        let mut replay = agent.load_session(id, fixture.folder()).unwrap();
        let mut replayed = Vec::new();
        while let Replayed::Update(update) = replay.next().await.unwrap() {
            replayed.push(update);
        }
        let said = |update: &Update| matches!(update, Update::UserMessage(_));
        assert_eq!(count(&replayed, said), 1);
        let started = |update: &Update| matches!(update, Update::ToolStarted(_));
        assert_eq!(count(&replayed, started), 4);
        let (updates, outcome) = ask(&mut agent, id).await;
        assert_eq!(words(&updates).concat(), "I remember. Nothing more to do.");
        assert_eq!(outcome.stop, Stop::EndTurn);
        let context = Update::Context {
            used: 11442,
            size: 258_400,
            cost: None,
        };
        assert!(updates.contains(&context));
    });
}

#[test]
fn gemini_refuses_an_unknown_session() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = open(&fixture, "gemini-load").await;
        let id = "68fc6134-42cb-49c1-af6b-70c49791b56c";
        let mut replay = agent.load_session(id, fixture.folder()).unwrap();
        let error = replay.next().await.unwrap_err();
        assert_eq!((error.kind, error.code), (ErrorKind::Server, Some(-32603)));
        let details = "No previous sessions found for this project.";
        assert!(error.reason.contains(details), "{error}");
    });
}

#[test]
fn output_of_codex_commands_is_kept() {
    let (answer, events) = drive("codex");
    assert_eq!(answer.text, "Done: hello.txt now says alpha, gamma.");
    for (id, output) in [
        ("call_b8dcef74a2114152b90ce075", "alpha\nbeta\n"),
        (
            "call_5b6e7a1e021b41cc809cf65d",
            "alpha\ngamma\n/home/user/project\n",
        ),
    ] {
        let result = format!("result {id} true {output}");
        assert!(events.contains(&result), "{events:#?}");
    }
}

#[test]
fn gemini_uses_tools_of_segno_and_counts_tokens() {
    let (answer, events) = drive("gemini");
    assert_eq!(answer.text, "All is done.");
    let usage = Usage {
        input_tokens: 3300,
        output_tokens: 150,
        ..Usage::default()
    };
    assert_eq!(answer.usage, usage);
    let call = r#"call mcp_segno_add_todo__fc_0 other {"title":"add_todo (segno MCP Server)"}"#;
    let result = r#"result mcp_segno_add_todo__fc_0 true {"id":"t1","kept":true}"#;
    for event in [call, result] {
        assert!(events.iter().any(|line| line == event), "{events:#?}");
    }
    let denied = events.iter().find(|line| line.starts_with("notice"));
    assert_eq!(denied, None);
}
