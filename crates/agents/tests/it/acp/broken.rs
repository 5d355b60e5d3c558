//! Agents that violate the protocol: Segno does not guess, hang or flood.

use segno_agents::acp::{AcpError, Connection, Event, Files, Limits, Replayed, Stop};
use segno_core::agent::ErrorKind;

use super::{ManualClock, config, run_prompt, start, with_session, words};
use crate::fixture::{Fixture, process_guard, runtime, until, write};

/// The result of initializing an agent.
fn initialize(mode: &str) -> Result<(), AcpError> {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = start(&fixture, mode, config(&ManualClock::new())).await?;
        let greeted = agent.initialize().await.map(|_| ());
        if greeted.is_err() {
            // The connection is closed and returns the same error again.
            assert_eq!(agent.initialize().await.err(), greeted.clone().err());
            fixture.assert_empty();
        }
        greeted
    })
}

#[track_caller]
fn assert_error(error: &AcpError, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(
        error.to_string().len() < 8000,
        "{}",
        error.to_string().len()
    );
}

#[test]
fn missing_program_is_named() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let open = |argv: &[&str], folder: &std::path::Path| {
            let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
            let (folder, config) = (folder.to_owned(), config(&ManualClock::new()));
            async move { Connection::open(&argv, &[], &folder, config).await }
        };
        let mut agent = open(&["no-such-agent"], fixture.folder()).await.unwrap();
        let error = agent.initialize().await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::NoProgram,
            &["`no-such-agent`", "was not found on PATH"],
        );
        let hint = Some("install it, or correct the `command` of the spec");
        assert_eq!(error.hint(), hint);
        let error = open(&[], fixture.folder()).await.err().unwrap();
        assert_error(&error, ErrorKind::Invalid, &["it has no command"]);
        let error = open(&["true"], &fixture.folder().join("x"))
            .await
            .err()
            .unwrap();
        assert_error(&error, ErrorKind::Invalid, &["is not a folder"]);
        let mut config = config(&ManualClock::new());
        config.guard = segno_agents::Launch {
            program: "/no/such/guard".into(),
            ..process_guard()
        };
        let argv = ["true".to_owned()];
        let opened = Connection::open(&argv, &[], fixture.folder(), config).await;
        assert_error(
            &opened.err().unwrap(),
            ErrorKind::Crashed,
            &["its process guard cannot be started"],
        );
    });
}

#[test]
fn bad_initialize_responses_are_reported() {
    for (mode, kind, expected) in [
        (
            "die",
            ErrorKind::Crashed,
            &["exited with code 3", "no luck today\\u{1b}[2J"][..],
        ),
        (
            "half",
            ErrorKind::Invalid,
            &["a message cannot be read: EOF"],
        ),
        (
            "garbage",
            ErrorKind::Invalid,
            &["a message cannot be read", "it wrote `{\"jsonrpc\""],
        ),
        (
            "long",
            ErrorKind::Crashed,
            &["a message has more than 16777216 bytes"],
        ),
        (
            "flood",
            ErrorKind::Invalid,
            &["more than 1000 consecutive lines", "still starting"],
        ),
        (
            "strays",
            ErrorKind::Invalid,
            &[
                "more than 1000 consecutive lines",
                "it responded to request 99, which was not pending",
            ],
        ),
        (
            "wrong-id",
            ErrorKind::Crashed,
            &[
                "exited with code 0; before that, it responded to request \"1\", which was not pending",
            ],
        ),
        (
            "version",
            ErrorKind::Invalid,
            &["it speaks ACP version 2; Segno speaks version 1"],
        ),
    ] {
        let error = initialize(mode).unwrap_err();
        assert_error(&error, kind, expected);
        let hint = Some("run its command by hand to see its output");
        assert_eq!(error.hint(), hint, "{mode}");
    }
}

#[test]
fn noise_and_stderr_output_are_tolerated() {
    for mode in ["noise", "stderr", "twice"] {
        assert_eq!(initialize(mode), Ok(()), "{mode}");
    }
}

#[test]
fn second_response_changes_nothing() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "twice", config(&ManualClock::new())).await;
        assert!(run_prompt(&mut agent, &session, "go").await.is_ok());
    });
}

#[test]
fn agent_that_never_responds_is_killed() {
    let (fixture, clock) = (Fixture::new(), ManualClock::new());
    runtime().block_on(async {
        let mut agent = start(&fixture, "silent", config(&clock)).await.unwrap();
        let later = async { clock.advance(Limits::default().answer) };
        let (greeting, ()) = tokio::join!(agent.initialize(), later);
        let expected = ["initializing", "it sent nothing for 120 s"];
        assert_error(&greeting.unwrap_err(), ErrorKind::Timeout, &expected);
        fixture.assert_empty();
    });
}

#[test]
fn agent_that_falls_silent_is_killed() {
    for cancelled in [false, true] {
        let (fixture, clock) = (Fixture::new(), ManualClock::new());
        runtime().block_on(async {
            let (mut agent, session) = with_session(&fixture, "deaf", config(&clock)).await;
            let mut turn = agent.prompt(&session, "go").unwrap();
            let text = segno_agents::acp::Update::Text("I never end.".into());
            while turn.next().await.unwrap() != Event::Update(text.clone()) {}
            let Limits { answer, silence } = Limits::default();
            if cancelled {
                turn.cancel();
                clock.advance(answer);
            } else {
                clock.advance(silence / 2);
                tokio::select! {
                    biased;
                    early = turn.next() => panic!("{early:?}"),
                    () = std::future::ready(()) => {}
                }
                clock.advance(silence / 2);
            }
            let error = turn.next().await.unwrap_err();
            assert_error(
                &error,
                ErrorKind::Timeout,
                &["prompting", "it sent nothing for"],
            );
            assert_eq!(turn.next().await, Err(error));
            fixture.assert_empty();
        });
    }
}

#[test]
fn agent_crash_is_reported_by_its_signal() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "dies", config(&ManualClock::new())).await;
        let error = run_prompt(&mut agent, &session, "go").await.unwrap_err();
        assert_error(&error, ErrorKind::Crashed, &["was killed by signal 9"]);
        let again = agent.new_session(fixture.folder()).await.unwrap_err();
        assert_eq!(again, error);
        fixture.assert_empty();
    });
}

#[test]
fn last_message_without_newline_counts() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "no-newline", config(&ManualClock::new())).await;
        let (updates, outcome) = run_prompt(&mut agent, &session, "go").await.unwrap();
        assert_eq!(words(&updates), ["The last"]);
        assert_eq!(outcome.stop, Stop::EndTurn);
    });
}

#[test]
fn messages_of_an_ended_agent_are_read() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "leaves", config(&ManualClock::new())).await;
        let mut turn = agent.prompt(&session, "go").unwrap();
        let mut updates = Vec::new();
        let outcome = loop {
            match turn.next().await.unwrap() {
                Event::Update(update) => updates.push(update),
                Event::End(outcome) => break outcome,
            }
            if words(&updates).len() == 1 {
                until("it has ended", || fixture.processes().is_empty());
                // The task that waits for the end of the process runs, too.
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            }
        };
        assert_eq!(outcome.stop, Stop::EndTurn);
        let expected: Vec<String> = (0..300).map(|number| number.to_string()).collect();
        assert_eq!(words(&updates), expected);
    });
}

#[test]
fn missing_stop_reason_fails_and_unknown_is_kept() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "no-reason", config(&ManualClock::new())).await;
        let error = run_prompt(&mut agent, &session, "go").await.unwrap_err();
        assert_error(&error, ErrorKind::Invalid, &["has no `stopReason`"]);
        let (mut agent, session) =
            with_session(&fixture, "odd-stop", config(&ManualClock::new())).await;
        let (_, outcome) = run_prompt(&mut agent, &session, "go").await.unwrap();
        assert_eq!(outcome.stop, Stop::Unknown("tired".into()));
    });
}

#[test]
fn error_response_is_sanitized_and_hints_at_login() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let (mut agent, session) =
            with_session(&fixture, "refuses", config(&ManualClock::new())).await;
        let mut turn = agent.prompt(&session, "go").unwrap();
        let error = loop {
            match turn.next().await {
                Ok(Event::Update(_)) => {}
                other => break other.unwrap_err(),
            }
        };
        assert_eq!(turn.next().await, Err(error.clone()));
        assert_eq!(error.code, Some(-32602));
        assert_eq!(error.reason, "it refused: Session [2Jnot found (-32602)");
        let mut agent = start(&fixture, "auth", config(&ManualClock::new()))
            .await
            .unwrap();
        agent.initialize().await.unwrap();
        let error = agent.new_session(fixture.folder()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.hint().unwrap().starts_with("log in"));
    });
}

#[test]
fn session_id_must_be_valid_and_match() {
    let fixture = Fixture::new();
    runtime().block_on(async {
        let mut agent = start(&fixture, "nameless", config(&ManualClock::new()))
            .await
            .unwrap();
        agent.initialize().await.unwrap();
        let error = agent.new_session(fixture.folder()).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Invalid,
            &["its response has no valid `sessionId`"],
        );
        let mut agent = start(&fixture, "other", config(&ManualClock::new()))
            .await
            .unwrap();
        agent.initialize().await.unwrap();
        let mut replay = agent.load_session("s-1", fixture.folder()).unwrap();
        let error = loop {
            match replay.next().await {
                Ok(Replayed::Update(_)) => {}
                Ok(Replayed::Done(_)) => panic!("it is another"),
                Err(error) => break error,
            }
        };
        assert_error(&error, ErrorKind::Invalid, &["it loaded another session"]);
    });
}

#[test]
fn agent_that_sends_but_never_reads_is_killed() {
    let fixture = Fixture::new();
    write(&fixture.folder().join("big"), &vec![b'x'; 4 << 20]);
    runtime().block_on(async {
        let mut config = config(&ManualClock::new());
        config.files = Files::Read;
        let (mut agent, session) = with_session(&fixture, "greedy", config).await;
        let error = run_prompt(&mut agent, &session, "go").await.unwrap_err();
        assert_error(&error, ErrorKind::Invalid, &["it does not read its input"]);
        fixture.assert_empty();
    });
}
