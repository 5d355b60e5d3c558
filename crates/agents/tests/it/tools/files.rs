//! Tools that read and write files of the workspace.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_agents::{BuiltinTools, WritePolicy};
use serde_json::{Value, json};

use super::{ManualClock, ask, assert_problem, gear};
use crate::fixture::{read, write};

struct Workspace {
    /// Holds the workspace and what is beside it.
    all: tempfile::TempDir,
    tools: BuiltinTools,
}

impl Workspace {
    fn new() -> Self {
        Self::with(|_, policy| policy)
    }

    /// A workspace with files that tools may not write.
    fn with(policy: impl Fn(&Path, WritePolicy) -> WritePolicy) -> Self {
        let all = tempfile::tempdir().unwrap();
        let work = all.path().join("work");
        std::fs::DirBuilder::new().create(&work).unwrap();
        let mut gear = gear(&[], &Arc::<ManualClock>::default());
        gear.writes = policy(&work, WritePolicy::default());
        let names: Vec<String> = BuiltinTools::names().map(str::to_owned).collect();
        Self {
            tools: BuiltinTools::new(&names, gear),
            all,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.all.path().join("work").join(name)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::DirBuilder::new()
            .recursive(true)
            .create(&path)
            .unwrap();
        path
    }

    fn put(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        write(&path, content);
        path
    }

    fn run(&self, name: &str, input: Value) -> Result<String, String> {
        ask(&self.tools, name, input, &self.path(""))
    }

    fn write(&self, path: &str) -> Result<String, String> {
        self.run(
            "file_write",
            json!({"path": path, "content": "new", "create_dirs": true}),
        )
    }

    fn read(&self, path: &str) -> Result<String, String> {
        self.run("file_read", json!({"path": path}))
    }

    /// All names in the workspace.
    fn names(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.path("")).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn rewritten_file_keeps_its_mode() {
    let workspace = Workspace::new();
    for (name, before) in [(".env", 0o600), ("run.sh", 0o755), ("open", 0o666)] {
        let path = workspace.put(name, b"old");
        set_mode(&path, before);
        workspace.write(name).unwrap();
        assert_eq!(
            (read(&path), mode(&path)),
            (b"new".to_vec(), before),
            "{name}"
        );
    }
    // Without the group's read permission nobody of the group reads a draft, either.
    let new = workspace.path("new.txt");
    workspace.write("new.txt").unwrap();
    assert_eq!(mode(&new) & 0o600, 0o600);
    assert_eq!(workspace.names().len(), 4, "{:?}", workspace.names());
}

#[test]
fn rewritten_file_keeps_its_owner() {
    let workspace = Workspace::new();
    let path = workspace.put("theirs", b"old");
    // Only root may give a file away.
    if std::os::unix::fs::chown(&path, Some(1234), Some(1234)).is_ok() {
        set_mode(&path, 0o640);
        workspace.write("theirs").unwrap();
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), mode(&path)), (1234, 1234, 0o640));
    }
}

#[test]
fn concurrent_writers_do_not_mix_their_files() {
    let workspace = Workspace::new();
    let folder = workspace.path("");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (folder, tools) = (&folder, &workspace.tools);
            scope.spawn(move || {
                for n in 0..25 {
                    let name = format!("{writer}-{n}");
                    let input = json!({"path": name, "content": name.repeat(20_000)});
                    ask(tools, "file_write", input, folder).unwrap();
                    // Another file that all of them write.
                    let input = json!({"path": "shared", "content": name.repeat(20_000)});
                    ask(tools, "file_write", input, folder).unwrap();
                }
            });
        }
    });
    for writer in 0..8 {
        for n in 0..25 {
            let name = format!("{writer}-{n}");
            assert!(
                read(workspace.path(&name)) == name.repeat(20_000).into_bytes(),
                "{name}"
            );
        }
    }
    let shared = String::from_utf8(read(workspace.path("shared"))).unwrap();
    let name = &shared[..shared.len() / 20_000];
    assert!(shared == name.repeat(20_000), "{name}");
    assert_eq!(workspace.names().len(), 201);
}

#[test]
fn failed_write_leaves_no_draft() {
    let workspace = Workspace::new();
    workspace.folder("folder");
    assert_problem(&workspace.write("folder"), "is a folder");
    let input = json!({"path": "missing/x", "content": ""});
    assert_problem(
        &workspace.run("file_write", input),
        "its folder does not exist",
    );
    assert_eq!(workspace.names(), BTreeSet::from(["folder".to_owned()]));
}

#[test]
fn links_inside_the_workspace_work() {
    let workspace = Workspace::new();
    let target = workspace.folder("kept").join("a.txt");
    write(&target, b"old");
    symlink("kept/a.txt", workspace.path("relative")).unwrap();
    symlink(&target, workspace.path("absolute")).unwrap();
    symlink("kept", workspace.path("folder")).unwrap();
    for path in ["relative", "absolute", "folder/a.txt"] {
        assert_eq!(workspace.read(path).unwrap(), "old", "{path}");
        workspace.write(path).unwrap();
        assert_eq!(read(&target), b"new", "{path}");
        write(&target, b"old");
    }
    workspace.write("folder/deep/b.txt").unwrap();
    assert_eq!(read(workspace.path("kept/deep/b.txt")), b"new");
    assert!(workspace.path("relative").is_symlink());
}

#[test]
fn links_that_lead_out_are_refused() {
    let workspace = Workspace::new();
    let outside = workspace.all.path().join("outside");
    write(&outside, b"secret");
    symlink(&outside, workspace.path("absolute")).unwrap();
    symlink("../outside", workspace.path("relative")).unwrap();
    symlink("..", workspace.path("folder")).unwrap();
    symlink("../new", workspace.path("dangling")).unwrap();
    symlink("/proc/self/root", workspace.path("magic")).unwrap();
    for path in ["absolute", "relative", "folder/outside", "magic/etc/passwd"] {
        assert_problem(&workspace.read(path), "outside of the workspace");
        assert_problem(&workspace.write(path), "outside of the workspace");
    }
    assert_problem(&workspace.write("dangling"), "outside of the workspace");
    assert_problem(&workspace.write("folder/new"), "outside of the workspace");
    assert_eq!(read(&outside), b"secret");
    assert!(!workspace.all.path().join("new").exists());
}

/// Swaps a folder with a link that leads out, as fast as possible, until told to stop.
fn swap(workspace: &Workspace, stop: &AtomicBool) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let (inner, link) = (workspace.path("inner"), workspace.path("link"));
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, &inner, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn swapped_links_never_lead_out() {
    let workspace = Workspace::new();
    workspace.folder("inner");
    workspace.put("inner/file", b"inside");
    let outside = workspace.all.path().join("outside");
    std::fs::DirBuilder::new().create(&outside).unwrap();
    write(&outside.join("file"), b"secret");
    symlink(&outside, workspace.path("link")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut read_inside, mut written_inside) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&workspace, &stop));
        for n in 0..400 {
            if let Ok(text) = workspace.read("inner/file") {
                assert_eq!(text, "inside");
                read_inside += 1;
            }
            written_inside += usize::from(workspace.write(&format!("inner/{n}")).is_ok());
        }
        stop.store(true, Ordering::Relaxed);
    });
    let escaped = std::fs::read_dir(&outside).unwrap().count() - 1;
    assert_eq!(escaped, 0, "written outside");
    assert!(
        read_inside > 0 && written_inside > 0,
        "{read_inside} {written_inside}"
    );
}

#[test]
fn only_regular_files_are_opened() {
    let workspace = Workspace::new();
    let fifo = workspace.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.path("socket")).unwrap();
    for path in ["fifo", "socket"] {
        for tool in ["file_read", "head", "tail"] {
            let found = workspace.run(tool, json!({"path": path}));
            assert_problem(&found, "is not a regular file");
        }
        assert_problem(&workspace.write(path), "is not a regular file");
    }
    assert_problem(&workspace.read("."), "is a folder");
}

#[test]
fn files_that_start_programs_are_not_written() {
    let workspace = Workspace::new();
    workspace.folder(".git/hooks");
    workspace.folder("sub");
    symlink("../.git/hooks", workspace.path("sub/hidden")).unwrap();
    symlink(".git", workspace.path("alias")).unwrap();
    symlink(".envrc", workspace.path("harmless")).unwrap();
    workspace.put(".envrc", b"");
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/info/attributes",
        ".GIT/hooks/pre-commit",
        ".git./config",
        ".git",
        "sub/.git/config",
        "sub/hidden/pre-commit",
        "alias/config",
        "harmless",
        ".claude/settings.json",
        ".mcp.json",
        ".github/workflows/ci.yml",
        ".cargo/config.toml",
    ] {
        let refused = workspace.write(path).unwrap_err();
        assert!(
            refused.starts_with(&format!("{path} was not written: ")),
            "{refused}"
        );
        assert!(refused.contains("only a user can write"), "{refused}");
    }
    assert_problem(
        &workspace.write(".git/../.git/hooks/x"),
        "outside of the workspace",
    );
    assert!(read(workspace.path(".envrc")).is_empty());
    assert!(!workspace.path(".claude").exists() && !workspace.path(".github").exists());
    assert_problem(
        &workspace.write(".gitlab-ci.yml"),
        "CI services run the commands in it; only a user can write it, or allow it with `tools.allow_write` in config.toml",
    );
    workspace.write(".gitignore").unwrap();
    workspace.write("sub/config").unwrap();
}

#[test]
fn git_folder_of_any_name_is_not_written() {
    let workspace = Workspace::new();
    for name in ["HEAD", "config"] {
        workspace.write(&format!("vendored/{name}")).unwrap();
    }
    workspace.write("vendored/objects/x").unwrap();
    let words = "is, or would become, a git repository";
    assert_problem(&workspace.write("vendored/refs/heads/main"), words);
    assert_problem(&workspace.write("vendored/commondir"), words);
    workspace.folder("vendored/refs");
    assert_problem(&workspace.write("vendored/config"), words);
    assert_problem(&workspace.write("vendored/hooks/pre-commit"), words);
}

#[test]
fn user_can_allow_files_that_start_programs() {
    let allowed = [
        PathBuf::from(".github/workflows"),
        ".git".into(),
        "spec.yaml".into(),
    ];
    let workspace = Workspace::with(|work, policy| {
        let policy = policy.allow(&allowed);
        policy.protect(&work.join("spec.yaml"), "it is the spec of this session")
    });
    workspace.write(".github/workflows/ci.yml").unwrap();
    assert_problem(
        &workspace.write(".github/actions/x/action.yml"),
        "CI services",
    );
    assert_problem(
        &workspace.write(".git/config"),
        "git keeps its own files there",
    );
    assert_problem(
        &workspace.write("spec.yaml"),
        "it is the spec of this session",
    );
}

#[test]
fn protected_file_is_not_written_by_any_name() {
    let workspace = Workspace::with(|work, policy| {
        write(&work.join("spec.yaml"), b"mine");
        policy.protect(&work.join("spec.yaml"), "it is the spec of this session")
    });
    symlink("spec.yaml", workspace.path("link")).unwrap();
    symlink(".", workspace.path("here")).unwrap();
    let absolute = workspace.path("spec.yaml").display().to_string();
    for path in [
        "spec.yaml",
        "./spec.yaml",
        "SPEC.yaml",
        "link",
        "here/spec.yaml",
        &absolute,
    ] {
        assert_problem(&workspace.write(path), "it is the spec of this session");
    }
    assert_eq!(read(workspace.path("spec.yaml")), b"mine");
}

#[test]
fn empty_pattern_is_refused() {
    let workspace = Workspace::new();
    workspace.put("a.txt", b"one\n");
    for (tool, input) in [
        ("grep", json!({"path": "a.txt", "pattern": ""})),
        ("search", json!({"path": "a.txt", "query": ""})),
    ] {
        assert_problem(
            &workspace.run(tool, input),
            "is empty: it would match every line",
        );
    }
}

#[test]
fn search_of_a_long_file_is_bounded() {
    let workspace = Workspace::new();
    workspace.put("lines", "\n".repeat(1_000_000).as_bytes());
    let input = json!({"path": "lines", "pattern": ".*", "max_matches": 1_000_000_000});
    let found = workspace.run("grep", input).unwrap();
    assert!(found.len() < 200 << 10, "{}", found.len());
    assert!(found.ends_with("[cut: more lines match or follow]\n"));
    workspace.put("line", "x".repeat(1 << 20).as_bytes());
    let input = json!({"path": "line", "pattern": "(x+x+)+y"});
    let found = workspace.run("grep", input).unwrap();
    let expected = "no line matches\n[1 long lines were searched only in their first 32768 bytes]";
    assert_eq!(found, expected);
    let last = workspace
        .run("tail", json!({"path": "lines", "lines": 1_000_000}))
        .unwrap();
    assert!(last.contains("1000000 | \n[cut: earlier lines are not shown]"));
    let first = workspace.run("head", json!({"path": "line"})).unwrap();
    assert!(first.ends_with("[cut: the line has 1048576 bytes]\n"));
}

#[test]
fn lines_around_matches_are_shown_once() {
    let workspace = Workspace::new();
    workspace.put("a.txt", b"a\nb\nhit\nc\nhit\nd\ne\nf\n");
    let input = json!({"path": "a.txt", "pattern": "hit", "context_lines": 1});
    let expected = "     2 | b\n>    3 | hit\n     4 | c\n>    5 | hit\n     6 | d\n";
    assert_eq!(workspace.run("grep", input).unwrap(), expected);
    let input = json!({"path": "a.txt", "query": "HIT", "max_matches": 1});
    assert_eq!(workspace.run("search", input).unwrap(), ">    3 | hit\n");
}
