//! A disk that is full: a clear refusal, nothing lost, and it goes on when there is room (P1, P14).
//!
//! Each scenario is one shell script in a mount namespace of its own, with a small file system in
//! memory as the disk. What the commands say is left in files of the work folder.

use std::process::Command;

use segno_testkit::sandbox::{Sandbox, finish};

use crate::sandbox;

/// `disk` is the small disk, `fill` takes all of it, `say NAME WORDS…` runs segno and keeps what it
/// said, `until_calls N` waits until the agent was called that often.
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
  say "$1.show" sessions show chain
  say "$1.logs" logs chain
  say "$1.doctor" doctor
}
"#;

fn in_own_disk(sandbox: &Sandbox, scenario: &str) {
    let mut command = Command::new("unshare");
    sandbox.furnish(&mut command);
    let flags = if is_root() { "-m" } else { "-Urm" };
    command.env("SEGNO", sandbox.binary()).args([
        flags,
        "sh",
        "-eu",
        "-c",
        &format!("{PRELUDE}\n{scenario}"),
    ]);
    finish(command).good();
}

/// Whether this is root, who needs no user namespace to mount.
fn is_root() -> bool {
    let said = finish({
        let mut command = Command::new("id");
        command.arg("-u");
        command
    });
    said.stdout.trim() == "0"
}

fn code(sandbox: &Sandbox, name: &str) -> i32 {
    let code = sandbox.read(&format!("{name}.code"));
    code.trim().parse().unwrap()
}

#[track_caller]
fn good(sandbox: &Sandbox, name: &str) -> String {
    let (out, err) = said(sandbox, name);
    assert_eq!(code(sandbox, name), 0, "{name}\n{out}\n{err}");
    out
}

#[track_caller]
fn refused_for_room(sandbox: &Sandbox, name: &str) {
    let (out, err) = said(sandbox, name);
    assert_eq!(code(sandbox, name), 12, "{name}\n{out}\n{err}");
    assert!(err.contains("[F0101]"), "{name}\n{err}");
    assert!(err.contains("hint: make room"), "{name}\n{err}");
}

fn said(sandbox: &Sandbox, name: &str) -> (String, String) {
    (
        sandbox.read(&format!("{name}.out")),
        sandbox.read(&format!("{name}.err")),
    )
}

/// A chain of four whose second answer waits until `go` is there.
fn waiting_chain(sandbox: &Sandbox, answer: &str) {
    let wait = "while [ \"$SEGNO_STEP\" = steps/1 ] && [ ! -e go ]; do sleep 0.01; done";
    sandbox.command_chain(4, &format!("{wait}\n{answer}"));
}

const FILLED_UNDER_WAY: &str = r#"
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
fn nothing_was_lost(sandbox: &Sandbox) {
    let calls = |name: &str| -> Vec<String> {
        let step = |line: &str| line.split(' ').nth(2).unwrap().to_owned();
        sandbox.read(name).lines().map(step).collect()
    };
    assert_eq!(calls("calls.full"), ["steps/0", "steps/1"]);
    refused_for_room(sandbox, "run");
    for name in ["full.list", "full.show", "full.logs", "full.doctor"] {
        good(sandbox, name);
    }
    let logs = good(sandbox, "full.logs");
    assert_eq!(logs.matches("✓ steps").count(), 2, "{logs}");
    good(sandbox, "resume");
    assert_eq!(
        calls("calls.log"),
        ["steps/0", "steps/1", "steps/2", "steps/3"]
    );
    good(sandbox, "free.doctor");
    assert!(
        sandbox
            .read("artifacts/out.txt")
            .contains("answer of steps/3")
    );
}

#[test]
fn an_answer_under_way_when_the_disk_fills_up_is_kept() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, "");
    in_own_disk(&sandbox, FILLED_UNDER_WAY);
    nothing_was_lost(&sandbox);
}

#[test]
fn a_long_answer_under_way_when_the_disk_fills_up_is_kept() {
    let sandbox = sandbox();
    let long = "[ \"$SEGNO_STEP\" != steps/1 ] || { head -c 300000 /dev/zero | tr '\\0' x; }";
    waiting_chain(&sandbox, long);
    in_own_disk(&sandbox, FILLED_UNDER_WAY);
    nothing_was_lost(&sandbox);
}

#[test]
fn what_is_kept_can_be_read_while_not_a_byte_is_free() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "");
    in_own_disk(
        &sandbox,
        "say chain run chain.yaml\nfill\nlook once\nlook again\n",
    );
    good(&sandbox, "chain");
    for round in ["once", "again"] {
        for command in ["list", "show", "logs", "doctor"] {
            good(&sandbox, &format!("{round}.{command}"));
        }
    }
}

#[test]
fn nothing_is_begun_on_a_disk_that_is_full_from_the_start() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "");
    in_own_disk(
        &sandbox,
        "fill\nsay first run chain.yaml\nrm \"$disk/filler\"\nsay second run chain.yaml\ncp calls.log calls.two\nfill\nsay third run chain.yaml --name third --out elsewhere\nlook full\nrm \"$disk/filler\"\nlook free\n",
    );
    refused_for_room(&sandbox, "first");
    good(&sandbox, "second");
    refused_for_room(&sandbox, "third");
    assert_eq!(sandbox.read("calls.two"), sandbox.read("calls.log"));
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
    for name in ["free.list", "free.show", "free.logs", "free.doctor"] {
        good(&sandbox, name);
    }
    for name in ["full.list", "full.show", "full.logs", "full.doctor"] {
        good(&sandbox, name);
    }
}

#[test]
fn a_checkpoint_is_carried_whole_or_not_at_all_when_the_disk_is_full() {
    let sandbox = sandbox();
    sandbox.command_chain(1, "");
    in_own_disk(
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
    good(&sandbox, "create");
    assert_eq!(code(&sandbox, "export.full"), 12);
    assert_eq!(sandbox.read("export.ls"), "filler\nhome\n");
    good(&sandbox, "export.free");
    assert_eq!(code(&sandbox, "import.full"), 12);
    assert!(good(&sandbox, "list.full").contains("no checkpoints"));
    assert!(good(&sandbox, "import.free").contains("its session came along"));
    good(&sandbox, "verify");
    good(&sandbox, "doctor");
}
