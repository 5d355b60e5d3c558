//! Parses valid and invalid specs through the entry points.

use std::time::Duration;

use proptest::prelude::*;
use segno_core::checkpoint::Trigger;
use segno_core::error::Diagnose;
use segno_core::journal::InFlight;
use segno_core::retry::Backoff;
use serde_json::json;

use super::*;

const SMALL: &str = "\
version: 0
name: demo
runtime:
  provider: scripted
  script: answers.yaml
agents:
  a: {prompt: Answer briefly.}
pattern:
  type: chain
  config:
    steps:
      - agent: a
";

const FULL: &str = r#"
version: "0"
name: "Über die Gezeiten: Teil 1"
description: All that this version does.
metadata: {name: x, description: y, labels: {team: sea, rank: 1}}
tags: [demo, a.b-c_1]
runtime:
  provider: scripted
  script: answers.yaml
  max_parallel: 3
  timeout_s: 1.5
  failure_policy: {retries: 0, backoff: jittered, wait_min: 0.5, wait_max: 2}
inputs:
  required: {topic: string}
  optional:
    tone: {type: string, description: How, enum: [dry, warm], default: dry}
  values: {topic: tides, place: sea}
agents:
  a: {prompt: "Write about {{ topic }}."}
  b: {prompt: Check., provider: command, command: [tr, a-z, A-Z], tools: []}
pattern:
  type: chain
  config:
    steps:
      - {agent: a, input: "Facts about {{ topic }}", vars: {n: 3, deep: true, who: me}}
      - agent: b
outputs:
  artifacts:
    - {path: "{{ topic }}.md", from: "{{ last_response }}"}
    - {path: notes/out.md, from: "{{ steps[0].response }}"}
continuity: {in_flight: stop, handoff: {reader: b, within_s: 5}}
tools: {}
"#;

fn problems_of(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

fn changed(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from:?} is not in the spec");
    SMALL.replacen(from, to, 1)
}

#[test]
fn small_spec_gets_defaults() {
    let workflow = parse(SMALL).unwrap();
    assert_eq!(workflow.name, "demo");
    let retry = workflow.runtime.retry;
    assert_eq!((retry.retries, retry.backoff), (2, Backoff::Exponential));
    assert_eq!(retry.shortest, Duration::from_secs(1));
    assert_eq!(retry.longest, Duration::from_mins(1));
    assert_eq!(workflow.runtime.timeout, None);
    assert_eq!(workflow.in_flight, InFlight::Repeat);
    let script = "answers.yaml".to_owned();
    assert_eq!(workflow.agents["a"].provider, Provider::Scripted { script });
    let Pattern::Chain(chain) = workflow.pattern else {
        panic!("it is a chain")
    };
    let step = AgentStep {
        agent: "a".into(),
        ..AgentStep::default()
    };
    let step = ListStep {
        id: None,
        step: Step::Agent(step),
    };
    assert_eq!(chain.steps, [step]);
}

#[test]
fn every_supported_key_is_read() {
    let workflow = parse(FULL).unwrap();
    assert_eq!(workflow.tags, ["demo", "a.b-c_1"]);
    assert_eq!(workflow.runtime.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(workflow.runtime.retry.shortest, Duration::from_millis(500));
    assert_eq!(workflow.inputs.0["tone"].value, Some(json!("dry")));
    assert_eq!(workflow.inputs.0["topic"].value, Some(json!("tides")));
    assert_eq!(workflow.inputs.0["place"].kind, Type::String);
    let argv = ["tr", "a-z", "A-Z"].map(str::to_owned).to_vec();
    assert_eq!(workflow.agents["b"].provider, Provider::Command { argv });
    let Pattern::Chain(chain) = &workflow.pattern else {
        panic!("it is a chain")
    };
    assert!(matches!(&chain.steps[0].step, Step::Agent(step) if step.vars["n"] == json!(3)));
    assert_eq!(workflow.artifacts.len(), 2);
    assert_eq!(workflow.in_flight, InFlight::Stop);
    assert!(workflow.handoff.resume_context);
    let reading = workflow.handoff.reader.unwrap();
    assert_eq!(reading.reader, "b");
    assert_eq!(reading.within, Duration::from_secs(5));
}

#[test]
fn ids_of_steps_are_unique_names_and_no_numbers() {
    let steps = |steps: &str| SMALL.replace("\n      - agent: a\n", &format!(" [{steps}]\n"));
    assert_ne!(steps("{agent: a, id: x}"), SMALL);
    let workflow = parse(&steps(
        "{agent: a, id: x}, {type: hitl, prompt: Ok?, id: y.2}, {agent: a}",
    ));
    let paths: Vec<String> = outline(&workflow.unwrap())
        .iter()
        .map(|step| step.path.to_string())
        .collect();
    assert_eq!(paths, ["steps/x", "steps/y.2", "steps/2"]);
    for (given, problem) in [
        ("{agent: a, id: x}, {agent: a, id: x}", "duplicate step `x`"),
        ("{agent: a, id: 07}", "must be a text"),
        ("{agent: a, id: '07'}", "a number is the position"),
        ("{agent: a, id: 'a/b'}", "a name consists of letters"),
        ("{agent: a, id: ''}", "must not be empty"),
    ] {
        let problems = problems_of(&steps(given));
        assert!(problems.contains(problem), "{given}: {problems}");
    }
    let (header, _) = SMALL.split_once("pattern:").unwrap();
    let named = header.to_owned()
        + "pattern: {type: parallel, config: {branches: [{id: x, steps: [{agent: a, id: s}]}, {id: y, steps: [{agent: a, id: s}]}], reduce: {agent: a, id: r}}}\n";
    let problems = problems_of(&named);
    assert!(problems.contains("/reduce/id"), "{problems}");
    assert!(!problems.contains("duplicate"), "{problems}");
}

/// A spec of one agent with this provider, these further keys of the agent, and further blocks.
fn one_agent(provider: &str, agent: &str, more: &str) -> Workflow {
    let spec = format!(
        "version: 0\nname: demo\nruntime: {{provider: {provider}}}\nagents: {{a: {{prompt: x{agent}}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a}}]}}}}\n{more}"
    );
    parse(&spec).unwrap_or_else(|problems| panic!("{spec}\n{problems}"))
}

const PROGRAMS: [&str; 4] = [
    "codex",
    "claude-code",
    "acp, command: [x]",
    "command, command: [x]",
];

const API: &str = "openai, model_id: m";

#[test]
fn any_agent_can_be_the_handoff_reader() {
    for provider in PROGRAMS.into_iter().chain([API, "scripted, script: x"]) {
        let workflow = one_agent(provider, "", "continuity: {handoff: {reader: a}}\n");
        assert_eq!(workflow.handoff.reader.unwrap().reader, "a", "{provider}");
    }
}

#[test]
fn end_and_failures_are_checkpoints_if_agents_may_change_files() {
    let triggers = |provider: &str, agent: &str, more: &str| -> Vec<Trigger> {
        let tools = "tools: {python: [file_read, file_write, grep, python_exec]}\n";
        let workflow = one_agent(provider, agent, &format!("{tools}{more}"));
        workflow.checkpoints.on.into_iter().collect()
    };
    let default = [Trigger::Complete, Trigger::Error];
    for provider in PROGRAMS {
        assert_eq!(triggers(provider, "", ""), default, "{provider}");
        let named = "continuity: {checkpoint: {on: [pause]}}\n";
        assert_eq!(triggers(provider, "", named), [Trigger::Pause]);
        let none = "continuity: {checkpoint: {on: []}}\n";
        assert_eq!(triggers(provider, "", none), []);
        let other = "continuity: {checkpoint: {every_s: 60}}\n";
        assert_eq!(triggers(provider, "", other), default);
    }
    for (tools, expected) in [
        (", tools: [file_read, file_write]", &default[..]),
        (", tools: [python_exec]", &default),
        (", tools: [file_read, grep]", &[]),
        (
            ", tools: [file_write], permissions: {file_write: deny}",
            &[],
        ),
    ] {
        assert_eq!(triggers(API, tools, ""), expected, "{tools}");
    }
    assert_eq!(triggers("scripted, script: x", "", ""), []);
}

#[test]
fn json_is_yaml() {
    let spec = json!({
        "version": 0, "name": "demo",
        "runtime": {"provider": "scripted", "script": "answers.yaml"},
        "agents": {"a": {"prompt": "Answer briefly."}},
        "pattern": {"type": "chain", "config": {"steps": [{"agent": "a"}]}},
    });
    let expected = parse(SMALL).unwrap();
    assert_eq!(parse(&spec.to_string()).unwrap(), expected);
    let pretty = serde_json::to_string_pretty(&spec).unwrap();
    assert_eq!(parse(&pretty.replace("  ", "\t")).unwrap(), expected);
}

#[test]
fn invalid_spec_reports_location_and_suggestion() {
    for (from, to, expected) in [
        (
            "provider:",
            "provder:",
            "/runtime/provder (line 4): unknown key; did you mean `provider`?",
        ),
        ("name: demo\n", "", "document (line 1): `name` is missing"),
        ("demo", "''", "/name (line 2): must not be empty"),
        ("demo", "7", "/name (line 2): must be a text, not 7"),
        (
            "demo",
            "\"a\\nb\"",
            "/name (line 2): must not contain control characters",
        ),
        (
            "version: 0",
            "version: 1.5",
            "/version (line 1): must be a whole number or a text, not 1.5",
        ),
        (
            "scripted\n",
            "scriptde\n",
            "unknown provider `scriptde`; did you mean `scripted`?",
        ),
        (
            "  script: answers.yaml\n",
            "",
            "/runtime (line 3): `script` is missing",
        ),
        (
            "  script: answers.yaml\n",
            "  script: a\n  command: [x]\n",
            "/runtime/command (line 6): would be ignored",
        ),
        (
            "scripted\n  script: answers.yaml",
            "command",
            "/agents/a (line 6): `command` is missing",
        ),
        (
            "scripted\n  script: answers.yaml",
            "command\n  command: []",
            "/runtime/command (line 5): must have 1 or more items",
        ),
        (
            "scripted\n  script: answers.yaml",
            "command\n  command: cat",
            "must be a list, not the text \"cat\"",
        ),
        (
            "  script:",
            "  timeout_s: 0\n  script:",
            "/runtime/timeout_s (line 5): must be a number from 0.001 to 31536000, not 0",
        ),
        (
            "  script:",
            "  timeout_s: -1\n  script:",
            "must be a number from 0.001 to",
        ),
        (
            "  script:",
            "  failure_policy: {retries: -1}\n  script:",
            "/runtime/failure_policy/retries (line 5): must be a whole number from 0",
        ),
        (
            "  script:",
            "  failure_policy: {backoff: liner}\n  script:",
            "must be one of `constant`, `exponential`, `jittered`, not `liner`",
        ),
        (
            "  script:",
            "  failure_policy: {wait_min: 90}\n  script:",
            "`wait_min` (90 s) is longer than `wait_max` (60 s)",
        ),
        (
            "  a: {prompt: Answer briefly.}",
            "  {}",
            "/agents (line 6): must have at least 1 item",
        ),
        (
            "  a:",
            "  a b: {prompt: x}\n  a:",
            "/agents/a b (line 7): a name consists of letters",
        ),
        (
            "prompt",
            "promt",
            "/agents/a/promt (line 7): unknown key; did you mean `prompt`?",
        ),
        (
            "- agent: a",
            "- {agent: a, input: \"{{ x\"}",
            "/pattern/config/steps/0/input (line 12): template: line 1 of the template:",
        ),
        (
            "briefly.}",
            "briefly., command: [x]}",
            "/agents/a/command (line 7): would be ignored",
        ),
        (
            "type: chain",
            "type: chian",
            "/pattern/type (line 9): unknown pattern `chian`; did you mean `chain`?",
        ),
        (
            "    steps:\n      - agent: a",
            "    steps: []",
            "/pattern/config/steps (line 11): must have 1 or more items",
        ),
        (
            "- agent: a",
            "- {agent: a, vars: {x: [1]}}",
            "/pattern/config/steps/0/vars/x (line 12): must be a text, a number or a boolean, not a list",
        ),
        (
            "- agent: a",
            "- {agent: a, vars: {steps: 1}}",
            "`steps` is reserved in templates",
        ),
        (
            "- agent: a",
            "- {agent: a, type: hitl, prompt: x}",
            "not both",
        ),
        (
            "- agent: a",
            "- {type: hilt, prompt: x}",
            "did you mean `hitl`?",
        ),
        (
            "- agent: a",
            "- {agent: a, input: '{% if %}'}",
            "/pattern/config/steps/0/input (line 12): template:",
        ),
        (
            "- agent: a",
            "- 7",
            "/pattern/config/steps/0 (line 12): must be a mapping, not 7",
        ),
        (
            "version: 0",
            "version: 0\ntags: [a, a]",
            "/tags/1 (line 2): duplicate tag `a`",
        ),
        (
            "version: 0",
            "version: 0\ntags: [A]",
            "/tags/0 (line 2): a tag consists of",
        ),
        (
            "version: 0",
            "version: 0\ncontinuity: {in_flight: ask}",
            "must be one of `repeat`, `stop`, not `ask`",
        ),
        (
            "version: 0",
            "version: 0\nmetadata: {labels: {a: [1]}}",
            "/metadata/labels/a (line 2): must be a text",
        ),
        (
            "version: 0",
            "version: 0\noutputs: {artifacts: [{path: ../x, from: x}]}",
            "/outputs/artifacts/0/path (line 2): an artifact's path must not contain `..`",
        ),
        (
            "version: 0",
            "version: 0\noutputs: {artifacts: [{path: x, from: x}, {path: ./x, from: y}]}",
            "another artifact has this path",
        ),
        (
            "version: 0",
            "version: 0\ninputs: {required: {x: text}}",
            "must be one of `string`",
        ),
        (
            "version: 0",
            "version: 0\ninputs: {required: {x: string}, optional: {x: string}}",
            "is both required and optional",
        ),
        (
            "version: 0",
            "version: 0\ninputs: {optional: {x: {type: string, default: 1}}}",
            "must be of type string, not 1; put it in quotes",
        ),
        (
            "version: 0",
            "version: 0\ninputs: {optional: {x: {type: integer, enum: [1, 2], default: 3}}}",
            "must be one of 1, 2, not 3",
        ),
        (
            "version: 0",
            "version: 0\ninputs: {values: {x: }}",
            "must be a text, a number or a boolean, not nothing",
        ),
        (
            "version: 0",
            "version: 0\n~/x: 1",
            "/~0~1x (line 2): unknown key",
        ),
    ] {
        let spec = changed(from, to);
        let problems = parse(&spec).expect_err(&spec);
        assert!(
            problems.to_string().contains(expected),
            "{spec}\n{problems}"
        );
        assert_eq!(problems.code(), "W0101", "{spec}\n{problems}");
        assert_eq!(problems.iter().count(), 1, "{spec}\n{problems}");
    }
}

#[test]
fn model_settings_are_checked_and_must_be_used() {
    let command = |more: &str| {
        let spec = changed("scripted", &format!("command\n  command: [cat]\n  {more}"));
        spec.replace("  script: answers.yaml\n", "")
    };
    for (spec, expected) in [
        (
            changed("  script:", "  temperature: 3\n  script:"),
            "/runtime/temperature (line 5): must be a number from 0 to 2, not 3",
        ),
        (
            changed("  script:", "  host: localhost\n  script:"),
            "/runtime/host (line 5): must be an address like `http://127.0.0.1:8080`",
        ),
        (
            changed("briefly.}", "briefly., inference: {top_p: 2}}").replace(
                "provider: scripted\n  script: answers.yaml",
                "provider: anthropic",
            ),
            "/agents/a/inference/top_p (line 6): must be a number from 0 to 1, not 2",
        ),
        (
            command("model_id: x"),
            "/runtime/model_id (line 6): would be ignored: provider `command` has no choice of models",
        ),
        (
            changed("scripted\n  script: answers.yaml", "ollama"),
            "/runtime (line 3): `host` is missing",
        ),
        (
            changed(
                "scripted\n  script: answers.yaml",
                "bedrock\n  region: a.example/x",
            ),
            "/runtime/region (line 5): must be a region like `eu-west-1`",
        ),
        (
            changed(
                "scripted\n  script: answers.yaml",
                "openai\n  region: eu-west-1",
            ),
            "/runtime/region (line 5): would be ignored: no agent's provider is `bedrock`",
        ),
    ] {
        let problems = problems_of(&spec);
        assert!(problems.starts_with(expected), "{problems}\n{spec}");
    }
    // The scripted provider replaces any model, so it accepts settings for models.
    parse(&changed(
        "  script:",
        "  model_id: x\n  region: y\n  max_tokens: 9\n  script:",
    ))
    .unwrap();
}

#[test]
fn unknown_agent_reports_the_nearest_name() {
    let spec = SMALL
        .replace("  a: {", "  writer: {")
        .replace("agent: a", "agent: wirter");
    let expected =
        "/pattern/config/steps/0/agent (line 12): unknown agent `wirter`; did you mean `writer`?";
    assert_eq!(problems_of(&spec), expected);
}

#[test]
fn acp_agent_needs_a_command_and_no_model_settings() {
    let acp = |more: &str| {
        let spec = changed("scripted\n  script: answers.yaml", &format!("acp{more}"));
        spec.replace("briefly.}", "briefly., OWN}")
    };
    let with = |more: &str, own: &str| match own {
        "" => acp(more).replace(", OWN", ""),
        own => acp(more).replace("OWN", own),
    };
    let argv = ["npx", "some-agent"].map(str::to_owned).to_vec();
    for spec in [
        with("\n  command: [npx, some-agent]", ""),
        with("", "command: [npx, some-agent]"),
        with("\n  command: [other]", "command: [npx, some-agent]"),
    ] {
        let workflow = parse(&spec).unwrap();
        let provider = &workflow.agents["a"].provider;
        assert_eq!(*provider, Provider::Acp { argv: argv.clone() });
        assert_eq!(provider.name(), "acp");
        assert_eq!(provider.identity(), r#"acp ["npx", "some-agent"]"#);
    }
    let command = "\n  command: [npx]";
    for (spec, expected) in [
        (with("", ""), "`command` is missing, here and in `runtime`"),
        (
            with(command, "model_id: x"),
            "would be ignored: this agent's provider is `acp`",
        ),
        (
            with(command, "inference: {top_p: 1}"),
            "would be ignored: this agent's provider is `acp`",
        ),
        (
            with(&format!("{command}\n  model_id: x"), ""),
            "would be ignored: provider `acp` has no choice of models",
        ),
        (
            with(&format!("{command}\n  script: x"), ""),
            "would be ignored: no agent's provider is `scripted`",
        ),
        (
            with(command, "tools: [calculator]"),
            "would be ignored: provider `acp` has its own tools",
        ),
    ] {
        let problems = problems_of(&spec);
        assert!(problems.contains(expected), "{problems}\n{spec}");
    }
}

#[test]
fn unsupported_features_are_rejected_by_name() {
    for (from, to, expected) in [
        (
            "scripted\n  script: answers.yaml",
            "acp\n  command: [cat]\n  budgets: {max_cost_usd: 2}",
            "/runtime (line 3): `max_cost_usd` cannot be enforced with provider `acp`",
        ),
        (
            "scripted\n  script: answers.yaml",
            "command\n  command: [cat]\n  budgets: {max_cost_usd: 2}",
            "/runtime (line 3): `max_cost_usd` cannot be enforced with provider `command`",
        ),
        (
            "version: 0",
            "version: 0\nenv: {secrets: [{key: K, source: ssm, path: k}]}",
            "/env/secrets/0 (line 2): secrets are read from the environment or from a file",
        ),
        (
            "scripted\n  script: answers.yaml",
            "command\n  command: [cat]\nsecurity: {guardrails: {deny_network: true}}",
            "/agents/a (line 8): `deny_network` in `security` cannot be enforced with provider `command`",
        ),
    ] {
        let spec = changed(from, to);
        let problems = parse(&spec).expect_err(&spec);
        assert!(
            problems.to_string().contains(expected),
            "{spec}\n{problems}"
        );
        assert_eq!(problems.code(), "W0102", "{spec}\n{problems}");
        assert_eq!(problems.fault(), Fault::Unsupported);
    }
}

#[test]
fn problems_are_listed_in_line_order() {
    let spec = changed(
        "name: demo",
        "nam: demo\nenv: {secrets: [{key: K, source: ssm}]}",
    )
    .replace("agent: a", "agnet: a")
    .replace("scripted\n", "acpp\n");
    let lines = [
        "/nam (line 2): unknown key; did you mean `name`?",
        "/env/secrets/0 (line 3): secrets are read from the environment or from a file; fetch it first, \
         and use source `env`",
        "/runtime/provider (line 5): unknown provider `acpp`; did you mean `acp`?",
        "/pattern/config/steps/0/agnet (line 13): unknown key; did you mean `agent`?",
    ];
    assert_eq!(problems_of(&spec), lines.join("\n"));
}

#[test]
fn invalid_tools_and_policies_are_rejected() {
    for (more, expected) in [
        (
            "tools: {python: [calculato]}",
            "unknown tool `calculato`; did you mean `calculator`?",
        ),
        (
            "tools: {http_executors: [{id: a}]}",
            "`base_url` is missing",
        ),
        (
            "tools: {http_executors: [{id: a, base_url: ftp://x}]}",
            "must be an address like",
        ),
        (
            "tools: {http_executors: [{id: head, base_url: http://x}]}",
            "the name of a built-in tool",
        ),
        (
            "tools: {http_executors: [{id: a b, base_url: http://x}]}",
            "letters, digits",
        ),
        (
            "tools: {http_executors: [{id: a, base_url: http://x, headers: {'a b': c}}]}",
            "contain spaces",
        ),
        ("tools: {mcp: [{id: a}]}", "either a `command` or a `url`"),
        (
            "tools: {mcp: [{id: a, command: x, url: http://x}]}",
            "either a `command` or a `url`",
        ),
        (
            "tools: {mcp: [{id: a, url: http://x, args: [b]}]}",
            "would be ignored",
        ),
        (
            "tools: {mcp: [{id: a, command: x}, {id: a, command: y}]}",
            "duplicate tool `a`",
        ),
        (
            "env: {secrets: [{key: K, source: file}]}",
            "`path` is missing",
        ),
        (
            "env: {secrets: [{key: K, source: env, path: k}]}",
            "would be ignored",
        ),
        (
            "context_policy: {compaction: {when_tokens_over: 10}}",
            "a whole number from 1000",
        ),
        (
            "context_policy: {notes: {file: ../n.md}}",
            "inside the workspace",
        ),
        ("context_policy: {notes: {}}", "`file` is missing"),
        (
            "context_policy: {retrieval: {jit_tools: [cat]}}",
            "must be one of",
        ),
        (
            "context_policy: {retrieval: {mcp_servers: [x]}}",
            "no MCP server `x`",
        ),
        (
            "telemetry: {otel: {sample_ratio: 2}}",
            "a number from 0 to 1",
        ),
        (
            "security: {guardrails: {allow_tool: [x]}}",
            "did you mean `allow_tools`?",
        ),
        (
            "security: {guardrails: {allow_tools: [heat]}}",
            "unknown tool `heat`; did you mean `head`?",
        ),
        (
            "continuity: {memory: all}",
            "must be one of `steps`, `none`",
        ),
        (
            "continuity: {context_warning_percent: 90}",
            "must not be above `context_full_percent`",
        ),
        ("continuity: {context_full_percent: 0}", "from 1 to 100"),
        (
            "continuity: {resume: {policy: always}}",
            "must be one of `ask`, `notify`, `auto`, not `always`",
        ),
        ("continuity: {resume: {max_attempts: -1}}", "from 0 to 1000"),
        ("continuity: {handoff: {}}", "`reader` is missing"),
        (
            "continuity: {handoff: {resume_context: true, within_s: 5}}",
            "`reader` is missing",
        ),
        (
            "continuity: {handoff: {resume_context: never}}",
            "true or false",
        ),
        ("continuity: {handoff: {reader: A}}", "did you mean `a`?"),
        (
            "continuity: {handoff: {reader: a, within_s: 0}}",
            "from 1 to 600",
        ),
    ] {
        let spec = format!("{SMALL}{more}\n");
        let problems = parse(&spec).expect_err(&spec).to_string();
        assert!(problems.contains(expected), "{more}\n{problems}");
    }
}

#[test]
fn permission_for_a_missing_tool_is_rejected() {
    let read = |permissions: &str, more: &str| {
        let agent = format!("briefly., tools: [head], permissions: {{{permissions}}}}}");
        parse(&format!("{}{more}\n", SMALL.replace("briefly.}", &agent)))
    };
    read("head: ask, '*': deny", "").unwrap();
    let problems = read("tail: deny", "").unwrap_err().to_string();
    assert!(
        problems.contains("this agent has no tool `tail`"),
        "{problems}"
    );
    // An MCP server may have it.
    read("tail: deny", "tools: {mcp: [{id: x, command: y}]}").unwrap();
}

#[test]
fn agent_gets_its_chosen_or_all_permitted_tools() {
    let tools = |more: &str, agent: &str| {
        let spec = SMALL.replace("briefly.}", &format!("briefly.{agent}}}"));
        parse(&format!("{spec}{more}\n")).map(|workflow| workflow.agents["a"].tools.clone())
    };
    let all = "tools: {python: [head, strands_cli.tools.http_request], http_executors: [{id: api, base_url: 'http://x'}], mcp: [{id: files, command: x}]}";
    assert_eq!(
        tools(all, "").unwrap(),
        ["head", "http_request", "api", "files"]
    );
    assert_eq!(
        tools(all, ", tools: [tail, http_executors]").unwrap(),
        ["tail", "api"]
    );
    assert!(tools(all, ", tools: []").unwrap().is_empty());
    let jit = format!("{all}\ncontext_policy: {{retrieval: {{jit_tools: [grep]}}}}");
    assert_eq!(tools(&jit, ", tools: [tail]").unwrap(), ["tail", "grep"]);
    let offline = format!("{all}\nsecurity: {{guardrails: {{deny_network: true}}}}");
    assert_eq!(tools(&offline, "").unwrap(), ["head"]);
    let problems = tools(&offline, ", tools: [web_fetch]")
        .unwrap_err()
        .to_string();
    assert!(
        problems.contains("`web_fetch` is forbidden by `deny_network`"),
        "{problems}"
    );
    // The tools of an MCP server are known only while it runs.
    let few = format!("{all}\nsecurity: {{guardrails: {{allow_tools: [api]}}}}");
    assert_eq!(tools(&few, "").unwrap(), ["api", "files"]);
}

#[test]
fn document_that_is_not_a_mapping_is_rejected() {
    for text in ["[]", "hello", "7", "- a: 1", "{}", "\u{0}", "a: &a [*a]"] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn chain_of_ten_thousand_steps_is_parsed() {
    let steps = "      - agent: a\n".repeat(9_999);
    let workflow = parse(&(SMALL.to_owned() + &steps)).unwrap();
    assert_eq!(outline(&workflow).len(), 10_000);
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "[a-z:{}\\[\\]&*!|>'\"#,\n -]{0,60}") {
        prop_assert!(parse(&text).is_err());
    }

    #[test]
    fn damaged_spec_is_parsed_or_rejected_with_a_reason(at in 0..FULL.len(), with in any::<char>()) {
        let mut spec: String = FULL.chars().take(at).collect();
        spec.push(with);
        spec.extend(FULL.chars().skip(at + 1));
        if let Err(problems) = parse(&spec) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }
}
