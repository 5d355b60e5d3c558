//! An independent MCP client: the one that Segno uses for the servers of others.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_agents::mcp::{ConnectionConfig, Limits, Transport};
use segno_agents::{Client, Launch, Mcp, McpServer};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use segno_core::tool::{EffectClass, Tools};
use serde_json::{Value, json};

use super::{completed_session, notes};
use crate::{sandbox, segno};

/// A clock that stands still, so that nothing times out.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn independent_client_finds_and_calls_every_tool() {
    let sandbox = sandbox();
    completed_session(&sandbox, 1);
    let argv = [segno().to_str().unwrap(), "mcp", "--agent", "reader"];
    let server = McpServer {
        id: "segno".into(),
        transport: Transport::Stdio {
            argv: argv.map(str::to_owned).to_vec(),
            env: vec![("SEGNO_HOME".into(), sandbox.home().display().to_string())],
            folder: sandbox.work(),
        },
    };
    let means = ConnectionConfig {
        guard: Launch {
            program: segno().into(),
            args: vec!["__process-guard".into()],
        },
        client: Client::new().unwrap(),
        clock: Arc::new(StoppedClock),
        limits: Limits::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mcp = Mcp::connect(server, means)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let offers = mcp.offered_tools();
        assert_eq!(offers.len(), 18);
        let reading = offers
            .iter()
            .filter(|offer| offer.class == EffectClass::ReadOnly);
        let reading: Vec<&str> = reading.map(|offer| &*offer.tool.name).collect();
        assert_eq!(
            reading,
            [
                "read_history",
                "search_history",
                "list_checkpoints",
                "show_checkpoint",
                "get_state",
                "status"
            ]
        );
        let call = async |name: &str, input: Value| {
            let call = ToolCall {
                id: "1".into(),
                name: name.into(),
                input,
            };
            mcp.run(&call, Path::new("/")).await
        };
        for (name, input) in [
            ("record_decision", json!({"text": "Use SQLite"})),
            ("record_error", json!({"text": "no disk"})),
            ("resolve_error", json!({"note": "e1"})),
            (
                "record_feedback",
                json!({"reviewer": "a", "approved": true}),
            ),
            ("address_feedback", json!({"note": "f1"})),
            ("add_todo", json!({"text": "docs"})),
            ("update_todo", json!({"note": "t1", "progress": "done"})),
            (
                "record_tests",
                json!({"phase": "green", "command": "make test"}),
            ),
            ("withdraw", json!({"note": "d1"})),
            ("read_history", json!({"category": "todos"})),
            ("search_history", json!({"text": "begin"})),
            ("checkpoint", json!({"reason": "done"})),
            ("list_checkpoints", json!({})),
            ("set_state", json!({"key": "n", "value": 1})),
            ("get_state", json!({})),
            ("status", json!({})),
        ] {
            let output = call(name, input)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                serde_json::from_str::<Value>(&output).is_ok(),
                "{name}: {output}"
            );
        }
        let refused = call("pause", json!({"reason": "x"})).await.unwrap_err();
        assert!(refused.contains("chain"), "{refused}");
    });
    assert_eq!(notes(&sandbox, "chain").len(), 5);
}
