//! Killed at every system call that changes a disk: what was listed is whole, and goes on.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use segno_core::time::Timestamp;
use segno_snapshot::{Request, Restore, Vault};

use crate::world::{STILL, World, assert_same, noise, open, picture};

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

/// Each call, and how often it was made when it kills, `most` times at most. strace counts each call
/// by itself.
fn every_call(most: usize, mut try_it: impl FnMut(&str, usize) -> bool) -> usize {
    let mut killed = 0;
    for call in CALLS {
        let count = (1..=most).take_while(|count| try_it(call, *count)).count();
        killed += count;
    }
    killed
}

/// What a child does; run by the tests below, in a process that is killed.
#[test]
#[ignore = "a part of the tests beside it"]
fn child() {
    let root = std::env::var_os("SEGNO_SNAPSHOT_ROOT").expect("run by another test");
    let root = Path::new(&root);
    let vault = open(root);
    match std::env::var("SEGNO_SNAPSHOT_DEED").unwrap().as_str() {
        "capture" => {
            vault
                .capture(&Request::new(&root.join("work"), &STILL), &|_| {})
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
            vault
                .restore(snapshot, &root.join("target"), &options, &|_| {})
                .unwrap();
        }
        "gc" => {
            vault.gc(Timestamp(1_000_000_000), Duration::ZERO).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Runs the child, and kills it at its n-th such call. True if it was killed.
fn kill(world: &World, deed: &str, name: &str, call: &str, count: usize) -> bool {
    let fault = format!("{call}:signal=SIGKILL:when={count}");
    let (status, _) = run(world, deed, name, &[&fault]);
    !status.success()
}

/// Runs the child with faults in its system calls; how it ended, and which calls it made.
fn run(world: &World, deed: &str, name: &str, faults: &[&str]) -> (ExitStatus, String) {
    let trace = world.folder.path().join("trace");
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
        .env("SEGNO_SNAPSHOT_ROOT", world.folder.path())
        .env("SEGNO_SNAPSHOT_DEED", deed)
        .env("SEGNO_SNAPSHOT_NAME", name)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace is installed by `make tools`");
    let calls = fs::read(&trace).unwrap_or_default();
    (status, String::from_utf8_lossy(&calls).into_owned())
}

fn fill(world: &World, seed: u64) {
    for number in 0..6 {
        let size = if number == 0 { 1_500_000 } else { 3000 };
        world.write(
            &format!("folder-{}/{number}", number % 2),
            noise(size, seed * 100 + number),
        );
    }
    std::os::unix::fs::symlink("folder-0", world.at(format!("link-{seed}"))).unwrap();
    fs::hard_link(world.at("folder-1/1"), world.at(format!("twin-{seed}"))).unwrap();
}

#[test]
fn a_capture_killed_at_a_system_call_leaves_what_was_listed_whole() {
    kill_captures(&World::new());
}

#[test]
fn a_capture_into_an_encrypted_vault_killed_at_a_system_call_leaves_what_was_listed_whole() {
    kill_captures(&World::sealed());
}

fn kill_captures(world: &World) {
    fill(world, 1);
    let first = world.capture().snapshot;
    let expected = picture(&world.work());
    let mut seed = 1000;
    let killed = every_call(29, |call, count| {
        // Something new every time, so that there is something to write.
        seed += 1;
        world.write("folder-0/0", noise(1_100_000, seed));
        world.write("new", noise(2000, seed));
        let killed = kill(world, "capture", "", call, count);
        let vault = open(world.folder.path());
        for snapshot in vault.snapshots().unwrap() {
            assert_eq!(
                vault.verify(snapshot, &|_| {}).unwrap(),
                [],
                "{call} {count}"
            );
        }
        let drafts = fs::read_dir(world.folder.path().join("vault/drafts"))
            .unwrap()
            .count();
        assert_eq!(drafts, 0, "{call} {count}");
        killed
    });
    assert!(killed >= 15, "{killed}");
    let last = world.capture().snapshot;
    world.restore(last, &world.target());
    assert_same(&picture(&world.target()), &picture(&world.work()));
    world.restore(first, &world.target());
    assert_same(&picture(&world.target()), &expected);
}

#[test]
fn a_restore_killed_at_a_system_call_leaves_old_or_new_files_and_can_be_repeated() {
    let world = World::new();
    fill(&world, 1);
    let first = world.capture().snapshot;
    let old = picture(&world.work());
    fs::remove_file(world.at("twin-1")).unwrap();
    fill(&world, 2);
    let second = world.capture().snapshot;
    let new = picture(&world.work());
    let killed = every_call(29, |call, count| {
        world.restore(first, &world.target());
        let killed = kill(&world, "restore", &second.to_string(), call, count);
        for (path, look) in picture(&world.target()) {
            let staged = path.to_string_lossy().starts_with(".segno-restore-");
            let content = |picture: &std::collections::BTreeMap<_, crate::world::Look>| {
                picture
                    .get(&path)
                    .map(|look: &crate::world::Look| look.content.clone())
            };
            let known = [content(&old), content(&new)].contains(&Some(look.content));
            assert!(staged || known, "{call} {count}: {}", path.display());
        }
        world.restore(second, &world.target());
        assert_same(&picture(&world.target()), &new);
        killed
    });
    assert!(killed >= 20, "{killed}");
    assert_same(&picture(&world.target()), &new);
}

#[test]
fn a_sweep_killed_at_a_system_call_loses_nothing() {
    let world = World::new();
    let mut kept = Vec::new();
    let mut turn = 0;
    let killed = every_call(6, |call, count| {
        turn += 1;
        for round in 0..3 {
            let seed = turn * 10 + round;
            for number in 0..4 {
                // The last of three keeps little of what the first has: something to compact.
                let seed = if number == 0 { turn } else { seed };
                world.write(&format!("{number}"), noise(2000, seed * 10 + number));
            }
            kept.push(world.capture().snapshot);
        }
        let last = kept.len() - 1;
        for snapshot in [kept.remove(last - 1), kept.remove(last - 2)] {
            world.vault.remove(snapshot).unwrap();
        }
        if kept.len() > 5 {
            world.vault.remove(kept.remove(0)).unwrap();
        }
        let killed = kill(&world, "gc", "", call, count);
        for snapshot in &kept {
            let damage = world.vault.verify(*snapshot, &|_| {}).unwrap();
            assert_eq!(damage, [], "{call} {count}");
        }
        killed
    });
    assert!(killed >= 12, "{killed}");
}

/// A disk that says that it wrote, and wrote nothing.
#[test]
fn a_write_that_the_disk_did_not_make_is_noticed_before_the_snapshot_is_listed() {
    let world = World::new();
    fill(&world, 1);
    let first = world.capture().snapshot;
    let (mut refused, mut lies) = (0, 0);
    for count in 1..60 {
        world.write("folder-0/0", noise(1_100_000, 2000 + count));
        world.write("new", noise(2000, 2000 + count));
        // One byte of the write is said to be written; the rest is then handed over again.
        let fault = format!("write:retval=1:when={count}");
        let (status, calls) = run(&world, "capture", "", &[&fault]);
        if !calls.contains("INJECTED") {
            break;
        }
        lies += 1;
        refused += usize::from(!status.success());
        let vault = Vault::open(&world.folder.path().join("vault")).unwrap();
        for snapshot in vault.snapshots().unwrap() {
            assert_eq!(vault.verify(snapshot, &|_| {}).unwrap(), [], "{count}");
        }
    }
    // At least the beginning of the pack, its content and the manifest; each thread counts its own. Not
    // what is tried out, nor what the harness prints.
    assert!(refused >= 3 && lies > refused, "{refused} of {lies}");
    world.restore(first, &world.target());
    let last = world.capture().snapshot;
    assert_eq!(world.vault.verify(last, &|_| {}).unwrap(), []);
}
