//! Chats in a world whose clock is turned by hand: when they rest, and what a look at the wrong moment does.

use std::sync::Arc;

use segno_core::journal::{Ending, Event};
use segno_core::session::Status;
use segno_core::state::Chat;
use segno_engine::chat::{self, Audience, Effect, Limits, MAX_TURNS, Opening, Source, Swept};
use segno_engine::observe::Quiet;
use segno_engine::{Brake, Error, Outcome, history};

use crate::world::{Stage, chain, stage};

const MINUTE: i64 = 60_000;

async fn open(stage: &Stage, audience: Audience) -> Result<Outcome, Error> {
    let file = stage.request(&chain("", &["unused"])).spec;
    let opening = Opening {
        source: Source::Spec { file, agent: None },
        name: None,
        workspace: "/".into(),
        max_turns: MAX_TURNS,
    };
    let observer = stage.seen.clone();
    chat::open(
        &stage.world,
        opening,
        "hello",
        audience,
        observer,
        Brake::default(),
    )
    .await
}

async fn say(stage: &Stage, message: &str) -> Result<Outcome, Error> {
    let summary = stage.summary().await;
    let (observer, brake) = (stage.seen.clone(), Brake::default());
    chat::say(
        &stage.world,
        &summary,
        message,
        Audience::Here,
        observer,
        brake,
    )
    .await
}

async fn sweep(stage: &Stage) -> Swept {
    let limits = Limits::default();
    chat::sweep(&stage.world, limits, Effect::Real)
        .await
        .unwrap()
}

async fn folded(stage: &Stage) -> Chat {
    let session = stage.summary().await.id;
    *history::look(&stage.world, session)
        .await
        .unwrap()
        .chat
        .unwrap()
}

/// Turns the clock to so long after the last message.
async fn turn_to(stage: &Stage, millis: i64) {
    let last = folded(stage).await.last_message_at;
    stage
        .clock
        .turn(last.0 + millis - stage.world.clock.now().0);
}

#[tokio::test]
async fn a_chat_is_paused_after_five_minutes_and_archived_after_thirty() {
    let stage = stage("default: {text: fine}");
    open(&stage, Audience::Here).await.unwrap();
    turn_to(&stage, 5 * MINUTE - 1).await;
    assert_eq!(sweep(&stage).await, Swept::default());
    assert_eq!(stage.summary().await.status, Status::Waiting);
    turn_to(&stage, 5 * MINUTE).await;
    assert_eq!(sweep(&stage).await.paused.len(), 1);
    assert_eq!(stage.summary().await.status, Status::Paused);
    // That it was paused is nothing that was said.
    turn_to(&stage, 30 * MINUTE - 1).await;
    assert_eq!(sweep(&stage).await, Swept::default());
    turn_to(&stage, 30 * MINUTE).await;
    assert_eq!(sweep(&stage).await.expired.len(), 1);
    assert_eq!(stage.summary().await.status, Status::Expired);
    assert_eq!(sweep(&stage).await, Swept::default(), "once is enough");
    say(&stage, "are you there?").await.unwrap();
    assert_eq!(stage.summary().await.status, Status::Waiting);
    turn_to(&stage, 30 * MINUTE - 1).await;
    assert_eq!(sweep(&stage).await.expired.len(), 0, "it counts anew");
}

#[tokio::test]
async fn a_message_between_the_look_and_the_rest_keeps_a_chat_awake() {
    let stage = stage("default: {text: fine}");
    open(&stage, Audience::Here).await.unwrap();
    let seen = stage.summary().await;
    say(&stage, "more").await.unwrap();
    let now = stage.summary().await;
    let rest = |head| {
        chat::rest(
            &stage.world,
            &seen,
            head,
            Status::Expired,
            "a test",
            Arc::new(Quiet),
        )
    };
    assert!(rest(seen.head).await.unwrap().is_none());
    assert_eq!(stage.summary().await.status, Status::Waiting);
    assert!(rest(now.head).await.unwrap().is_some());
    assert_eq!(stage.summary().await.status, Status::Expired);
}

#[tokio::test]
async fn what_is_cleared_leaves_nothing_open_and_counts_on() {
    let stage = stage("default: {text: fine, fail: {kind: auth, message: no key}}");
    open(&stage, Audience::Here).await.unwrap_err();
    let session = stage.summary().await.id;
    let state = history::look(&stage.world, session).await.unwrap();
    assert!(chat::unanswered(&state).is_some());
    let summary = stage.summary().await;
    let observer = Arc::new(Quiet);
    chat::clear(&stage.world, &summary, "a test", Audience::Here, observer)
        .await
        .unwrap();
    let state = history::look(&stage.world, session).await.unwrap();
    assert!(chat::unanswered(&state).is_none() && state.open.is_empty());
    stage.mend("default: {text: fine}");
    say(&stage, "more").await.unwrap();
    let chat = folded(&stage).await;
    assert_eq!((chat.messages, chat.answers), (2, 1));
    assert_eq!(chat.ending, Some(Ending::EndTurn));
}

#[tokio::test]
async fn an_answer_and_the_end_of_its_exchange_share_a_commit() {
    let stage = stage("default: {text: fine}");
    let state = open(&stage, Audience::Gone).await.unwrap().state;
    let entries = stage.seen.entries.lock().unwrap();
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
