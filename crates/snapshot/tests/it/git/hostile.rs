//! Repositories and truths that mean harm.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segno_snapshot::git::{self, Error, InertKind, Oid, Raw, Truth, Wish};
use segno_snapshot::scope::{Evidence, Rules, Scope};

use super::remotes::cloned;
use super::{capture, everything, restore, started};
use crate::sandbox::Sandbox;

/// A repository that would run a program at every turn, and the file that the program makes.
fn hostile() -> (Sandbox, PathBuf) {
    let sandbox = cloned();
    let trace = sandbox.path("it ran");
    let program = sandbox.path("evil");
    let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", trace.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = program.to_str().unwrap();
    sandbox.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    sandbox.git("", &["add", ".gitattributes"]);
    sandbox.git("", &["commit", "-q", "-m", "attributes"]);
    sandbox.write("file 3", "changed after all\n");
    sandbox.git("", &["stash", "-q"]);
    sandbox.write("file 5", "changed after all\n");
    let shell = format!("!{evil}");
    let helper = format!("ext::{evil} %S");
    let include = sandbox.path("include");
    fs::write(&include, format!("[core]\n\tfsmonitor = {evil}\n")).unwrap();
    for (key, value) in [
        ("core.fsmonitor", evil),
        ("core.sshCommand", evil),
        ("core.pager", evil),
        ("core.editor", evil),
        ("core.askPass", evil),
        ("core.gitProxy", evil),
        ("core.alternateRefsCommand", evil),
        (
            "core.hooksPath",
            sandbox.root().join(".git/evil-hooks").to_str().unwrap(),
        ),
        ("pager.status", evil),
        ("pager.log", evil),
        ("diff.external", evil),
        ("diff.evil.command", evil),
        ("diff.evil.textconv", evil),
        ("filter.evil.clean", evil),
        ("filter.evil.smudge", evil),
        ("filter.evil.process", evil),
        ("filter.evil.required", "true"),
        ("merge.evil.driver", evil),
        ("credential.helper", &shell),
        ("gpg.program", evil),
        ("log.showSignature", "true"),
        ("alias.status", &shell),
        ("alias.rev-list", &shell),
        ("alias.evil", &shell),
        ("uploadpack.packObjectsHook", evil),
        ("remote.origin.uploadpack", evil),
        ("remote.other.url", &helper),
        ("remote.other.promisor", "true"),
        ("extensions.partialClone", "other"),
        ("protocol.ext.allow", "always"),
        ("submodule.x.update", &shell),
        ("include.path", include.to_str().unwrap()),
        ("trailer.x.command", evil),
        ("sequence.editor", evil),
        ("interactive.diffFilter", evil),
        ("core.repositoryFormatVersion", "1"),
    ] {
        sandbox.git("", &["config", key, value]);
    }
    for folder in [".git/hooks", ".git/evil-hooks"] {
        fs::create_dir_all(sandbox.root().join(folder)).unwrap();
        for hook in [
            "post-index-change",
            "reference-transaction",
            "post-checkout",
            "fsmonitor-watchman",
            "pre-auto-gc",
        ] {
            fs::copy(&program, sandbox.root().join(folder).join(hook)).unwrap();
        }
    }
    sandbox.write(".git/info/attributes", "* filter=evil\n");
    let _ = fs::remove_file(&trace);
    (sandbox, trace)
}

#[test]
fn nothing_in_a_repository_can_start_a_program() {
    let (sandbox, trace) = hostile();
    // The trap works: git by itself falls into it.
    sandbox.try_git("", &["status"]);
    assert!(trace.exists());
    fs::remove_file(&trace).unwrap();
    // A lost object, which a partial clone would fetch.
    let blob = sandbox.git("", &["rev-parse", "HEAD~3:file 7"]);
    let _ = fs::remove_file(&trace);
    let path = format!(".git/objects/{}/{}", &blob[..2], &blob[2..]);
    fs::remove_file(sandbox.root().join(path)).unwrap();

    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    assert_eq!(truth.missing.count, 1);
    let (into, restored) = restore(&sandbox, &truth, &pack);
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    // What is brought back is harmless in the person's own hands.
    for question in [
        &["status"][..],
        &["diff"],
        &["log", "-p"],
        &["stash", "list"],
        &["commit", "-q", "-am", "x"],
        &["checkout", "-q", "-b", "y"],
        &["gc", "-q"],
        &["fetch", "other"],
    ] {
        sandbox.try_git(&into, question);
        assert!(
            !trace.exists(),
            "{question:?}: {}",
            fs::read_to_string(&trace).unwrap()
        );
    }
    let named = |kind: InertKind, name: &str| {
        restored
            .inert
            .iter()
            .any(|inert| inert.kind == kind && inert.name == name)
    };
    assert!(named(InertKind::Setting, "core.fsmonitor"));
    assert!(named(InertKind::Setting, "filter.evil.clean"));
    assert!(named(InertKind::Setting, "remote.other.url"));
    assert!(named(InertKind::Hook, "post-checkout"));
    assert!(named(InertKind::Attributes, "info/attributes"));
    assert!(!into.join(".git/hooks").exists());
    assert!(!into.join(".git/info/attributes").exists());
}

#[test]
fn the_scope_of_a_hostile_repository_starts_no_program() {
    let (sandbox, trace) = hostile();
    let harmless = [
        "-c",
        "filter.evil.required=false",
        "-c",
        "filter.evil.process=",
    ];
    let split = [
        "-c",
        "filter.evil.clean=cat",
        "update-index",
        "--split-index",
    ];
    sandbox.git("", &[&harmless[..], &split].concat());
    let _ = fs::remove_file(&trace);
    sandbox.write("Cargo.toml", "");
    sandbox.write("target/x", "");
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert!(
        scope
            .leaves_out(Path::new(""), "target".as_ref(), true)
            .is_some()
    );
    assert!(!trace.exists());
}

#[test]
fn commands_of_a_rebase_are_listed_and_not_run() {
    let sandbox = started();
    sandbox.git("", &["checkout", "-q", "-b", "other"]);
    sandbox.commit("", "first", "theirs\n");
    sandbox.git("", &["checkout", "-q", "main"]);
    sandbox.commit("", "first", "ours\n");
    sandbox.git("", &["checkout", "-q", "other"]);
    let trace = sandbox.path("it ran");
    let command = format!("touch '{}'", trace.display());
    assert!(
        !sandbox
            .try_git("", &["rebase", "-x", &command, "main"])
            .status
            .success()
    );
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    let (into, restored) = restore(&sandbox, &truth, &pack);
    let todo = restored
        .inert
        .iter()
        .filter(|inert| inert.kind == InertKind::Todo);
    assert!(todo.count() >= 1);
    fs::write(into.join("first"), "both\n").unwrap();
    sandbox.git(&into, &["add", "first"]);
    sandbox.git(&into, &["rebase", "--continue"]);
    assert!(!trace.exists());
}

#[test]
fn a_truth_from_elsewhere_cannot_write_outside() {
    let sandbox = started();
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    let fails = |change: &dyn Fn(&mut Truth)| {
        let mut changed = truth.clone();
        change(&mut changed);
        let into = sandbox.path("outside/into");
        let before = everything(&sandbox.path(""));
        let error = git::restore(&changed, &mut &*pack, &into).unwrap_err();
        assert!(!into.join(".git").exists());
        let _ = fs::remove_dir_all(sandbox.path("outside"));
        assert_eq!(everything(&sandbox.path("")).len(), before.len());
        error
    };
    let raw = |text: &str| Raw(text.as_bytes().to_vec());
    for path in [
        "../../evil",
        "hooks/pre-commit",
        "config",
        "/tmp/evil",
        "objects/info/alternates",
    ] {
        let error = fails(&|truth| truth.files[0].path = raw(path));
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    for name in [
        "refs/../../evil",
        "HEAD",
        "config",
        "refs/heads/x y",
        "refs/heads/-x\n",
    ] {
        fails(&|truth| truth.refs[0].name = raw(name));
    }
    fails(&|truth| truth.head.branch = Some(raw("/etc/passwd")));
    fails(&|truth| truth.head.branch = Some(raw("refs/heads/../../x")));
    fails(&|truth| truth.version = 2);
    // A file that is no blob, and one that is not there.
    let commit = truth.head.commit.clone().unwrap();
    fails(&|truth| truth.files[0].oid = commit.clone());
    let nothing = Oid::try_from("1".repeat(40)).unwrap();
    let error = fails(&|truth| truth.files[0].oid = nothing.clone());
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn a_repository_of_someone_else_is_captured_all_the_same() {
    let sandbox = started();
    for path in everything(&sandbox.root()).keys() {
        // Only root can give files away.
        if std::os::unix::fs::lchown(path, Some(65534), Some(65534)).is_err() {
            return;
        }
    }
    assert!(!sandbox.try_git("", &["status"]).status.success());
    let (truth, _) = capture(&sandbox, "", &Wish::default());
    assert!(truth.head.commit.is_some());
    assert_eq!(truth.status.unwrap().modified.count, 0);
}
