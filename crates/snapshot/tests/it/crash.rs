//! Kills at every system call that changes a disk: listed snapshots stay intact, and work can
//! continue.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use segno_core::time::Timestamp;
use segno_snapshot::{Request, Restore, SnapshotStore};

use crate::fixture::{FROZEN_CLOCK, Fixture, assert_same, noise, open, tree_state};

const CALLS: [&str; 12] = [
    "fsync",
    "syncfs",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "linkat",
    "mkdirat",
    "write",
    "fchmod",
    "utimensat",
];

/// Tries each call with counts from 1 to `most`: the process is killed at that call. strace counts
/// each call separately.
fn every_call(most: usize, mut try_it: impl FnMut(&str, usize) -> bool) -> usize {
    let mut killed = 0;
    for call in CALLS {
        let count = (1..=most).take_while(|count| try_it(call, *count)).count();
        killed += count;
    }
    killed
}

/// The work of a child process; run by the tests below, in a process that is killed.
#[test]
#[ignore = "a part of the tests beside it"]
fn child() {
    let root = std::env::var_os("SEGNO_SNAPSHOT_ROOT").expect("run by another test");
    let root = Path::new(&root);
    let store = open(root);
    match std::env::var("SEGNO_SNAPSHOT_OPERATION").unwrap().as_str() {
        "capture" => {
            store
                .capture(&Request::new(&root.join("work"), &FROZEN_CLOCK), &|_| {})
                .unwrap();
        }
        "restore" => {
            let snapshot = std::env::var("SEGNO_SNAPSHOT_NAME")
                .unwrap()
                .parse()
                .unwrap();
            let options = Restore {
                exact: true,
                privileges: true,
                ..Restore::default()
            };
            store
                .restore(snapshot, &root.join("target"), &options, &|_| {})
                .unwrap();
        }
        "gc" => {
            store.gc(Timestamp(1_000_000_000), Duration::ZERO).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Runs the child and kills it at its n-th such call. True if it was killed.
fn kill(fixture: &Fixture, operation: &str, name: &str, call: &str, count: usize) -> bool {
    let fault = format!("{call}:signal=SIGKILL:when={count}");
    let (status, _) = run(fixture, operation, name, &[&fault]);
    !status.success()
}

/// Runs the child with faults in its system calls. Returns its exit status and its calls.
fn run(fixture: &Fixture, operation: &str, name: &str, faults: &[&str]) -> (ExitStatus, String) {
    let trace = fixture.folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace);
    for fault in faults {
        let call = fault.split(':').next().unwrap();
        strace.args(["-e", &format!("trace={call}")]);
        strace.args(["-e", &format!("inject={fault}")]);
    }
    let status = strace
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--ignored", "--test-threads=1"])
        .env("SEGNO_SNAPSHOT_ROOT", fixture.folder.path())
        .env("SEGNO_SNAPSHOT_OPERATION", operation)
        .env("SEGNO_SNAPSHOT_NAME", name)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace is installed by `make tools`");
    let calls = fs::read(&trace).unwrap_or_default();
    (status, String::from_utf8_lossy(&calls).into_owned())
}

fn fill(fixture: &Fixture, seed: u64) {
    for number in 0..6 {
        let size = if number == 0 { 1_500_000 } else { 3000 };
        fixture.write(
            &format!("folder-{}/{number}", number % 2),
            noise(size, seed * 100 + number),
        );
    }
    std::os::unix::fs::symlink("folder-0", fixture.at(format!("link-{seed}"))).unwrap();
    fs::hard_link(fixture.at("folder-1/1"), fixture.at(format!("twin-{seed}"))).unwrap();
}

#[test]
fn killed_capture_keeps_listed_snapshots_intact() {
    kill_captures(&Fixture::new());
}

#[test]
fn killed_encrypted_capture_keeps_snapshots_intact() {
    kill_captures(&Fixture::sealed());
}

fn kill_captures(fixture: &Fixture) {
    fill(fixture, 1);
    let first = fixture.capture().snapshot;
    let expected = tree_state(&fixture.work());
    let mut seed = 1000;
    let killed = every_call(29, |call, count| {
        // New content every time, so that there is something to write.
        seed += 1;
        fixture.write("folder-0/0", noise(1_100_000, seed));
        fixture.write("new", noise(2000, seed));
        let killed = kill(fixture, "capture", "", call, count);
        let store = open(fixture.folder.path());
        for snapshot in store.snapshots().unwrap() {
            assert_eq!(
                store.verify(snapshot, &|_| {}).unwrap(),
                [],
                "{call} {count}"
            );
        }
        let drafts = fs::read_dir(fixture.folder.path().join("store/drafts"))
            .unwrap()
            .count();
        assert_eq!(drafts, 0, "{call} {count}");
        killed
    });
    assert!(killed >= 15, "{killed}");
    let last = fixture.capture().snapshot;
    fixture.restore(last, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
    fixture.restore(first, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &expected);
}

#[test]
fn killed_restore_leaves_old_or_new_files() {
    let fixture = Fixture::new();
    fill(&fixture, 1);
    let first = fixture.capture().snapshot;
    let old = tree_state(&fixture.work());
    fs::remove_file(fixture.at("twin-1")).unwrap();
    fill(&fixture, 2);
    let second = fixture.capture().snapshot;
    let new = tree_state(&fixture.work());
    let killed = every_call(29, |call, count| {
        fixture.restore(first, &fixture.target());
        let killed = kill(&fixture, "restore", &second.to_string(), call, count);
        for (path, state) in tree_state(&fixture.target()) {
            let staged = path.to_string_lossy().starts_with(".segno-restore-");
            let content =
                |tree_state: &std::collections::BTreeMap<_, crate::fixture::FileState>| {
                    tree_state
                        .get(&path)
                        .map(|state: &crate::fixture::FileState| state.content.clone())
                };
            let known = [content(&old), content(&new)].contains(&Some(state.content));
            assert!(staged || known, "{call} {count}: {}", path.display());
        }
        fixture.restore(second, &fixture.target());
        assert_same(&tree_state(&fixture.target()), &new);
        killed
    });
    assert!(killed >= 20, "{killed}");
    assert_same(&tree_state(&fixture.target()), &new);
}

#[test]
fn killed_gc_loses_nothing() {
    let fixture = Fixture::new();
    let mut kept = Vec::new();
    let mut turn = 0;
    let killed = every_call(6, |call, count| {
        turn += 1;
        for round in 0..3 {
            let seed = turn * 10 + round;
            for number in 0..4 {
                // The last of three shares little with the first, so that there is something to
                // compact.
                let seed = if number == 0 { turn } else { seed };
                fixture.write(&format!("{number}"), noise(2000, seed * 10 + number));
            }
            kept.push(fixture.capture().snapshot);
        }
        let last = kept.len() - 1;
        for snapshot in [kept.remove(last - 1), kept.remove(last - 2)] {
            fixture.store.remove(snapshot).unwrap();
        }
        if kept.len() > 5 {
            fixture.store.remove(kept.remove(0)).unwrap();
        }
        let killed = kill(&fixture, "gc", "", call, count);
        for snapshot in &kept {
            let damage = fixture.store.verify(*snapshot, &|_| {}).unwrap();
            assert_eq!(damage, [], "{call} {count}");
        }
        killed
    });
    assert!(killed >= 12, "{killed}");
}

/// A disk that reports writes that it did not make.
#[test]
fn lost_write_is_noticed_before_listing() {
    let fixture = Fixture::new();
    fill(&fixture, 1);
    let first = fixture.capture().snapshot;
    let (mut refused, mut lies) = (0, 0);
    for count in 1..60 {
        fixture.write("folder-0/0", noise(1_100_000, 2000 + count));
        fixture.write("new", noise(2000, 2000 + count));
        // The call reports one written byte; the rest is then written again.
        let fault = format!("write:retval=1:when={count}");
        let (status, calls) = run(&fixture, "capture", "", &[&fault]);
        if !calls.contains("INJECTED") {
            break;
        }
        lies += 1;
        refused += usize::from(!status.success());
        let store = SnapshotStore::open(&fixture.folder.path().join("store")).unwrap();
        for snapshot in store.snapshots().unwrap() {
            assert_eq!(store.verify(snapshot, &|_| {}).unwrap(), [], "{count}");
        }
    }
    // At least the beginning of the pack, its content and the manifest; each thread counts its own
    // calls. Not the test file for timestamps, nor the output of the test harness.
    assert!(refused >= 3 && lies > refused, "{refused} of {lies}");
    fixture.restore(first, &fixture.target());
    let last = fixture.capture().snapshot;
    assert_eq!(fixture.store.verify(last, &|_| {}).unwrap(), []);
}
