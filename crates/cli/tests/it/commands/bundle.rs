//! Session bundles: sessions that are transferred to another machine with their files and their
//! agents' transcripts.

use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use super::archive::{copy, forge, make_folder, write_file};
use super::checkpoint::{bytes, list, remove, tree};
use super::{failing_chain, fix_answers, root};
use crate::sandbox;

/// A program in the place of Claude Code that fails the first time, and records its arguments.
const CLAUDE: &str = r#"#!/bin/sh
for word in "$@"; do
  case "$word" in --session-id=*|--resume=*) id=${word#*=}; echo "$word" >> started ;; esac
done
cat > told
printf '{"type":"system","subtype":"init","session_id":"%s"}\n' "$id"
test -e failed || { touch failed; exit 1; }
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"%s"}\n' "$id"
"#;

const TRANSCRIPT: &str =
    include_str!("../../../../agents/tests/golden/claude_code/2.1.325/delegated.transcript.jsonl");
const SUBAGENT_TRANSCRIPT: &str = include_str!(
    "../../../../agents/tests/golden/claude_code/2.1.325/delegated.below.transcript.jsonl"
);
const SUBAGENT_META: &str =
    include_str!("../../../../agents/tests/golden/claude_code/2.1.325/delegated.below.meta.json");

/// A machine with that program.
fn machine() -> Sandbox {
    let sandbox = sandbox();
    let program = root(&sandbox).join("claude");
    write_file(&program, CLAUDE.as_bytes());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let program = program.display().to_string();
    sandbox.configure(&format!("[claude-code]\nprogram = {program:?}\n"));
    sandbox
}

/// A machine on which a session was interrupted in the middle of a conversation, whose transcript
/// has a sub-agent; and the id of that conversation.
fn interrupted_session() -> (Sandbox, String) {
    let sandbox = machine();
    sandbox.write(
        "task.yaml",
        "version: 0\nname: task\nruntime: {provider: claude-code, failure_policy: {retries: 0}}\nagents: {worker: {prompt: You do tasks.}}\npattern: {type: chain, config: {steps: [{agent: worker, input: Do it.}]}}\n",
    );
    sandbox.write("src/a.txt", "a\n");
    sandbox.segno(&["run", "task.yaml"]).refused(10, &[]);
    let started = sandbox.read("started");
    let native = started.trim().strip_prefix("--session-id=").unwrap();
    let transcript = transcript(&sandbox, "-stage-work", native);
    make_folder(&transcript.with_extension("").join("subagents"));
    write_file(&transcript, TRANSCRIPT.as_bytes());
    let below = transcript.with_extension("").join("subagents");
    write_file(
        &below.join("agent-task-1.jsonl"),
        SUBAGENT_TRANSCRIPT.as_bytes(),
    );
    write_file(
        &below.join("agent-task-1.meta.json"),
        SUBAGENT_META.as_bytes(),
    );
    (sandbox, native.to_owned())
}

/// The path of the program's transcript of a conversation.
fn transcript(sandbox: &Sandbox, project: &str, native: &str) -> PathBuf {
    let project = root(sandbox).join(".claude/projects").join(project);
    project.join(format!("{native}.jsonl"))
}

/// Exports `session` as a bundle.
fn export_bundle(sandbox: &Sandbox, session: &str) -> PathBuf {
    let to = root(sandbox).join("carried");
    let path = to.to_str().unwrap();
    let words = ["sessions", "export", session, "--bundle", "-o", path];
    sandbox.segno(&words).expect_success();
    to
}

fn import(
    sandbox: &Sandbox,
    from: &Path,
    into: Option<&Path>,
    point: Option<&str>,
) -> ProcessOutput {
    let mut words = vec!["sessions", "import", from.to_str().unwrap()];
    words.extend(
        into.iter()
            .flat_map(|into| ["--into", into.to_str().unwrap()]),
    );
    let mut command = sandbox.command(&words);
    if let Some(point) = point {
        command.env("SEGNO_FAILPOINT", point);
    }
    run_to_end(command)
}

fn sessions(sandbox: &Sandbox) -> Vec<Value> {
    let words = ["sessions", "list", "--all", "--json"];
    sandbox.segno(&words).expect_success().json()
}

/// A machine with a chain that failed at its third step, and would succeed now.
fn failed_chain() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let words = ["run", "chain.yaml", "--name", "stuck"];
    sandbox.segno(&words).refused(10, &[]);
    fix_answers(&sandbox);
    sandbox
}

#[test]
fn bundle_holds_files_session_and_transcripts() {
    let (first, native) = interrupted_session();
    let bundle = export_bundle(&first, "task");
    for name in [
        format!("conversations/claude-code/{native}.jsonl"),
        format!("conversations/claude-code/{native}/agent-task-1.jsonl"),
        format!("conversations/claude-code/{native}/agent-task-1.meta.json"),
        "session.jsonl".to_owned(),
        "workspace.tar.zst".to_owned(),
    ] {
        assert!(bundle.join(&name).is_file(), "{name}");
    }
    let second = machine();
    let folder = root(&second).join("garden");
    let output = import(&second, &bundle, Some(&folder), None).expect_success();
    for words in [
        "imported task (",
        "failed, in ",
        "wrote 5 files",
        "resume it with `segno resume task`",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output:?}");
    }
    assert_eq!(tree(&folder), tree(&first.work()));
    let plan = second
        .segno(&["resume", "task", "--dry-run"])
        .expect_success();
    assert!(plan.stdout.contains("restored (claude-code)"), "{plan:?}");
    let was = format!("moved from {}", first.work().display());
    assert!(plan.stdout.contains(&was), "{plan:?}");
    second.segno(&["resume", "task"]).expect_success();
    let started = String::from_utf8(bytes(&folder.join("started"))).unwrap();
    assert!(
        started.ends_with(&format!("--resume={native}\n")),
        "{started}"
    );
    let path = folder.to_str().unwrap();
    let project = path.replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
    let restored = transcript(&second, &project, &native);
    let here = format!("\"cwd\":\"{path}\"");
    let below = restored.with_extension("").join("subagents");
    for file in [&restored, &below.join("agent-task-1.jsonl")] {
        let text = String::from_utf8(bytes(file)).unwrap();
        assert!(text.contains(&here) && !text.contains("\"cwd\":\"/stage/work\""));
    }
    assert_eq!(
        bytes(&below.join("agent-task-1.meta.json")),
        SUBAGENT_META.as_bytes()
    );
    second.segno(&["doctor"]).expect_success();
    second.segno(&["checkpoint", "verify"]).expect_success();
}

#[test]
fn lost_transcript_is_exported_from_its_newest_copy() {
    let (first, native) = interrupted_session();
    first
        .segno(&["checkpoint", "create", "task"])
        .expect_success();
    remove(&transcript(&first, "-stage-work", &native));
    let bundle = export_bundle(&first, "task");
    let name = format!("conversations/claude-code/{native}.jsonl");
    assert_eq!(bytes(&bundle.join(name)), TRANSCRIPT.as_bytes());
}

#[test]
fn bundle_without_a_transcript_says_so() {
    let (first, native) = interrupted_session();
    remove(&transcript(&first, "-stage-work", &native));
    let output = first
        .segno(&["sessions", "export", "task", "--bundle"])
        .expect_success();
    assert!(
        output.stderr.contains("no transcript of claude-code"),
        "{output:?}"
    );
    assert!(output.stdout.contains("task.bundle: "), "{output:?}");
    first
        .segno(&["sessions", "export", "task", "--bundle"])
        .refused(12, &["task.bundle already exists", "--output"]);
    first
        .segno(&["sessions", "export", "task", "--bundle", "-o", "-"])
        .refused(2, &["a bundle is a folder"]);
}

#[test]
fn tampered_transcripts_are_refused_by_name() {
    let (first, native) = interrupted_session();
    let bundle = export_bundle(&first, "task");
    let second = machine();
    let folder = root(&second).join("garden");
    let refused = |change: &dyn Fn(&Path), words: &[&str]| {
        let forged = root(&second).join("forged");
        copy(&bundle, &forged);
        change(&forged);
        let output = import(&second, &forged, Some(&folder), None);
        output.refused(23, &[&["[K0404]"], words].concat());
        assert!(sessions(&second).is_empty() && list(&second).is_empty());
        assert!(!folder.exists() && !root(&second).join(".claude").exists());
        std::fs::remove_dir_all(&forged).unwrap();
    };
    let own = format!("conversations/claude-code/{native}.jsonl");
    let digest = segno_core::digest::Digest::of(b"{}");
    let named = |name: &str, length: u64| {
        let part = format!("\n \"{name}\": {{\"bytes\": {length}, \"digest\": \"{digest}\"}},");
        move |forged: &Path| {
            // The last `files` is the folder's; the checkpoint has one of that name, too.
            forge(forged, |text| {
                let (before, after) = text.rsplit_once("\"files\": {").unwrap();
                format!("{before}\"files\": {{{part}{after}")
            });
        }
    };
    for name in [
        "conversations/claude-code/../../secret.jsonl",
        "conversations/claude-code/..jsonl",
        "conversations/claude-code/.hidden.jsonl",
        "conversations/../session.jsonl",
        "conversations/other/a.jsonl",
        "conversations/a.jsonl",
        "conversations/claude-code/a/../../../x",
        "conversations/claude-code/a/b/c",
        "conversations/claude-code/a/",
        "agents/claude-code/a.jsonl",
    ] {
        refused(&named(name, 2), &[name, "is not a file of a checkpoint"]);
    }
    let other = "conversations/claude-code/5e550000-0000-4000-8000-000000000001.jsonl";
    let plant = |forged: &Path| {
        write_file(&forged.join(other), b"{}");
        named(other, 2)(forged);
    };
    refused(
        &plant,
        &[other, "does not belong to a conversation of the session"],
    );
    let beside = other.replace(".jsonl", "/agent-a.jsonl");
    let plant = |forged: &Path| {
        make_folder(forged.join(&beside).parent().unwrap());
        write_file(&forged.join(&beside), b"{}");
        named(&beside, 2)(forged);
    };
    refused(
        &plant,
        &[&beside, "does not belong to a conversation of the session"],
    );
    refused(&named(other, 300 << 20), &[other, "is longer than"]);
    let oversized = |forged: &Path| {
        let file = std::fs::File::options();
        let file = file.clone().write(true).open(forged.join(&own)).unwrap();
        file.set_len(300 << 20).unwrap();
    };
    refused(&oversized, &[&own]);
    let changed = |forged: &Path| {
        let mut transcript = bytes(&forged.join(&own));
        transcript[40] ^= 1;
        write_file(&forged.join(&own), &transcript);
    };
    refused(&changed, &[&own, "was changed after it was written"]);
    refused(&|forged| remove(&forged.join(&own)), &[&own, "is missing"]);
    let linked = |forged: &Path| {
        remove(&forged.join(&own));
        std::os::unix::fs::symlink(bundle.join(&own), forged.join(&own)).unwrap();
    };
    refused(&linked, &[&own, "not a regular file"]);
    import(&second, &bundle, Some(&folder), None).expect_success();
}

#[test]
fn settings_that_start_programs_are_disarmed_unless_trusted() {
    let (first, _) = interrupted_session();
    first.write(".claude/settings.json", "{}");
    let bundle = export_bundle(&first, "task");
    let second = machine();
    let folder = root(&second).join("garden");
    let output = import(&second, &bundle, Some(&folder), None).expect_success();
    assert!(output.stderr.contains("segno-inert"), "{output:?}");
    assert!(!folder.join(".claude/settings.json").exists());
    let third = machine();
    let folder = root(&third).join("garden");
    let path = folder.to_str().unwrap();
    let words = [
        "sessions",
        "import",
        bundle.to_str().unwrap(),
        "--into",
        path,
    ];
    third
        .segno(&[&words[..], &["--trust"]].concat())
        .expect_success();
    assert!(folder.join(".claude/settings.json").exists());
}

#[test]
fn import_without_a_folder_prints_a_hint() {
    let (first, _) = interrupted_session();
    let bundle = export_bundle(&first, "task");
    let file = root(&first).join("task.segno");
    let words = ["sessions", "export", "task", "-o", file.to_str().unwrap()];
    first.segno(&words).expect_success();
    // The first machine's folder exists on this machine, which it would not elsewhere.
    std::fs::rename(first.work(), root(&first).join("away")).unwrap();
    let second = machine();
    let output = import(&second, &bundle, None, None).expect_success();
    let hint = format!("sessions import {} --into FOLDER", bundle.display());
    assert!(output.stderr.contains(&hint), "{output:?}");
    assert!(!output.stdout.contains("resume it with"), "{output:?}");
    let folder = root(&second).join("garden");
    let output = import(&second, &bundle, Some(&folder), None).expect_success();
    assert!(
        output.stdout.contains("resume it with `segno resume task`"),
        "{output:?}"
    );
    let third = machine();
    let output = import(&third, &file, None, None).expect_success();
    assert!(
        output.stderr.contains("segno sessions move task FOLDER"),
        "{output:?}"
    );
    let fourth = machine();
    import(&fourth, &file, Some(&root(&fourth).join("nowhere")), None).refused(2, &["[R0117]"]);
    assert!(sessions(&fourth).is_empty());
    import(&fourth, &file, Some(&fourth.work()), None).expect_success();
    let path = fourth.work();
    assert_eq!(sessions(&fourth)[0]["workspace"], path.to_str().unwrap());
    import(&fourth, &file, Some(&fourth.work()), None).expect_success();
    import(&fourth, &file, None, None).refused(17, &["[S0113]"]);
}

#[test]
fn import_does_not_move_a_running_session() {
    let first = sandbox();
    super::waiting_chain(&first, 2, 1);
    let (live, _) = super::start_waiting(&first, &["--name", "busy"]);
    let bundle = export_bundle(&first, "busy");
    let folder = root(&first).join("garden");
    import(&first, &bundle, Some(&folder), None).refused(21, &["[S0107]"]);
    assert!(!folder.exists());
    live.kill();
    import(&first, &bundle, Some(&folder), None).expect_success();
    assert_eq!(sessions(&first)[0]["workspace"], folder.to_str().unwrap());
}

/// At how many visits of a failpoint a test kills at most.
#[cfg(feature = "failpoints")]
const VISITS: usize = 3;

/// Kills imports of `from` at every failpoint, and lets the same command finish them. Returns the
/// number of kills.
#[cfg(feature = "failpoints")]
fn kill_imports(from: &Path, whole: impl Fn(&Sandbox, &Path, &str)) -> usize {
    let mut kills = 0;
    for point in segno_core::fault::Point::ALL {
        for visit in 1..=VISITS {
            let second = sandbox();
            let folder = root(&second).join("garden");
            make_folder(&folder);
            let failpoint = format!("{}:{visit}", point.name());
            if !import(&second, from, Some(&folder), Some(&failpoint)).crashed() {
                break;
            }
            kills += 1;
            second.segno(&["doctor"]).expect_success();
            import(&second, from, Some(&folder), None).expect_success();
            let listed = sessions(&second);
            assert_eq!(listed.len(), 1, "{failpoint}");
            assert_eq!(
                listed[0]["workspace"],
                folder.to_str().unwrap(),
                "{failpoint}"
            );
            let logged = second.segno(&["logs", "stuck"]).expect_success();
            assert_eq!(logged.stdout.matches("moved to").count(), 1, "{failpoint}");
            whole(&second, &folder, &failpoint);
            second.segno(&["doctor"]).expect_success();
        }
    }
    kills
}

#[cfg(feature = "failpoints")]
#[test]
fn killed_bundle_import_is_finished_by_the_same_command() {
    let first = failed_chain();
    let bundle = export_bundle(&first, "stuck");
    let kills = kill_imports(&bundle, |second, folder, failpoint| {
        assert_eq!(tree(folder), tree(&first.work()), "{failpoint}");
        let own = |name: &&Value| name["note"] == "for `sessions export --bundle`";
        assert_eq!(list(second).iter().filter(own).count(), 1, "{failpoint}");
        second.segno(&["resume", "stuck"]).expect_success();
        let calls = String::from_utf8(bytes(&folder.join("calls.log"))).unwrap();
        assert_eq!(calls.lines().count(), 4, "{failpoint}: {calls}");
    });
    assert!(kills > 20, "{kills}");
}

#[cfg(feature = "failpoints")]
#[test]
fn killed_file_import_is_finished_by_the_same_command() {
    let first = failed_chain();
    let file = root(&first).join("stuck.segno");
    let words = ["sessions", "export", "stuck", "-o", file.to_str().unwrap()];
    first.segno(&words).expect_success();
    let kills = kill_imports(&file, |second, folder, failpoint| {
        import(second, &file, Some(folder), None).expect_success();
        let logged = second.segno(&["logs", "stuck"]).expect_success();
        assert_eq!(logged.stdout.matches("moved to").count(), 1, "{failpoint}");
    });
    assert!(kills > 5, "{kills}");
}

#[test]
fn repeated_import_is_recognised_and_replaces_nothing() {
    let first = failed_chain();
    let bundle = export_bundle(&first, "stuck");
    let second = sandbox();
    let folder = root(&second).join("garden");
    import(&second, &bundle, Some(&folder), None).expect_success();
    write_file(&folder.join("chain.yaml"), b"edited since");
    let output = import(&second, &bundle, Some(&folder), None).expect_success();
    assert!(output.stdout.contains("already exists here"), "{output:?}");
    assert_eq!(bytes(&folder.join("chain.yaml")), b"edited since");
    let elsewhere = root(&second).join("elsewhere");
    import(&second, &bundle, Some(&elsewhere), None).refused(17, &["[S0113]"]);
    assert!(!elsewhere.exists());
}
