//! Chats with a clock that tests advance: when they pause and expire, and how concurrent messages
//! are handled.

use std::sync::Arc;

use segno_core::journal::{Ending, Event};
use segno_core::session::Status;
use segno_core::state::Chat;
use segno_engine::observe::NoObserver;
use segno_engine::steps::chat::Audience;
use segno_engine::{Outcome, StopToken, history};
use segno_sessions::chat::{self, ChatAgent, Effect, Limits, MAX_TURNS, NewChat, Swept};

use crate::harness::{Harness, chain, harness};

const MINUTE: i64 = 60_000;

async fn open(harness: &Harness, audience: Audience) -> Result<Outcome, chat::Error> {
    let file = harness.request(&chain("", &["unused"])).spec;
    let opening = NewChat {
        source: ChatAgent::Spec { file, agent: None },
        name: None,
        workspace: "/".into(),
        max_turns: MAX_TURNS,
    };
    let observer = harness.seen.clone();
    chat::open(
        &harness.env,
        opening,
        "hello",
        audience,
        observer,
        StopToken::default(),
    )
    .await
}

async fn say(harness: &Harness, message: &str) -> Result<Outcome, chat::Error> {
    let summary = harness.summary().await;
    let (observer, stop_token) = (harness.seen.clone(), StopToken::default());
    chat::send(
        &harness.env,
        &summary,
        message,
        Audience::Present,
        observer,
        stop_token,
    )
    .await
}

async fn sweep(harness: &Harness) -> Swept {
    let limits = Limits::default();
    chat::sweep(&harness.env, limits, Effect::Apply)
        .await
        .unwrap()
}

async fn chat_state(harness: &Harness) -> Chat {
    let session = harness.summary().await.id;
    *history::load_state(&harness.env, session)
        .await
        .unwrap()
        .chat
        .unwrap()
}

/// Advances the clock to `millis` after the last message.
async fn advance_to(harness: &Harness, millis: i64) {
    let last = chat_state(harness).await.last_message_at;
    harness
        .clock
        .advance(last.0 + millis - harness.env.clock.now().0);
}

#[tokio::test]
async fn chat_pauses_after_5_minutes_and_expires_after_30() {
    let harness = harness("default: {text: fine}");
    open(&harness, Audience::Present).await.unwrap();
    advance_to(&harness, 5 * MINUTE - 1).await;
    assert_eq!(sweep(&harness).await, Swept::default());
    assert_eq!(harness.summary().await.status, Status::Waiting);
    advance_to(&harness, 5 * MINUTE).await;
    assert_eq!(sweep(&harness).await.paused.len(), 1);
    assert_eq!(harness.summary().await.status, Status::Paused);
    // The pause is not a message.
    advance_to(&harness, 30 * MINUTE - 1).await;
    assert_eq!(sweep(&harness).await, Swept::default());
    advance_to(&harness, 30 * MINUTE).await;
    assert_eq!(sweep(&harness).await.expired.len(), 1);
    assert_eq!(harness.summary().await.status, Status::Expired);
    assert_eq!(sweep(&harness).await, Swept::default(), "once is enough");
    say(&harness, "are you there?").await.unwrap();
    assert_eq!(harness.summary().await.status, Status::Waiting);
    advance_to(&harness, 30 * MINUTE - 1).await;
    assert_eq!(sweep(&harness).await.expired.len(), 0, "it counts anew");
}

#[tokio::test]
async fn message_after_the_check_prevents_expiry() {
    let harness = harness("default: {text: fine}");
    open(&harness, Audience::Present).await.unwrap();
    let seen = harness.summary().await;
    say(&harness, "more").await.unwrap();
    let now = harness.summary().await;
    let rest = |head| {
        chat::set_idle(
            &harness.env,
            &seen,
            head,
            Status::Expired,
            "a test",
            Arc::new(NoObserver),
        )
    };
    assert!(rest(seen.head).await.unwrap().is_none());
    assert_eq!(harness.summary().await.status, Status::Waiting);
    assert!(rest(now.head).await.unwrap().is_some());
    assert_eq!(harness.summary().await.status, Status::Expired);
}

#[tokio::test]
async fn clear_closes_open_steps_and_keeps_counting() {
    let harness = harness("default: {text: fine, fail: {kind: auth, message: no key}}");
    open(&harness, Audience::Present).await.unwrap_err();
    let session = harness.summary().await.id;
    let state = history::load_state(&harness.env, session).await.unwrap();
    assert!(chat::unanswered(&state).is_some());
    let summary = harness.summary().await;
    let observer = Arc::new(NoObserver);
    chat::clear(
        &harness.env,
        &summary,
        "a test",
        Audience::Present,
        observer,
    )
    .await
    .unwrap();
    let state = history::load_state(&harness.env, session).await.unwrap();
    assert!(chat::unanswered(&state).is_none() && state.open_steps.is_empty());
    harness.set_script("default: {text: fine}");
    say(&harness, "more").await.unwrap();
    let chat = chat_state(&harness).await;
    assert_eq!((chat.messages, chat.answers), (2, 1));
    assert_eq!(chat.ending, Some(Ending::EndTurn));
}

#[tokio::test]
async fn answer_and_exchange_end_share_a_commit() {
    let harness = harness("default: {text: fine}");
    let state = open(&harness, Audience::Absent).await.unwrap().state;
    let entries = harness.seen.entries.lock().unwrap();
    let place = |kind: &str| entries.iter().position(|entry| entry.event.kind() == kind);
    let (finished, ended) = (
        place("step_finished").unwrap(),
        place("exchange_ended").unwrap(),
    );
    assert_eq!(ended, finished + 1);
    assert_eq!(entries[ended].at, entries[finished].at);
    assert!(matches!(&entries[ended].event, Event::ExchangeEnded(event) if event.replies == 1));
    assert_eq!(state.status, Status::Paused);
}
