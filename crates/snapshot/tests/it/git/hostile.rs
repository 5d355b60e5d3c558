//! Malicious repositories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segno_snapshot::Trust;
use segno_snapshot::scope::{Evidence, Rules, Scope};

use super::remotes::cloned;
use super::{capture, file_states, repository_with_commit, restore};
use crate::sandbox::Sandbox;

/// A repository that tries to run a program in every way, and the file that this program creates.
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
fn repository_cannot_start_a_program() {
    let (sandbox, trace) = hostile();
    // The trap works: plain git runs the program.
    sandbox.try_git("", &["status"]);
    assert!(trace.exists());
    fs::remove_file(&trace).unwrap();
    // A missing object, which a partial clone would fetch.
    let blob = sandbox.git("", &["rev-parse", "HEAD~3:file 7"]);
    let _ = fs::remove_file(&trace);
    let path = format!(".git/objects/{}/{}", &blob[..2], &blob[2..]);
    fs::remove_file(sandbox.root().join(path)).unwrap();

    let kept = capture(&sandbox);
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    let (into, restored) = restore(&sandbox, &kept, Trust::Content);
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    // The restored repository is harmless when the user runs git in it.
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
    let set_aside = |path: &str| restored.disarmed.contains(&PathBuf::from(path));
    assert!(set_aside(".git/config"));
    assert!(set_aside(".git/hooks/post-checkout"));
    assert!(!into.join(".git/hooks/post-checkout").exists());
    let kept_hook = into.join(".git/hooks.segno-inert/post-checkout");
    assert_eq!(
        fs::metadata(kept_hook).unwrap().permissions().mode() & 0o111,
        0
    );
    // Harmless settings are still there.
    let url = sandbox.git(&into, &["config", "remote.origin.url"]);
    assert_eq!(url, sandbox.path("remote.git").to_str().unwrap());
}

#[test]
fn untrusted_restore_keeps_own_git_config() {
    let (sandbox, trace) = hostile();
    let kept = capture(&sandbox);
    let into = sandbox.path("restored");
    fs::create_dir(&into).unwrap();
    sandbox.git(&into, &["init", "-q"]);
    sandbox.git(&into, &["config", "user.name", "mine"]);
    fs::create_dir_all(into.join(".git/hooks")).unwrap();
    fs::write(into.join(".git/hooks/pre-push"), "mine\n").unwrap();
    let options = segno_snapshot::Restore {
        exact: true,
        trust: Trust::Content,
        ..segno_snapshot::Restore::default()
    };
    kept.store
        .restore(kept.snapshot, &into, &options, &|_| {})
        .unwrap();
    assert_eq!(sandbox.git(&into, &["config", "user.name"]), "mine");
    assert!(!trace.exists());
}

#[test]
fn scope_of_hostile_repository_starts_no_program() {
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
            .excludes(Path::new(""), "target".as_ref(), true)
            .is_some()
    );
    assert!(!trace.exists());
}

#[test]
fn untrusted_rebase_commands_are_not_run() {
    let sandbox = repository_with_commit();
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
    let kept = capture(&sandbox);
    let (into, restored) = restore(&sandbox, &kept, Trust::Content);
    let todo = PathBuf::from(".git/rebase-merge/git-rebase-todo");
    assert!(restored.disarmed.contains(&todo), "{restored:?}");
    fs::write(into.join("first"), "both\n").unwrap();
    sandbox.git(&into, &["add", "first"]);
    sandbox.try_git(&into, &["rebase", "--continue"]);
    assert!(!trace.exists());
}

#[test]
fn repository_of_another_user_is_captured() {
    let sandbox = repository_with_commit();
    for path in file_states(&sandbox.root()).keys() {
        // Only root can change the owner.
        if std::os::unix::fs::lchown(path, Some(65534), Some(65534)).is_err() {
            return;
        }
    }
    assert!(!sandbox.try_git("", &["status"]).status.success());
    let kept = capture(&sandbox);
    let git = kept.repository("");
    assert!(git.commit.is_some());
    assert_eq!(git.modified, 0);
}
