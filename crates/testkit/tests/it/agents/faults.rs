//! Models that fail, as the real agents report it.

use std::time::Duration;

use segno_testkit::model::{Call, Fault, FaultRepeat, ModelServer, Script, Turn, Usage};
use segno_testkit::programs::{Agent, AgentSandbox};
use serde_json::Value;

fn run_with_fault(agent: Agent, fault: Fault, often: FaultRepeat) -> (bool, String, Vec<Value>) {
    let script = Script::new("fails", [Turn::fail(fault, often)]);
    let server = ModelServer::scripted([script.clone()]);
    let stage = AgentSandbox::new(&server);
    let (status, lines) = agent.start(&stage, &script.marker()).read_to_end();
    let said = serde_json::to_string(&lines).unwrap();
    (status.success(), said, lines)
}

#[test]
fn every_api_error_ends_the_run_and_is_reported() {
    for agent in Agent::ALL {
        for (fault, words) in [
            (Fault::Unauthorized, ["invalid x-api-key", "401"]),
            (
                Fault::TooLong,
                ["prompt_too_long", "context_length_exceeded"],
            ),
            (
                Fault::Limited(Duration::from_secs(1)),
                ["429", "usage limit"],
            ),
        ] {
            let (good, said, _) = run_with_fault(agent, fault, FaultRepeat::Always);
            assert!(!good, "{agent:?} {fault:?} {said}");
            let named = words.iter().any(|word| said.contains(word));
            assert!(named, "{agent:?} {fault:?} {said}");
        }
    }
}

#[test]
fn single_failure_is_retried() {
    for agent in Agent::ALL {
        for fault in [Fault::Overloaded, Fault::Cut, Fault::HangUp] {
            let (good, said, _) = run_with_fault(agent, fault, FaultRepeat::First(1));
            assert!(good, "{agent:?} {fault:?} {said}");
            assert!(
                said.contains("It works again."),
                "{agent:?} {fault:?} {said}"
            );
        }
    }
}

#[test]
fn agents_report_the_usage_of_an_answer() {
    for agent in Agent::ALL {
        let usage = Usage {
            input: 123_456,
            cached: 100_000,
            output: 789,
        };
        let script = Script::new("much", [Turn::say("That was much.").using(usage)]);
        let server = ModelServer::scripted([script.clone()]);
        let stage = AgentSandbox::new(&server);
        let (_, lines) = agent.start(&stage, &script.marker()).read_to_end();
        let kind = match agent {
            Agent::Claude => "result",
            Agent::Codex => "turn.completed",
        };
        let usage = &lines.iter().find(|line| line["type"] == kind).unwrap()["usage"];
        assert_eq!(usage["output_tokens"], 789, "{agent:?}");
        let (input, cached) = match agent {
            Agent::Claude => (23_456, "cache_read_input_tokens"),
            Agent::Codex => (123_456, "cached_input_tokens"),
        };
        assert_eq!(usage["input_tokens"], input, "{agent:?}");
        assert_eq!(usage[cached], 100_000, "{agent:?}");
    }
}

#[test]
fn failed_call_is_repaired() {
    for agent in Agent::ALL {
        let script = Script::new(
            "mend",
            [
                Turn::say("I write.").call(Call::write("a.txt", "one\ntwo\n")),
                Turn::say("Someone else writes.").call(Call::shell("echo three > a.txt")),
                Turn::say("This edit cannot be done.").call(Call::edit("a.txt", "two", "2")),
                Turn::say("Over."),
            ],
        );
        let server = ModelServer::scripted([script.clone()]);
        let stage = AgentSandbox::new(&server);
        let (status, lines) = agent.start(&stage, &script.marker()).read_to_end();
        assert!(status.success(), "{agent:?} {lines:#?}");
        assert_eq!(server.repaired_turns("mend"), [2], "{agent:?} {lines:#?}");
        let text = std::fs::read_to_string(stage.work().join("a.txt")).unwrap();
        assert_eq!(text, "one\n2\n", "{agent:?}");
    }
}
