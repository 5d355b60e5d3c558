//! A full disk: Segno refuses clearly, loses nothing, and continues when there is space again (P1,
//! P14).
//!
//! Each scenario is one shell script in its own mount namespace, with a small file system in memory
//! as the disk. The scripts store the output of the commands in files of the work folder.

use std::process::Command;

use segno_testkit::sandbox::{Sandbox, run_to_end};

use crate::sandbox;

/// `disk` is the path of the small disk, `fill` uses up its space, `say NAME WORDS…` runs segno and
/// stores its output, `until_calls N` waits until the agent was called N times.
const PRELUDE: &str = r#"
disk="$HOME/disk"
mkdir -p "$disk"
mount -t tmpfs -o size=16m,mode=700 tmpfs "$disk"
export SEGNO_HOME="$disk/home"
mkdir -m 700 "$SEGNO_HOME"
fill() {
  dd if=/dev/zero of="$disk/filler" bs=64k oflag=append conv=notrunc 2> /dev/null || true
  dd if=/dev/zero of="$disk/filler" bs=4k oflag=append conv=notrunc 2> /dev/null || true
  ! dd if=/dev/zero of="$disk/more" bs=4k count=1 2> /dev/null
  rm -f "$disk/more"
}
say() {
  name="$1"
  shift
  code=0
  "$SEGNO" "$@" > "$name.out" 2> "$name.err" || code=$?
  echo "$code" > "$name.code"
}
until_calls() {
  tries=0
  until [ "$(cat calls.log 2> /dev/null | wc -l)" -ge "$1" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 6000 ] || exit 99
    sleep 0.01
  done
}
look() {
  say "$1.list" sessions list
  say "$1.show" show chain
  say "$1.logs" logs chain
  say "$1.doctor" doctor
}
"#;

fn run_on_small_disk(sandbox: &Sandbox, scenario: &str) {
    let mut command = Command::new("unshare");
    sandbox.set_env(&mut command);
    let flags = if is_root() { "-m" } else { "-Urm" };
    command.env("SEGNO", sandbox.binary()).args([
        flags,
        "sh",
        "-eu",
        "-c",
        &format!("{PRELUDE}\n{scenario}"),
    ]);
    run_to_end(command).expect_success();
}

/// Whether this process is root, which needs no user namespace to mount.
fn is_root() -> bool {
    let output = run_to_end({
        let mut command = Command::new("id");
        command.arg("-u");
        command
    });
    output.stdout.trim() == "0"
}

fn code(sandbox: &Sandbox, name: &str) -> i32 {
    let code = sandbox.read(&format!("{name}.code"));
    code.trim().parse().unwrap()
}

#[track_caller]
fn assert_success(sandbox: &Sandbox, name: &str) -> String {
    let (out, err) = read_output(sandbox, name);
    assert_eq!(code(sandbox, name), 0, "{name}\n{out}\n{err}");
    out
}

#[track_caller]
fn assert_refused_for_space(sandbox: &Sandbox, name: &str) {
    let (out, err) = read_output(sandbox, name);
    assert_eq!(code(sandbox, name), 12, "{name}\n{out}\n{err}");
    assert!(err.contains("[F0101]"), "{name}\n{err}");
    assert!(err.contains("hint: free disk space"), "{name}\n{err}");
}

fn read_output(sandbox: &Sandbox, name: &str) -> (String, String) {
    (
        sandbox.read(&format!("{name}.out")),
        sandbox.read(&format!("{name}.err")),
    )
}

/// A chain of four steps whose second answer waits until the file `go` exists.
fn waiting_chain(sandbox: &Sandbox, answer: &str) {
    let wait = "while [ \"$SEGNO_STEP\" = steps/1 ] && [ ! -e go ]; do sleep 0.01; done";
    sandbox.command_chain(4, &format!("{wait}\n{answer}"));
}

const FILL_MID_ANSWER: &str = r#"
say run run chain.yaml &
until_calls 2
fill
touch go
wait
look full
cp calls.log calls.full
rm "$disk/filler"
say resume resume chain
look free
"#;

#[track_caller]
fn assert_nothing_lost(sandbox: &Sandbox) {
    let calls = |name: &str| -> Vec<String> {
        let step = |line: &str| line.split(' ').nth(2).unwrap().to_owned();
        sandbox.read(name).lines().map(step).collect()
    };
    assert_eq!(calls("calls.full"), ["steps/0", "steps/1"]);
    assert_refused_for_space(sandbox, "run");
    for name in ["full.list", "full.show", "full.logs", "full.doctor"] {
        assert_success(sandbox, name);
    }
    let logs = assert_success(sandbox, "full.logs");
    assert_eq!(logs.matches("✓ steps").count(), 2, "{logs}");
    assert_success(sandbox, "resume");
    assert_eq!(
        calls("calls.log"),
        ["steps/0", "steps/1", "steps/2", "steps/3"]
    );
    assert_success(sandbox, "free.doctor");
    assert!(
        sandbox
            .read("artifacts/out.txt")
            .contains("answer of steps/3")
    );
}

#[test]
fn answer_in_flight_survives_a_disk_that_fills_up() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, "");
    run_on_small_disk(&sandbox, FILL_MID_ANSWER);
    assert_nothing_lost(&sandbox);
}

#[test]
fn long_answer_in_flight_survives_a_disk_that_fills_up() {
    let sandbox = sandbox();
    let long = "[ \"$SEGNO_STEP\" != steps/1 ] || { head -c 300000 /dev/zero | tr '\\0' x; }";
    waiting_chain(&sandbox, long);
    run_on_small_disk(&sandbox, FILL_MID_ANSWER);
    assert_nothing_lost(&sandbox);
}

#[test]
fn sessions_can_be_read_on_a_full_disk() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "");
    run_on_small_disk(
        &sandbox,
        "say chain run chain.yaml\nfill\nlook once\nlook again\n",
    );
    assert_success(&sandbox, "chain");
    for round in ["once", "again"] {
        for command in ["list", "show", "logs", "doctor"] {
            assert_success(&sandbox, &format!("{round}.{command}"));
        }
    }
}

#[test]
fn no_run_starts_on_a_full_disk() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "");
    run_on_small_disk(
        &sandbox,
        "fill\nsay first run chain.yaml\nrm \"$disk/filler\"\nsay second run chain.yaml\ncp calls.log calls.two\nfill\nsay third run chain.yaml --name third --out elsewhere\nlook full\nrm \"$disk/filler\"\nlook free\n",
    );
    assert_refused_for_space(&sandbox, "first");
    assert_success(&sandbox, "second");
    assert_refused_for_space(&sandbox, "third");
    assert_eq!(sandbox.read("calls.two"), sandbox.read("calls.log"));
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
    for name in ["free.list", "free.show", "free.logs", "free.doctor"] {
        assert_success(&sandbox, name);
    }
    for name in ["full.list", "full.show", "full.logs", "full.doctor"] {
        assert_success(&sandbox, name);
    }
}

#[test]
fn checkpoint_transfer_on_a_full_disk_is_all_or_nothing() {
    let sandbox = sandbox();
    sandbox.command_chain(1, "");
    run_on_small_disk(
        &sandbox,
        r#"
head -c 3000000 /dev/urandom > big.bin
say run run chain.yaml
say create checkpoint create --json
id=$(sed 's/.*"checkpoint":"\([^"]*\)".*/\1/' create.out)
fill
say export.full checkpoint export "$id" --to "$disk/out"
ls -A "$disk" > export.ls
rm "$disk/filler"
say export.free checkpoint export "$id" --to "$disk/out"
export SEGNO_HOME="$disk/other"
mkdir -m 700 "$SEGNO_HOME"
say empty sessions list
fill
say import.full checkpoint import "$disk/out"
say list.full checkpoint list --all
rm "$disk/filler"
say import.free checkpoint import "$disk/out"
say verify checkpoint verify
say doctor doctor
"#,
    );
    assert_success(&sandbox, "create");
    assert_eq!(code(&sandbox, "export.full"), 12);
    assert_eq!(sandbox.read("export.ls"), "filler\nhome\n");
    assert_success(&sandbox, "export.free");
    assert_eq!(code(&sandbox, "import.full"), 12);
    assert!(assert_success(&sandbox, "list.full").contains("no checkpoints"));
    assert!(assert_success(&sandbox, "import.free").contains("imported its session"));
    assert_success(&sandbox, "verify");
    assert_success(&sandbox, "doctor");
}

#[test]
fn limit_on_file_sizes_is_named() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    let mut command = Command::new("bash");
    sandbox.set_env(&mut command);
    command
        .env("SEGNO", sandbox.binary())
        .args(["-c", "ulimit -f 512; \"$SEGNO\" run chain.yaml"]);
    let texts = ["files of 524288 bytes at most", "ulimit -f", "[F0102]"];
    run_to_end(command).refused(12, &texts);
    assert!(sandbox.calls().is_empty());
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
}

#[test]
fn resumes_on_a_disk_that_stays_full_ask_nobody() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, "");
    let scenario = FILL_MID_ANSWER.replace(
        "cp calls.log",
        "say again resume chain\nsay third resume chain\ncp calls.log",
    );
    run_on_small_disk(&sandbox, &scenario);
    for name in ["again", "third"] {
        assert_refused_for_space(&sandbox, name);
    }
    assert_nothing_lost(&sandbox);
}

#[test]
fn answer_that_cannot_be_stored_is_reported_as_lost() {
    let sandbox = sandbox();
    let huge = "[ \"$SEGNO_STEP\" != steps/1 ] || { head -c 5000000 /dev/zero | tr '\\0' x; }";
    waiting_chain(&sandbox, huge);
    run_on_small_disk(&sandbox, FILL_MID_ANSWER);
    assert_eq!(code(&sandbox, "run"), 12);
    let (_, notices) = read_output(&sandbox, "run");
    let lost = "an answer in step steps/1 is lost, because it could not be stored";
    assert!(notices.contains(lost), "{notices}");
    assert_success(&sandbox, "resume");
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2", "steps/3"]
    );
}

#[test]
fn read_only_home_can_be_read() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, "");
    run_on_small_disk(
        &sandbox,
        r#"
"$SEGNO" run chain.yaml > run.out 2> run.err &
until_calls 2
say create checkpoint create chain --json
kill -9 $!
wait $! || true
test -s "$SEGNO_HOME"/sessions/*/journal.db-wal
SEGNO_HOME="$disk/empty" "$SEGNO" sessions list
cp -a "$SEGNO_HOME" copy
mount -o remount,ro "$disk"
look ro
SEGNO_HOME="$disk/empty" say ro.empty doctor
say ro.search search answer
say ro.checkpoints checkpoint list chain
say ro.verify checkpoint verify
id=$(sed 's/.*"checkpoint":"\([^"]*\)".*/\1/' create.out)
say ro.restore checkpoint restore "$id" --into "$HOME/elsewhere"
say ro.resume resume chain
say ro.run run chain.yaml --name other
diff -r copy "$SEGNO_HOME"
mount -o remount,rw "$disk"
look rw
touch go
say resume resume chain
look end
"#,
    );
    for what in ["list", "show", "logs", "doctor"] {
        assert_success(&sandbox, &format!("ro.{what}"));
    }
    let logs = assert_success(&sandbox, "ro.logs");
    assert_eq!(logs, assert_success(&sandbox, "rw.logs"));
    assert_eq!(logs.matches("✓ steps").count(), 1, "{logs}");
    for what in ["search", "checkpoints", "verify", "restore", "empty"] {
        assert_success(&sandbox, &format!("ro.{what}"));
    }
    assert!(
        sandbox
            .work()
            .with_file_name("elsewhere")
            .join("chain.yaml")
            .exists()
    );
    for refused in ["ro.resume", "ro.run"] {
        let (_, words) = read_output(&sandbox, refused);
        assert_eq!(code(&sandbox, refused), 12, "{words}");
        assert!(words.contains("read-only"), "{words}");
    }
    assert_success(&sandbox, "resume");
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2", "steps/3"]
    );
}

/// Not every file system reports a used-up quota when it accepts a write.
#[test]
fn quota_that_is_used_up_is_a_full_disk() {
    for first in [1, 3, 6, 9, 12, 15] {
        let sandbox = sandbox();
        sandbox.scripted_chain(3, 0);
        let mut command = Command::new("strace");
        sandbox.set_env(&mut command);
        command
            .args(["-f", "-q", "-o", "/dev/null", "-e"])
            .arg("trace=fsync,fdatasync")
            .args([
                "-e",
                &format!("inject=fsync,fdatasync:error=EDQUOT:when={first}+"),
            ])
            .arg(sandbox.binary())
            .args(["run", "chain.yaml"]);
        run_to_end(command).refused(12, &["[F0101]"]);
        let exists = !sandbox
            .segno(&["sessions", "list", "--json"])
            .json()
            .is_empty();
        let words = if exists {
            ["resume", "chain"]
        } else {
            ["run", "chain.yaml"]
        };
        sandbox.segno(&words).expect_success();
        let calls = sandbox.calls();
        assert!(calls.len() <= 4, "from sync {first} on: {calls:?}");
    }
}
