//! Recordings of real agents: each is parsed to its end.

use segno_agents::acp::{Connection, Outcome, Policy, Replayed, Stop, Tokens, Update};
use segno_core::agent::ErrorKind;

use super::{ManualClock, config, words};
use crate::fixture::{Fixture, runtime};

async fn open(fixture: &Fixture, name: &str) -> Connection {
    let place = format!("{}/tests/it/acp", env!("CARGO_MANIFEST_DIR"));
    let recording = format!("{place}/recorded/{name}.txt");
    let argv = [
        "python3".to_owned(),
        format!("{place}/recorded.py"),
        recording,
    ];
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
