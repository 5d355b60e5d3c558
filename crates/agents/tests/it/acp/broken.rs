//! What is said where an agent does not keep to the protocol: no guess, no hang, no flood.

use std::sync::Arc;

use segno_agents::acp::{AcpError, Connection, Event, Files, Limits, Replayed, Stop};
use segno_core::agent::ErrorKind;

use super::{Hand, PlainDisk, asked, begun, means, start, words};
use crate::world::{World, runtime, warden, write};

/// What comes of greeting an agent.
fn greeted(mode: &str) -> Result<(), AcpError> {
    let world = World::new();
    runtime().block_on(async {
        let mut agent = start(&world, mode, means(&Hand::new())).await?;
        let greeted = agent.initialize().await.map(|_| ());
        if greeted.is_err() {
            // It is over, and says so again.
            assert_eq!(agent.initialize().await.err(), greeted.clone().err());
            world.assert_empty();
        }
        greeted
    })
}

#[track_caller]
fn assert_told(error: &AcpError, kind: ErrorKind, words: &[&str]) {
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
fn a_program_that_is_not_there_is_named() {
    let world = World::new();
    runtime().block_on(async {
        let open = |argv: &[&str], folder: &std::path::Path| {
            let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
            let (folder, means) = (folder.to_owned(), means(&Hand::new()));
            async move { Connection::open(&argv, &[], &folder, means).await }
        };
        let mut agent = open(&["no-such-agent"], world.folder()).await.unwrap();
        let error = agent.initialize().await.unwrap_err();
        assert_told(
            &error,
            ErrorKind::NotFound,
            &["`no-such-agent`", "cannot be started"],
        );
        let hint = Some("look whether the program is installed and in PATH");
        assert_eq!(error.hint(), hint);
        let error = open(&[], world.folder()).await.err().unwrap();
        assert_told(&error, ErrorKind::Invalid, &["it has no command"]);
        let error = open(&["true"], &world.folder().join("x"))
            .await
            .err()
            .unwrap();
        assert_told(&error, ErrorKind::Invalid, &["is not a folder"]);
        let mut means = means(&Hand::new());
        means.warden = segno_agents::Launch {
            program: "/no/such/warden".into(),
            ..warden()
        };
        let argv = ["true".to_owned()];
        let opened = Connection::open(&argv, &[], world.folder(), means).await;
        assert_told(
            &opened.err().unwrap(),
            ErrorKind::Crashed,
            &["its warden cannot be started"],
        );
    });
}

#[test]
fn what_is_no_greeting_is_told_with_its_reason() {
    for (mode, kind, told) in [
        (
            "die",
            ErrorKind::Crashed,
            &["ended with exit code 3", "no luck today\\u{1b}[2J"][..],
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
            &["more than 1000 lines in a row", "still starting"],
        ),
        (
            "strays",
            ErrorKind::Invalid,
            &[
                "more than 1000 lines in a row",
                "it answered question 99, which was not open",
            ],
        ),
        (
            "wrong-id",
            ErrorKind::Crashed,
            &["ended with exit code 0; before, it answered question \"1\", which was not open"],
        ),
        (
            "version",
            ErrorKind::Invalid,
            &["it speaks version 2 of ACP, and Segno speaks 1"],
        ),
    ] {
        let error = greeted(mode).unwrap_err();
        assert_told(&error, kind, told);
        let hint = Some("run its command by hand to see what it does");
        assert_eq!(error.hint(), hint, "{mode}");
    }
}

#[test]
fn noise_and_complaints_are_forgiven() {
    for mode in ["noise", "stderr", "twice"] {
        assert_eq!(greeted(mode), Ok(()), "{mode}");
    }
}

#[test]
fn a_second_answer_changes_nothing() {
    let world = World::new();
    runtime().block_on(async {
        let (mut agent, session) = begun(&world, "twice", means(&Hand::new())).await;
        assert!(asked(&mut agent, &session, "go").await.is_ok());
    });
}

#[test]
fn an_agent_that_never_answers_is_ended_in_time() {
    let (world, clock) = (World::new(), Hand::new());
    runtime().block_on(async {
        let mut agent = start(&world, "silent", means(&clock)).await.unwrap();
        let later = async { clock.turn(Limits::default().answer) };
        let (greeting, ()) = tokio::join!(agent.initialize(), later);
        let told = ["saying hello", "it said nothing for 120 s"];
        assert_told(&greeting.unwrap_err(), ErrorKind::Timeout, &told);
        world.assert_empty();
    });
}

#[test]
fn an_agent_that_falls_silent_at_work_is_ended() {
    for cancelled in [false, true] {
        let (world, clock) = (World::new(), Hand::new());
        runtime().block_on(async {
            let (mut agent, session) = begun(&world, "deaf", means(&clock)).await;
            let mut turn = agent.prompt(&session, "go").unwrap();
            let text = segno_agents::acp::Update::Text("I never end.".into());
            while turn.next().await.unwrap() != Event::Update(text.clone()) {}
            let Limits { answer, silence } = Limits::default();
            if cancelled {
                turn.cancel();
                clock.turn(answer);
            } else {
                clock.turn(silence / 2);
                tokio::select! {
                    biased;
                    early = turn.next() => panic!("{early:?}"),
                    () = std::future::ready(()) => {}
                }
                clock.turn(silence / 2);
            }
            let error = turn.next().await.unwrap_err();
            assert_told(
                &error,
                ErrorKind::Timeout,
                &["asking it", "it said nothing for"],
            );
            assert_eq!(turn.next().await, Err(error));
            world.assert_empty();
        });
    }
}

#[test]
fn an_agent_that_dies_at_work_is_told_with_what_it_said() {
    let world = World::new();
    runtime().block_on(async {
        let (mut agent, session) = begun(&world, "dies", means(&Hand::new())).await;
        let error = asked(&mut agent, &session, "go").await.unwrap_err();
        assert_told(&error, ErrorKind::Crashed, &["was ended by signal 9"]);
        let again = agent.new_session(world.folder()).await.unwrap_err();
        assert_eq!(again, error);
        world.assert_empty();
    });
}

#[test]
fn a_last_message_without_an_end_of_line_counts() {
    let world = World::new();
    runtime().block_on(async {
        let (mut agent, session) = begun(&world, "no-newline", means(&Hand::new())).await;
        let (updates, outcome) = asked(&mut agent, &session, "go").await.unwrap();
        assert_eq!(words(&updates), ["The last"]);
        assert_eq!(outcome.stop, Stop::EndTurn);
    });
}

#[test]
fn an_end_without_a_reason_is_none_and_an_odd_one_is_kept() {
    let world = World::new();
    runtime().block_on(async {
        let (mut agent, session) = begun(&world, "no-reason", means(&Hand::new())).await;
        let error = asked(&mut agent, &session, "go").await.unwrap_err();
        assert_told(&error, ErrorKind::Invalid, &["does not say why it stopped"]);
        let (mut agent, session) = begun(&world, "odd-stop", means(&Hand::new())).await;
        let (_, outcome) = asked(&mut agent, &session, "go").await.unwrap();
        assert_eq!(outcome.stop, Stop::Unknown("tired".into()));
    });
}

#[test]
fn a_refusal_is_told_harmlessly_and_says_where_to_log_in() {
    let world = World::new();
    runtime().block_on(async {
        let (mut agent, session) = begun(&world, "refuses", means(&Hand::new())).await;
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
        let mut agent = start(&world, "auth", means(&Hand::new())).await.unwrap();
        agent.initialize().await.unwrap();
        let error = agent.new_session(world.folder()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.hint().unwrap().starts_with("log in"));
    });
}

#[test]
fn a_session_must_have_a_name_and_be_the_one_that_was_asked_for() {
    let world = World::new();
    runtime().block_on(async {
        let mut agent = start(&world, "nameless", means(&Hand::new()))
            .await
            .unwrap();
        agent.initialize().await.unwrap();
        let error = agent.new_session(world.folder()).await.unwrap_err();
        assert_told(
            &error,
            ErrorKind::Invalid,
            &["it did not say which session"],
        );
        let mut agent = start(&world, "other", means(&Hand::new())).await.unwrap();
        agent.initialize().await.unwrap();
        let mut replay = agent.load_session("s-1", world.folder()).unwrap();
        let error = loop {
            match replay.next().await {
                Ok(Replayed::Update(_)) => {}
                Ok(Replayed::Done(_)) => panic!("it is another"),
                Err(error) => break error,
            }
        };
        assert_told(
            &error,
            ErrorKind::Invalid,
            &["it brought another session back"],
        );
    });
}

#[test]
fn an_agent_that_asks_and_does_not_read_is_ended() {
    let world = World::new();
    write(&world.folder().join("big"), &vec![b'x'; 4 << 20]);
    runtime().block_on(async {
        let mut means = means(&Hand::new());
        means.files = Files::Read(Arc::new(PlainDisk));
        let (mut agent, session) = begun(&world, "greedy", means).await;
        let error = asked(&mut agent, &session, "go").await.unwrap_err();
        assert_told(
            &error,
            ErrorKind::Invalid,
            &["it does not read what it is told"],
        );
        world.assert_empty();
    });
}
