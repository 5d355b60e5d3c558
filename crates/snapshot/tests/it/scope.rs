//! What is left out of a snapshot, and by what evidence.

use std::ffi::OsStr;
use std::path::Path;

use segno_snapshot::scope::{Evidence, Rules, Scope};

use crate::sandbox::Sandbox;

const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a tool\n";
const BUILDS: &str = r#"{"scripts": {"build": "x"}}"#;

/// The files that are there, the path that is asked about, and whether it goes.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool);

fn rules(include: &[&str], exclude: &[&str]) -> Rules {
    let parse = |patterns: &[&str]| patterns.iter().map(|text| text.parse().unwrap()).collect();
    Rules {
        include: parse(include),
        exclude: parse(exclude),
    }
}

/// The rule by which a path goes. A path that ends with a slash is a folder.
fn ask(scope: &Evidence, path: &str) -> Option<String> {
    let is_folder = path.ends_with('/');
    let path = Path::new(path);
    let folder = path.parent().unwrap();
    let rule = scope.leaves_out(folder, path.file_name().unwrap(), is_folder);
    // What is in a folder counts once that is known.
    let telling = ["CACHEDIR.TAG", "CMakeCache.txt"].map(OsStr::new);
    let holding = || scope.leaves_out_holding(path, &telling);
    rule.or_else(|| is_folder.then(holding).flatten())
}

fn goes(sandbox: &Sandbox, path: &str) -> bool {
    ask(&Evidence::new(sandbox.root(), Rules::default()), path).is_some()
}

#[test]
fn evidence_and_the_lack_of_it() {
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
        // Nor is a repository made again.
        (
            &[("Cargo.toml", ""), ("target/.git/HEAD", "")],
            "target/",
            false,
        ),
        // A file has no evidence in it.
        (&[("Cargo.toml", ""), ("target", "")], "target", false),
    ];
    for (files, path, expected) in table {
        let sandbox = Sandbox::new();
        for (name, content) in *files {
            sandbox.write(name, content);
        }
        assert_eq!(goes(&sandbox, path), *expected, "{path} with {files:?}");
    }
}

#[test]
fn what_git_ignores_goes_only_if_a_tool_makes_it_again() {
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
        // Brought back by a pattern further down, or not ignored at all.
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
        assert_eq!(goes(&sandbox, path), *expected, "{path} with {files:?}");
    }
}

#[test]
fn the_repositorys_own_excludes_count_as_ignored() {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q"]);
    sandbox.write("package.json", BUILDS);
    sandbox.write("dist/x.js", "");
    assert!(!goes(&sandbox, "dist/"));
    sandbox.write(".git/info/exclude", "dist/\n");
    assert!(goes(&sandbox, "dist/"));
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

fn keeps_what_is_tracked(sandbox: &Sandbox) {
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert_eq!(ask(&scope, "target/"), None);
    assert_eq!(ask(&scope, "a/target/"), None);
    assert!(ask(&scope, "node_modules/").is_some());
    assert_eq!(scope.troubles(), Vec::<String>::new());
}

#[test]
fn what_git_tracks_stays_in_each_version_of_the_index() {
    for version in ["2", "3", "4"] {
        let sandbox = tracking(&["index.version", version]);
        if version == "3" {
            // Git writes version 3 only if an entry has a flag that needs it.
            sandbox.write("later", "");
            sandbox.git("", &["add", "--intent-to-add", "later"]);
        }
        let index = std::fs::read(sandbox.root().join(".git/index")).unwrap();
        assert_eq!(index[7].to_string(), version);
        keeps_what_is_tracked(&sandbox);
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
    keeps_what_is_tracked(&sandbox);
}

#[test]
fn an_index_of_sha256_is_read() {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q", "--object-format=sha256"]);
    sandbox.write("Cargo.toml", "");
    sandbox.write("target/x", "");
    assert!(goes(&sandbox, "target/"));
    sandbox.git("", &["add", "target/x"]);
    assert!(!goes(&sandbox, "target/"));
}

#[test]
fn a_folder_that_a_sparse_index_folds_up_is_tracked() {
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
    keeps_what_is_tracked(&sandbox);
}

#[test]
fn where_the_index_is_damaged_nothing_goes() {
    let sandbox = tracking(&[]);
    sandbox.write(".git/index", "DIRC and nonsense");
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert_eq!(ask(&scope, "node_modules/"), None);
    assert_eq!(scope.troubles().len(), 1);
}

#[test]
fn nested_repositories_and_worktrees_have_their_own_index() {
    let sandbox = tracking(&[]);
    sandbox.git("", &["commit", "-q", "-m", "x"]);
    // A nested one, where `target` is tracked by nobody, then by itself.
    sandbox.write("nested/Cargo.toml", "");
    sandbox.write("nested/target/x", "");
    sandbox.git("nested", &["init", "-q"]);
    assert!(goes(&sandbox, "nested/target/"));
    sandbox.git("nested", &["add", "target/x"]);
    assert!(!goes(&sandbox, "nested/target/"));
    // A worktree: `.git` is a file.
    sandbox.git("", &["worktree", "add", "-q", "tree"]);
    sandbox.write("tree/package.json", "{}");
    sandbox.write("tree/node_modules/i.js", "");
    assert!(!goes(&sandbox, "tree/target/"));
    assert!(goes(&sandbox, "tree/node_modules/"));
}

#[test]
fn a_workspace_inside_a_repository_knows_what_that_tracks() {
    let sandbox = tracking(&[]);
    let scope = Evidence::new(sandbox.root().join("a"), Rules::default());
    assert_eq!(ask(&scope, "target/"), None);
}

#[test]
fn what_a_person_says_wins() {
    let sandbox = tracking(&[]);
    sandbox.write("vendor/x.bin", "");
    sandbox.write("big.iso", "");
    let scope = |include, exclude| Evidence::new(sandbox.root(), rules(include, exclude));
    // Include wins over evidence.
    assert_eq!(ask(&scope(&["node_modules/"], &[]), "node_modules/"), None);
    // Exclude wins over include, and says its pattern.
    let both = scope(&["*.iso"], &["*.iso"]);
    assert_eq!(
        ask(&both, "big.iso").as_deref(),
        Some("excluded by `*.iso`")
    );
    assert!(ask(&scope(&[], &["vendor/"]), "vendor/").is_some());
    assert!(ask(&scope(&[], &["/vendor"]), "vendor/x.bin").is_some());
    // But not over what is tracked, unless it says so.
    assert_eq!(ask(&scope(&[], &["target"]), "target/"), None);
    assert_eq!(ask(&scope(&[], &["target"]), "target/x"), None);
    assert!(ask(&scope(&[], &["target"]), "target/untracked").is_some());
    assert!(ask(&scope(&[], &["!target"]), "target/").is_some());
}

#[test]
fn what_is_included_inside_a_folder_that_goes_is_reached() {
    let sandbox = Sandbox::new();
    sandbox.write("Cargo.toml", "");
    sandbox.write("target/release/app", "");
    sandbox.write("target/debug/app", "");
    let scope = Evidence::new(sandbox.root(), rules(&["target/release/app"], &[]));
    assert_eq!(ask(&scope, "target/"), None);
    assert_eq!(ask(&scope, "target/release/"), None);
    assert_eq!(ask(&scope, "target/release/app"), None);
    assert!(ask(&scope, "target/debug/").is_some());
    assert!(ask(&scope, "target/release/other").is_some());
}

#[test]
fn git_folders_are_walked_but_for_locks() {
    let sandbox = tracking(&[]);
    sandbox.write(".git/target/CACHEDIR.TAG", TAG);
    assert!(!goes(&sandbox, ".git/"));
    assert!(!goes(&sandbox, ".git/target/"));
    assert!(!goes(&sandbox, ".git/config"));
    assert!(goes(&sandbox, ".git/index.lock"));
    assert!(!goes(&sandbox, "index.lock"));
}

#[test]
fn a_link_is_no_evidence() {
    let sandbox = Sandbox::new();
    sandbox.write("elsewhere", TAG);
    sandbox.folder("any");
    let link = sandbox.root().join("any/CACHEDIR.TAG");
    std::os::unix::fs::symlink(sandbox.root().join("elsewhere"), link).unwrap();
    assert!(!goes(&sandbox, "any/"));
}

#[test]
fn rules_are_read_from_text() {
    let text = r#"{"include": ["/data/"], "exclude": ["*.iso", "!secret"]}"#;
    let rules: Rules = serde_json::from_str(text).unwrap();
    assert_eq!(rules.exclude[1].to_string(), "!secret");
    let again = serde_json::to_string(&rules).unwrap();
    assert_eq!(serde_json::from_str::<Rules>(&again).unwrap(), rules);
    assert!(serde_json::from_str::<Rules>(r#"{"exclude": [""]}"#).is_err());
}
