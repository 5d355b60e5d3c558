//! Sessions that are carried to another machine with their files and their agents' conversations.

use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{Said, Sandbox, finish};
use serde_json::Value;

use super::archive::{copy, forge, make, put};
use super::checkpoint::{bytes, list, remove, tree};
use super::{failing_chain, mend, root};
use crate::sandbox;

/// A program in Claude Code's place that fails the first time, and writes down how it is started.
const CLAUDE: &str = r#"#!/bin/sh
for word in "$@"; do
  case "$word" in --session-id=*|--resume=*) id=${word#*=}; echo "$word" >> started ;; esac
done
cat > told
printf '{"type":"system","subtype":"init","session_id":"%s"}\n' "$id"
test -e failed || { touch failed; exit 1; }
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"%s"}\n' "$id"
"#;

const RECORD: &str =
    include_str!("../../../../agents/tests/golden/claude_code/2.1.325/delegated.transcript.jsonl");
const BELOW: &str = include_str!(
    "../../../../agents/tests/golden/claude_code/2.1.325/delegated.below.transcript.jsonl"
);
const META: &str =
    include_str!("../../../../agents/tests/golden/claude_code/2.1.325/delegated.below.meta.json");

/// A machine with a program in Claude Code's place.
fn machine() -> Sandbox {
    let sandbox = sandbox();
    let program = root(&sandbox).join("claude");
    put(&program, CLAUDE.as_bytes());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let program = program.display().to_string();
    sandbox.configure(&format!("[claude-code]\nprogram = {program:?}\n"));
    sandbox
}

/// A machine on which a session was broken off in the middle of a conversation, of which the program has
/// a record with a sub-agent, and the name of that conversation.
fn broken_off() -> (Sandbox, String) {
    let sandbox = machine();
    sandbox.write(
        "task.yaml",
        "version: 0\nname: task\nruntime: {provider: claude-code, failure_policy: {retries: 0}}\nagents: {worker: {prompt: You do tasks.}}\npattern: {type: chain, config: {steps: [{agent: worker, input: Do it.}]}}\n",
    );
    sandbox.write("src/a.txt", "a\n");
    sandbox.segno(&["run", "task.yaml"]).refused(10, &[]);
    let started = sandbox.read("started");
    let native = started.trim().strip_prefix("--session-id=").unwrap();
    let record = record(&sandbox, "-stage-work", native);
    make(&record.with_extension("").join("subagents"));
    put(&record, RECORD.as_bytes());
    let below = record.with_extension("").join("subagents");
    put(&below.join("agent-task-1.jsonl"), BELOW.as_bytes());
    put(&below.join("agent-task-1.meta.json"), META.as_bytes());
    (sandbox, native.to_owned())
}

/// Where the program keeps the record of a conversation.
fn record(sandbox: &Sandbox, project: &str, native: &str) -> PathBuf {
    let project = root(sandbox).join(".claude/projects").join(project);
    project.join(format!("{native}.jsonl"))
}

/// Exports `session` with everything.
fn bundled(sandbox: &Sandbox, session: &str) -> PathBuf {
    let to = root(sandbox).join("carried");
    let place = to.to_str().unwrap();
    let words = ["sessions", "export", session, "--bundle", "-o", place];
    sandbox.segno(&words).good();
    to
}

fn import(sandbox: &Sandbox, from: &Path, into: Option<&Path>, point: Option<&str>) -> Said {
    let mut words = vec!["sessions", "import", from.to_str().unwrap()];
    words.extend(
        into.iter()
            .flat_map(|into| ["--into", into.to_str().unwrap()]),
    );
    let mut command = sandbox.command(&words);
    if let Some(point) = point {
        command.env("SEGNO_FAILPOINT", point);
    }
    finish(command)
}

fn sessions(sandbox: &Sandbox) -> Vec<Value> {
    let words = ["sessions", "list", "--all", "--json"];
    sandbox.segno(&words).good().json()
}

/// A machine with a chain that failed at its third step, and would not now.
fn stuck() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let words = ["run", "chain.yaml", "--name", "stuck"];
    sandbox.segno(&words).refused(10, &[]);
    mend(&sandbox);
    sandbox
}

#[test]
fn a_bundle_brings_the_files_the_session_and_the_records_of_its_agents() {
    let (first, native) = broken_off();
    let bundle = bundled(&first, "task");
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
    let garden = root(&second).join("garden");
    let said = import(&second, &bundle, Some(&garden), None).good();
    for words in [
        "imported task (",
        "failed, in ",
        "wrote 5 files",
        "`segno resume task` goes on",
    ] {
        assert!(said.stdout.contains(words), "{words}: {said:?}");
    }
    assert_eq!(tree(&garden), tree(&first.work()));
    let plan = second.segno(&["resume", "task", "--plan"]).good();
    assert!(plan.stdout.contains("rehomed (claude-code)"), "{plan:?}");
    let was = format!("was about {}", first.work().display());
    assert!(plan.stdout.contains(&was), "{plan:?}");
    second.segno(&["resume", "task"]).good();
    let started = String::from_utf8(bytes(&garden.join("started"))).unwrap();
    assert!(
        started.ends_with(&format!("--resume={native}\n")),
        "{started}"
    );
    let place = garden.to_str().unwrap();
    let project = place.replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
    let settled = record(&second, &project, &native);
    let here = format!("\"cwd\":\"{place}\"");
    let below = settled.with_extension("").join("subagents");
    for file in [&settled, &below.join("agent-task-1.jsonl")] {
        let text = String::from_utf8(bytes(file)).unwrap();
        assert!(text.contains(&here) && !text.contains("\"cwd\":\"/stage/work\""));
    }
    assert_eq!(
        bytes(&below.join("agent-task-1.meta.json")),
        META.as_bytes()
    );
    second.segno(&["doctor"]).good();
    second.segno(&["checkpoint", "verify"]).good();
}

#[test]
fn a_record_that_is_gone_is_exported_from_its_newest_copy() {
    let (first, native) = broken_off();
    first.segno(&["checkpoint", "create", "task"]).good();
    remove(&record(&first, "-stage-work", &native));
    let bundle = bundled(&first, "task");
    let kept = format!("conversations/claude-code/{native}.jsonl");
    assert_eq!(bytes(&bundle.join(kept)), RECORD.as_bytes());
}

#[test]
fn a_bundle_without_a_record_says_so() {
    let (first, native) = broken_off();
    remove(&record(&first, "-stage-work", &native));
    let said = first
        .segno(&["sessions", "export", "task", "--bundle"])
        .good();
    assert!(said.stderr.contains("no record of claude-code"), "{said:?}");
    assert!(said.stdout.contains("task.bundle: "), "{said:?}");
    first
        .segno(&["sessions", "export", "task", "--bundle"])
        .refused(12, &["task.bundle exists", "--output"]);
    first
        .segno(&["sessions", "export", "task", "--bundle", "-o", "-"])
        .refused(2, &["a bundle is a folder"]);
}

#[test]
fn a_bundle_whose_records_were_tampered_with_is_refused_by_name() {
    let (first, native) = broken_off();
    let bundle = bundled(&first, "task");
    let second = machine();
    let garden = root(&second).join("garden");
    let refused = |change: &dyn Fn(&Path), words: &[&str]| {
        let forged = root(&second).join("forged");
        copy(&bundle, &forged);
        change(&forged);
        let said = import(&second, &forged, Some(&garden), None);
        said.refused(23, &[&["[K0404]"], words].concat());
        assert!(sessions(&second).is_empty() && list(&second).is_empty());
        assert!(!garden.exists() && !root(&second).join(".claude").exists());
        std::fs::remove_dir_all(&forged).unwrap();
    };
    let own = format!("conversations/claude-code/{native}.jsonl");
    let digest = segno_core::digest::Digest::of(b"{}");
    let named = |name: &str, length: u64| {
        let part = format!("\n \"{name}\": {{\"bytes\": {length}, \"digest\": \"{digest}\"}},");
        move |forged: &Path| {
            // The last is the folder's; the checkpoint has some of that name, too.
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
        refused(&named(name, 2), &[name, "is no file of a checkpoint"]);
    }
    let other = "conversations/claude-code/5e550000-0000-4000-8000-000000000001.jsonl";
    let plant = |forged: &Path| {
        put(&forged.join(other), b"{}");
        named(other, 2)(forged);
    };
    refused(&plant, &[other, "is of no conversation of the session"]);
    let beside = other.replace(".jsonl", "/agent-a.jsonl");
    let plant = |forged: &Path| {
        make(forged.join(&beside).parent().unwrap());
        put(&forged.join(&beside), b"{}");
        named(&beside, 2)(forged);
    };
    refused(&plant, &[&beside, "is of no conversation of the session"]);
    refused(&named(other, 300 << 20), &[other, "is longer than"]);
    let oversized = |forged: &Path| {
        let file = std::fs::File::options();
        let file = file.clone().write(true).open(forged.join(&own)).unwrap();
        file.set_len(300 << 20).unwrap();
    };
    refused(&oversized, &[&own]);
    let changed = |forged: &Path| {
        let mut record = bytes(&forged.join(&own));
        record[40] ^= 1;
        put(&forged.join(&own), &record);
    };
    refused(&changed, &[&own, "was changed after it was written"]);
    refused(&|forged| remove(&forged.join(&own)), &[&own, "is missing"]);
    let linked = |forged: &Path| {
        remove(&forged.join(&own));
        std::os::unix::fs::symlink(bundle.join(&own), forged.join(&own)).unwrap();
    };
    refused(&linked, &[&own, "not a regular file"]);
    import(&second, &bundle, Some(&garden), None).good();
}

#[test]
fn what_could_start_programs_comes_back_inert_unless_it_is_trusted() {
    let (first, _) = broken_off();
    first.write(".claude/settings.json", "{}");
    let bundle = bundled(&first, "task");
    let second = machine();
    let garden = root(&second).join("garden");
    let said = import(&second, &bundle, Some(&garden), None).good();
    assert!(said.stderr.contains("segno-inert"), "{said:?}");
    assert!(!garden.join(".claude/settings.json").exists());
    let third = machine();
    let garden = root(&third).join("garden");
    let place = garden.to_str().unwrap();
    let words = [
        "sessions",
        "import",
        bundle.to_str().unwrap(),
        "--into",
        place,
    ];
    third.segno(&[&words[..], &["--trust"]].concat()).good();
    assert!(garden.join(".claude/settings.json").exists());
}

#[test]
fn without_a_folder_here_the_answer_says_how_to_go_on() {
    let (first, _) = broken_off();
    let bundle = bundled(&first, "task");
    let file = root(&first).join("task.segno");
    let words = ["sessions", "export", "task", "-o", file.to_str().unwrap()];
    first.segno(&words).good();
    // On this machine the first one's folder is there; elsewhere it is not.
    std::fs::rename(first.work(), root(&first).join("away")).unwrap();
    let second = machine();
    let said = import(&second, &bundle, None, None).good();
    let hint = format!("sessions import {} --into FOLDER", bundle.display());
    assert!(said.stderr.contains(&hint), "{said:?}");
    assert!(!said.stdout.contains("goes on"), "{said:?}");
    let garden = root(&second).join("garden");
    let said = import(&second, &bundle, Some(&garden), None).good();
    assert!(
        said.stdout.contains("`segno resume task` goes on"),
        "{said:?}"
    );
    let third = machine();
    let said = import(&third, &file, None, None).good();
    assert!(
        said.stderr.contains("segno sessions move task FOLDER"),
        "{said:?}"
    );
    let fourth = machine();
    import(&fourth, &file, Some(&root(&fourth).join("nowhere")), None).refused(2, &["[R0117]"]);
    assert!(sessions(&fourth).is_empty());
    import(&fourth, &file, Some(&fourth.work()), None).good();
    let place = fourth.work();
    assert_eq!(sessions(&fourth)[0]["workspace"], place.to_str().unwrap());
    import(&fourth, &file, Some(&fourth.work()), None).good();
    import(&fourth, &file, None, None).refused(17, &["[S0113]"]);
}

#[test]
fn a_session_that_is_run_here_is_not_moved_by_an_import() {
    let first = sandbox();
    super::waiting_chain(&first, 2, 1);
    let (live, _) = super::start_waiting(&first, &["--name", "busy"]);
    let bundle = bundled(&first, "busy");
    let garden = root(&first).join("garden");
    import(&first, &bundle, Some(&garden), None).refused(21, &["[S0107]"]);
    assert!(!garden.exists());
    live.kill();
    import(&first, &bundle, Some(&garden), None).good();
    assert_eq!(sessions(&first)[0]["workspace"], garden.to_str().unwrap());
}

/// How often a place is armed at most, at another visit each time.
#[cfg(feature = "failpoints")]
const VISITS: usize = 3;

/// Kills imports of `from` at every failpoint, and lets the same command finish them. Returns how many
/// were killed.
#[cfg(feature = "failpoints")]
fn killed(from: &Path, whole: impl Fn(&Sandbox, &Path, &str)) -> usize {
    let mut kills = 0;
    for point in segno_core::fault::Point::ALL {
        for visit in 1..=VISITS {
            let second = sandbox();
            let garden = root(&second).join("garden");
            make(&garden);
            let place = format!("{}:{visit}", point.name());
            if !import(&second, from, Some(&garden), Some(&place)).crashed() {
                break;
            }
            kills += 1;
            second.segno(&["doctor"]).good();
            import(&second, from, Some(&garden), None).good();
            let listed = sessions(&second);
            assert_eq!(listed.len(), 1, "{place}");
            assert_eq!(listed[0]["workspace"], garden.to_str().unwrap(), "{place}");
            let logged = second.segno(&["logs", "stuck"]).good();
            assert_eq!(logged.stdout.matches("moved to").count(), 1, "{place}");
            whole(&second, &garden, &place);
            second.segno(&["doctor"]).good();
        }
    }
    kills
}

#[cfg(feature = "failpoints")]
#[test]
fn an_import_that_is_killed_is_finished_by_the_same_command() {
    let first = stuck();
    let bundle = bundled(&first, "stuck");
    let kills = killed(&bundle, |second, garden, place| {
        assert_eq!(tree(garden), tree(&first.work()), "{place}");
        let own = |kept: &&Value| kept["note"] == "for `sessions export --bundle`";
        assert_eq!(list(second).iter().filter(own).count(), 1, "{place}");
        second.segno(&["resume", "stuck"]).good();
        let calls = String::from_utf8(bytes(&garden.join("calls.log"))).unwrap();
        assert_eq!(calls.lines().count(), 4, "{place}: {calls}");
    });
    assert!(kills > 20, "{kills}");
}

#[cfg(feature = "failpoints")]
#[test]
fn an_import_of_a_file_that_is_killed_is_finished_by_the_same_command() {
    let first = stuck();
    let file = root(&first).join("stuck.segno");
    let words = ["sessions", "export", "stuck", "-o", file.to_str().unwrap()];
    first.segno(&words).good();
    let kills = killed(&file, |second, garden, place| {
        import(second, &file, Some(garden), None).good();
        let logged = second.segno(&["logs", "stuck"]).good();
        assert_eq!(logged.stdout.matches("moved to").count(), 1, "{place}");
    });
    assert!(kills > 5, "{kills}");
}

#[test]
fn an_import_that_is_done_is_recognised_and_replaces_nothing() {
    let first = stuck();
    let bundle = bundled(&first, "stuck");
    let second = sandbox();
    let garden = root(&second).join("garden");
    import(&second, &bundle, Some(&garden), None).good();
    put(&garden.join("chain.yaml"), b"edited since");
    let said = import(&second, &bundle, Some(&garden), None).good();
    assert!(said.stdout.contains("is here already"), "{said:?}");
    assert_eq!(bytes(&garden.join("chain.yaml")), b"edited since");
    let elsewhere = root(&second).join("elsewhere");
    import(&second, &bundle, Some(&elsewhere), None).refused(17, &["[S0113]"]);
    assert!(!elsewhere.exists());
}
