//! Checkpoints as folders: written, carried, read back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{Sandbox, finish};
use serde_json::Value;

use crate::sandbox;

use super::checkpoint::{bytes, id, list, remove, run, session, take, tree};

/// A session, its checkpoint, and more that happened after it.
fn exported(sandbox: &Sandbox) -> (Value, PathBuf) {
    session(sandbox, "");
    run(sandbox);
    std::os::unix::fs::symlink("src/main.rs", sandbox.work().join("link")).unwrap();
    let kept = take(sandbox);
    let folder = outside(sandbox, "carried");
    export(sandbox, &kept, &folder);
    (kept, folder)
}

fn outside(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.work().parent().unwrap().join(name)
}

fn export(sandbox: &Sandbox, kept: &Value, to: &Path) -> Value {
    let to = to.to_str().unwrap();
    let words = ["checkpoint", "export", id(kept), "--to", to, "--json"];
    sandbox.segno(&words).good().json().remove(0)
}

fn import(sandbox: &Sandbox, from: &Path, more: &[&str]) -> segno_testkit::sandbox::Said {
    let from = from.to_str().unwrap();
    let words = [&["checkpoint", "import", from, "--json"], more].concat();
    sandbox.segno(&words)
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&bytes(&folder.join(name))).unwrap()
}

/// Copies a folder of files, with folders in it.
pub(super) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
pub(super) fn put(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
pub(super) fn make(path: &Path) {
    fs::create_dir_all(path).unwrap();
}

fn tar(words: &[&str]) {
    assert!(Command::new("tar").args(words).status().unwrap().success());
}

#[test]
fn a_checkpoint_is_carried_to_another_home_and_restored_there() {
    let here = sandbox();
    let (kept, folder) = exported(&here);
    let before = tree(&here.work());
    let there = sandbox();
    let dry = import(&there, &folder, &["--dry-run"]).good().json();
    assert_eq!(dry[0]["kind"], "would_import");
    assert_eq!(dry[0]["session_came"], "new");
    assert!(list(&there).is_empty());
    assert_eq!(
        there
            .segno(&["sessions", "list", "--all", "--json"])
            .good()
            .stdout,
        ""
    );
    let came = import(&there, &folder, &[]).good().json().remove(0);
    assert_eq!(came["checkpoint"], kept["checkpoint"]);
    assert_eq!(came["snapshot"], kept["snapshot"]);
    assert_eq!(came["origin"], folder.to_str().unwrap());
    assert_eq!(came["missing"], serde_json::json!([]));
    there.segno(&["checkpoint", "verify"]).good();
    there.segno(&["sessions", "show", "chain"]).good();
    let shown = there.segno(&["checkpoint", "show", id(&came)]).good();
    assert!(
        shown.stdout.contains(folder.to_str().unwrap()),
        "{}",
        shown.stdout
    );
    let into = outside(&there, "restored");
    let words = [
        "checkpoint",
        "restore",
        id(&came),
        "--into",
        into.to_str().unwrap(),
    ];
    there.segno(&words).good();
    assert_eq!(tree(&into), before);
    // A second time changes nothing.
    let again = import(&there, &folder, &[]).good().json().remove(0);
    assert_eq!(again["standing"], "known");
    assert_eq!(again["session_came"], "known");
    assert_eq!(list(&there).len(), 1);
    // And it can be carried on from there, with the same files.
    let further = outside(&there, "further");
    export(&there, &came, &further);
    let archive = "workspace.tar.zst";
    assert_eq!(bytes(&further.join(archive)), bytes(&folder.join(archive)));
}

#[test]
fn the_folder_is_the_layout_of_the_seed_and_can_be_read_by_others() {
    let sandbox = sandbox();
    let (kept, folder) = exported(&sandbox);
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
    assert_eq!(manifest["id"], kept["checkpoint"]);
    assert_eq!(manifest["session_id"], kept["session"]);
    assert_eq!(manifest["trigger"], "manual");
    assert_eq!(manifest["workspace"]["file_count"], kept["files"]);
    assert_eq!(manifest["conversation"]["tokens_used"], 240);
    assert_eq!(manifest["conversation"]["turn_count"], 2);
    let said = json(&folder, "conversation.json");
    let roles: Vec<&str> = said["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(said["messages"][0]["content"], "begin");
    let state = json(&folder, "session_state.json");
    assert_eq!(state["name"], "chain");
    assert_eq!(state["steps_finished"], 2);
    assert!(state["spec"].as_str().unwrap().contains("type: chain"));
    let environment = json(&folder, "environment.json");
    assert_eq!(environment["LC_ALL"], "C.UTF-8");
    // GNU tar finds the workspace in it.
    let unpacked = outside(&sandbox, "unpacked");
    make(&unpacked);
    let archive = folder.join("workspace.tar.zst");
    let words = ["--zstd", "-xpf", archive.to_str().unwrap()];
    tar(&[&words[..], &["-C", unpacked.to_str().unwrap()]].concat());
    assert_eq!(tree(&unpacked), tree(&sandbox.work()));
}

#[test]
fn an_export_goes_up_to_the_checkpoint_and_no_further() {
    let sandbox = sandbox();
    session(&sandbox, "");
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(finish(command).crashed());
    let kept = take(&sandbox);
    sandbox.segno(&["resume"]).good();
    let folder = outside(&sandbox, "carried");
    export(&sandbox, &kept, &folder);
    let said = json(&folder, "conversation.json");
    assert_eq!(said["turn_count"], 1);
    // The session here has gone on: it has what the folder has.
    let known = import(&sandbox, &folder, &[]).good().json().remove(0);
    assert_eq!(
        (&known["standing"], &known["session_came"]),
        (&"known".into(), &"known".into())
    );
    // Elsewhere it goes on from where the checkpoint stood.
    let there = crate::sandbox();
    import(&there, &folder, &[]).good();
    let shown = there.segno(&["sessions", "show", "chain", "--json"]).good();
    assert!(shown.stdout.contains("interrupted"), "{}", shown.stdout);
    there.segno(&["checkpoint", "verify"]).good();
}

#[test]
fn the_same_checkpoint_gives_the_same_bytes_and_nothing_is_replaced() {
    let sandbox = sandbox();
    let (kept, folder) = exported(&sandbox);
    let other = outside(&sandbox, "other");
    export(&sandbox, &kept, &other);
    assert_eq!(tree(&other), tree(&folder));
    let to = other.to_str().unwrap();
    sandbox
        .segno(&["checkpoint", "export", id(&kept), "--to", to])
        .refused(12, &["it exists", "--to", "[F0205]"]);
    assert_eq!(tree(&other), tree(&folder));
    let said = sandbox.segno(&["checkpoint", "export", id(&kept)]).good();
    assert!(
        said.stdout.contains(&format!("chain-{}", id(&kept))),
        "{}",
        said.stdout
    );
}

/// Changes `manifest.json` as only someone can who knows how it is sealed.
pub(super) fn forge(folder: &Path, change: impl Fn(&str) -> String) {
    let path = folder.join("manifest.json");
    let text = String::from_utf8(bytes(&path)).unwrap();
    let (open, _) = text.split_once(",\n  \"checksum\"").unwrap();
    let open = change(open);
    let digest = segno_core::digest::Digest::of(open.as_bytes());
    let text = format!("{open},\n  \"checksum\": \"blake3:{digest}\"\n}}\n");
    put(&path, text.as_bytes());
}

#[test]
fn a_checkpoint_with_the_same_id_and_another_content_gets_a_new_one() {
    let sandbox = sandbox();
    let (kept, folder) = exported(&sandbox);
    forge(&folder, |text| text.replace("\"manual\"", "\"pause\""));
    let said = import(&sandbox, &folder, &[]).good().json().remove(0);
    assert_eq!(said["standing"], "renamed");
    assert_eq!(said["was"], kept["checkpoint"]);
    assert_ne!(said["checkpoint"], kept["checkpoint"]);
    let listed = list(&sandbox);
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|line| line["trigger"] == "manual"));
    sandbox.segno(&["checkpoint", "verify"]).good();
}

#[test]
fn a_checkpoint_that_cannot_be_read_is_not_replaced() {
    let sandbox = sandbox();
    let (kept, folder) = exported(&sandbox);
    let place = sandbox.home().join("checkpoints");
    let place = place.join(kept["session"].as_str().unwrap());
    let file = place.join(format!("{}.json", id(&kept)));
    put(&file, b"damaged");
    let said = import(&sandbox, &folder, &[]).good().json().remove(0);
    assert_eq!(said["standing"], "renamed");
    assert_eq!(bytes(&file), b"damaged");
}

#[test]
fn a_forged_folder_cannot_reach_beyond_itself() {
    let sandbox = sandbox();
    let (_, folder) = exported(&sandbox);
    let there = crate::sandbox();
    let secret = outside(&there, "secret.json");
    put(&secret, b"{}");
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
        // The last is the folder's; the checkpoint has some of that name, too.
        forge(&forged, |text| {
            let (before, after) = text.rsplit_once("\"files\": {").unwrap();
            format!("{before}{part}{after}")
        });
        let said = import(&there, &forged, &[]);
        said.refused(23, &["is no file of a checkpoint", "[K0404]"]);
        assert!(list(&there).is_empty());
        Command::new("rm").arg("-r").arg(&forged).status().unwrap();
    }
    // Another session than the checkpoint's.
    forge(&folder, |text| {
        text.replace("\"run\": 1", "\"run\": 2")
            .replacen("\"seq\": ", "\"seq\": 1", 1)
    });
    import(&there, &folder, &[]).refused(23, &["is not the session of the checkpoint"]);
}

#[test]
fn a_folder_that_another_program_wrote_brings_its_files() {
    let sandbox = sandbox();
    sandbox.write("src/main.py", "print()\n");
    let folder = outside(&sandbox, "theirs");
    make(&folder.join("mcp_state"));
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
    put(&folder.join("manifest.json"), manifest.as_bytes());
    put(&folder.join("conversation.json"), b"{\"messages\": []}");
    put(
        &folder.join("environment.json"),
        b"{\"TZ\": \"UTC\", \"TOKEN\": \"x\"}",
    );
    put(&folder.join("tmux_state.txt"), b"a pane\n");
    put(
        &folder.join("mcp_state/beads.json"),
        b"{\"type\": \"stateless\"}",
    );
    let came = import(&sandbox, &folder, &[]).good().json().remove(0);
    assert_eq!(came["trigger"], "periodic");
    assert_eq!(
        came["missing"],
        serde_json::json!(["session_state.json", "session.jsonl"])
    );
    assert!(came["note"].as_str().unwrap().contains("ph-fix-auth"));
    let shown = sandbox
        .segno(&["checkpoint", "show", id(&came), "--json"])
        .good();
    assert_eq!(
        shown.json()[0]["environment"],
        serde_json::json!({"TZ": "UTC"})
    );
    sandbox.segno(&["checkpoint", "verify"]).good();
    let into = outside(&sandbox, "restored");
    let words = [
        "checkpoint",
        "restore",
        id(&came),
        "--into",
        into.to_str().unwrap(),
    ];
    sandbox.segno(&words).good();
    assert_eq!(tree(&into), tree(&sandbox.work()));
    // What it said comes along when it is carried on.
    let further = outside(&sandbox, "further");
    export(&sandbox, &came, &further);
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
    // An archive is enough.
    let alone = import(&sandbox, &archive, &[]).good().json().remove(0);
    assert_eq!(alone["snapshot"], came["snapshot"]);
}

#[test]
fn every_change_to_a_folder_is_refused_and_nothing_is_listed() {
    let here = sandbox();
    let (_, folder) = exported(&here);
    let there = sandbox();
    let changed = outside(&there, "changed");
    let refuse = |what: &str| {
        let said = import(&there, &changed, &[]);
        assert!(
            [12, 17, 23].contains(&said.code()),
            "{what}: {} {}",
            said.code(),
            said.stderr
        );
        assert!(list(&there).is_empty(), "{what}");
        assert_eq!(
            there
                .segno(&["sessions", "list", "--all", "--json"])
                .good()
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
        put(&path, &content[..content.len() - 1]);
        refuse(&format!("{name} cut"));
        put(&path, &[&content[..], b"\n"].concat());
        refuse(&format!("{name} longer"));
        let step = (content.len() / 12).max(1);
        for place in (0..content.len()).step_by(step) {
            let mut flipped = content.clone();
            flipped[place] ^= 1 << (place % 8);
            put(&path, &flipped);
            refuse(&format!("{name} flipped at {place}"));
        }
        Command::new("rm").arg("-r").arg(&changed).status().unwrap();
    }
    // What is not flipped can be imported.
    import(&there, &folder, &[]).good();
}

#[test]
fn a_folder_of_a_newer_program_is_called_newer() {
    let here = sandbox();
    let (_, folder) = exported(&here);
    let there = sandbox();
    let path = folder.join("manifest.json");
    let text = String::from_utf8(bytes(&path)).unwrap();
    put(
        &path,
        text.replace("\"format\": 2", "\"format\": 3").as_bytes(),
    );
    import(&there, &folder, &[]).refused(12, &["format 3"]);
    assert!(list(&there).is_empty());
}

#[test]
fn a_session_that_went_another_way_is_not_mixed_up() {
    let sandbox = sandbox();
    session(&sandbox, "");
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("SEGNO_FAILPOINT", "step.before_effect:2");
    assert!(finish(command).crashed());
    let early = take(&sandbox);
    sandbox.segno(&["resume"]).good();
    let late = take(&sandbox);
    let (one, two) = (outside(&sandbox, "one"), outside(&sandbox, "two"));
    export(&sandbox, &early, &one);
    export(&sandbox, &late, &two);
    let there = crate::sandbox();
    import(&there, &one, &[]).good();
    import(&there, &two, &[]).refused(17, &["goes on to entry", "[S0113]"]);
    assert_eq!(list(&there).len(), 1);
}

/// Runs a command below strace, which kills it at the n-th such call. True if it was killed.
fn kill(sandbox: &Sandbox, call: &str, nth: usize, words: &[&str]) -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
    command.arg(format!("trace={call}"));
    command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={nth}")]);
    command.arg(sandbox.binary()).args(words);
    sandbox.furnish(&mut command);
    !finish(command).status.success()
}

/// Calls that change a disk, and how many are passed over between two kills.
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
fn an_export_killed_at_a_system_call_leaves_a_whole_folder_or_none() {
    segno_testkit::crash::require_strace();
    let sandbox = sandbox();
    let (kept, folder) = exported(&sandbox);
    let to = outside(&sandbox, "again");
    let words = [
        "checkpoint",
        "export",
        id(&kept),
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
    export(&sandbox, &kept, &to);
    let left = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("draft");
    let parent = fs::read_dir(to.parent().unwrap()).unwrap();
    assert_eq!(parent.map(Result::unwrap).filter(left).count(), 0);
}

#[test]
fn an_import_killed_at_a_system_call_can_be_repeated() {
    segno_testkit::crash::require_strace();
    let here = sandbox();
    let (_, folder) = exported(&here);
    let words = ["checkpoint", "import", folder.to_str().unwrap()];
    let mut kills = 0;
    for (call, between) in CALLS {
        for nth in (1..).step_by(between + 1) {
            let there = sandbox();
            let killed = kill(&there, call, nth, &words);
            assert!(list(&there).len() <= 1, "{call} {nth}");
            there.segno(&["checkpoint", "verify"]).good();
            there.segno(&["doctor"]).good();
            there.segno(&words).good();
            assert_eq!(list(&there).len(), 1, "{call} {nth}");
            there.segno(&["checkpoint", "verify"]).good();
            there.segno(&["sessions", "show", "chain"]).good();
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= 35, "{kills}");
}

#[test]
fn a_hostile_archive_is_refused_and_nothing_comes_of_it() {
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
    let said = import(&sandbox, &evil, &[]);
    said.refused(12, &["`../evil`", "leads out of the folder", "[K0401]"]);
    let good = pack("good.tar.zst", &["."]);
    import(&sandbox, &good, &["--max-bytes", "1000"]).refused(12, &["--max-bytes", "[K0403]"]);
    import(&sandbox, &good, &["--max-entries", "0"]).refused(12, &["--max-entries", "[K0403]"]);
    let cut = bytes(&good);
    put(&good, &cut[..cut.len() - 1]);
    import(&sandbox, &good, &[]).refused(23, &["[K0402]"]);
    assert!(list(&sandbox).is_empty());
    import(&sandbox, &outside(&sandbox, "nowhere"), &[]).refused(23, &["[K0404]"]);
}

#[test]
fn an_export_that_fails_leaves_nothing() {
    let sandbox = sandbox();
    session(&sandbox, "");
    run(&sandbox);
    let kept = take(&sandbox);
    let packs = sandbox.home().join("snapshots/packs");
    let pack = fs::read_dir(packs).unwrap().next().unwrap().unwrap().path();
    let mut damaged = bytes(&pack);
    damaged[20] ^= 1;
    put(&pack, &damaged);
    let to = outside(&sandbox, "carried");
    let words = [
        "checkpoint",
        "export",
        id(&kept),
        "--to",
        to.to_str().unwrap(),
    ];
    sandbox.segno(&words).refused(23, &["is damaged"]);
    let beside = fs::read_dir(to.parent().unwrap()).unwrap();
    let names: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
    let left = |name: &&std::ffi::OsString| name.to_string_lossy().contains("carried");
    assert_eq!(names.iter().find(left), None);
}
