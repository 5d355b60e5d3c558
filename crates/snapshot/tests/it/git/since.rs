//! Changes since a commit, committed or not; and the commit at HEAD.

use segno_snapshot::git::head;

use super::{Sandbox, capture_since, repository_with_commit};

/// What git itself says.
fn rev(sandbox: &Sandbox, path: &str) -> String {
    sandbox.git(path, &["rev-parse", "HEAD"]).trim().to_owned()
}

#[test]
fn head_commit_is_found_in_every_ref_format() {
    let sandbox = Sandbox::new();
    let stands = |path: &str| head(&sandbox.root().join(path));
    assert_eq!(stands(""), None, "no repository");
    sandbox.git("", &["init", "-q"]);
    assert_eq!(stands(""), None, "no commit yet");
    sandbox.commit("", "first", "1\n");
    let first = rev(&sandbox, "");
    assert_eq!(stands("").as_ref(), Some(&first), "a ref of its own");
    sandbox.git("", &["pack-refs", "--all"]);
    assert_eq!(stands("").as_ref(), Some(&first), "a packed ref");
    sandbox.commit("", "second", "2\n");
    let second = rev(&sandbox, "");
    assert_eq!(stands("").as_ref(), Some(&second), "newer than packed");
    sandbox.git("", &["checkout", "-q", &first]);
    assert_eq!(stands("").as_ref(), Some(&first), "no branch");
    sandbox.git("", &["worktree", "add", "-q", "tree", &second]);
    assert_eq!(stands("tree").as_ref(), Some(&second), "another worktree");
    sandbox.git(
        "",
        &["worktree", "add", "-q", "-b", "other", "more", &first],
    );
    assert_eq!(stands("more").as_ref(), Some(&first), "its branch");
}

#[test]
fn ref_name_outside_refs_is_rejected() {
    let sandbox = repository_with_commit();
    let planted = "0123456789012345678901234567890123456789\n";
    std::fs::write(sandbox.path("planted"), planted).unwrap();
    for name in ["refs/../../planted", "refs/../../../planted", "config"] {
        sandbox.write(".git/HEAD", format!("ref: {name}\n"));
        assert_eq!(head(&sandbox.root()), None, "{name}");
    }
}

#[test]
fn changes_since_a_commit_are_listed() {
    let sandbox = repository_with_commit();
    for name in ["kept", "edited", "removed", "back"] {
        sandbox.commit("", name, "1\n");
    }
    let began = rev(&sandbox, "");
    let since = |commit: &str| {
        let kept = capture_since(&sandbox, Some(commit));
        kept.repository("").session_changes.clone()
    };
    let nothing = since(&began).unwrap();
    assert_eq!((nothing.files, nothing.names), (0, Vec::<String>::new()));
    sandbox.write("edited", "2\n");
    sandbox.write("new", "1\n");
    let changed = since(&began).unwrap();
    assert_eq!(changed.names, ["edited", "new"]);
    sandbox.commit("", "committed", "1\n");
    sandbox.commit("", "back", "2\n");
    sandbox.commit("", "back", "1\n");
    sandbox.git("", &["rm", "-q", "removed"]);
    sandbox.git("", &["commit", "-q", "-m", "removed"]);
    sandbox.write("staged", "1\n");
    sandbox.git("", &["add", "staged"]);
    let changed = since(&began).unwrap();
    assert_eq!(changed.commit, began);
    assert_eq!(
        changed.names,
        ["committed", "edited", "new", "removed", "staged"]
    );
    assert_eq!(changed.files, 5);
}

#[test]
fn unknown_since_commit_is_harmless() {
    let sandbox = repository_with_commit();
    let written = sandbox.path("written");
    let option = format!("--output={}", written.display());
    for since in ["0123456789012345678901234567890123456789", "HEAD", &option] {
        let kept = capture_since(&sandbox, Some(since));
        let repository = kept.repository("");
        assert_eq!(
            (&repository.session_changes, &repository.error),
            (&None, &None),
            "{since}"
        );
    }
    assert!(!written.exists());
}
