//! `segno sessions list`, `show`, `delete` and `cleanup`.

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::commands::{
    failing_chain, fix_answers, keys, normalize, scripted, session_statuses, start_waiting, tree,
    waiting_chain,
};
use crate::sandbox;

/// A completed session `done` and a failed one `stuck`.
fn completed_and_failed() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    fix_answers(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "done"])
        .expect_success();
    sandbox
}

#[test]
fn sessions_are_listed_newest_first() {
    let sandbox = completed_and_failed();
    let output = sandbox.segno(&["sessions", "list"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    NAME  STATUS  LAST EVENT  KIND  ID
    done  completed  [TOOK] ago  workflow  [ID]
    stuck  failed  [TOOK] ago  workflow  [ID]
    ");
    assert_eq!(output.stderr, "");
    let output = sandbox
        .segno(&["sessions", "list", "--status", "failed"])
        .expect_success();
    assert!(output.stdout.contains("stuck") && !output.stdout.contains("done"));
    let output = sandbox
        .segno(&["sessions", "list", "--json"])
        .expect_success();
    insta::assert_snapshot!(keys(&output.json()[0]), @"created_at events kind name owner run session session_kind spec_digest status suspended updated_at v workspace");
}

#[test]
fn pattern_follows_the_spec() {
    let sandbox = completed_and_failed();
    let patterns = |words: &[&str]| -> Vec<Value> {
        let lines = sandbox.segno(words).expect_success().json();
        lines
            .into_iter()
            .map(|line| line["pattern"].clone())
            .collect()
    };
    assert_eq!(patterns(&["show", "done", "--json"]), ["chain"]);
    // The edited spec is a graph.
    let spec = sandbox.read("chain.yaml");
    let (head, _) = spec.split_once("pattern:").unwrap();
    let graph = "pattern: {type: graph, config: {nodes: {one: {agent: a, input: x}, two: {agent: a, input: y}}, edges: [{from: one, to: [two]}]}}\n";
    sandbox.write("chain.yaml", &format!("{head}{graph}"));
    sandbox.write("answers.yaml", "default: {text: fine}\n");
    let resume = ["resume", "stuck", "--on-change", "warn"];
    sandbox.segno(&resume).expect_success();
    assert_eq!(patterns(&["status", "stuck", "--json"]), ["graph"]);
    let shown = sandbox.segno(&["show", "stuck"]).expect_success().stdout;
    assert!(shown.contains("workflow, pattern graph\n"), "{shown}");
}

#[test]
fn sessions_of_other_folders_are_listed_when_asked() {
    let sandbox = completed_and_failed();
    let elsewhere = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.current_dir(super::root(&sandbox));
        segno_testkit::sandbox::run_to_end(command)
            .expect_success()
            .stdout
    };
    assert_eq!(
        elsewhere(&["sessions", "list"]),
        "no sessions; `--all` shows 2 of other folders\n"
    );
    let all = elsewhere(&["sessions", "list", "--all"]);
    assert_eq!(
        all.matches(&*sandbox.work().display().to_string()).count(),
        2,
        "{all}"
    );
}

#[test]
fn an_empty_home_has_no_sessions() {
    let sandbox = sandbox();
    let output = sandbox.segno(&["sessions", "list"]).expect_success();
    assert_eq!(output.stdout, "no sessions\n");
    assert_eq!(
        sandbox
            .segno(&["sessions", "list", "--json"])
            .expect_success()
            .stdout,
        ""
    );
}

#[test]
fn a_session_is_shown_with_its_steps() {
    let sandbox = completed_and_failed();
    let output = sandbox.segno(&["show", "stuck"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    session  stuck ([ID])
    status  failed
    kind  workflow, pattern chain
    error  step steps/2 (agent `a`) failed after 1 attempt: no key
    spec  [ROOT]/work/chain.yaml
    folder  [ROOT]/work
    created  [TIME]
    updated  [TIME]
    number  1

    STEP  AGENT  STATUS  TRIES  TOOK  USED
    steps/0  a  finished  1  [TOOK]
    steps/1  a  finished  1  [TOOK]
    steps/2  a  failed  1  no key

    resume it with `segno resume stuck`
    ");
    let shown = super::shown(&sandbox, "stuck");
    insta::assert_snapshot!(keys(&shown), @"agent_state artifacts chat conversations created_at error events forked_from kind name notes output owner pattern refused_tools run session session_kind session_number spec_digest spec_path status steps steps_finished stopped suspended updated_at usage usage_by_agent v variables workspace");
    insta::assert_snapshot!(keys(&shown["steps"][2]), @"agent attempts elapsed_ms error model_turns path reported resolve said seq status tool_calls usage");
}

#[test]
fn steps_are_shown_as_a_tree_by_their_paths() {
    let sandbox = sandbox();
    sandbox.write("answers.yaml", "default: {text: fine}\n");
    let branch =
        |id: &str| format!("{{id: {id}, steps: [{{agent: a, input: x}}, {{agent: a, input: y}}]}}");
    sandbox.write(
        "both.yaml",
        &format!(
            "version: 0\nname: both\nruntime: {{provider: scripted, script: answers.yaml, max_parallel: 1}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: parallel\n  config:\n    branches: [{}, {}]\n    reduce: {{agent: a, input: z}}\n",
            branch("left"),
            branch("right")
        ),
    );
    sandbox.segno(&["run", "both.yaml"]).expect_success();
    let output = sandbox.segno(&["show", "both"]).expect_success();
    let (_, steps) = output.stdout.split_once("\n\n").unwrap();
    insta::assert_snapshot!(normalize(&sandbox, steps), @r"
    STEP  AGENT  STATUS  TRIES  TOOK  USED
    branches  4 of 4 finished
      branches/left/steps  2 of 2 finished
        branches/left/steps/0  a  finished  1  [TOOK]
        branches/left/steps/1  a  finished  1  [TOOK]
      branches/right/steps  2 of 2 finished
        branches/right/steps/0  a  finished  1  [TOOK]
        branches/right/steps/1  a  finished  1  [TOOK]
    reduce  a  finished  1  [TOOK]
    ");
    let flat: Vec<_> = super::shown(&sandbox, "both")["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(flat.len(), 5);
    assert!(
        flat.contains(&"branches/left/steps/1".to_owned()),
        "{flat:?}"
    );
}

#[test]
fn long_list_of_finished_steps_is_folded_without_all() {
    let sandbox = sandbox();
    let steps = vec!["input: x"; 100];
    scripted(
        &sandbox,
        &steps,
        "answers: [{step: steps/99, fail: {kind: auth, message: no key}}]\ndefault: {text: fine}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let show = |words: &[&str]| {
        let words = [&["show", "chain"], words].concat();
        sandbox.segno(&words).expect_success().stdout
    };
    let short = show(&[]);
    assert_eq!(short.matches("\nsteps/").count(), 61, "{short}");
    assert!(short.contains("\n… 39 more finished\n"), "{short}");
    assert!(short.contains("\nsteps/99 "), "{short}");
    let long = show(&["--all"]);
    assert_eq!(long.matches("\nsteps/").count(), 100, "{long}");
    assert!(!long.contains("more finished"), "{long}");
}

#[test]
fn delete_has_a_dry_run() {
    let sandbox = completed_and_failed();
    let output = sandbox
        .segno(&["sessions", "delete", "stuck", "--dry-run"])
        .expect_success();
    assert!(
        output.stdout.contains("stuck (") && output.stdout.contains("9 events"),
        "{}",
        output.stdout
    );
    let output = sandbox
        .segno(&["sessions", "delete", "stuck", "--dry-run", "--json"])
        .expect_success();
    assert_eq!(output.json()[0]["deleted"], false);
    assert_eq!(session_statuses(&sandbox).len(), 2);
}

#[test]
fn permanently_deleted_session_leaves_no_files() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x"],
        "default: {repeat: {text: remember-me, bytes: 200000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let output = sandbox
        .segno(&[
            "sessions",
            "delete",
            "chain",
            "--permanent",
            "--yes",
            "--json",
        ])
        .expect_success();
    let line = &output.json()[0];
    assert_eq!(keys(line), "deleted kind name permanent session until v");
    assert_eq!(line["deleted"], true);
    assert!(session_statuses(&sandbox).is_empty());
    sandbox
        .segno(&["show", "chain"])
        .refused(17, &["chain", "[S0101]"]);
    let id = line["session"].as_str().unwrap();
    let left: Vec<_> = tree(&sandbox.home())
        .into_iter()
        .filter(|path| path.display().to_string().contains(id))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn running_session_is_not_deleted() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox
        .segno(&["sessions", "delete", "chain", "--yes"])
        .refused(
            17,
            &["chain", "is running", "[S0109]", "segno cancel chain"],
        );
    sandbox
        .segno(&[
            "sessions",
            "cleanup",
            "--max-age-days",
            "0",
            "--completed",
            "--unfinished",
            "--yes",
        ])
        .expect_success();
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "running".into())]
    );
    sandbox.write("go", "");
    live.finish().expect_success();
}

#[test]
fn cleanup_deletes_only_selected_old_sessions() {
    let sandbox = completed_and_failed();
    let cleanup = |words: &[&str]| {
        sandbox
            .segno(&[&["sessions", "cleanup", "--json"], words].concat())
            .expect_success()
            .json()
            .into_iter()
            .filter(|line| line["kind"] == "deletion")
            .collect::<Vec<_>>()
    };
    assert!(cleanup(&["--completed", "--unfinished"]).is_empty());
    assert!(cleanup(&["--max-age-days", "0"]).is_empty());
    assert!(cleanup(&["--max-age-days", "0", "--keep-completed"]).is_empty());
    let would = cleanup(&["--max-age-days", "0", "--completed", "--dry-run"]);
    assert_eq!(
        (would.len(), &would[0]["name"], &would[0]["deleted"]),
        (1, &"done".into(), &false.into())
    );
    assert_eq!(session_statuses(&sandbox).len(), 2);
    let done = cleanup(&["--max-age-days", "0", "--completed", "--yes"]);
    assert_eq!(
        (done.len(), &done[0]["name"], &done[0]["deleted"]),
        (1, &"done".into(), &true.into())
    );
    assert_eq!(
        session_statuses(&sandbox),
        [("stuck".into(), "failed".into())]
    );
    cleanup(&["--max-age-days", "0", "--unfinished", "--yes"]);
    assert!(session_statuses(&sandbox).is_empty());
}

#[test]
fn cleanup_says_what_it_moves_and_how_to_undo_it() {
    let sandbox = completed_and_failed();
    let output = sandbox
        .segno(&["sessions", "cleanup", "--max-age-days", "0", "--completed"])
        .expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    done ([ID]), completed, last event [TIME]
    1 session moved to the trash
    `segno sessions trash` lists them, `segno sessions restore NAME` restores one
    ");
    assert_eq!(
        session_statuses(&sandbox),
        [("stuck".into(), "failed".into())]
    );
    sandbox
        .segno(&["sessions", "restore", "done"])
        .expect_success();
    assert_eq!(session_statuses(&sandbox).len(), 2);
}

#[test]
fn cleanup_follows_the_settings() {
    let sandbox = completed_and_failed();
    sandbox.configure("[cleanup]\nmax_age_days = 0\nkeep_completed = false\n");
    let output = sandbox
        .segno(&["sessions", "cleanup", "--dry-run"])
        .expect_success();
    assert!(
        output.stdout.contains("done (") && !output.stdout.contains("stuck ("),
        "{}",
        output.stdout
    );
}

#[test]
fn list_with_a_status_omits_the_hint_on_other_folders() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {text: fine}");
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let output = sandbox
        .segno(&["sessions", "list", "--status", "failed"])
        .expect_success();
    assert!(
        !output.stdout.contains("other folders"),
        "{}",
        output.stdout
    );
}
