//! A checkpoint command on an almost full disk: it succeeds, or reports that there is no space and
//! has changed nothing; stored checkpoints can be read meanwhile; and it succeeds when there is
//! space again. A sweep needs no space to free space.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use super::checker::{Checker, describe};
use super::fixture::{Fixture, copy};
use super::operation::Operation;
use super::trial::check_and_repeat;
use crate::crash::trial::{Hit, Violation};
use crate::sandbox::{ProcessOutput, memory_dir, run_to_end};
use crate::tree_state::TreeState;

/// The exit code of a refusal for lack of space.
const NO_SPACE: i32 = 12;

/// Runs in its own mount namespace, with a small file system mounted over the root of the fixture.
/// `$@` is the command; its output goes to `$SAID`, which has enough space.
const SCRIPT: &str = r#"
need=$(du -sk "$SPARE" | cut -f1)
mount -t tmpfs -o "size=$((need + 8192))k,mode=700" tmpfs "$ROOT"
cp -a "$SPARE/." "$ROOT"
cd "$ROOT/work"
dd if=/dev/zero of="$ROOT/filler" bs=64k 2> /dev/null || true
dd if=/dev/zero of="$ROOT/filler" bs=4k oflag=append conv=notrunc 2> /dev/null || true
! dd if=/dev/zero of="$ROOT/more" bs=4k count=1 2> /dev/null
rm -f "$ROOT/more"
[ "$KIB" -eq 0 ] || truncate -s "-${KIB}k" "$ROOT/filler"
say() {
  name="$1"
  shift
  code=0
  "$SEGNO" "$@" > "$SAID/$name.out" 2> "$SAID/$name.err" || code=$?
  echo "$code" > "$SAID/$name.code"
}
say operation "$@"
say list checkpoint list --all
say verify checkpoint verify
say doctor doctor
rm "$ROOT/filler"
cp -a "$ROOT" "$SAID/after"
"#;

pub(super) fn attempt(fixture: &Fixture, kib: u64) -> (Hit, Vec<Violation>) {
    let folder = memory_dir();
    let sandbox = &fixture.sandbox;
    let mut command = Command::new("unshare");
    sandbox.set_env(&mut command);
    command
        .env("SPARE", fixture.saved_copy())
        .env("ROOT", fixture.root())
        .env("SAID", folder.path())
        .env("KIB", kib.to_string())
        .env("SEGNO", sandbox.binary())
        .arg(if is_root() { "-m" } else { "-Urm" })
        .args(["sh", "-eu", "-c", SCRIPT, "sh"])
        .args(fixture.args());
    run_to_end(command).expect_success();
    fixture.clear();
    copy(&folder.path().join("after/."), &fixture.root());
    let mut checker = Checker::new(fixture);
    for name in ["list", "verify", "doctor"] {
        let said = said(folder.path(), name);
        if !said.status.success() {
            checker.stuck(format!("{name} failed on a full disk: {}", describe(&said)));
        }
    }
    let said = said(folder.path(), "operation");
    let hit = match (said.status.code(), fixture.operation) {
        (Some(0), Operation::Gc) => Hit::Segno,
        (Some(0), _) => Hit::Missed,
        (Some(NO_SPACE), operation) if operation != Operation::Gc => Hit::Segno,
        _ => {
            checker.stuck(format!(
                "the operation failed on a full disk: {}",
                describe(&said)
            ));
            Hit::Segno
        }
    };
    if let (Hit::Segno, Some((target, old, _))) = (hit, fixture.target_states())
        && TreeState::of(&target).has_lost(&old)
    {
        checker.damage("a restore without disk space changed its target".to_owned());
    }
    check_and_repeat(&mut checker, &said);
    (hit, checker.wrongs)
}

fn said(folder: &Path, name: &str) -> ProcessOutput {
    let read = |end: &str| fs::read_to_string(folder.join(format!("{name}.{end}"))).unwrap();
    let code: i32 = read("code").trim().parse().unwrap();
    ProcessOutput {
        status: ExitStatus::from_raw(code << 8),
        stdout: read("out"),
        stderr: read("err"),
    }
}

/// Whether this is root, who needs no user namespace to mount.
fn is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    run_to_end(command).stdout.trim() == "0"
}
