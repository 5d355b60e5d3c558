//! Checkpoints as folders: exported, transferred, imported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{Sandbox, run_to_end};
use serde_json::Value;

use crate::sandbox;

use super::checkpoint::{bytes, create_checkpoint, id, list, remove, run, tree, write_workspace};

/// Runs a session, creates a checkpoint and exports it. Returns the checkpoint and the folder.
fn session_with_export(sandbox: &Sandbox) -> (Value, PathBuf) {
    write_workspace(sandbox, "");
    run(sandbox);
    std::os::unix::fs::symlink("src/main.rs", sandbox.work().join("link")).unwrap();
    let checkpoint = create_checkpoint(sandbox);
    let folder = outside(sandbox, "carried");
    export(sandbox, &checkpoint, &folder);
    (checkpoint, folder)
}

fn outside(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.work().parent().unwrap().join(name)
}

fn export(sandbox: &Sandbox, checkpoint: &Value, to: &Path) -> Value {
    let to = to.to_str().unwrap();
    let words = ["checkpoint", "export", id(checkpoint), "--to", to, "--json"];
    sandbox.segno(&words).expect_success().json().remove(0)
}

fn import(sandbox: &Sandbox, from: &Path, more: &[&str]) -> segno_testkit::sandbox::ProcessOutput {
    let from = from.to_str().unwrap();
    let words = [&["checkpoint", "import", from, "--json"], more].concat();
    sandbox.segno(&words)
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&bytes(&folder.join(name))).unwrap()
}

/// Copies a folder with everything in it.
pub(super) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
pub(super) fn write_file(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
pub(super) fn make_folder(path: &Path) {
    fs::create_dir_all(path).unwrap();
}

fn tar(words: &[&str]) {
    assert!(Command::new("tar").args(words).status().unwrap().success());
}

#[test]
fn checkpoint_is_transferred_and_restored_in_another_home() {
    let here = sandbox();
    let (checkpoint, folder) = session_with_export(&here);
    let before = tree(&here.work());
    let there = sandbox();
    let dry = import(&there, &folder, &["--dry-run"])
        .expect_success()
        .json();
    assert_eq!(dry[0]["kind"], "would_import");
    assert_eq!(dry[0]["session_outcome"], "new");
    assert!(list(&there).is_empty());
    assert_eq!(
        there
            .segno(&["sessions", "list", "--all", "--json"])
            .expect_success()
            .stdout,
        ""
    );
    let imported = import(&there, &folder, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(imported["checkpoint"], checkpoint["checkpoint"]);
    assert_eq!(imported["snapshot"], checkpoint["snapshot"]);
    assert_eq!(imported["origin"], folder.to_str().unwrap());
    assert_eq!(imported["missing"], serde_json::json!([]));
    there.segno(&["checkpoint", "verify"]).expect_success();
    there.segno(&["show", "chain"]).expect_success();
    let shown = there
        .segno(&["checkpoint", "show", id(&imported)])
        .expect_success();
    assert!(
        shown.stdout.contains(folder.to_str().unwrap()),
        "{}",
        shown.stdout
    );
    let into = outside(&there, "restored");
    let words = [
        "checkpoint",
        "restore",
        id(&imported),
        "--into",
        into.to_str().unwrap(),
    ];
    there.segno(&words).expect_success();
    assert_eq!(tree(&into), before);
    // A second import changes nothing.
    let again = import(&there, &folder, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(again["outcome"], "existing");
    assert_eq!(again["session_outcome"], "existing");
    assert_eq!(list(&there).len(), 1);
    // The imported checkpoint can be exported again, with the same files.
    let further = outside(&there, "further");
    export(&there, &imported, &further);
    let archive = "workspace.tar.zst";
    assert_eq!(bytes(&further.join(archive)), bytes(&folder.join(archive)));
}

#[test]
fn exported_folder_has_a_layout_that_others_can_read() {
    let sandbox = sandbox();
    let (checkpoint, folder) = session_with_export(&sandbox);
    let names: Vec<String> = tree(&folder)
        .into_iter()
        .map(|(path, ..)| path.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "conversation.json",
            "environment.json",
            "manifest.json",
            "session.jsonl",
            "session_state.json",
            "workspace.tar.zst"
        ]
    );
    let manifest = json(&folder, "manifest.json");
    assert_eq!(manifest["version"], "1.0");
    assert_eq!(manifest["id"], checkpoint["checkpoint"]);
    assert_eq!(manifest["session_id"], checkpoint["session"]);
    assert_eq!(manifest["trigger"], "manual");
    assert_eq!(manifest["workspace"]["file_count"], checkpoint["files"]);
    assert_eq!(manifest["conversation"]["tokens_used"], 240);
    assert_eq!(manifest["conversation"]["turn_count"], 2);
    let conversation = json(&folder, "conversation.json");
    let roles: Vec<&str> = conversation["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(conversation["messages"][0]["content"], "begin");
    let state = json(&folder, "session_state.json");
    assert_eq!(state["name"], "chain");
    assert_eq!(state["steps_finished"], 2);
    assert!(state["spec"].as_str().unwrap().contains("type: chain"));
    let environment = json(&folder, "environment.json");
    assert_eq!(environment["LC_ALL"], "C.UTF-8");
    // GNU tar can unpack the workspace.
    let unpacked = outside(&sandbox, "unpacked");
    make_folder(&unpacked);
    let archive = folder.join("workspace.tar.zst");
    let words = ["--zstd", "-xpf", archive.to_str().unwrap()];
    tar(&[&words[..], &["-C", unpacked.to_str().unwrap()]].concat());
    assert_eq!(tree(&unpacked), tree(&sandbox.work()));
}

#[test]
fn export_ends_at_the_checkpoint() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(run_to_end(command).crashed());
    let checkpoint = create_checkpoint(&sandbox);
    sandbox.segno(&["resume"]).expect_success();
    let folder = outside(&sandbox, "carried");
    export(&sandbox, &checkpoint, &folder);
    let conversation = json(&folder, "conversation.json");
    assert_eq!(conversation["turn_count"], 1);
    // The session here has continued: it has everything that the folder has.
    let known = import(&sandbox, &folder, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(
        (&known["outcome"], &known["session_outcome"]),
        (&"existing".into(), &"existing".into())
    );
    // On another machine it continues from where the checkpoint stood.
    let there = crate::sandbox();
    import(&there, &folder, &[]).expect_success();
    let shown = there.segno(&["show", "chain", "--json"]).expect_success();
    assert!(shown.stdout.contains("interrupted"), "{}", shown.stdout);
    there.segno(&["checkpoint", "verify"]).expect_success();
}

#[test]
fn export_is_deterministic_and_replaces_nothing() {
    let sandbox = sandbox();
    let (checkpoint, folder) = session_with_export(&sandbox);
    let other = outside(&sandbox, "other");
    export(&sandbox, &checkpoint, &other);
    assert_eq!(tree(&other), tree(&folder));
    let to = other.to_str().unwrap();
    sandbox
        .segno(&["checkpoint", "export", id(&checkpoint), "--to", to])
        .refused(12, &["it exists", "--to", "[F0205]"]);
    assert_eq!(tree(&other), tree(&folder));
    let output = sandbox
        .segno(&["checkpoint", "export", id(&checkpoint)])
        .expect_success();
    assert!(
        output
            .stdout
            .contains(&format!("chain-{}", id(&checkpoint))),
        "{}",
        output.stdout
    );
}

/// Changes `manifest.json` and recomputes its checksum.
pub(super) fn forge(folder: &Path, change: impl Fn(&str) -> String) {
    let path = folder.join("manifest.json");
    let text = String::from_utf8(bytes(&path)).unwrap();
    let (open, _) = text.split_once(",\n  \"checksum\"").unwrap();
    let open = change(open);
    let digest = segno_core::digest::Digest::of(open.as_bytes());
    let text = format!("{open},\n  \"checksum\": \"blake3:{digest}\"\n}}\n");
    write_file(&path, text.as_bytes());
}

#[test]
fn import_with_a_conflicting_id_gets_a_new_id() {
    let sandbox = sandbox();
    let (checkpoint, folder) = session_with_export(&sandbox);
    forge(&folder, |text| text.replace("\"manual\"", "\"pause\""));
    let imported = import(&sandbox, &folder, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(imported["outcome"], "renamed");
    assert_eq!(imported["renamed_from"], checkpoint["checkpoint"]);
    assert_ne!(imported["checkpoint"], checkpoint["checkpoint"]);
    let listed = list(&sandbox);
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|line| line["trigger"] == "manual"));
    sandbox.segno(&["checkpoint", "verify"]).expect_success();
}

#[test]
fn import_does_not_replace_an_unreadable_checkpoint() {
    let sandbox = sandbox();
    let (checkpoint, folder) = session_with_export(&sandbox);
    let checkpoints = sandbox.home().join("checkpoints");
    let checkpoints = checkpoints.join(checkpoint["session"].as_str().unwrap());
    let file = checkpoints.join(format!("{}.json", id(&checkpoint)));
    write_file(&file, b"damaged");
    let imported = import(&sandbox, &folder, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(imported["outcome"], "renamed");
    assert_eq!(bytes(&file), b"damaged");
}

#[test]
fn forged_folder_cannot_reach_other_files() {
    let sandbox = sandbox();
    let (_, folder) = session_with_export(&sandbox);
    let there = crate::sandbox();
    let secret = outside(&there, "secret.json");
    write_file(&secret, b"{}");
    let digest = segno_core::digest::Digest::of(b"{}");
    for name in [
        "../secret.json",
        "mcp_state/../../secret.json",
        "mcp_state/.hidden.json",
        "other.json",
        secret.to_str().unwrap(),
    ] {
        let forged = outside(&there, "forged");
        copy(&folder, &forged);
        let part =
            format!("\"files\": {{\n \"{name}\": {{\"bytes\": 2, \"digest\": \"{digest}\"}},");
        // The last `files` is the folder's; the checkpoint has one of that name, too.
        forge(&forged, |text| {
            let (before, after) = text.rsplit_once("\"files\": {").unwrap();
            format!("{before}{part}{after}")
        });
        let output = import(&there, &forged, &[]);
        output.refused(23, &["is not a file of a checkpoint", "[K0404]"]);
        assert!(list(&there).is_empty());
        Command::new("rm").arg("-r").arg(&forged).status().unwrap();
    }
    // A session that is not the checkpoint's.
    forge(&folder, |text| {
        text.replace("\"run\": 1", "\"run\": 2")
            .replacen("\"seq\": ", "\"seq\": 1", 1)
    });
    import(&there, &folder, &[]).refused(23, &["is not the session of the checkpoint"]);
}

#[test]
fn folder_of_another_program_can_be_imported() {
    let sandbox = sandbox();
    sandbox.write("src/main.py", "print()\n");
    let folder = outside(&sandbox, "theirs");
    make_folder(&folder.join("mcp_state"));
    let archive = folder.join("workspace.tar.zst");
    let work = sandbox.work();
    tar(&[
        "--zstd",
        "-cf",
        archive.to_str().unwrap(),
        "-C",
        work.to_str().unwrap(),
        ".",
    ]);
    let manifest = r#"{"version": "1.0", "id": "01HQXYZ123456789ABCDEF", "session_id": "ph-fix-auth", "created_at": "2026-01-16T14:35:00Z", "trigger": "periodic", "checksum": "sha256:abc"}"#;
    write_file(&folder.join("manifest.json"), manifest.as_bytes());
    write_file(&folder.join("conversation.json"), b"{\"messages\": []}");
    write_file(
        &folder.join("environment.json"),
        b"{\"TZ\": \"UTC\", \"TOKEN\": \"x\"}",
    );
    write_file(&folder.join("tmux_state.txt"), b"a pane\n");
    write_file(
        &folder.join("mcp_state/beads.json"),
        b"{\"type\": \"stateless\"}",
    );
    let imported = import(&sandbox, &folder, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(imported["trigger"], "periodic");
    assert_eq!(
        imported["missing"],
        serde_json::json!(["session_state.json", "session.jsonl"])
    );
    assert!(imported["note"].as_str().unwrap().contains("ph-fix-auth"));
    let shown = sandbox
        .segno(&["checkpoint", "show", id(&imported), "--json"])
        .expect_success();
    assert_eq!(
        shown.json()[0]["environment"],
        serde_json::json!({"TZ": "UTC"})
    );
    sandbox.segno(&["checkpoint", "verify"]).expect_success();
    let into = outside(&sandbox, "restored");
    let words = [
        "checkpoint",
        "restore",
        id(&imported),
        "--into",
        into.to_str().unwrap(),
    ];
    sandbox.segno(&words).expect_success();
    assert_eq!(tree(&into), tree(&sandbox.work()));
    // A further export keeps the files that the other program wrote.
    let further = outside(&sandbox, "further");
    export(&sandbox, &imported, &further);
    for name in [
        "conversation.json",
        "tmux_state.txt",
        "mcp_state/beads.json",
    ] {
        assert_eq!(
            bytes(&further.join(name)),
            bytes(&folder.join(name)),
            "{name}"
        );
    }
    // The archive alone is enough.
    let alone = import(&sandbox, &archive, &[])
        .expect_success()
        .json()
        .remove(0);
    assert_eq!(alone["snapshot"], imported["snapshot"]);
}

#[test]
fn every_change_to_a_folder_is_refused() {
    let here = sandbox();
    let (_, folder) = session_with_export(&here);
    let there = sandbox();
    let changed = outside(&there, "changed");
    let refuse = |what: &str| {
        let output = import(&there, &changed, &[]);
        assert!(
            [12, 17, 23].contains(&output.code()),
            "{what}: {} {}",
            output.code(),
            output.stderr
        );
        assert!(list(&there).is_empty(), "{what}");
        assert_eq!(
            there
                .segno(&["sessions", "list", "--all", "--json"])
                .expect_success()
                .stdout,
            ""
        );
    };
    for (name, _, content) in tree(&folder) {
        let path = changed.join(&name);
        let name = name.to_str().unwrap();
        copy(&folder, &changed);
        remove(&path);
        refuse(&format!("{name} missing"));
        std::os::unix::fs::symlink(folder.join(name), &path).unwrap();
        refuse(&format!("{name} as a link"));
        remove(&path);
        write_file(&path, &content[..content.len() - 1]);
        refuse(&format!("{name} cut"));
        write_file(&path, &[&content[..], b"\n"].concat());
        refuse(&format!("{name} longer"));
        let step = (content.len() / 12).max(1);
        for position in (0..content.len()).step_by(step) {
            let mut flipped = content.clone();
            flipped[position] ^= 1 << (position % 8);
            write_file(&path, &flipped);
            refuse(&format!("{name} flipped at {position}"));
        }
        Command::new("rm").arg("-r").arg(&changed).status().unwrap();
    }
    // The unchanged folder can be imported.
    import(&there, &folder, &[]).expect_success();
}

#[test]
fn folder_in_a_newer_format_is_refused_as_newer() {
    let here = sandbox();
    let (_, folder) = session_with_export(&here);
    let there = sandbox();
    let path = folder.join("manifest.json");
    let text = String::from_utf8(bytes(&path)).unwrap();
    write_file(
        &path,
        text.replace("\"format\": 2", "\"format\": 3").as_bytes(),
    );
    import(&there, &folder, &[]).refused(12, &["format 3"]);
    assert!(list(&there).is_empty());
}

#[test]
fn diverged_session_is_not_merged() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(run_to_end(command).crashed());
    let early = create_checkpoint(&sandbox);
    sandbox.segno(&["resume"]).expect_success();
    let late = create_checkpoint(&sandbox);
    let (one, two) = (outside(&sandbox, "one"), outside(&sandbox, "two"));
    export(&sandbox, &early, &one);
    export(&sandbox, &late, &two);
    let there = crate::sandbox();
    import(&there, &one, &[]).expect_success();
    import(&there, &two, &[]).refused(17, &["continues to event", "[S0113]"]);
    assert_eq!(list(&there).len(), 1);
}

/// Runs a command under strace, which kills it at the n-th such call. Returns whether it was
/// killed.
fn kill(sandbox: &Sandbox, call: &str, nth: usize, words: &[&str]) -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
    command.arg(format!("trace={call}"));
    command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={nth}")]);
    command.arg(sandbox.binary()).args(words);
    sandbox.set_env(&mut command);
    !run_to_end(command).status.success()
}

/// System calls that change a disk, and how many of them are skipped between two kills.
const CALLS: [(&str, usize); 8] = [
    ("rename", 0),
    ("fsync", 0),
    ("fdatasync", 0),
    ("mkdir", 0),
    ("unlink", 0),
    ("write", 1),
    ("pwrite64", 4),
    ("openat", 12),
];

#[test]
fn killed_export_leaves_a_whole_folder_or_none() {
    segno_testkit::crash::require_strace();
    let sandbox = sandbox();
    let (checkpoint, folder) = session_with_export(&sandbox);
    let to = outside(&sandbox, "again");
    let words = [
        "checkpoint",
        "export",
        id(&checkpoint),
        "--to",
        to.to_str().unwrap(),
    ];
    let mut kills = 0;
    for (call, between) in CALLS {
        for nth in (1..).step_by(between + 1) {
            let killed = kill(&sandbox, call, nth, &words);
            if to.exists() {
                assert_eq!(tree(&to), tree(&folder), "{call} {nth}");
                Command::new("rm").arg("-r").arg(&to).status().unwrap();
            }
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= 25, "{kills}");
    export(&sandbox, &checkpoint, &to);
    let left = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("draft");
    let parent = fs::read_dir(to.parent().unwrap()).unwrap();
    assert_eq!(parent.map(Result::unwrap).filter(left).count(), 0);
}

#[test]
fn killed_import_can_be_repeated() {
    segno_testkit::crash::require_strace();
    let here = sandbox();
    let (_, folder) = session_with_export(&here);
    let words = ["checkpoint", "import", folder.to_str().unwrap()];
    let mut kills = 0;
    for (call, between) in CALLS {
        for nth in (1..).step_by(between + 1) {
            let there = sandbox();
            let killed = kill(&there, call, nth, &words);
            assert!(list(&there).len() <= 1, "{call} {nth}");
            there.segno(&["checkpoint", "verify"]).expect_success();
            there.segno(&["doctor"]).expect_success();
            there.segno(&words).expect_success();
            assert_eq!(list(&there).len(), 1, "{call} {nth}");
            there.segno(&["checkpoint", "verify"]).expect_success();
            there.segno(&["show", "chain"]).expect_success();
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= 35, "{kills}");
}

#[test]
fn hostile_archive_is_refused_without_effect() {
    let sandbox = sandbox();
    sandbox.write("harmless", "x");
    let work = sandbox.work();
    let pack = |name: &str, more: &[&str]| {
        let file = outside(&sandbox, name);
        let words = ["--zstd", "-P", "-C", work.to_str().unwrap(), "-cf"];
        tar(&[&words[..], &[file.to_str().unwrap()], more].concat());
        file
    };
    let evil = pack(
        "evil.tar.zst",
        &["--transform", "s,harmless,../evil,", "harmless"],
    );
    let output = import(&sandbox, &evil, &[]);
    output.refused(12, &["`../evil`", "leads out of the folder", "[K0401]"]);
    let good = pack("good.tar.zst", &["."]);
    import(&sandbox, &good, &["--max-bytes", "1000"]).refused(12, &["--max-bytes", "[K0403]"]);
    import(&sandbox, &good, &["--max-entries", "0"]).refused(12, &["--max-entries", "[K0403]"]);
    let cut = bytes(&good);
    write_file(&good, &cut[..cut.len() - 1]);
    import(&sandbox, &good, &[]).refused(23, &["[K0402]"]);
    assert!(list(&sandbox).is_empty());
    import(&sandbox, &outside(&sandbox, "nowhere"), &[]).refused(23, &["[K0404]"]);
}

/// An archive needs no whole repository: settings of git alone run in a clone that is there.
#[test]
fn archive_with_settings_only_starts_nothing_in_a_clone() {
    let sandbox = sandbox();
    let (evil, clone) = (outside(&sandbox, "evil"), outside(&sandbox, "clone"));
    let trace = outside(&sandbox, "it-ran");
    let script = format!("#!/bin/sh\ntouch '{}'\n", trace.display());
    let command = format!("touch '{}'", trace.display());
    let config = format!("[core]\n\tfsmonitor = \"{command} #\"\n");
    let dangerous = [
        (".claude/settings.json", "{}"),
        (".envrc", &script),
        (".git/config", &config),
        (".git/hooks/post-checkout", &script),
        (".git/modules/lib/config", &config),
        (".github/workflows/ci.yml", "on: push"),
        (".yarnrc.yml", "yarnPath: evil.cjs"),
        ("nested/.git/hooks/pre-commit", &script),
    ];
    let harmless = [(".git/hooks/update.sample", "#!/bin/sh\n"), ("a.txt", "a")];
    for (path, content) in dangerous.iter().chain(&harmless) {
        let path = evil.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_file(&path, content.as_bytes());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let archive = outside(&sandbox, "evil.tar.zst");
    let (from, to) = (evil.to_str().unwrap(), archive.to_str().unwrap());
    tar(&["--zstd", "-C", from, "-cf", to, "."]);
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        sandbox.set_env(&mut command);
        command.arg("-C").arg(&clone).args(words);
        run_to_end(command).expect_success()
    };
    fs::create_dir_all(&clone).unwrap();
    git(&["init", "-q"]);
    git(&["config", "remote.origin.url", "https://example.org/mine"]);
    import(&sandbox, &archive, &[]).expect_success();
    let checkpoint = list(&sandbox).remove(0);
    let into = clone.to_str().unwrap();
    let words = ["checkpoint", "restore", id(&checkpoint), "--into", into];
    for more in [&["--dry-run"][..], &[]] {
        let output = sandbox.segno(&[&words[..], &["--json"], more].concat());
        let disarmed = output.expect_success().json().remove(0)["disarmed"].clone();
        assert_eq!(disarmed, serde_json::json!(dangerous.map(|(path, _)| path)));
    }
    git(&["status"]);
    git(&["checkout", "-q", "-b", "other"]);
    assert!(!trace.exists());
    for (path, _) in dangerous {
        let restored = clone.join(path);
        // A configuration is the clone's own one, or has only what is harmless.
        let is_harmless = || !String::from_utf8_lossy(&bytes(&restored)).contains("fsmonitor");
        let is_config = path.ends_with("/config");
        assert!(!restored.exists() || (is_config && is_harmless()), "{path}");
    }
    for (path, _) in harmless {
        assert!(clone.join(path).exists(), "{path}");
    }
    let url = git(&["config", "remote.origin.url"]).stdout;
    assert_eq!(url, "https://example.org/mine\n");
    assert!(clone.join(".git/config.segno-inert").exists());
}

#[test]
fn failed_export_leaves_nothing() {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    let packs = sandbox.home().join("snapshots/packs");
    let pack = fs::read_dir(packs).unwrap().next().unwrap().unwrap().path();
    let mut damaged = bytes(&pack);
    damaged[20] ^= 1;
    write_file(&pack, &damaged);
    let to = outside(&sandbox, "carried");
    let words = [
        "checkpoint",
        "export",
        id(&checkpoint),
        "--to",
        to.to_str().unwrap(),
    ];
    sandbox.segno(&words).refused(23, &["is damaged"]);
    let beside = fs::read_dir(to.parent().unwrap()).unwrap();
    let names: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
    let left = |name: &&std::ffi::OsString| name.to_string_lossy().contains("carried");
    assert_eq!(names.iter().find(left), None);
}
