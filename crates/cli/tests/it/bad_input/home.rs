//! Homes that cannot store sessions.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use segno_testkit::sandbox::{Sandbox, run_to_end};

use crate::commands::{failing_chain, root, session_statuses};
use crate::sandbox;

#[track_caller]
fn python(sandbox: &Sandbox, database: &Path, script: &str) {
    let mut command = Command::new("python3");
    sandbox.set_env(&mut command);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.args(["-c", script]).arg(database);
    run_to_end(command).expect_success();
}

#[test]
fn a_home_below_a_file_is_named() {
    let sandbox = sandbox();
    sandbox.write("file", "");
    let mut command = sandbox.command(&["sessions", "list"]);
    command.env("SEGNO_HOME", sandbox.work().join("file/home"));
    let output = run_to_end(command);
    assert!(!output.status.success());
    assert!(
        output.stderr.contains("file/home") && output.stderr.contains("Not a directory"),
        "{}",
        output.stderr
    );
    assert_eq!(sandbox.read("file"), "");
}

/// Runs the binary as a user without special rights: as `nobody` if this process is root.
fn as_nobody(sandbox: &Sandbox) -> Command {
    if !rustix::process::geteuid().is_root() {
        return sandbox.command(&[]);
    }
    let binary = root(sandbox).join("segno");
    fs::copy(sandbox.binary(), &binary).unwrap();
    for path in [&root(sandbox), &sandbox.work(), &binary] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    sandbox.set_env(&mut command);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(binary);
    command
}

#[test]
fn home_without_permission_is_named() {
    let sandbox = sandbox();
    let home = sandbox.home();
    fs::create_dir(&home).unwrap();
    let mut command = as_nobody(&sandbox);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(&home, fs::Permissions::from_mode(0o000)).unwrap();
    command.args(["sessions", "list"]);
    let output = run_to_end(command);
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(!output.status.success());
    let home_path = home.display().to_string();
    assert!(output.stderr.contains(&home_path), "{}", output.stderr);
    assert!(
        output.stderr.contains("Permission denied"),
        "{}",
        output.stderr
    );
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

#[test]
fn home_writable_by_others_is_refused_with_a_hint() {
    for mode in [0o777, 0o770, 0o702] {
        let sandbox = sandbox();
        failing_chain(&sandbox);
        fs::create_dir(sandbox.home()).unwrap();
        fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(mode)).unwrap();
        let hint = format!("chmod go-w {}", sandbox.home().display());
        sandbox.segno(&["run", "chain.yaml"]).refused(
            12,
            &["is not safe", "others may write to it", "[F0104]", &hint],
        );
        assert!(sandbox.calls().is_empty());
        assert!(!sandbox.home().join("sessions").exists());
    }
}

#[test]
fn home_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = sandbox();
    sandbox.segno(&["status"]).expect_success();
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = as_nobody(&sandbox);
    command.arg("status");
    let home = sandbox.home().display().to_string();
    run_to_end(command).refused(12, &[&home, "is not safe", "belongs to user 0", "[F0104]"]);
}

#[test]
fn a_relative_home_is_refused() {
    let sandbox = sandbox();
    let mut command = sandbox.command(&["status"]);
    command.env("SEGNO_HOME", "state");
    run_to_end(command).refused(
        2,
        &[
            "SEGNO_HOME",
            "absolute",
            "state",
            "[C0101]",
            "export SEGNO_HOME=",
        ],
    );
    assert!(!sandbox.work().join("state").exists());
}

#[test]
fn missing_home_is_refused_with_a_hint() {
    let sandbox = sandbox();
    for home in [None, Some(""), Some("relative")] {
        let mut command = sandbox.command(&["status"]);
        command.env_remove("SEGNO_HOME").env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        run_to_end(command).refused(2, &["SEGNO_HOME", "HOME", "[C0101]", "export SEGNO_HOME="]);
    }
    assert_eq!(fs::read_dir(sandbox.work()).unwrap().count(), 0);
}

#[test]
fn default_home_is_in_the_users_state_folder() {
    let sandbox = sandbox();
    let mut command = sandbox.command(&["status"]);
    command.env_remove("SEGNO_HOME");
    run_to_end(command).expect_success();
    assert!(root(&sandbox).join(".local/state/segno/sessions").exists());
}

/// Sets the format of a database.
fn set_format(sandbox: &Sandbox, database: &Path, format: u32) {
    let script = format!(
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('PRAGMA application_id = 1399154542')\nc.execute('PRAGMA user_version = {format}')\nc.commit()\nc.close()"
    );
    python(sandbox, database, &script);
}

#[test]
fn session_of_a_newer_version_is_left_unchanged() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let database = sandbox.home().join("names/chain.session/journal.db");
    set_format(&sandbox, &database, 9);
    let before = fs::read(&database).unwrap();
    for words in [
        &["show", "chain"][..],
        &["resume", "chain"],
        &["logs", "chain"],
    ] {
        let texts = [
            "journal.db has format 9",
            "up to 3",
            "[F0103]",
            "use the newer version of Segno",
        ];
        sandbox.segno(words).refused(12, &texts);
    }
    let listed = sandbox.segno(&["status"]).expect_success().stdout;
    assert!(listed.contains("has format 9"), "{listed}");
    assert_eq!(fs::read(&database).unwrap(), before);
    assert_eq!(sandbox.calls().len(), 3);
    set_format(&sandbox, &database, 3);
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "failed".into())]
    );
}

#[test]
fn home_of_a_newer_version_is_left_unchanged() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.configure("");
    let database = sandbox.home().join("segno.db");
    set_format(&sandbox, &database, 9);
    let before = fs::read(&database).unwrap();
    for words in [
        &["status"][..],
        &["run", "chain.yaml"],
        &["resume"],
        &["sessions", "cleanup", "--yes"],
    ] {
        sandbox
            .segno(words)
            .refused(12, &["segno.db has format 9", "[F0103]"]);
    }
    assert_eq!(fs::read(&database).unwrap(), before);
    assert!(sandbox.calls().is_empty());
}

#[test]
fn a_database_of_another_program_is_not_used() {
    let sandbox = sandbox();
    sandbox.configure("");
    let database = sandbox.home().join("segno.db");
    python(
        &sandbox,
        &database,
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('CREATE TABLE theirs (x)')\nc.execute('INSERT INTO theirs VALUES (7)')\nc.commit()\nc.close()",
    );
    sandbox
        .segno(&["status"])
        .refused(17, &["segno.db", "not a Segno database", "[J0104]"]);
    python(
        &sandbox,
        &database,
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nassert c.execute('SELECT x FROM theirs').fetchall() == [(7,)]\nassert c.execute('SELECT count(*) FROM sqlite_schema').fetchall() == [(1,)]",
    );
}

#[test]
fn a_file_that_is_no_database_is_not_overwritten() {
    let sandbox = sandbox();
    sandbox.configure("");
    let file = sandbox.home().join("segno.db");
    fs::write(&file, "my diary, which nobody else has a copy of").unwrap();
    sandbox
        .segno(&["status"])
        .refused(17, &["segno.db", "not a database", "[J0104]"]);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "my diary, which nobody else has a copy of"
    );
}

#[test]
fn folder_name_that_is_not_utf_8_creates_no_other_folder() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    let folder = sandbox.work().join(OsStr::from_bytes(b"bad\xff"));
    fs::create_dir(&folder).unwrap();
    for file in ["chain.yaml", "answers.yaml"] {
        fs::copy(sandbox.work().join(file), folder.join(file)).unwrap();
    }
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.current_dir(&folder);
    let output = run_to_end(command);
    assert!(!sandbox.work().join("bad\u{fffd}").exists(), "{output:?}");
}

#[test]
fn foreign_database_is_left_unchanged() {
    let sandbox = sandbox();
    sandbox.configure("");
    let file = sandbox.home().join("segno.db");
    let mut command = Command::new("sqlite3");
    command.arg(&file).arg("CREATE TABLE theirs (x)");
    run_to_end(command).expect_success();
    let before = fs::read(&file).unwrap();
    sandbox
        .segno(&["status"])
        .refused(17, &["not a Segno database"]);
    assert!(fs::read(&file).unwrap() == before, "it was changed");
}

#[test]
fn a_file_in_the_place_of_the_home_is_named() {
    let sandbox = sandbox();
    fs::write(sandbox.home(), "").unwrap();
    let home = format!("{} cannot be used", sandbox.home().display());
    sandbox.segno(&["status"]).refused(12, &[&home, "[F0102]"]);
}

#[test]
fn unsafe_home_is_refused_before_anything_is_written() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.home()).unwrap();
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o777)).unwrap();
    sandbox.segno(&["status"]).refused(12, &["[F0104]"]);
    assert_eq!(fs::read_dir(sandbox.home()).unwrap().count(), 0);
}

#[test]
fn commands_that_store_nothing_need_no_home() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    for words in [
        &["validate", "chain.yaml"][..],
        &["run", "--no-save-session", "chain.yaml"],
    ] {
        let mut command = sandbox.command(words);
        command.env_remove("SEGNO_HOME").env_remove("HOME");
        run_to_end(command).expect_success();
    }
}
