//! What others get wrong: edits that leave no trace, files that move, things that are no files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{Budget, Kind, Request, Scope, Vault, Why};

use crate::world::{STILL, Ticks, World, assert_same, noise, picture, settle};

#[test]
fn what_did_not_change_is_not_read_again_and_gives_the_same_snapshot() {
    let world = World::new();
    for number in 0..20 {
        world.write(
            &format!("folder-{}/file-{number}", number % 3),
            noise(2000, number),
        );
    }
    settle(&world);
    let first = world.capture();
    let second = world.capture();
    assert_eq!((first.read_files, second.read_files), (20, 0));
    assert_eq!(first.snapshot, second.snapshot);
    assert_eq!(second.stored_bytes, 0);
    assert_eq!(world.vault.snapshots().unwrap(), [first.snapshot]);
}

#[test]
fn an_edit_of_the_same_size_with_its_time_put_back_is_seen() {
    let world = World::new();
    world.write("file", "before");
    settle(&world);
    let modified = fs::metadata(world.at("file")).unwrap().modified().unwrap();
    let first = world.capture().snapshot;
    assert_eq!(world.capture().read_files, 0);
    world.write("file", "after!");
    let file = fs::File::options()
        .write(true)
        .open(world.at("file"))
        .unwrap();
    file.set_modified(modified).unwrap();
    let second = world.capture().snapshot;
    assert_eq!(
        world.vault.read(first, Path::new("file")).unwrap(),
        b"before"
    );
    assert_eq!(
        world.vault.read(second, Path::new("file")).unwrap(),
        b"after!"
    );
}

#[test]
fn edits_in_the_same_tick_are_seen() {
    let world = World::new();
    for number in 0..20_u8 {
        world.write("file", [number; 100]);
        let snapshot = world.capture().snapshot;
        assert_eq!(
            world.vault.read(snapshot, Path::new("file")).unwrap(),
            [number; 100]
        );
    }
}

#[test]
fn a_file_whose_stamps_are_not_old_is_read_again() {
    let world = World::new();
    world.write("old", "old");
    world.write("young", "young");
    settle(&world);
    let file = fs::File::options()
        .write(true)
        .open(world.at("young"))
        .unwrap();
    // A stamp of the future is never older than the look.
    file.set_modified(SystemTime::now() + Duration::from_hours(1))
        .unwrap();
    settle(&world);
    assert_eq!(world.capture().read_files, 2);
    assert_eq!(world.capture().read_files, 1);
}

/// Captures a file while someone writes to it without end. Whether it came out whole or flagged.
fn capture_a_busy_file() -> bool {
    let world = World::new();
    world.write("calm", "calm");
    world.write("busy", vec![0; 300_000]);
    let stop = AtomicBool::new(false);
    let captured = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::os::unix::fs::FileExt;
            let busy = fs::File::options()
                .write(true)
                .open(world.at("busy"))
                .unwrap();
            let mut round = 0_u8;
            while !stop.load(Ordering::Relaxed) {
                round = round.wrapping_add(1);
                busy.write_all_at(&vec![round; 300_000], 0).unwrap();
            }
        });
        let captured = world.capture();
        stop.store(true, Ordering::Relaxed);
        captured
    });
    let entries = world.vault.list(captured.snapshot).unwrap();
    let flagged = |name: &str| {
        let entry = entries
            .iter()
            .find(|entry| entry.path == Path::new(name))
            .unwrap();
        matches!(entry.kind, Kind::File { unstable: true, .. })
    };
    let content = world
        .vault
        .read(captured.snapshot, Path::new("busy"))
        .unwrap();
    let whole = content.len() == 300_000 && content.iter().all(|byte| *byte == content[0]);
    assert_eq!(captured.unstable.contains(&"busy".into()), flagged("busy"));
    assert!(!flagged("calm"));
    let restored = world.restore(captured.snapshot, &world.target());
    assert_eq!(restored.unstable, captured.unstable);
    whole || flagged("busy")
}

#[test]
fn a_file_that_never_stands_still_is_flagged_and_the_others_are_not() {
    // A machine with too much to do may stop the writer in the middle of a write, for as long as the
    // capture looks: then the file does stand still. Not every time.
    assert!(
        (0..8).any(|_| capture_a_busy_file()),
        "torn, and never flagged"
    );
}

#[test]
fn a_file_that_only_grows_keeps_what_it_had() {
    use std::io::Write;
    let world = World::new();
    world.write("log", vec![b'a'; 200_000]);
    let stop = AtomicBool::new(false);
    let captured = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = fs::File::options()
                .append(true)
                .open(world.at("log"))
                .unwrap();
            while !stop.load(Ordering::Relaxed) {
                log.write_all(b"b").unwrap();
            }
        });
        let captured = world.capture();
        stop.store(true, Ordering::Relaxed);
        captured
    });
    assert!(captured.unstable.is_empty());
    let content = world
        .vault
        .read(captured.snapshot, Path::new("log"))
        .unwrap();
    let expected = fs::read(world.at("log")).unwrap();
    assert!(content.len() >= 200_000 && expected.starts_with(&content));
}

#[test]
fn what_went_away_goes_and_what_was_left_out_stays() {
    struct NoLogs;
    impl Scope for NoLogs {
        fn leaves_out(&self, _: &Path, name: &std::ffi::OsStr, _: bool) -> Option<String> {
            (name == "logs").then(|| "no logs".into())
        }
    }
    let world = World::new();
    world.write("kept", "kept");
    world.write("logs/a", "a");
    let work = world.work();
    let request = Request {
        scope: &NoLogs,
        ..Request::new(&work, &STILL)
    };
    let captured = world.vault.capture(&request, &|_| {}).unwrap();
    assert_eq!(captured.skipped.len(), 1);
    assert_eq!(captured.skipped[0].why, Why::Rule("no logs".into()));
    for number in 0..5 {
        world.write(&format!("extra/deep/{number}"), "x");
    }
    world.write("logs/b", "b");
    let restored = world.restore(captured.snapshot, &work);
    assert_eq!(restored.removed.len(), 7, "{:?}", restored.removed);
    assert!(!world.at("extra").exists());
    assert!(world.at("logs/a").exists() && world.at("logs/b").exists());
}

#[test]
fn without_exact_nothing_is_removed() {
    let world = World::new();
    world.write("a", "1");
    let captured = world.capture();
    world.write("a", "2");
    world.write("b", "b");
    let options = segno_snapshot::Restore::default();
    let restored = world
        .vault
        .restore(captured.snapshot, &world.work(), &options, &|_| {})
        .unwrap();
    assert_eq!((restored.written, restored.removed.len()), (1, 0));
    assert_eq!(fs::read(world.at("a")).unwrap(), b"1");
    assert!(world.at("b").exists());
}

#[test]
fn only_what_differs_is_written() {
    let world = World::new();
    for number in 0..30 {
        world.write(&format!("{number}"), noise(1000, number));
    }
    settle(&world);
    let captured = world.capture();
    let before = fs::metadata(world.at("7")).unwrap().ino();
    world.write("3", "edited");
    fs::set_permissions(world.at("4"), fs::Permissions::from_mode(0o755)).unwrap();
    let restored = world.restore(captured.snapshot, &world.work());
    assert_eq!((restored.written, restored.unchanged), (1, 28));
    assert_eq!(fs::metadata(world.at("7")).unwrap().ino(), before);
    assert_eq!(
        fs::metadata(world.at("4")).unwrap().permissions().mode() & 0o777,
        0o644
    );
}

#[test]
fn things_that_are_no_files_are_named_and_never_waited_for() {
    let world = World::new();
    world.write("file", "file");
    let fifo = std::process::Command::new("mkfifo")
        .arg(world.at("fifo"))
        .status()
        .unwrap();
    assert!(fifo.success());
    let _socket = UnixListener::bind(world.at("socket")).unwrap();
    symlink("fifo", world.at("link")).unwrap();
    let captured = world.capture();
    let skipped: Vec<_> = captured
        .skipped
        .iter()
        .map(|skipped| (skipped.path.to_str().unwrap(), skipped.why.clone()))
        .collect();
    let special = |what: &str| Why::Special(what.into());
    assert_eq!(
        skipped,
        [("fifo", special("FIFO")), ("socket", special("socket"))]
    );
    assert_eq!((captured.files, captured.links), (1, 1));
    // They stay where they are, too.
    world.restore(captured.snapshot, &world.work());
    assert!(fs::symlink_metadata(world.at("fifo")).is_ok());
}

#[test]
fn what_cannot_be_read_is_named_and_stays() {
    // Root reads everything but what is taken for something else; a rule of the system stands in.
    let world = World::new();
    world.write("open", "open");
    world.write("closed", "closed");
    fs::set_permissions(world.at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let captured = world.capture();
    if rustix_is_root() {
        assert!(captured.skipped.is_empty());
        return;
    }
    assert!(
        matches!(&captured.skipped[..], [skipped] if matches!(skipped.why, Why::Unreadable(_)))
    );
    world.restore(captured.snapshot, &world.work());
    assert!(world.at("closed").exists());
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn names_of_one_file_come_back_as_such_and_names_elsewhere_are_not_touched() {
    let world = World::new();
    world.write("a", "same");
    fs::hard_link(world.at("a"), world.at("b")).unwrap();
    let captured = world.capture();
    let outside = world.folder.path().join("outside");
    // The target's file has a name outside of the target: that file must not change.
    fs::create_dir(world.target()).unwrap();
    fs::write(&outside, "other").unwrap();
    fs::hard_link(&outside, world.target().join("a")).unwrap();
    world.restore(captured.snapshot, &world.target());
    assert_same(&picture(&world.target()), &picture(&world.work()));
    assert_eq!(fs::read(&outside).unwrap(), b"other");
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&outside, "same").unwrap();
    fs::remove_file(world.target().join("a")).unwrap();
    fs::hard_link(&outside, world.target().join("a")).unwrap();
    world.restore(captured.snapshot, &world.target());
    assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o600);
    assert_same(&picture(&world.target()), &picture(&world.work()));
}

#[test]
fn the_vault_is_not_captured_into_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "file").unwrap();
    let vault = segno_snapshot::Vault::open(&folder.path().join("vault")).unwrap();
    let captured = vault
        .capture(&Request::new(folder.path(), &STILL), &|_| {})
        .unwrap();
    assert_eq!(captured.files, 1);
    assert_eq!(captured.skipped[0].why, Why::Vault);
    let options = segno_snapshot::Restore {
        exact: true,
        ..Default::default()
    };
    vault
        .restore(captured.snapshot, folder.path(), &options, &|_| {})
        .unwrap();
    assert_eq!(vault.verify(captured.snapshot, &|_| {}).unwrap(), []);
}

#[test]
fn folders_that_are_too_much_are_refused() {
    let world = World::new();
    let home = world.work();
    world.write("project/file", "x");
    let refused = |root: &Path| {
        let request = Request {
            home: Some(&home),
            ..Request::new(root, &STILL)
        };
        world.vault.capture(&request, &|_| {}).unwrap_err()
    };
    for root in [Path::new("/"), &home, home.parent().unwrap()] {
        assert!(
            matches!(refused(root), segno_snapshot::Error::Refused { .. }),
            "{root:?}"
        );
    }
    let project = world.at("project");
    let request = Request {
        home: Some(&home),
        ..Request::new(&project, &STILL)
    };
    let captured = world.vault.capture(&request, &|_| {}).unwrap();
    let options = segno_snapshot::Restore {
        home: Some(&home),
        exact: true,
        ..Default::default()
    };
    let error = world
        .vault
        .restore(captured.snapshot, &home, &options, &|_| {})
        .unwrap_err();
    assert!(matches!(error, segno_snapshot::Error::Refused { .. }));
    assert!(project.join("file").exists());
}

#[test]
fn what_does_not_fit_the_budget_is_named_and_left_alone() {
    let world = World::new();
    for number in 0..10 {
        world.write(&format!("{number}"), noise(1000, number));
    }
    let work = world.work();
    let capture = |budget, clock: &Ticks| {
        let request = Request {
            budget,
            ..Request::new(&work, clock)
        };
        world.vault.capture(&request, &|_| {}).unwrap()
    };
    let few = capture(
        Budget {
            files: Some(3),
            ..Budget::default()
        },
        &STILL,
    );
    assert_eq!((few.files, few.skipped.len()), (3, 7));
    let short = capture(
        Budget {
            bytes: Some(4500),
            ..Budget::default()
        },
        &STILL,
    );
    assert_eq!((short.files, short.bytes), (4, 4000));
    assert!(
        short
            .skipped
            .iter()
            .all(|skipped| skipped.why == Why::Budget("bytes".into()))
    );
    let slow = Ticks {
        step: 10,
        ..Ticks::default()
    };
    let late = capture(
        Budget {
            time: Some(Duration::from_millis(50)),
            ..Budget::default()
        },
        &slow,
    );
    assert!(
        late.files < 10 && late.files + late.skipped.len() as u64 == 10,
        "{late:?}"
    );
    world.restore(few.snapshot, &work);
    assert_eq!(fs::read_dir(&work).unwrap().count(), 10);
}

#[test]
fn attributes_of_the_user_come_back() {
    let world = World::new();
    world.write("file", "file");
    let set = std::process::Command::new("python3")
        .args([
            "-c",
            "import os,sys; os.setxattr(sys.argv[1], 'user.note', b'hello')",
        ])
        .arg(world.at("file"))
        .status();
    if !set.is_ok_and(|status| status.success()) {
        return;
    }
    let captured = world.capture();
    let entry = &world.vault.list(captured.snapshot).unwrap()[0];
    assert_eq!(entry.attributes, [("user.note".into(), b"hello".to_vec())]);
    world.restore(captured.snapshot, &world.target());
    let request = world.target();
    let again = world
        .vault
        .capture(&Request::new(&request, &STILL), &|_| {})
        .unwrap();
    assert_eq!(
        world.vault.list(again.snapshot).unwrap()[0].attributes,
        entry.attributes
    );
}

#[test]
fn a_damaged_index_costs_a_read_and_nothing_else() {
    let world = World::new();
    world.write("file", "content");
    settle(&world);
    let first = world.capture();
    assert_eq!(world.capture().read_files, 0);
    let folder = world.folder.path().join("vault/index");
    let path = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let again = world.capture();
        assert_eq!(
            (again.snapshot, again.read_files),
            (first.snapshot, 1),
            "byte {at}"
        );
    }
}

#[test]
fn paths_that_are_too_long_are_named_and_the_rest_is_kept() {
    use std::process::Command;
    let world = World::new();
    world.write("file", "file");
    // Step by step, as no path leads there at once.
    let script = "for i in $(seq 25); do mkdir $1; cd -P $1; done; ln -s x $1; echo x > file";
    let made = Command::new("bash")
        .args(["-ec", script, "bash", &"d".repeat(200)])
        .current_dir(world.work())
        .status()
        .unwrap();
    assert!(made.success());
    let captured = world.capture();
    assert!(!captured.skipped.is_empty());
    assert_eq!(world.vault.verify(captured.snapshot, &|_| {}).unwrap(), []);
    world.restore(captured.snapshot, &world.target());
    assert_eq!(fs::read(world.target().join("file")).unwrap(), b"file");
}

/// Captures until nothing is young any more, so that the next capture knows everything.
fn know(world: &World) -> segno_core::digest::Digest {
    let work = world.work();
    let request = Request {
        doubt: 0,
        ..Request::new(&work, &STILL)
    };
    let mut captures = (0..1000).map(|_| world.vault.capture(&request, &|_| {}).unwrap());
    let known = captures.find(|captured| captured.read_files == 0);
    let first = known.unwrap();
    let again = world.vault.capture(&request, &|_| {}).unwrap();
    assert_eq!(again, first, "what is known says the same");
    first.snapshot
}

#[test]
fn whatever_changes_in_a_known_folder_is_noticed() {
    let world = World::new();
    world.write("a/file", "1234");
    world.write("a/other", "5678");
    world.write("b/deep/er/file", "x");
    world.write("package.json", "{}");
    std::os::unix::fs::symlink("a/file", world.at("link")).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(world.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let relink = || {
        fs::remove_file(world.at("link")).unwrap();
        std::os::unix::fs::symlink("a/fil2", world.at("link")).unwrap();
    };
    let changes: &[(&str, &dyn Fn())] = &[
        ("same length", &|| world.write("a/file", "4321")),
        ("a mode", &|| mode("a/file", 0o600)),
        ("the mode of a folder", &|| mode("b/deep", 0o700)),
        ("the mode of the root", &|| mode("", 0o750)),
        ("a new empty folder", &|| {
            fs::create_dir(world.at("b/deep/new")).unwrap();
        }),
        ("a new file", &|| world.write("b/deep/er/more", "")),
        ("a link", &relink),
        ("a file that went", &|| {
            fs::remove_file(world.at("a/other")).unwrap();
        }),
        ("a folder that went", &|| {
            fs::remove_dir(world.at("b/deep/new")).unwrap();
        }),
        ("a rename", &|| {
            fs::rename(world.at("b"), world.at("c")).unwrap();
        }),
        ("a swap", &|| {
            fs::rename(world.at("a/file"), world.at("tmp")).unwrap();
            fs::rename(world.at("c/deep/er/file"), world.at("a/file")).unwrap();
            fs::rename(world.at("tmp"), world.at("c/deep/er/file")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let before = know(&world);
        change();
        let after = world.capture().snapshot;
        assert_ne!(before, after, "{what}");
        // A vault that knows nothing comes to the same.
        let fresh = Vault::open(&world.folder.path().join(what)).unwrap();
        let truth = fresh.capture(&Request::new(&world.work(), &STILL), &|_| {});
        assert_eq!(after, truth.unwrap().snapshot, "{what}");
    }
    // What belongs to it can change without the folder.
    let before = know(&world);
    let rules = Rules {
        exclude: vec!["package.json".parse().unwrap()],
        ..Rules::default()
    };
    let scope = Evidence::new(world.work(), rules);
    let work = world.work();
    let request = Request {
        scope: &scope,
        ..Request::new(&work, &STILL)
    };
    assert_ne!(
        world.vault.capture(&request, &|_| {}).unwrap().snapshot,
        before
    );
}
