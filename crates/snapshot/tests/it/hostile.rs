//! Malicious restore targets.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_snapshot::{Error, Restore};

use crate::fixture::{Fixture, assert_same, noise, tree_state};

#[test]
fn planted_links_are_not_followed() {
    let fixture = Fixture::new();
    fixture.write("folder/deep/file", "new");
    fixture.write("file", "new");
    let captured = fixture.capture();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/file"), "precious").unwrap();
    fs::write(outside.join("plain"), "precious").unwrap();
    let before = tree_state(&outside);
    let plant = |target: &std::path::Path| {
        fs::create_dir(target).unwrap();
        symlink(&outside, target.join("folder")).unwrap();
        symlink(outside.join("plain"), target.join("file")).unwrap();
        symlink(&outside, target.join("extra")).unwrap();
    };
    plant(&fixture.target());
    fixture.restore(captured.snapshot, &fixture.target());
    assert_same(&tree_state(&outside), &before);
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));

    // Without `exact` the extra link stays, and is not followed either.
    let loose = fixture.folder.path().join("loose");
    plant(&loose);
    fixture
        .store
        .restore(captured.snapshot, &loose, &Restore::default(), &|_| {})
        .unwrap();
    assert_same(&tree_state(&outside), &before);
    assert_eq!(fs::read(loose.join("folder/deep/file")).unwrap(), b"new");
    assert!(
        fs::symlink_metadata(loose.join("extra"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn link_swapped_in_during_restore_is_not_followed() {
    let fixture = Fixture::new();
    for number in 0..3 {
        fixture.write(&format!("folder/{number}"), noise(500, number));
    }
    let captured = fixture.capture();
    let (outside, target) = (fixture.folder.path().join("outside"), fixture.target());
    fs::create_dir_all(target.join("folder")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("extra"), "precious").unwrap();
    fs::write(target.join("folder/extra"), "extra").unwrap();
    let before = tree_state(&outside);
    let swapped = AtomicBool::new(false);
    // When everything is staged and planned, the folder becomes a link.
    let swap = |_| {
        fs::remove_dir_all(target.join("folder")).unwrap();
        symlink(&outside, target.join("folder")).unwrap();
        swapped.store(true, Ordering::Relaxed);
    };
    let options = Restore {
        exact: true,
        ..Restore::default()
    };
    let refused = fixture
        .store
        .restore(captured.snapshot, &target, &options, &swap);
    assert!(swapped.load(Ordering::Relaxed));
    assert!(refused.is_err());
    assert_same(&tree_state(&outside), &before);
    fixture.restore(captured.snapshot, &target);
    assert_same(&tree_state(&target), &tree_state(&fixture.work()));
}

#[test]
fn blocked_restore_changes_nothing() {
    let fixture = Fixture::new();
    fixture.write("thing", "a file");
    fixture.write("other", "other");
    let captured = fixture.capture();
    fs::create_dir_all(fixture.target().join("thing")).unwrap();
    fs::write(fixture.target().join("thing/inside"), "precious").unwrap();
    let before = tree_state(&fixture.target());
    let refused = fixture.store.restore(
        captured.snapshot,
        &fixture.target(),
        &Restore::default(),
        &|_| {},
    );
    assert!(matches!(refused, Err(Error::Blocked { .. })), "{refused:?}");
    assert_same(&tree_state(&fixture.target()), &before);
    // With `exact`, the folder is replaced.
    fixture.restore(captured.snapshot, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
}

#[test]
fn setuid_is_restored_only_on_request() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    fixture.write("tool", "tool");
    fs::set_permissions(fixture.at("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    let captured = fixture.capture();
    let mode = || {
        fs::metadata(fixture.target().join("tool"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    fixture
        .store
        .restore(
            captured.snapshot,
            &fixture.target(),
            &Restore::default(),
            &|_| {},
        )
        .unwrap();
    assert_eq!(mode(), 0o755);
    fixture.restore(captured.snapshot, &fixture.target());
    assert_eq!(mode(), 0o6755);
}

#[test]
fn stale_stage_is_removed_and_never_captured() {
    let fixture = Fixture::new();
    fixture.write("file", "file");
    // No process has this id: it is above the maximum of Linux.
    let stage = fixture.at(".segno-restore-2147483646-0");
    fs::create_dir(&stage).unwrap();
    fs::write(stage.join("0"), "half").unwrap();
    let captured = fixture.capture();
    assert_eq!((captured.files, captured.skipped.len()), (1, 1));
    fixture.restore(captured.snapshot, &fixture.work());
    assert!(!stage.exists());
}
