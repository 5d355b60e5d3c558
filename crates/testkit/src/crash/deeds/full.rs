//! A deed on a disk with little room: it succeeds, or says that there is no room and has changed
//! nothing; what is kept can be read meanwhile; and it succeeds when there is room again. A sweep needs
//! no room to make room.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use super::deed::Deed;
use super::ground::{Ground, copy};
use super::trial::settle;
use super::watch::{Watch, told};
use crate::crash::trial::{Hit, Wrong};
use crate::picture::Picture;
use crate::sandbox::{Said, finish, memory};

/// What a refusal for want of room exits with.
const NO_ROOM: i32 = 12;

/// In a mount namespace of its own, with a small file system in the place of everything. `$@` is the
/// deed; what is said goes to `$SAID`, where there is room.
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
say deed "$@"
say list checkpoint list --all
say verify checkpoint verify
say doctor doctor
rm "$ROOT/filler"
cp -a "$ROOT" "$SAID/after"
"#;

pub(super) fn attempt(ground: &Ground, kib: u64) -> (Hit, Vec<Wrong>) {
    let folder = memory();
    let sandbox = &ground.sandbox;
    let mut command = Command::new("unshare");
    sandbox.furnish(&mut command);
    command
        .env("SPARE", ground.spare())
        .env("ROOT", ground.root())
        .env("SAID", folder.path())
        .env("KIB", kib.to_string())
        .env("SEGNO", sandbox.binary())
        .arg(if is_root() { "-m" } else { "-Urm" })
        .args(["sh", "-eu", "-c", SCRIPT, "sh"])
        .args(ground.words());
    finish(command).good();
    ground.clear();
    copy(&folder.path().join("after/."), &ground.root());
    let mut watch = Watch::new(ground);
    for name in ["list", "verify", "doctor"] {
        let said = said(folder.path(), name);
        if !said.status.success() {
            watch.stuck(format!("{name} on a full disk: {}", told(&said)));
        }
    }
    let said = said(folder.path(), "deed");
    let hit = match (said.status.code(), ground.deed) {
        (Some(0), Deed::Gc) => Hit::Segno,
        (Some(0), _) => Hit::Missed,
        (Some(NO_ROOM), deed) if deed != Deed::Gc => Hit::Segno,
        _ => {
            watch.stuck(format!("on a full disk: {}", told(&said)));
            Hit::Segno
        }
    };
    if let (Hit::Segno, Some((place, old, _))) = (hit, ground.aim())
        && Picture::of(&place).has_lost(&old)
    {
        watch.damage("a restore that found no room has changed its target".to_owned());
    }
    settle(&mut watch, &said);
    (hit, watch.wrongs)
}

fn said(folder: &Path, name: &str) -> Said {
    let read = |end: &str| fs::read_to_string(folder.join(format!("{name}.{end}"))).unwrap();
    let code: i32 = read("code").trim().parse().unwrap();
    Said {
        status: ExitStatus::from_raw(code << 8),
        stdout: read("out"),
        stderr: read("err"),
    }
}

/// Whether this is root, who needs no user namespace to mount.
fn is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    finish(command).stdout.trim() == "0"
}
