//! Agents that follow the protocol.

use segno_agents::acp::{
    Event, FileOperation, Files, Money, Replayed, Stop, Tokens, ToolKind, Update,
};
use segno_core::agent::ErrorKind;
use serde_json::json;

use super::{ManualClock, config, run_prompt, start, with_session, words, written};
use crate::fixture::{Fixture, runtime, until, write};

#[test]
fn initialize_returns_capabilities() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = start(&fixture, "plain", config(&ManualClock::new()))
            .await
            .unwrap();
        let info = agent.initialize().await.unwrap().clone();
        assert_eq!(info.name.as_deref(), Some("fake"));
        assert_eq!(info.version.as_deref(), Some("1.2"));
        assert!(info.load_session);
        assert_eq!(info.value["later"], json!([1]));
        let offered = &info.value["seen"]["clientCapabilities"];
        let files = json!({"readTextFile": false, "writeTextFile": false});
        assert_eq!(*offered, json!({"fs": files, "terminal": false}));
        let session = agent.new_session(fixture.folder()).await.unwrap();
        assert_eq!(session.id, "s-1");
        assert_eq!(session.value["modes"]["currentModeId"], "default");
        agent.close().await;
    });
    fixture.assert_empty();
}

#[test]
fn turn_reports_updates_in_order_and_stop_reason() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "plain", config(&ManualClock::new())).await;
        let (updates, outcome) = run_prompt(&mut agent, &session, "go").await.unwrap();
        assert_eq!(outcome.stop, Stop::EndTurn);
        let tokens = Tokens {
            input: Some(12),
            output: Some(3),
            cached_read: Some(4),
            total: Some(19),
            ..Tokens::default()
        };
        assert_eq!(outcome.tokens, Some(tokens));
        let selected =
            |id: &str| format!(r#"{{"outcome": {{"optionId": "{id}", "outcome": "selected"}}}}"#);
        let unknown = r#"{"code": -32601, "message": "method not found"}"#;
        let unfit =
            r#"{"code": -32602, "message": "a known `sessionId` and a `toolCall` are required"}"#;
        assert_eq!(
            words(&updates),
            [
                "I write it.",
                &selected("this-once"),
                &selected("no"),
                unfit,
                unknown,
                unknown
            ]
        );
        let leaves: Vec<(&str, bool)> = updates
            .iter()
            .filter_map(|update| match update {
                Update::Permission { tool, granted } => Some((tool.id.as_str(), *granted)),
                _ => None,
            })
            .collect();
        assert_eq!(leaves, [("t-1", true), ("t-2", false)]);
        assert!(updates.contains(&Update::Thought("A file is needed.".into())));
        assert!(updates.contains(&Update::Context {
            used: 10,
            size: 200,
            cost: Some(Money {
                amount: 0.5,
                currency: "USD".into()
            }),
        }));
        let kind = |update: &Update| match update {
            Update::ToolStarted(tool) => Some(format!("started {:?}", tool.kind)),
            Update::ToolChanged(tool) => Some(format!("changed {:?}", tool.status)),
            Update::Plan(entries) => Some(format!("plan of {}", entries.len())),
            Update::Raw { kind, .. } => Some(kind.clone()),
            Update::OtherSession { session, .. } => Some(format!("of {session:?}")),
            _ => None,
        };
        let kinds: Vec<String> = updates.iter().filter_map(kind).collect();
        assert_eq!(
            kinds,
            [
                "available_commands_update".to_owned(),
                format!("started {:?}", Some(ToolKind::Edit)),
                "changed Some(Completed)".to_owned(),
                "plan of 1".to_owned(),
                "current_mode_update".to_owned(),
                "of Some(\"s-9\")".to_owned(),
                "_vendor/status".to_owned(),
            ]
        );
        // It accepts another prompt.
        assert!(run_prompt(&mut agent, &session, "go on").await.is_ok());
    });
}

#[test]
fn loaded_session_replays_its_updates() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = start(&fixture, "plain", config(&ManualClock::new()))
            .await
            .unwrap();
        agent.initialize().await.unwrap();
        let mut replay = agent.load_session("s-1", fixture.folder()).unwrap();
        let mut replayed = Vec::new();
        let session = loop {
            match replay.next().await.unwrap() {
                Replayed::Update(update) => replayed.push(update),
                Replayed::Done(session) => break session,
            }
        };
        assert_eq!(session.id, "s-1");
        assert_eq!(replayed[0], Update::UserMessage("make a file".into()));
        assert_eq!(replayed[1], Update::Text("I made it.".into()));
        assert!(matches!(&replayed[2], Update::ToolStarted(tool) if tool.id == "t-0"));
        assert_eq!(replayed.len(), 3);
        let (updates, _) = run_prompt(&mut agent, &session.id, "and now?")
            .await
            .unwrap();
        assert!(!words(&updates).contains(&"I made it."));
    });
}

#[test]
fn failed_load_keeps_the_agent_running() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = start(&fixture, "plain", config(&ManualClock::new()))
            .await
            .unwrap();
        agent.initialize().await.unwrap();
        let mut replay = agent.load_session("s-7", fixture.folder()).unwrap();
        let error = replay.next().await.unwrap_err();
        assert_eq!(replay.next().await, Err(error.clone()));
        assert_eq!(error.code, Some(-32603));
        assert_eq!(
            error.to_string(),
            "agent `python3` cannot be used: loading a session: it refused: Internal error: \
             No previous sessions found. (-32603)"
        );
        assert!(agent.prompt("s-7", "go").is_err());
        assert!(agent.new_session(fixture.folder()).await.is_ok());
    });
}

#[test]
fn files_are_served_only_inside_the_folder() {
    let fixture = Fixture::new();
    write(&fixture.folder().join("a.txt"), b"one\ntwo\n");
    std::os::unix::fs::symlink("/etc/passwd", fixture.folder().join("link")).unwrap();
    runtime().block_on(async {
        let mut config = config(&ManualClock::new());
        config.files = Files::ReadAndWrite;
        let (mut agent, session) = with_session(&fixture, "files", config).await;
        let (updates, _) = run_prompt(&mut agent, &session, "go").await.unwrap();
        let said = words(&updates);
        assert_eq!(said[0], r#"{"content": "one\ntwo\n"}"#);
        assert_eq!(said[1], r#"{"content": "two\n"}"#);
        assert!(said[2].contains("not an absolute path"), "{}", said[2]);
        for n in [3, 4, 5, 7] {
            assert!(said[n].contains("outside of the workspace"), "{}", said[n]);
        }
        assert_eq!(said[6], "{}");
        assert!(said[8].contains("`content` is missing"), "{}", said[8]);
        let refused = |update: &&Update| {
            matches!(
                update,
                Update::File {
                    refused: Some(_),
                    ..
                }
            )
        };
        assert_eq!(updates.iter().filter(refused).count(), 6);
        let path = format!(
            "{}/new/b.txt",
            fixture.folder().canonicalize().unwrap().display()
        );
        assert!(updates.contains(&Update::File {
            operation: FileOperation::Write,
            path,
            refused: None,
        }));
    });
    assert_eq!(written(&fixture.folder().join("new/b.txt")), "written");
    assert!(!std::path::Path::new("/tmp/segno-acp-outside").exists());
}

#[test]
fn read_only_files_are_not_written() {
    let fixture = Fixture::new();
    write(&fixture.folder().join("a.txt"), b"one\n");
    runtime().block_on(async {
        let mut config = config(&ManualClock::new());
        config.files = Files::Read;
        let (mut agent, session) = with_session(&fixture, "files", config).await;
        let (updates, _) = run_prompt(&mut agent, &session, "go").await.unwrap();
        let said = words(&updates);
        assert_eq!(said[0], r#"{"content": "one\n"}"#);
        assert!(said[6].contains("method not found"), "{}", said[6]);
    });
    assert!(!fixture.has("new"));
}

#[test]
fn cancelled_turn_grants_no_more_permission() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "cancel", config(&ManualClock::new())).await;
        let mut turn = agent.prompt(&session, "go").unwrap();
        while turn.next().await.unwrap() != Event::Update(Update::Text("I work.".into())) {}
        turn.cancel();
        turn.cancel();
        let mut updates = Vec::new();
        let outcome = loop {
            match turn.next().await.unwrap() {
                Event::Update(update) => updates.push(update),
                Event::End(outcome) => break outcome,
            }
        };
        assert_eq!(outcome.stop, Stop::Cancelled);
        let cancelled = r#"{"outcome": {"outcome": "cancelled"}}"#;
        assert_eq!(words(&updates), ["\"session/cancel\"", cancelled]);
        assert_eq!(turn.next().await.unwrap(), Event::End(outcome));
    });
}

#[test]
fn prompt_of_20_mb_arrives_complete() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) = with_session(&fixture, "big", config(&ManualClock::new())).await;
        let text = "0123456789".repeat(2 << 20);
        let (updates, _) = run_prompt(&mut agent, &session, &text).await.unwrap();
        assert_eq!(words(&updates), ["20971520"]);
    });
}

#[test]
fn invalid_requests_are_not_sent() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = start(&fixture, "no-load", config(&ManualClock::new()))
            .await
            .unwrap();
        let error = agent.new_session(fixture.folder()).await.unwrap_err();
        assert_eq!(error.reason, "the connection is not initialized");
        assert_eq!(error.kind, ErrorKind::Invalid);
        agent.initialize().await.unwrap();
        let error = agent.load_session("s-1", fixture.folder()).err().unwrap();
        assert_eq!(error.reason, "it does not support `session/load`");
        let error = agent.new_session("here".as_ref()).await.unwrap_err();
        assert_eq!(error.reason, "here is not an absolute UTF-8 path");
        let error = agent.prompt("s-1", "go").err().unwrap();
        let reason = "the session was neither created nor loaded on this connection";
        assert_eq!(error.reason, reason);
        let session = agent.new_session(fixture.folder()).await.unwrap();
        drop(agent.prompt(&session.id, "go").unwrap());
        let error = agent.prompt(&session.id, "go").err().unwrap();
        let reason = "the previous request is still pending";
        assert_eq!(error.reason, reason);
    });
}

#[test]
fn whole_process_tree_ends_with_the_agent() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "family", config(&ManualClock::new())).await;
        let mut turn = agent.prompt(&session, "go").unwrap();
        while turn.next().await.unwrap() != Event::Update(Update::Text("I have children.".into())) {
        }
        until("the family is complete", || fixture.processes().len() == 5);
        drop(agent);
    });
    until("the family is gone", || fixture.processes().is_empty());
}
