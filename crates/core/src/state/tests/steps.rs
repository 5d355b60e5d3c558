//! What events do to steps, usage and waits.

use serde_json::{Value, json};

use super::*;
use crate::journal::{NotesWritten, Suspension};
use crate::note::Resolution::{Fixed, Unresolved};
use crate::note::Source;
use crate::resume::Strategy;
use crate::usage::Cost;

fn path(path: &str) -> Path {
    Path::new(path).unwrap()
}

fn usage(input: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": 1, "cost_micro_usd": 2})
}

/// The usage of `calls` calls with `input` input tokens in all.
fn sum(input: u64, calls: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: calls,
        cost: Cost(2 * calls),
    }
}

/// An event of attempt 1 of `steps/0`, with these fields besides.
fn step(kind: &str, fields: Value) -> Event {
    let mut body = json!({"path": "steps/0", "revision": 0, "attempt": 1});
    let Value::Object(fields) = fields else {
        panic!("{fields}");
    };
    for (name, value) in fields {
        body[name] = value;
    }
    event(kind, &body)
}

fn started(agent: &str, attempt: u32) -> Event {
    let digest = Digest::of(b"?").to_string();
    let fields = json!({"attempt": attempt, "agent": agent, "input": "?", "input_digest": digest});
    step("step_started", fields)
}

fn finished() -> Event {
    let fields = json!({"output": "!", "usage": usage(1000), "elapsed_ms": 5});
    step("step_finished", fields)
}

fn failed(kind: &str, fields: Value) -> Event {
    let mut all = json!({"error": {"kind": kind, "message": "no"}, "usage": usage(20)});
    let Value::Object(fields) = fields else {
        panic!("{fields}");
    };
    for (name, value) in fields {
        all[name] = value;
    }
    step("step_failed", all)
}

fn replied(input: u64) -> Event {
    step(
        "model_replied",
        json!({"turn": 1, "parts": "[]", "usage": usage(input)}),
    )
}

/// A call that used nothing: it was refused.
fn refused() -> Event {
    step(
        "model_replied",
        json!({"turn": 1, "parts": "[]", "usage": {}}),
    )
}

fn opened(native: &str, strategy: Option<&str>) -> Event {
    let mut fields = json!({"program": "codex", "native": native, "folder": "/a"});
    if let Some(strategy) = strategy {
        fields["rung"] = json!(strategy);
    }
    step("agent_opened", fields)
}

fn said(used: u64, window: Option<u64>) -> Event {
    let mut context = json!({"used": used});
    if let Some(window) = window {
        context["window"] = json!(window);
    }
    let fields = json!({"entries": "[]", "usage": usage(300), "context": context});
    step("agent_said", fields)
}

/// Folds these events, one millisecond apart, into a session whose step `steps/0` was started by
/// agent `a` with event 3.
fn after(events: impl IntoIterator<Item = Event>) -> State {
    let mut all = started_session();
    all.extend((11..).zip(events).map(|(at, event)| (1, at, event)));
    fold(&all).unwrap()
}

fn open(state: &State) -> &OpenStep {
    &state.open_steps[&path("steps/0")]
}

#[test]
fn resume_context_stays_until_the_step_is_discarded() {
    let told = |attempt: u32| {
        let mut told = started("a", attempt);
        if let Event::StepStarted(event) = &mut told {
            event.resume_context = Some("known".into());
        }
        told
    };
    let given = |events: Vec<Event>| open(&after(events)).resume_context;
    assert_eq!(given(vec![]), None);
    assert_eq!(given(vec![told(2)]), Some(Seq(4)));
    assert_eq!(given(vec![told(2), started("a", 3)]), Some(Seq(4)));
    assert_eq!(given(vec![told(2), started("b", 3)]), Some(Seq(4)));
    assert_eq!(given(vec![told(2), told(3)]), Some(Seq(5)));
    let discarded = event("step_discarded", &json!({"path": "steps/0", "revision": 0}));
    assert_eq!(given(vec![told(2), discarded]), None);
}

#[test]
fn usage_is_summed_in_total_and_by_agent() {
    let shortened = json!({"turn": 1, "messages": 3, "summary": "s", "usage": usage(4000)});
    let noted = |path: Option<&str>| {
        let notes = NotesWritten {
            source: Source::Model,
            by: "m".into(),
            path: path.map(|path| Path::new(path).unwrap()),
            notes: Vec::new(),
            read_to: None,
            usage: sum(50_000, 1),
        };
        Event::from(notes)
    };
    let state = after([
        replied(1),
        failed("server", json!({"retry_in_ms": 5})),
        started("b", 2),
        said(7, None),
        step("talk_shortened", shortened),
        noted(Some("steps/0")),
        noted(None),
        finished(),
    ]);
    assert_eq!(state.usage, sum(105_321, 7));
    let by_agent = [("a", sum(21, 2)), ("b", sum(55_300, 4))];
    let by_agent = by_agent.map(|(agent, usage)| (agent.to_owned(), usage));
    assert_eq!(state.usage_by_agent, BTreeMap::from(by_agent));
}

#[test]
fn newest_finished_steps_are_listed_and_all_are_counted() {
    let steps = (0..32).map(|number| {
        let body = json!({"path": format!("steps/{number}"), "revision": 0, "attempt": 1,
                          "output": "!", "usage": {}, "elapsed_ms": 1});
        event("step_finished", &body)
    });
    let mut events: Vec<_> = steps.collect();
    let state = after(events.clone());
    let listed: Vec<Path> = (2..32)
        .map(|number| path(&format!("steps/{number}")))
        .collect();
    assert_eq!(
        (state.finished, Vec::from(state.newest_finished)),
        (32, listed.clone())
    );
    let discarded = json!({"path": "steps/9", "revision": 3});
    events.push(event("step_discarded", &discarded));
    let state = after(events);
    let left: Vec<Path> = listed
        .into_iter()
        .filter(|it| *it != path("steps/9"))
        .collect();
    assert_eq!(
        (state.finished, Vec::from(state.newest_finished)),
        (31, left)
    );
    let open = &state.open_steps[&path("steps/9")];
    assert_eq!((open.revision, open.attempt), (4, 0));
    assert_eq!(
        (&open.status, open.since),
        (&AttemptStatus::Discarded, Timestamp(43))
    );
}

#[test]
fn status_of_a_step_follows_its_attempt() {
    let failure = Failure {
        kind: "server".into(),
        message: "no".into(),
    };
    for (next, status) in [
        (step("step_paused", json!({})), AttemptStatus::Paused),
        (step("step_unknown", json!({})), AttemptStatus::Unknown),
        (failed("server", json!({})), AttemptStatus::Failed(failure)),
        (refused(), AttemptStatus::InFlight),
    ] {
        let state = after([refused(), next.clone()]);
        let is_in_flight = status == AttemptStatus::InFlight;
        let since = Timestamp(if is_in_flight { 10 } else { 12 });
        assert_eq!((&open(&state).status, open(&state).since), (&status, since));
        let in_flight: Vec<_> = state.in_flight().map(|(path, _)| path.clone()).collect();
        let expected: &[Path] = if is_in_flight {
            &[path("steps/0")]
        } else {
            &[]
        };
        assert_eq!(in_flight, expected, "{next:?}");
    }
    assert!(after([finished()]).open_steps.is_empty());
}

#[test]
fn first_event_of_another_agent_is_the_handover() {
    let handed = |events: Vec<Event>| open(&after(events)).handed_over_at;
    assert_eq!(handed(vec![]), None);
    assert_eq!(handed(vec![started("a", 2)]), None);
    assert_eq!(handed(vec![started("b", 2)]), Some(Seq(4)));
    assert_eq!(handed(vec![started("b", 2), started("b", 3)]), Some(Seq(4)));
    assert_eq!(handed(vec![started("b", 2), started("a", 3)]), Some(Seq(5)));
    // A new revision starts anew, whichever agent had the last one.
    let digest = Digest::of(b"?").to_string();
    let revised = json!({"revision": 1, "agent": "b", "input": "?", "input_digest": digest});
    let revised = step("step_started", revised);
    assert_eq!(handed(vec![revised.clone()]), None);
    let discarded = event("step_discarded", &json!({"path": "steps/0", "revision": 0}));
    assert_eq!(handed(vec![finished(), discarded, revised]), None);
}

#[test]
fn context_of_a_model_is_its_newest_call() {
    let used = |events: Vec<Event>| {
        let state = after(events);
        let usages: Vec<_> = state.context_usages().collect();
        assert!(usages.iter().all(|(at, _)| **at == path("steps/0")));
        usages.first().map(|(_, usage)| usage.used)
    };
    assert_eq!(used(vec![]), None);
    assert_eq!(used(vec![replied(5), replied(8)]), Some(9));
    assert_eq!(used(vec![replied(5), started("a", 2)]), Some(6));
    assert_eq!(used(vec![replied(5), started("b", 2)]), None);
    let shortened = json!({"turn": 1, "messages": 3, "summary": "s", "usage": usage(4000)});
    let shortened = step("talk_shortened", shortened);
    assert_eq!(used(vec![replied(5), shortened]), Some(6));
}

#[test]
fn conversation_of_a_cli_agent_is_recorded() {
    let state = after([opened("n", None), said(7, Some(100))]);
    let native = open(&state).native.clone().unwrap();
    assert_eq!((native.id.as_str(), native.folder.as_str()), ("n", "/a"));
    assert_eq!(native.opened, Seq(4));
    let context = ContextUsage {
        used: 7,
        window: Some(100),
    };
    assert_eq!(native.context, Some(context));
    assert_eq!(state.context_usages().next().unwrap().1, context);
    assert_eq!(
        state.conversations,
        BTreeMap::from([("n".to_owned(), CliAgentKind::Codex)])
    );
    let windows = BTreeMap::from([("a".to_owned(), (CliAgentKind::Codex, 100))]);
    assert_eq!(state.context_windows, windows);
    // The same conversation, resumed twice: what is known of it stays.
    let state = after([
        opened("n", None),
        said(7, Some(100)),
        started("a", 2),
        opened("n", Some("native")),
        opened("n", Some("repaired")),
    ]);
    let native = open(&state).native.clone().unwrap();
    let strategies = [Strategy::Native, Strategy::Repaired];
    assert_eq!((native.context, native.opened), (Some(context), Seq(8)));
    assert_eq!(native.strategies, strategies);
    // Another conversation begins with nothing.
    let state = after([
        opened("n", None),
        said(7, Some(100)),
        opened("m", Some("compiled")),
    ]);
    let native = open(&state).native.clone().unwrap();
    assert_eq!((native.id.as_str(), native.context), ("m", None));
    assert_eq!(native.strategies, [Strategy::Summarized]);
    // The one before is remembered, with what is known of it, and can be opened again.
    let earlier = open(&state).earlier.clone();
    assert_eq!(
        (earlier[0].id.as_str(), earlier[0].context),
        ("n", Some(context))
    );
    assert!(earlier[0].spoke && !native.spoke);
    let back = after([
        opened("n", None),
        said(7, Some(100)),
        opened("m", Some("compiled")),
        opened("n", Some("native")),
    ]);
    let known = |of: &NativeConversation| (of.id.clone(), of.spoke);
    assert_eq!(
        open(&back).native.as_ref().map(known),
        Some(("n".to_owned(), true))
    );
    let earlier: Vec<_> = open(&back).earlier.iter().map(known).collect();
    assert_eq!(earlier, [("m".to_owned(), false)]);
    assert_eq!(state.conversations.len(), 2);
    // An edited spec may name other models.
    let digest = Digest::of(b"2").to_string();
    let edited = json!({"spec": "2", "spec_digest": digest, "steps": [], "policy": "warn"});
    let state = after([
        opened("n", None),
        said(7, Some(100)),
        event("spec_changed", &edited),
    ]);
    assert!(state.context_windows.is_empty());
    assert_eq!(
        (state.spec_seq, state.spec_digest),
        (Seq(6), Some(Digest::of(b"2")))
    );
}

#[test]
fn handed_over_step_has_no_cli_agent() {
    let agent = |events: Vec<Event>| open(&after(events)).current_cli_agent();
    assert_eq!(agent(vec![]), None);
    assert_eq!(agent(vec![opened("n", None)]), Some(CliAgentKind::Codex));
    assert_eq!(agent(vec![opened("n", None), started("b", 2)]), None);
    let back = vec![opened("n", None), started("b", 2), opened("n", None)];
    assert_eq!(agent(back), Some(CliAgentKind::Codex));
    // Then the context is that of the model.
    let state = after([
        opened("n", None),
        said(7, None),
        started("b", 2),
        replied(1),
    ]);
    assert_eq!(open(&state).context_usage().unwrap().used, 2);
}

#[test]
fn retry_waits_only_for_a_rate_limit() {
    let not_before = |kind: &str| {
        let state = after([failed(kind, json!({"retry_in_ms": 1000}))]);
        assert_eq!((open(&state).waits, state.waits.total_ms), (0, 0));
        open(&state).not_before
    };
    assert_eq!(not_before("rate_limited"), Some(Timestamp(1011)));
    assert_eq!(not_before("server"), None);
}

#[test]
fn suspended_step_waits_until_the_limit_is_lifted() {
    let limited = |until: i64| {
        let suspended = json!({"provider": "p", "until": until});
        failed(
            "rate_limited",
            json!({"retry_in_ms": 1, "suspended": suspended}),
        )
    };
    let state = after([limited(1000)]);
    let suspension = Suspension {
        provider: "p".into(),
        until: Timestamp(1000),
    };
    let at = path("steps/0");
    assert_eq!(open(&state).not_before, Some(Timestamp(1000)));
    assert_eq!(state.suspended(Timestamp(999)), Some((&at, suspension)));
    assert_eq!(state.suspended(Timestamp(1000)), None);
    assert_eq!((open(&state).waits, state.waits.total_ms), (1, 989));
    // Waits that overlap count once.
    let twice = [limited(1000), started("a", 2), limited(1500)];
    let state = after(twice.clone());
    assert_eq!((open(&state).waits, state.waits.total_ms), (2, 1489));
    assert_eq!(state.waits.until, Timestamp(1500));
    // Another step that works, or a session that is over, is not suspended.
    let other = json!({"path": "steps/1", "revision": 0, "attempt": 1, "agent": "a", "input": "?",
                       "input_digest": Digest::of(b"?").to_string()});
    let busy = after([limited(1000), event("step_started", &other)]);
    assert_eq!(busy.suspended(Timestamp(999)), None);
    let over = after([
        limited(1000),
        event("run_ended", &json!({"status": "cancelled"})),
    ]);
    assert_eq!(over.suspended(Timestamp(999)), None);
    // Only progress resets the count.
    let again = |last: Event| {
        let mut events = twice.to_vec();
        events.extend([started("a", 3), last]);
        open(&after(events)).waits
    };
    assert_eq!(again(refused()), 2);
    assert_eq!(again(replied(1)), 0);
    assert_eq!(again(said(1, None)), 0);
    // A limit without another attempt is no wait.
    let suspended = json!({"suspended": {"provider": "p", "until": 1000}});
    let state = after([failed("rate_limited", suspended)]);
    assert_eq!((open(&state).waits, state.waits.total_ms), (0, 0));
    assert_eq!(open(&state).not_before, Some(Timestamp(1000)));
}

#[test]
fn permanent_failure_is_an_error_until_the_step_finishes() {
    let errors = |events: Vec<Event>| {
        let state = after(events);
        let errors = state.handoff.errors.notes.iter();
        let errors = errors.map(|kept| (kept.note.text.clone(), kept.note.resolution));
        errors.collect::<Vec<_>>()
    };
    let fatal = || failed("auth", json!({}));
    let suspended = json!({"provider": "p", "until": 1000});
    assert_eq!(errors(vec![fatal()]), [("no".to_owned(), Unresolved)]);
    assert_eq!(
        errors(vec![failed("server", json!({"retry_in_ms": 1}))]),
        []
    );
    let limited = failed("rate_limited", json!({"suspended": suspended}));
    assert_eq!(errors(vec![limited]), []);
    let fixed = vec![fatal(), started("a", 2), finished()];
    assert_eq!(errors(fixed), [("no".to_owned(), Fixed)]);
    assert_eq!(errors(vec![finished()]), []);
}

#[test]
fn only_time_within_runs_is_active() {
    let mut events = started_session();
    events.push((1, 25, event("run_ended", &json!({"status": "paused"}))));
    events.push((2, 1000, started_run()));
    events.push((
        2,
        1004,
        event(
            "stop_requested",
            &json!({"by": "me", "mode": "now", "status": "paused", "reason": "r"}),
        ),
    ));
    let state = fold(&events).unwrap();
    assert_eq!((state.active_ms, state.session_number), (29, 2));
    assert_eq!(state.updated_at, Timestamp(1004));
    let stopped = Stopped {
        by: "me".into(),
        reason: Some("r".into()),
        at: Timestamp(1004),
    };
    assert_eq!(state.stopped, Some(stopped));
    events.push((3, 1010, started_run()));
    assert_eq!(fold(&events).unwrap().stopped, None);
}

#[test]
fn edited_resume_context_counts_until_a_run_ends() {
    let edited = |text: &str| event("brief_edited", &json!({"text": text, "by": "me"}));
    let mut events = started_session();
    events.push((1, 20, event("run_ended", &json!({"status": "paused"}))));
    events.push((2, 30, edited("use B")));
    assert_eq!(fold(&events).unwrap().resume_context, Some(Seq(5)));
    let mut undone = events.clone();
    undone.push((3, 40, edited("")));
    assert_eq!(fold(&undone).unwrap().resume_context, None);
    events.push((3, 40, started_run()));
    assert_eq!(fold(&events).unwrap().resume_context, Some(Seq(5)));
    events.push((3, 50, event("run_ended", &json!({"status": "paused"}))));
    assert_eq!(fold(&events).unwrap().resume_context, None);
}

#[test]
fn end_of_an_exchange_drops_its_questions_only() {
    let asked = |path: &str| event("question_asked", &json!({"path": path, "prompt": "?"}));
    let chat = json!({"agent": "a", "max_turns": 3});
    let ended = json!({"path": "messages/1", "ending": "stopped", "replies": 1, "tool_calls": 0});
    let state = after([
        event("chat_opened", &chat),
        asked("messages/1/ask"),
        asked("messages/10/ask"),
        event("exchange_ended", &ended),
    ]);
    let left: Vec<_> = state.questions.keys().cloned().collect();
    assert_eq!(left, [path("messages/10/ask")]);
}

#[test]
fn start_commit_is_that_of_the_start() {
    let mut events = started_session();
    assert_eq!(fold(&events).unwrap().start_commit(), None);
    if let Event::SessionCreated(created) = &mut events[0].2 {
        created.commit = Some("c0ffee".into());
    }
    assert_eq!(fold(&events).unwrap().start_commit(), Some("c0ffee"));
}

#[test]
fn cost_and_usage_of_a_conversation_follow_it() {
    let reported = |cost: u64| {
        let report = json!({"conversation_cost_micro_usd": cost});
        let fields = json!({"entries": "[]", "usage": usage(300), "report": report});
        step("agent_said", fields)
    };
    let native = |events: Vec<Event>| open(&after(events)).native.clone().unwrap();
    // A new conversation has cost nothing, and what it used is counted.
    let new = native(vec![opened("n", None), said(5, None)]);
    assert_eq!((new.cost, new.counted), (Some(Cost(0)), sum(300, 1)));
    assert!(new.is_interrupted());
    let ended = native(vec![
        opened("n", None),
        reported(70),
        failed("crashed", json!({})),
    ]);
    assert_eq!((ended.cost, ended.counted), (Some(Cost(70)), sum(320, 2)));
    assert!(!ended.is_interrupted());
    // Another run of it, and a copy, continue the count; a conversation from a summary does not.
    for (id, strategy, cost, counted) in [
        ("n", "native", Cost(70), sum(300, 1)),
        ("m", "rehomed", Cost(70), sum(300, 1)),
        ("m", "compiled", Cost(0), Usage::default()),
    ] {
        let again = opened(id, Some(strategy));
        let next = native(vec![opened("n", None), reported(70), again]);
        assert_eq!(
            (next.cost, next.counted),
            (Some(cost), counted),
            "{strategy}"
        );
        assert!(next.is_interrupted(), "{strategy}");
    }
    // Of a conversation that began elsewhere nothing is known.
    let foreign = native(vec![opened("n", Some("native"))]);
    assert_eq!(foreign.cost, None);
}

#[test]
fn refused_tools_are_counted_and_bounded() {
    let refused = |tool: &str| step("tool_refused", json!({"tool": tool, "reason": "spec"}));
    let state = after([refused("a"), refused("b"), refused("a")]);
    let counts = state.refused_tools.iter();
    let counts: Vec<_> = counts.map(|it| (it.tool.as_str(), it.count)).collect();
    assert_eq!(counts, [("a", 2), ("b", 1)]);
    assert_eq!(state.refused_tools[0].agent, "a");
    let state = after((0..60).map(|number| refused(&number.to_string())));
    assert_eq!(state.refused_tools.len(), 50);
}

#[test]
fn window_of_an_api_model_is_known_at_the_end() {
    let reply = json!({"turn": 1, "parts": "[]", "usage": usage(7), "window": 100});
    let state = after([step("model_replied", reply)]);
    let expected = |used| {
        let window = Some(100);
        Some(ContextUsage { used, window })
    };
    assert_eq!(open(&state).context_usage(), expected(8));
    let context = json!({"used": 9, "window": 100});
    let end = json!({"output": "!", "usage": usage(8), "elapsed_ms": 5, "context": context});
    let state = after([step("step_finished", end)]);
    assert_eq!(state.newest_context, expected(9));
}

#[test]
fn tokens_of_agents_without_counts_are_estimated() {
    let paid = json!({"output": "!", "usage": {"cost_micro_usd": 450_000}, "elapsed_ms": 5});
    let state = after([step("step_finished", paid)]);
    assert_eq!(state.estimated_tokens(), Some(50_000));
    assert_eq!(state.estimated_context().unwrap().utilisation(), Some(0.25));
    let counted = after([finished()]);
    assert_eq!(counted.estimated_tokens(), None);
    assert_eq!(counted.estimated_context(), None);
}
