//! `segno run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use segno_testkit::sandbox::{Sandbox, chain_spec};

use crate::commands::{
    failing_chain, fix_answers, keys, normalize, of_kind, scripted, session_statuses,
    start_waiting, tree, waiting_chain,
};
use crate::sandbox;

fn write_tides_workflow(sandbox: &Sandbox) {
    scripted(
        sandbox,
        &[
            "input: \"Facts about {{ topic }}\"",
            "input: \"Shorten {{ steps[0].response }}\"",
        ],
        "answers: [{contains: Facts about tides, text: the moon pulls}]\ndefault: {text: the moon, usage: {input_tokens: 1000, output_tokens: 24, cost_usd: 0.002}}",
    );
    let spec = sandbox.read("chain.yaml");
    sandbox.write(
        "chain.yaml",
        &format!("{spec}inputs: {{required: {{topic: string}}}}\noutputs: {{artifacts: [{{path: \"{{{{ topic }}}}.md\", from: \"{{{{ last_response }}}}\"}}]}}\n"),
    );
}

#[test]
fn run_prints_its_steps_and_usage() {
    let sandbox = sandbox();
    write_tides_workflow(&sandbox);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--var", "topic=tides"])
        .expect_success();
    assert_eq!(output.stdout, "the moon\n");
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r"
    session chain ([ID])
      … steps/0 a
      ✓ steps/0 [TOOK]
      … steps/1 a
      ✓ steps/1 [TOOK] · 1,024 tokens, $0.002
    completed chain: 2 steps, 1,024 tokens, $0.002, [TOOK]
    wrote [ROOT]/work/artifacts/tides.md
    ");
    assert_eq!(sandbox.read("artifacts/tides.md"), "the moon");
}

#[test]
fn json_events_have_stable_keys() {
    let sandbox = sandbox();
    write_tides_workflow(&sandbox);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--var", "topic=tides", "--json"])
        .expect_success();
    assert_eq!(output.stderr, "");
    let lines = output.json();
    assert!(lines.iter().all(|line| line["v"] == 1));
    let shapes: Vec<String> = lines
        .iter()
        .map(|line| format!("{}: {}", line["kind"].as_str().unwrap(), keys(line)))
        .collect();
    insta::assert_snapshot!(shapes.join("\n"), @r"
    session_created: at force kind name out pattern run seq session session_kind spec spec_digest spec_path v variables workspace
    run_started: at host kind pid run seq session v version
    step_started: agent at attempt input input_digest kind path revision run seq session v
    step_finished: at attempt elapsed_ms kind output path revision run seq session usage v
    step_started: agent at attempt input input_digest kind path revision run seq session v
    step_finished: at attempt elapsed_ms kind output path revision run seq session usage v
    artifact_written: at bytes digest kind path run seq session v
    run_ended: at kind output run seq session status v
    result: artifacts kind name output refused_tools run saved session session_number status steps_finished steps_skipped usage v
    ");
    let seqs: Vec<_> = lines
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7, 8]);
    let result = lines.last().unwrap();
    assert_eq!(result["output"], "the moon");
    assert_eq!(result["usage"]["input_tokens"], 1000);
}

#[test]
fn failed_run_prints_a_json_error() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .refused(10, &["no key"]);
    let lines = output.json();
    let error = lines.last().unwrap();
    assert_eq!(keys(error), "causes code exit hint kind message v");
    assert_eq!(
        (&error["code"], &error["exit"]),
        (&"R0101".into(), &10.into())
    );
}

#[test]
fn session_name_defaults_to_the_workflow_with_a_number() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {text: fine}");
    for more in [&[][..], &[], &["--name", "mine"]] {
        sandbox
            .segno(&[&["run", "chain.yaml"], more].concat())
            .expect_success();
    }
    let names: Vec<_> = session_statuses(&sandbox)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["mine", "chain-2", "chain"]);
}

#[test]
fn taken_name_is_refused_before_any_call() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {text: fine}");
    sandbox
        .segno(&["run", "chain.yaml", "--name", "mine"])
        .expect_success();
    let output = sandbox.segno(&["run", "chain.yaml", "--name", "mine"]);
    assert!(!output.status.success());
    assert!(
        output
            .stderr
            .contains("the name `mine` is already in use [S0102]"),
        "{}",
        output.stderr
    );
    assert_eq!(sandbox.calls().len(), 1);
    assert_eq!(session_statuses(&sandbox).len(), 1);
}

#[test]
fn out_option_sets_the_artifact_folder() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--out", "here/and/there"])
        .expect_success();
    assert_eq!(sandbox.read("here/and/there/out.txt").len(), 2048);
    assert!(!sandbox.work().join("artifacts").exists());
}

#[test]
fn an_existing_artifact_is_refused_before_any_call() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    fs::create_dir(sandbox.work().join("artifacts")).unwrap();
    sandbox.write("artifacts/out.txt", "mine");
    sandbox.segno(&["run", "chain.yaml"]).refused(
        12,
        &["artifacts/out.txt", "exists", "[F0202]", "--force", "--out"],
    );
    assert_eq!(sandbox.read("artifacts/out.txt"), "mine");
    assert!(sandbox.calls().is_empty());
    assert!(session_statuses(&sandbox).is_empty());
    sandbox
        .segno(&["run", "chain.yaml", "--force"])
        .expect_success();
    assert_eq!(sandbox.read("artifacts/out.txt").len(), 2048);
}

#[test]
fn artifact_cannot_leave_its_folder() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {text: fine}");
    let spec = sandbox.read("chain.yaml");
    sandbox.write(
        "chain.yaml",
        &format!("{spec}inputs: {{required: {{place: string}}}}\noutputs: {{artifacts: [{{path: \"{{{{ place }}}}\", from: x}}]}}\n"),
    );
    for place in ["../out", "/tmp/out", "a/../../out", ""] {
        let variable = format!("place={place}");
        sandbox
            .segno(&["run", "chain.yaml", "--var", &variable])
            .refused(12, &["artifact", "cannot be written", "[F0203]"]);
    }
    fs::create_dir(sandbox.work().join("artifacts")).unwrap();
    std::os::unix::fs::symlink("/tmp", sandbox.work().join("artifacts/link")).unwrap();
    sandbox
        .segno(&["run", "chain.yaml", "--var", "place=link/out"])
        .refused(12, &["link", "is a symbolic link"]);
    assert!(sandbox.calls().is_empty());
    assert!(session_statuses(&sandbox).is_empty());
}

#[test]
fn session_overwrites_only_its_own_artifacts() {
    let sandbox = sandbox();
    sandbox.write_script(
        "agent.sh",
        "#!/bin/sh\necho \"1 1 $SEGNO_STEP\" >> calls.log\nmkdir -p artifacts\n[ -e made ] || echo theirs > artifacts/b.txt\ntouch made\ncat\n",
    );
    let spec = chain_spec("{provider: command, command: [./agent.sh]}", 1);
    let (start, _) = spec.split_once("outputs:").unwrap();
    sandbox.write(
        "chain.yaml",
        &format!("{start}outputs: {{artifacts: [{{path: a.txt, from: \"{{{{ last_response }}}}\"}}, {{path: b.txt, from: b}}]}}\n"),
    );
    let refused = [12, 12].map(|code| (code, ["b.txt", "[F0202]"]));
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(refused[0].0, &refused[0].1);
    assert!(sandbox.read("artifacts/a.txt").contains("begin"));
    sandbox
        .segno(&["resume"])
        .refused(refused[1].0, &refused[1].1);
    fs::remove_file(sandbox.work().join("artifacts/b.txt")).unwrap();
    super::edit(&sandbox, "input: begin", "input: afresh");
    sandbox
        .segno(&["resume", "--on-change", "rerun"])
        .expect_success();
    assert!(sandbox.read("artifacts/a.txt").contains("afresh"));
    assert_eq!(sandbox.read("artifacts/b.txt"), "b");
    assert_eq!(sandbox.calls().len(), 2);
}

#[test]
fn unsaved_session_leaves_nothing_behind() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--no-save-session"])
        .expect_success();
    assert_eq!(output.stdout.len(), 2049);
    assert_eq!(sandbox.calls().len(), 2);
    assert!(!sandbox.home().exists());
}

#[test]
fn auto_resume_resumes_a_killed_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    let output = sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .expect_success();
    assert!(
        output.stderr.contains("resuming chain ("),
        "{}",
        output.stderr
    );
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "completed".into())]
    );
}

#[test]
fn auto_resume_resumes_a_failed_run_then_starts_anew() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .refused(10, &["no key"]);
    fix_answers(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .expect_success();
    assert_eq!(sandbox.calls().len(), 4);
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .expect_success();
    assert_eq!(sandbox.calls().len(), 7);
    assert_eq!(session_statuses(&sandbox).len(), 2);
}

#[test]
fn auto_resume_ignores_sessions_of_another_spec() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    fix_answers(&sandbox);
    super::edit(&sandbox, "input: one", "input: another");
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .expect_success();
    let statuses: Vec<_> = session_statuses(&sandbox)
        .into_iter()
        .map(|(_, status)| status)
        .collect();
    assert_eq!(statuses, ["completed", "failed"]);
}

#[test]
fn run_with_resume_resumes_that_session() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .refused(10, &[]);
    let id = output.json()[0]["session"].as_str().unwrap().to_owned();
    fix_answers(&sandbox);
    let output = sandbox
        .segno(&["run", "--resume", &id, "--json"])
        .expect_success();
    let lines = output.json();
    assert_eq!(of_kind(&lines, "step_skipped").len(), 2);
    assert_eq!(lines.last().unwrap()["steps_skipped"], 2);
    assert_eq!(sandbox.calls().len(), 4);
    sandbox
        .segno(&["run", "chain.yaml", "--resume", &id])
        .refused(2, &["--resume", "cannot be used with"]);
}

#[test]
fn session_folders_are_private() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let all = [tree(&sandbox.home()), vec![sandbox.home()]].concat();
    let folders: Vec<_> = all.iter().filter(|path| path.is_dir()).collect();
    assert!(folders.len() >= 10, "{folders:?}");
    for path in folders {
        let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o700, "{} has {mode:o}", path.display());
    }
    sandbox.write("go", "");
    live.finish().expect_success();
}

#[test]
fn artifact_folder_that_is_a_file_is_refused() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.write("file", "");
    let output = sandbox
        .segno(&["run", "chain.yaml", "--out", "file"])
        .refused(12, &["file", "Not a directory"]);
    assert!(!output.stderr.contains("exists"), "{}", output.stderr);
}

#[test]
fn following_the_hint_resolves_the_error() {
    let sandbox = sandbox();
    sandbox.command_chain(1, "mkdir -p artifacts; echo theirs > artifacts/out.txt");
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(12, &["[F0202]"]);
    sandbox
        .segno(&["resume"])
        .refused(12, &["[F0202]", "move the file away"]);
    let artifact = sandbox.work().join("artifacts/out.txt");
    fs::rename(artifact, sandbox.work().join("theirs.txt")).unwrap();
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(sandbox.read("artifacts/out.txt"), "answer of steps/0");
    assert_eq!(sandbox.calls(), ["steps/0"]);
}
