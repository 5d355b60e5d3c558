//! What is excluded from a snapshot, and by what evidence.

use std::ffi::OsStr;
use std::path::Path;

use segno_snapshot::scope::{Evidence, Rules, Scope};

use crate::sandbox::Sandbox;

const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a tool\n";
const BUILDS: &str = r#"{"scripts": {"build": "x"}}"#;

/// The existing files, the path that is asked about, and whether it is excluded.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool);

fn rules(include: &[&str], exclude: &[&str]) -> Rules {
    let parse = |patterns: &[&str]| patterns.iter().map(|text| text.parse().unwrap()).collect();
    Rules {
        include: parse(include),
        exclude: parse(exclude),
    }
}

/// The rule that excludes a path. A path that ends with a slash is a folder.
fn excluding_rule(scope: &Evidence, path: &str) -> Option<String> {
    let is_folder = path.ends_with('/');
    let path = Path::new(path);
    let folder = path.parent().unwrap();
    let rule = scope.excludes(folder, path.file_name().unwrap(), is_folder);
    // The content of a folder counts once it is known.
    let telling = ["CACHEDIR.TAG", "CMakeCache.txt"].map(OsStr::new);
    let holding = || scope.excludes_for_content(path, &telling);
    rule.or_else(|| is_folder.then(holding).flatten())
}

fn is_excluded(sandbox: &Sandbox, path: &str) -> bool {
    excluding_rule(&Evidence::new(sandbox.root(), Rules::default()), path).is_some()
}

#[test]
fn folders_are_excluded_only_with_evidence() {
    let table: &[Case] = &[
        (
            &[("package.json", "{}"), ("node_modules/x/i.js", "")],
            "node_modules/",
            true,
        ),
        (&[("node_modules/x/i.js", "")], "node_modules/", false),
        (
            &[("a/node_modules/.package-lock.json", "{}")],
            "a/node_modules/",
            true,
        ),
        (
            &[("Cargo.toml", ""), ("target/debug/x", "")],
            "target/",
            true,
        ),
        (
            &[("pom.xml", ""), ("target/classes/x", "")],
            "target/",
            true,
        ),
        (&[("target/CACHEDIR.TAG", TAG)], "target/", true),
        (&[("target/x.c", "")], "target/", false),
        (
            &[("drivers/target/x.c", ""), ("Cargo.toml", "")],
            "drivers/target/",
            false,
        ),
        (&[("any/CACHEDIR.TAG", TAG)], "any/", true),
        (&[("any/CACHEDIR.TAG", "Signature: 0")], "any/", false),
        (&[("any/CACHEDIR.TAG", "")], "any/", false),
        (&[(".venv/pyvenv.cfg", "")], ".venv/", true),
        (&[("venv/pyvenv.cfg", "")], "venv/", true),
        (&[("venv/main.py", "")], "venv/", false),
        (
            &[("__pycache__/a.pyc", ""), ("__pycache__/b.pyo", "")],
            "__pycache__/",
            true,
        ),
        (
            &[("__pycache__/a.pyc", ""), ("__pycache__/b.py", "")],
            "__pycache__/",
            false,
        ),
        (&[(".tox/py/pyvenv.cfg", "")], ".tox/", true),
        (&[(".tox/notes", "")], ".tox/", false),
        (&[(".mypy_cache/CACHEDIR.TAG", TAG)], ".mypy_cache/", true),
        (
            &[(".mypy_cache/3.12/@plugins_snapshot.json", "")],
            ".mypy_cache/",
            true,
        ),
        (&[(".mypy_cache/notes", "")], ".mypy_cache/", false),
        (
            &[(".pytest_cache/v/cache/nodeids", "")],
            ".pytest_cache/",
            true,
        ),
        (&[(".pytest_cache/notes", "")], ".pytest_cache/", false),
        (&[(".ruff_cache/CACHEDIR.TAG", TAG)], ".ruff_cache/", true),
        (&[(".ruff_cache/0.1/x", "")], ".ruff_cache/", false),
        (
            &[("build.gradle", ""), (".gradle/vcs-1/x", "")],
            ".gradle/",
            true,
        ),
        (&[(".gradle/vcs-1/x", "")], ".gradle/", false),
        (
            &[("build.gradle.kts", ""), ("build/classes/x", "")],
            "build/",
            true,
        ),
        (
            &[("build.gradle", ""), ("build/notes", "")],
            "build/",
            false,
        ),
        (&[("build/x.c", "")], "build/", false),
        (
            &[("dist/x.js", ""), ("package.json", BUILDS)],
            "dist/",
            false,
        ),
        (&[("vendor/x.c", "")], "vendor/", false),
        (&[("obj/project.assets.json", "{}")], "obj/", true),
        (&[("obj/x.obj", "")], "obj/", false),
        (&[("any/x", "")], "any/", false),
        // Whatever the evidence, this is data.
        (
            &[("Cargo.toml", ""), ("target/dev.sqlite", "")],
            "target/",
            false,
        ),
        (&[("Cargo.toml", ""), ("target/.env", "")], "target/", false),
        (
            &[("any/CACHEDIR.TAG", TAG), ("any/app.db", "")],
            "any/",
            false,
        ),
        // A repository is not regenerable.
        (
            &[("Cargo.toml", ""), ("target/.git/HEAD", "")],
            "target/",
            false,
        ),
        // A file contains no evidence.
        (&[("Cargo.toml", ""), ("target", "")], "target", false),
    ];
    for (files, path, expected) in table {
        let sandbox = Sandbox::new();
        for (name, content) in *files {
            sandbox.write(name, content);
        }
        assert_eq!(
            is_excluded(&sandbox, path),
            *expected,
            "{path} with {files:?}"
        );
    }
}

#[test]
fn ignored_files_are_excluded_only_if_regenerable() {
    let ignore = "dist/\n.next\nbuild\n*.log\n.env\n*.sqlite\n/data\nout/\n*.pyc\n*.o\n";
    let table: &[Case] = &[
        (
            &[("package.json", BUILDS), ("dist/x.js", "")],
            "dist/",
            true,
        ),
        (&[("package.json", "{}"), ("dist/x.js", "")], "dist/", false),
        (
            &[("package.json", "no json"), ("dist/x.js", "")],
            "dist/",
            false,
        ),
        (&[("dist/x.js", "")], "dist/", false),
        (
            &[("package.json", BUILDS), (".next/BUILD_ID", "")],
            ".next/",
            true,
        ),
        (&[(".next/BUILD_ID", "")], ".next/", false),
        (
            &[("web/package.json", BUILDS), ("web/build/x", "")],
            "web/build/",
            true,
        ),
        (
            &[("package.json", BUILDS), ("dist/.env", "")],
            "dist/",
            false,
        ),
        (&[("pyproject.toml", ""), ("dist/x.whl", "")], "dist/", true),
        (
            &[
                ("pyproject.toml", ""),
                ("dist/x.whl", ""),
                ("dist/n.txt", ""),
            ],
            "dist/",
            false,
        ),
        (
            &[("build/CMakeCache.txt", ""), ("CMakeLists.txt", "")],
            "build/",
            true,
        ),
        (&[("package.json", BUILDS), (".env", "A=1")], ".env", false),
        (&[("dev.sqlite", "")], "dev.sqlite", false),
        (&[("data/x", "")], "data/", false),
        (&[("x.log", "")], "x.log", false),
        (&[("x.pyc", ""), ("x.py", "")], "x.pyc", true),
        (&[("x.pyc", "")], "x.pyc", false),
        (&[("x.o", ""), ("x.c", "")], "x.o", true),
        // Included again by a later pattern, or not ignored at all.
        (
            &[
                ("package.json", BUILDS),
                (".gitignore", "dist/\n!dist/\n"),
                ("dist/x", ""),
            ],
            "dist/",
            false,
        ),
        (
            &[("package.json", BUILDS), (".gitignore", ""), ("dist/x", "")],
            "dist/",
            false,
        ),
        (
            &[
                ("a/package.json", BUILDS),
                ("a/.gitignore", "!out/\n"),
                ("a/out/x", ""),
            ],
            "a/out/",
            false,
        ),
    ];
    for (files, path, expected) in table {
        let sandbox = Sandbox::new();
        sandbox.git("", &["init", "-q"]);
        sandbox.write(".gitignore", ignore);
        for (name, content) in *files {
            sandbox.write(name, content);
        }
        assert_eq!(
            is_excluded(&sandbox, path),
            *expected,
            "{path} with {files:?}"
        );
    }
}

#[test]
fn info_exclude_counts_as_ignored() {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q"]);
    sandbox.write("package.json", BUILDS);
    sandbox.write("dist/x.js", "");
    assert!(!is_excluded(&sandbox, "dist/"));
    sandbox.write(".git/info/exclude", "dist/\n");
    assert!(is_excluded(&sandbox, "dist/"));
}

/// A repository where `target/x` is tracked and `node_modules` is not.
fn tracking(config: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q"]);
    for pair in config.chunks(2) {
        sandbox.git("", &["config", pair[0], pair[1]]);
    }
    sandbox.write("package.json", "{}");
    sandbox.write("node_modules/x/i.js", "");
    sandbox.write("Cargo.toml", "");
    for name in [
        "target/x",
        "target/deep/y",
        "a/target/CACHEDIR.TAG",
        "a/z",
        "targets",
    ] {
        sandbox.write(name, TAG);
        sandbox.git("", &["add", "-f", name]);
    }
    sandbox
}

fn assert_tracked_is_included(sandbox: &Sandbox) {
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert_eq!(excluding_rule(&scope, "target/"), None);
    assert_eq!(excluding_rule(&scope, "a/target/"), None);
    assert!(excluding_rule(&scope, "node_modules/").is_some());
    assert_eq!(scope.read_errors(), Vec::<String>::new());
}

#[test]
fn tracked_files_are_included_for_each_index_version() {
    for version in ["2", "3", "4"] {
        let sandbox = tracking(&["index.version", version]);
        if version == "3" {
            // Git writes version 3 only if an entry has a flag that needs it.
            sandbox.write("later", "");
            sandbox.git("", &["add", "--intent-to-add", "later"]);
        }
        let index = std::fs::read(sandbox.root().join(".git/index")).unwrap();
        assert_eq!(index[7].to_string(), version);
        assert_tracked_is_included(&sandbox);
    }
}

#[test]
fn a_split_index_is_read_by_git() {
    let sandbox = tracking(&["core.splitIndex", "true"]);
    sandbox.git("", &["update-index", "--split-index"]);
    sandbox.write("more", "");
    sandbox.git("", &["add", "more"]);
    let names = std::fs::read_dir(sandbox.root().join(".git")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.starts_with("sharedindex.")));
    assert_tracked_is_included(&sandbox);
}

#[test]
fn an_index_of_sha256_is_read() {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q", "--object-format=sha256"]);
    sandbox.write("Cargo.toml", "");
    sandbox.write("target/x", "");
    assert!(is_excluded(&sandbox, "target/"));
    sandbox.git("", &["add", "target/x"]);
    assert!(!is_excluded(&sandbox, "target/"));
}

#[test]
fn folder_in_sparse_index_is_tracked() {
    let sandbox = tracking(&[]);
    sandbox.git("", &["commit", "-q", "-m", "x"]);
    sandbox.git(
        "",
        &["sparse-checkout", "set", "--cone", "--sparse-index", "a"],
    );
    let index = std::fs::read(sandbox.root().join(".git/index")).unwrap();
    assert!(
        index.windows(8).any(|bytes| bytes == b"target/\0"),
        "not sparse"
    );
    sandbox.write("target/new", "");
    assert_tracked_is_included(&sandbox);
}

#[test]
fn damaged_git_index_excludes_nothing() {
    let sandbox = tracking(&[]);
    sandbox.write(".git/index", "DIRC and nonsense");
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert_eq!(excluding_rule(&scope, "node_modules/"), None);
    assert_eq!(scope.read_errors().len(), 1);
}

#[test]
fn nested_repositories_and_worktrees_have_their_own_index() {
    let sandbox = tracking(&[]);
    sandbox.git("", &["commit", "-q", "-m", "x"]);
    // A nested one, where `target` is untracked first, and tracked later.
    sandbox.write("nested/Cargo.toml", "");
    sandbox.write("nested/target/x", "");
    sandbox.git("nested", &["init", "-q"]);
    assert!(is_excluded(&sandbox, "nested/target/"));
    sandbox.git("nested", &["add", "target/x"]);
    assert!(!is_excluded(&sandbox, "nested/target/"));
    // A worktree: `.git` is a file.
    sandbox.git("", &["worktree", "add", "-q", "tree"]);
    sandbox.write("tree/package.json", "{}");
    sandbox.write("tree/node_modules/i.js", "");
    assert!(!is_excluded(&sandbox, "tree/target/"));
    assert!(is_excluded(&sandbox, "tree/node_modules/"));
}

#[test]
fn workspace_inside_repository_sees_tracked_files() {
    let sandbox = tracking(&[]);
    let scope = Evidence::new(sandbox.root().join("a"), Rules::default());
    assert_eq!(excluding_rule(&scope, "target/"), None);
}

#[test]
fn user_rules_override_evidence() {
    let sandbox = tracking(&[]);
    sandbox.write("vendor/x.bin", "");
    sandbox.write("big.iso", "");
    let scope = |include, exclude| Evidence::new(sandbox.root(), rules(include, exclude));
    // An include rule overrides evidence.
    assert_eq!(
        excluding_rule(&scope(&["node_modules/"], &[]), "node_modules/"),
        None
    );
    // An exclude rule overrides an include rule, and is reported.
    let both = scope(&["*.iso"], &["*.iso"]);
    assert_eq!(
        excluding_rule(&both, "big.iso").as_deref(),
        Some("excluded by `*.iso`")
    );
    assert!(excluding_rule(&scope(&[], &["vendor/"]), "vendor/").is_some());
    assert!(excluding_rule(&scope(&[], &["/vendor"]), "vendor/x.bin").is_some());
    // It does not override tracked files, unless it begins with `!`.
    assert_eq!(excluding_rule(&scope(&[], &["target"]), "target/"), None);
    assert_eq!(excluding_rule(&scope(&[], &["target"]), "target/x"), None);
    assert!(excluding_rule(&scope(&[], &["target"]), "target/untracked").is_some());
    assert!(excluding_rule(&scope(&[], &["!target"]), "target/").is_some());
}

#[test]
fn include_rule_reaches_into_excluded_folder() {
    let sandbox = Sandbox::new();
    sandbox.write("Cargo.toml", "");
    sandbox.write("target/release/app", "");
    sandbox.write("target/debug/app", "");
    let scope = Evidence::new(sandbox.root(), rules(&["target/release/app"], &[]));
    assert_eq!(excluding_rule(&scope, "target/"), None);
    assert_eq!(excluding_rule(&scope, "target/release/"), None);
    assert_eq!(excluding_rule(&scope, "target/release/app"), None);
    assert!(excluding_rule(&scope, "target/debug/").is_some());
    assert!(excluding_rule(&scope, "target/release/other").is_some());
}

#[test]
fn git_folders_are_captured_without_locks() {
    let sandbox = tracking(&[]);
    sandbox.write(".git/target/CACHEDIR.TAG", TAG);
    assert!(!is_excluded(&sandbox, ".git/"));
    assert!(!is_excluded(&sandbox, ".git/target/"));
    assert!(!is_excluded(&sandbox, ".git/config"));
    assert!(is_excluded(&sandbox, ".git/index.lock"));
    assert!(!is_excluded(&sandbox, "index.lock"));
}

#[test]
fn link_is_no_evidence() {
    let sandbox = Sandbox::new();
    sandbox.write("elsewhere", TAG);
    sandbox.folder("any");
    let link = sandbox.root().join("any/CACHEDIR.TAG");
    std::os::unix::fs::symlink(sandbox.root().join("elsewhere"), link).unwrap();
    assert!(!is_excluded(&sandbox, "any/"));
}

#[test]
fn rules_are_parsed_from_json() {
    let text = r#"{"include": ["/data/"], "exclude": ["*.iso", "!secret"]}"#;
    let rules: Rules = serde_json::from_str(text).unwrap();
    assert_eq!(rules.exclude[1].to_string(), "!secret");
    let again = serde_json::to_string(&rules).unwrap();
    assert_eq!(serde_json::from_str::<Rules>(&again).unwrap(), rules);
    assert!(serde_json::from_str::<Rules>(r#"{"exclude": [""]}"#).is_err());
}
