use segno_core::digest::Digest;
use segno_core::journal::{Run, Seq};
use serde_json::{Value, json};

use super::*;

fn session() -> SessionId {
    SessionId::new(Timestamp(0), [7; 10])
}

/// Event 5 of run 2, decoded from the journal's form.
fn event(kind: &str, body: &Value) -> JournalEvent {
    JournalEvent {
        seq: Seq(5),
        run: Run(2),
        at: Timestamp(1_000),
        event: Event::decode(kind, &body.to_string()).unwrap().unwrap(),
        hash: Digest::of(b""),
    }
}

fn facts() -> Facts {
    Facts {
        name: "nightly".into(),
        workspace: "/work".into(),
        ..Facts::unknown()
    }
}

/// The kinds, titles and texts of the notices about an event.
fn told(entry: &JournalEvent, facts: &Facts) -> Vec<String> {
    let told = |notice: Notice| format!("{}: {}: {}", notice.kind, notice.title, notice.text);
    let notices = notices(session(), entry, facts);
    notices.into_iter().map(told).collect()
}

fn ended(status: &str, error: Option<(&str, &str)>) -> JournalEvent {
    let mut body = json!({"status": status});
    if let Some((kind, message)) = error {
        body["error"] = json!({"kind": kind, "message": message});
    }
    event("run_ended", &body)
}

#[test]
fn end_of_a_run_is_told_by_its_status() {
    for (entry, expected) in [
        (
            ended("completed", None),
            "completed: nightly is completed: ",
        ),
        (
            ended("failed", Some(("R0101", "no key"))),
            "failed: nightly failed: no key",
        ),
        (
            ended("cancelled", None),
            "cancelled: nightly was cancelled: ",
        ),
        (ended("paused", None), "paused: nightly is paused: "),
        (
            ended("interrupted", None),
            "paused: nightly was interrupted: ",
        ),
        (
            ended("paused", Some(("R0112", "3 of 3 steps"))),
            "limit_reached: nightly reached a limit: 3 of 3 steps",
        ),
        (
            ended("paused", Some(("R0123", "until noon"))),
            "paused: nightly is paused: until noon",
        ),
    ] {
        assert_eq!(told(&entry, &facts()), [expected]);
    }
    assert!(told(&ended("waiting", None), &facts()).is_empty());
}

#[test]
fn stop_is_told_with_its_reason() {
    let stopped = Facts {
        stop: Some(("ana".into(), Some("lunch".into()))),
        ..facts()
    };
    assert_eq!(
        told(&ended("paused", None), &stopped),
        ["paused: nightly is paused: requested by ana: lunch"]
    );
}

#[test]
fn chat_at_rest_is_not_told() {
    let chat = Facts {
        kind: segno_core::session::Kind::Chat,
        ..facts()
    };
    assert!(told(&ended("paused", None), &chat).is_empty());
    assert_eq!(told(&ended("failed", None), &chat).len(), 1);
}

#[test]
fn start_after_an_open_run_tells_the_loss() {
    let started = json!({"host": "h", "pid": 1, "version": "1"});
    let entry = event("run_started", &started);
    assert!(told(&entry, &facts()).is_empty());
    let open = Facts {
        is_run_open: true,
        is_automatic: true,
        ..facts()
    };
    assert_eq!(
        told(&entry, &open),
        [
            "lost: nightly was lost: its run died without an end; it was resumed",
            "resumed: nightly was resumed by itself: "
        ]
    );
}

#[test]
fn limit_is_told_once_until_it_is_lifted() {
    let failed = json!({"path": "steps/0", "revision": 0, "attempt": 1, "usage": {},
        "error": {"kind": "rate_limited", "message": "no"},
        "suspended": {"provider": "anthropic", "until": 5000}});
    let failed = event("step_failed", &failed);
    let mut facts = facts();
    let first = told(&failed, &facts);
    assert!(first[0].starts_with("limit_reached: nightly reached a limit: limit of anthropic"));
    facts.apply(&failed);
    assert!(told(&failed, &facts).is_empty());
    let started = json!({"path": "steps/0", "revision": 0, "attempt": 2, "agent": "a",
        "input": "", "input_digest": Digest::of(b"")});
    let started = event("step_started", &started);
    assert_eq!(
        told(&started, &facts),
        ["limit_lifted: nightly continues: the limit that it waited for is lifted"]
    );
    facts.apply(&started);
    assert!(told(&started, &facts).is_empty());
}

#[test]
fn lost_session_tells_missing_and_damaged_checkpoints() {
    let lost = event("run_lost", &json!({"lost": 1}));
    let damaged = || Err::<(), _>(StoreError::NoSession(session()));
    let notice = |checkpoints: &[Result<(), StoreError>]| {
        checkpoint_notice(session(), &lost, &facts(), checkpoints)
            .map(|notice| format!("{}: {}", notice.title, notice.text))
    };
    assert_eq!(notice(&[Ok(())]), None);
    assert_eq!(
        notice(&[]).unwrap(),
        "nightly was lost without a checkpoint: left are the journal up to event 5 and the files in /work as they are"
    );
    assert_eq!(
        notice(&[Ok(()), damaged()]).unwrap(),
        "nightly was lost, and has damaged checkpoints: 1 of its 2 checkpoints cannot be used, 1 can"
    );
    let all = notice(&[damaged()]).unwrap();
    assert!(all.contains("all its checkpoints are damaged"), "{all}");
}

#[test]
fn text_is_redacted_sanitized_and_bounded() {
    let environment = [("API_TOKEN".to_owned(), "sesame-4711".to_owned())];
    let redactor = Redactor::new(environment);
    let long = format!("sesame-4711 \u{1b}[31m\u{202e}\n{}", "x".repeat(5000));
    let entry = ended("failed", Some(("R0101", &long)));
    let notice = notices(session(), &entry, &facts()).remove(0);
    let cleaned = notice.cleaned(&redactor);
    assert_eq!(cleaned.text.chars().count(), MAX_TEXT);
    assert!(!cleaned.text.contains("sesame"), "{}", cleaned.text);
    assert!(!cleaned.text.contains(['\u{1b}', '\u{202e}', '\n']));
}
