//! Tools whose effect must not happen twice.

use std::path::Path;
use std::sync::{Arc, Mutex};

use segno_core::agent::{self, Listener};
use segno_core::journal::StopMode;
use segno_core::model::{Call, Message, Model, Part, Reply, Stop};
use segno_core::ports::Boxed;
use segno_core::session::Status;
use segno_core::tool::{EffectClass, OfferedTool, Tool, ToolCall, Tools};
use segno_core::usage::Usage;
use segno_engine::env::Error;
use segno_engine::{AgentDriver, Drivers, StopToken};
use segno_sessions::resume::{Options, resume};
use segno_sessions::start::start;
use segno_spec::Provider;

use crate::harness::{Harness, harness, spec};

/// A model that calls one tool and then repeats the result; and that tool, which stops the run on
/// its first call and, with [`StopMode::Now`], never returns.
struct OneToolModel {
    class: EffectClass,
    offers: Vec<OfferedTool>,
    stop_token: StopToken,
    mode: StopMode,
    sent: Mutex<u32>,
    calls: Mutex<u32>,
}

impl OneToolModel {
    fn new(class: EffectClass, mode: StopMode) -> Arc<Self> {
        let tool = Tool {
            name: "head".into(),
            description: String::new(),
            schema: serde_json::json!({}),
        };
        Arc::new(Self {
            class,
            offers: vec![OfferedTool { tool, class }],
            stop_token: StopToken::default(),
            mode,
            sent: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    fn stop(&self) {
        let stop = segno_engine::Stop::request("test", self.mode, Status::Paused);
        self.stop_token.request_stop(stop);
    }
}

impl Model for OneToolModel {
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

impl Tools for OneToolModel {
    fn offered_tools(&self) -> &[OfferedTool] {
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

struct OneToolDrivers(Arc<OneToolModel>);

impl Drivers for OneToolDrivers {
    fn driver(&self, _: &Provider, _: &Path) -> Result<AgentDriver, Error> {
        let model: Arc<dyn Model> = Arc::clone(&self.0) as _;
        Ok(AgentDriver::Model(model))
    }

    fn tools(&self, _: segno_engine::ToolsetRequest<'_>) -> Result<Vec<Arc<dyn Tools>>, Error> {
        Ok(vec![Arc::clone(&self.0) as _])
    }
}

const ONE: &str = "{type: chain, config: {steps: [{agent: a, input: post it}]}}";

async fn stop_and_resume(
    class: EffectClass,
    mode: StopMode,
) -> (Harness, Arc<OneToolModel>, String) {
    let mut harness = harness("default: {text: x}");
    let model = OneToolModel::new(class, mode);
    harness.env.drivers = Arc::new(OneToolDrivers(Arc::clone(&model)));
    let spec = spec(ONE, "tools: {python: [head]}");
    let (request, seen) = (harness.request(&spec), harness.seen.clone());
    let stop_token = model.stop_token.clone();
    start(&harness.env, request, seen, stop_token)
        .await
        .unwrap_err();
    let summary = harness.summary().await;
    let seen = harness.seen.clone();
    let resumed = resume(
        &harness.env,
        summary,
        Options::default(),
        seen,
        StopToken::default(),
    );
    let output = resumed.await.unwrap().output;
    (harness, model, output)
}

#[tokio::test]
async fn effectful_tool_is_not_rerun_and_outcome_is_unknown() {
    let (harness, model, output) = stop_and_resume(EffectClass::Effectful, StopMode::Now).await;
    assert!(
        output.starts_with("The outcome of this call is unknown"),
        "{output}"
    );
    assert_eq!(*model.sent.lock().unwrap(), 1);
    // The model was not called again for the answer with the tool call.
    assert_eq!(*model.calls.lock().unwrap(), 2);
    assert!(
        harness
            .event_kinds()
            .contains(&"tool_started steps/0".to_owned())
    );
}

#[tokio::test]
async fn read_only_and_repeatable_tools_are_rerun() {
    for class in [EffectClass::ReadOnly, EffectClass::Repeatable] {
        let (_, model, output) = stop_and_resume(class, StopMode::Now).await;
        assert_eq!(output, "sent 2");
        assert_eq!(*model.calls.lock().unwrap(), 2);
        assert_eq!(model.class, class);
    }
}

#[tokio::test]
async fn boundary_stop_happens_between_two_turns() {
    let (harness, model, output) =
        stop_and_resume(EffectClass::Effectful, StopMode::Boundary).await;
    assert_eq!(output, "sent 1");
    assert_eq!(
        (*model.sent.lock().unwrap(), *model.calls.lock().unwrap()),
        (1, 2)
    );
    let event_kinds = harness.event_kinds();
    assert!(
        event_kinds.contains(&"step_paused steps/0".to_owned()),
        "{event_kinds:?}"
    );
    assert!(
        !event_kinds.contains(&"step_unknown steps/0".to_owned()),
        "{event_kinds:?}"
    );
}
