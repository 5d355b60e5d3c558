//! `segno plan`.

use std::path::Path;

use serde_json::json;

use crate::sandbox;

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    folder.join(name).display().to_string()
}

#[test]
fn plan_shows_the_order_of_the_steps() {
    let sandbox = sandbox();
    let output = sandbox
        .segno(&["plan", &example("workflow.yaml")])
        .expect_success();
    insta::assert_snapshot!(output.stdout, @r"
    workflow `review`, 5 steps
    STEP            AGENT     PROVIDER  TOOLS  AFTER
    tasks/summary   reader    scripted  -      -
    tasks/security  security  scripted  -      tasks/summary
    tasks/speed     speed     scripted  -      tasks/summary
    tasks/tests     tests     scripted  -      tasks/summary
    tasks/verdict   lead      scripted  -      tasks/security, tasks/speed, tasks/tests
    ");
    let output = sandbox
        .segno(&["plan", &example("graph.yaml"), "--mermaid"])
        .expect_success();
    insta::assert_snapshot!(output.stdout, @r#"
    flowchart TD
      n0("nodes/triage<br/>triage")
      n1("nodes/reproduce<br/>tester")
      n2("nodes/fix<br/>fixer")
      n3("nodes/review<br/>reviewer")
      n4("nodes/close<br/>clerk")
      n0 -->|"'bug' in nodes.triage.response.lower()"| n1
      n1 --> n2
      n3 -->|"nodes.review.response.startswith('REDO')"| n2
      n2 --> n3
      n0 -->|"else"| n4
      n3 -->|"else"| n4
    "#);
}

#[test]
fn a_plan_as_json_has_steps_with_their_conditions() {
    let sandbox = sandbox();
    let output = sandbox
        .segno(&["plan", &example("routing.yaml"), "--json"])
        .expect_success();
    let plan = output.json().remove(0);
    assert_eq!(plan["pattern"], "routing");
    assert_eq!(
        plan["steps"][1],
        json!({"path": "routes/billing/steps/0", "agent": "billing", "provider": "scripted", "tools": [], "after": [{"path": "router", "when": "billing"}]})
    );
    assert_eq!(plan["artifacts"], json!(["{{ chosen_route }}.txt"]));
}

#[test]
fn every_pattern_can_be_planned_and_explained() {
    let sandbox = sandbox();
    for name in [
        "chain",
        "workflow",
        "routing",
        "parallel",
        "evaluator",
        "orchestrator",
        "graph",
    ] {
        let spec = example(&format!("{name}.yaml"));
        for words in [
            vec!["plan", &spec],
            vec!["plan", &spec, "--mermaid"],
            vec!["plan", &spec, "--json"],
            vec!["plan", &spec, "--explain"],
            vec!["plan", &spec, "--explain", "--json"],
        ] {
            assert!(!sandbox.segno(&words).expect_success().stdout.is_empty());
        }
    }
    assert!(!sandbox.home().exists(), "nothing is kept");
}

#[test]
fn explain_shows_inputs_agents_limits_and_artifacts() {
    let sandbox = sandbox();
    let output = sandbox
        .segno(&["plan", &example("evaluator.yaml"), "--explain"])
        .expect_success();
    insta::assert_snapshot!(output.stdout, @r#"
    announcement: an evaluator: drafts until one is good enough
      An announcement, rewritten until an editor is content.
    inputs:
      news: string, default "the archive is open to everyone from Monday on"
    agents:
      editor: scripted; You judge texts. You have no patience for filler.
      writer: scripted; Write an announcement of two sentences: {{ news }}.
    steps:
      producer: writer
      evaluator: editor
    limits:
      5 agents concurrently
      a failed attempt is retried 2 times
    artifacts:
      announcement.md
    "#);
}

#[test]
fn invalid_spec_has_no_plan() {
    let sandbox = sandbox();
    sandbox.write("spec.yaml", "version: 0\n");
    for words in [
        &["plan", "spec.yaml"][..],
        &["plan", "spec.yaml", "--explain"],
    ] {
        sandbox
            .segno(words)
            .refused(3, &["`name` is missing", "[W0101]"]);
    }
}
