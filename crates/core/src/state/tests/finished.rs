//! Which steps are finished, and where their answers are.

use serde_json::{Value, json};

use super::*;

fn at(path: &str) -> Path {
    Path::new(path).unwrap()
}

/// An event of `steps/0`.
fn step(kind: &str, mut body: Value) -> Event {
    body["path"] = json!("steps/0");
    event(kind, &body)
}

fn started(revision: u32, attempt: u32, input: &str) -> Event {
    let digest = Digest::of(input.as_bytes()).to_string();
    let body = json!({"revision": revision, "attempt": attempt, "agent": "a", "input": input,
                      "input_digest": digest});
    step("step_started", body)
}

fn usage(input: u64) -> Value {
    json!({"input_tokens": input})
}

fn finished(attempt: u32) -> Event {
    let body = json!({"revision": 0, "attempt": attempt, "output": "!", "usage": usage(100),
                      "elapsed_ms": 5});
    step("step_finished", body)
}

/// Applies events, numbered from 1.
fn folded(events: &[Event]) -> FinishedSteps {
    let mut steps = FinishedSteps::default();
    for (number, event) in (1..).zip(events) {
        steps.apply(&JournalEvent {
            seq: Seq(number),
            run: Run(1),
            at: Timestamp(0),
            event: event.clone(),
            hash: Digest::of(b""),
        });
    }
    steps
}

/// One event of each kind that belongs to a step's conversation.
fn conversation() -> Vec<Event> {
    let of = |mut body: Value| {
        body["revision"] = json!(0);
        body["attempt"] = json!(1);
        body
    };
    let tool = |mut body: Value| {
        body["revision"] = json!(0);
        body["turn"] = json!(1);
        body["call"] = json!("c");
        body["tool"] = json!("t");
        body
    };
    let replied = json!({"turn": 1, "parts": "[]", "usage": usage(1)});
    let shortened = json!({"turn": 1, "messages": 2, "summary": "s", "usage": usage(2)});
    let opened = json!({"program": "codex", "native": "n", "folder": "/a"});
    let said = json!({"entries": "[]", "usage": usage(4)});
    vec![
        step("model_replied", of(replied)),
        step("tool_started", tool(json!({}))),
        step(
            "tool_finished",
            tool(json!({"output": "o", "is_error": false})),
        ),
        step("talk_shortened", of(shortened)),
        step("agent_opened", of(opened)),
        step("agent_said", of(said)),
    ]
}

fn seqs(range: std::ops::Range<u64>) -> Vec<Seq> {
    range.map(Seq).collect()
}

#[test]
fn finished_step_knows_its_events_and_its_usage() {
    let mut events = vec![started(0, 1, "?")];
    events.extend(conversation());
    let open = folded(&events);
    assert_eq!(open.get(&at("steps/0")), None);
    let sizes = |steps: &FinishedSteps| (steps.is_empty(), steps.len(), steps.iter().count());
    assert_eq!(sizes(&open), (true, 0, 0));
    events.extend([started(0, 2, "?"), finished(2)]);
    let steps = folded(&events);
    let expected = FinishedStep {
        started_seq: Seq(8),
        first_started: Seq(1),
        seq: Seq(9),
        revision: 0,
        attempt: 2,
        agent: "a".into(),
        input_digest: Digest::of(b"?"),
        usage: Usage {
            input_tokens: 107,
            ..Usage::default()
        },
    };
    assert_eq!(steps.get(&at("steps/0")), Some(&expected));
    assert_eq!(steps.get(&at("steps/1")), None);
    assert_eq!(
        steps.iter().collect::<Vec<_>>(),
        [(&at("steps/0"), &expected)]
    );
    assert_eq!(sizes(&steps), (false, 1, 1));
}

#[test]
fn first_start_is_that_of_the_revision() {
    let first = |events: &[Event]| {
        let first = folded(events).first_started(&at("steps/0"));
        first.map(|seq| seq.0)
    };
    let begun = [started(0, 1, "?"), started(0, 2, "other")];
    assert_eq!(first(&[]), None);
    assert_eq!(first(&begun), Some(1));
    let done = [begun.clone().to_vec(), vec![finished(2)]].concat();
    assert_eq!(first(&done), Some(1));
    let next = [begun.to_vec(), vec![started(1, 3, "?")]].concat();
    assert_eq!(first(&next), Some(3));
    let discarded = step("step_discarded", json!({"revision": 0}));
    for before in [begun.to_vec(), done] {
        assert_eq!(first(&[before, vec![discarded.clone()]].concat()), None);
    }
}

#[test]
fn conversation_continues_with_the_same_input_only() {
    let turns = |events: &[Event], revision: u32, input: &str| {
        let digest = Digest::of(input.as_bytes());
        folded(events)
            .turns(&at("steps/0"), revision, digest)
            .to_vec()
    };
    let mut events = vec![started(0, 1, "?")];
    events.extend(conversation());
    assert_eq!(turns(&events, 0, "?"), seqs(2..8));
    assert_eq!(turns(&events, 1, "?"), []);
    assert_eq!(turns(&events, 0, "other"), []);
    let mut again = events.clone();
    again.push(started(0, 2, "?"));
    assert_eq!(turns(&again, 0, "?"), seqs(2..8));
    for (revision, input) in [(0, "other"), (1, "?")] {
        let mut changed = events.clone();
        changed.push(started(revision, 2, input));
        assert_eq!(turns(&changed, revision, input), []);
    }
    let nothing = folded(&[]);
    assert_eq!(nothing.turns(&at("steps/0"), 0, Digest::of(b"?")), []);
}

#[test]
fn discarded_step_is_not_finished() {
    let discarded = step("step_discarded", json!({"revision": 0}));
    let steps = folded(&[started(0, 1, "?"), finished(1), discarded]);
    assert_eq!(steps, FinishedSteps::default());
}

#[test]
fn answer_of_a_user_finishes_a_step() {
    let answered = step("question_answered", json!({"answer": "yes", "by": "me"}));
    let steps = folded(&[started(0, 1, "?"), answered]);
    let step = steps.get(&at("steps/0")).unwrap();
    assert_eq!((step.started_seq, step.seq), (Seq(2), Seq(2)));
    assert_eq!((step.revision, step.attempt), (0, 1));
    assert_eq!(step.agent, FinishedSteps::USER);
}
