//! Tools whose effect must not be had twice.

use std::path::Path;
use std::sync::{Arc, Mutex};

use segno_core::agent::{self, Listener};
use segno_core::journal::StopMode;
use segno_core::model::{Call, Message, Model, Part, Reply, Stop, Tool, ToolCall};
use segno_core::ports::Boxed;
use segno_core::session::Status;
use segno_core::tool::{Class, Offer, Tools};
use segno_core::usage::Usage;
use segno_engine::resume::{Options, resume};
use segno_engine::spec::Provider;
use segno_engine::start::start;
use segno_engine::{Brake, Drivers, Error, Speaker};

use crate::world::{Stage, spec, stage};

/// A model that asks for one tool, and then says what it heard; and that tool, which pulls the brake
/// when it is run for the first time and never comes back.
struct Post {
    class: Class,
    offers: Vec<Offer>,
    brake: Brake,
    mode: StopMode,
    sent: Mutex<u32>,
    calls: Mutex<u32>,
}

impl Post {
    fn new(class: Class, mode: StopMode) -> Arc<Self> {
        let tool = Tool {
            name: "head".into(),
            description: String::new(),
            schema: serde_json::json!({}),
        };
        Arc::new(Self {
            class,
            offers: vec![Offer { tool, class }],
            brake: Brake::default(),
            mode,
            sent: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    fn stop(&self) {
        let stop = segno_engine::Stop::asked("test", self.mode, Status::Paused);
        self.brake.pull(stop);
    }
}

impl Model for Post {
    fn reply<'a>(
        &'a self,
        call: Call<'a>,
        _: &'a dyn Listener,
    ) -> Boxed<'a, Result<Reply, agent::Error>> {
        *self.calls.lock().unwrap() += 1;
        let (part, stop) = if let Some(Message::Tools { results }) = call.messages.last() {
            let text = results[0].output.clone();
            (Part::Text { text }, Stop::End)
        } else {
            let call = ToolCall {
                id: "1".into(),
                name: "head".into(),
                input: serde_json::json!({}),
            };
            (Part::Call(call), Stop::Tools)
        };
        let reply = Reply {
            parts: vec![part],
            stop,
            usage: Usage::default(),
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

impl Tools for Post {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn run<'a>(&'a self, _: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
        Box::pin(async {
            let sent = {
                let mut sent = self.sent.lock().unwrap();
                *sent += 1;
                *sent
            };
            if sent == 1 {
                self.stop();
                if self.mode == StopMode::Now {
                    std::future::pending::<()>().await;
                }
            }
            Ok(format!("sent {sent}"))
        })
    }
}

struct Desk(Arc<Post>);

impl Drivers for Desk {
    fn driver(&self, _: &Provider, _: &Path) -> Result<Speaker, Error> {
        let model: Arc<dyn Model> = Arc::clone(&self.0) as _;
        Ok(Speaker::Model(model))
    }

    fn tools(&self, _: segno_engine::Order<'_>) -> Result<Vec<Arc<dyn Tools>>, Error> {
        Ok(vec![Arc::clone(&self.0) as _])
    }
}

const ONE: &str = "{type: chain, config: {steps: [{agent: a, input: post it}]}}";

async fn posted(class: Class, mode: StopMode) -> (Stage, Arc<Post>, String) {
    let mut stage = stage("default: {text: x}");
    let post = Post::new(class, mode);
    stage.world.drivers = Arc::new(Desk(Arc::clone(&post)));
    let spec = spec(ONE, "tools: {python: [head]}");
    let (request, seen) = (stage.request(&spec), stage.seen.clone());
    let brake = post.brake.clone();
    start(&stage.world, request, seen, brake).await.unwrap_err();
    let summary = stage.summary().await;
    let seen = stage.seen.clone();
    let resumed = resume(
        &stage.world,
        summary,
        Options::default(),
        seen,
        Brake::default(),
    );
    let output = resumed.await.unwrap().output;
    (stage, post, output)
}

#[tokio::test]
async fn a_tool_with_an_effect_is_not_run_twice_and_its_outcome_is_unknown() {
    let (stage, post, output) = posted(Class::Effectful, StopMode::Now).await;
    assert!(
        output.starts_with("The outcome of this call is unknown"),
        "{output}"
    );
    assert_eq!(*post.sent.lock().unwrap(), 1);
    // The answer that asked for it was not paid for twice.
    assert_eq!(*post.calls.lock().unwrap(), 2);
    assert!(stage.kinds().contains(&"tool_started steps/0".to_owned()));
}

#[tokio::test]
async fn a_tool_that_only_looks_is_run_again() {
    for class in [Class::ReadOnly, Class::Repeatable] {
        let (_, post, output) = posted(class, StopMode::Now).await;
        assert_eq!(output, "sent 2");
        assert_eq!(*post.calls.lock().unwrap(), 2);
        assert_eq!(post.class, class);
    }
}

#[tokio::test]
async fn a_stop_at_the_next_boundary_comes_between_two_turns() {
    let (stage, post, output) = posted(Class::Effectful, StopMode::Boundary).await;
    assert_eq!(output, "sent 1");
    assert_eq!(
        (*post.sent.lock().unwrap(), *post.calls.lock().unwrap()),
        (1, 2)
    );
    let kinds = stage.kinds();
    assert!(
        kinds.contains(&"step_paused steps/0".to_owned()),
        "{kinds:?}"
    );
    assert!(
        !kinds.contains(&"step_unknown steps/0".to_owned()),
        "{kinds:?}"
    );
}
