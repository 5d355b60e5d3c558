//! Targets that are traps.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_snapshot::{Error, Restore};

use crate::world::{World, assert_same, noise, picture};

#[test]
fn planted_links_lead_nowhere() {
    let world = World::new();
    world.write("folder/deep/file", "new");
    world.write("file", "new");
    let captured = world.capture();
    let outside = world.folder.path().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/file"), "precious").unwrap();
    fs::write(outside.join("plain"), "precious").unwrap();
    let before = picture(&outside);
    let plant = |target: &std::path::Path| {
        fs::create_dir(target).unwrap();
        symlink(&outside, target.join("folder")).unwrap();
        symlink(outside.join("plain"), target.join("file")).unwrap();
        symlink(&outside, target.join("extra")).unwrap();
    };
    plant(&world.target());
    world.restore(captured.snapshot, &world.target());
    assert_same(&picture(&outside), &before);
    assert_same(&picture(&world.target()), &picture(&world.work()));

    // Without `exact` the extra link stays, and is not followed either.
    let loose = world.folder.path().join("loose");
    plant(&loose);
    world
        .vault
        .restore(captured.snapshot, &loose, &Restore::default(), &|_| {})
        .unwrap();
    assert_same(&picture(&outside), &before);
    assert_eq!(fs::read(loose.join("folder/deep/file")).unwrap(), b"new");
    assert!(
        fs::symlink_metadata(loose.join("extra"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_link_that_is_swapped_in_during_a_restore_leads_nowhere() {
    let world = World::new();
    for number in 0..3 {
        world.write(&format!("folder/{number}"), noise(500, number));
    }
    let captured = world.capture();
    let (outside, target) = (world.folder.path().join("outside"), world.target());
    fs::create_dir_all(target.join("folder")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("extra"), "precious").unwrap();
    fs::write(target.join("folder/extra"), "extra").unwrap();
    let before = picture(&outside);
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
    let refused = world
        .vault
        .restore(captured.snapshot, &target, &options, &swap);
    assert!(swapped.load(Ordering::Relaxed));
    assert!(refused.is_err());
    assert_same(&picture(&outside), &before);
    world.restore(captured.snapshot, &target);
    assert_same(&picture(&target), &picture(&world.work()));
}

#[test]
fn what_must_not_go_is_in_the_way_and_nothing_changes() {
    let world = World::new();
    world.write("thing", "a file");
    world.write("other", "other");
    let captured = world.capture();
    fs::create_dir_all(world.target().join("thing")).unwrap();
    fs::write(world.target().join("thing/inside"), "precious").unwrap();
    let before = picture(&world.target());
    let refused = world.vault.restore(
        captured.snapshot,
        &world.target(),
        &Restore::default(),
        &|_| {},
    );
    assert!(
        matches!(refused, Err(Error::InTheWay { .. })),
        "{refused:?}"
    );
    assert_same(&picture(&world.target()), &before);
    // Exactly restored, the folder gives way.
    world.restore(captured.snapshot, &world.target());
    assert_same(&picture(&world.target()), &picture(&world.work()));
}

#[test]
fn setuid_comes_back_only_if_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.write("tool", "tool");
    fs::set_permissions(world.at("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    let captured = world.capture();
    let mode = || {
        fs::metadata(world.target().join("tool"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    world
        .vault
        .restore(
            captured.snapshot,
            &world.target(),
            &Restore::default(),
            &|_| {},
        )
        .unwrap();
    assert_eq!(mode(), 0o755);
    world.restore(captured.snapshot, &world.target());
    assert_eq!(mode(), 0o6755);
}

#[test]
fn the_stage_of_a_killed_restore_is_cleared_and_never_captured() {
    let world = World::new();
    world.write("file", "file");
    // No process has this number: it is above the largest that Linux gives.
    let stage = world.at(".segno-restore-2147483646-0");
    fs::create_dir(&stage).unwrap();
    fs::write(stage.join("0"), "half").unwrap();
    let captured = world.capture();
    assert_eq!((captured.files, captured.skipped.len()), (1, 1));
    world.restore(captured.snapshot, &world.work());
    assert!(!stage.exists());
}
