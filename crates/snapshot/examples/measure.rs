//! Captures, edits, restores and verifies a folder, and compares it with `tar --zstd` in the same
//! run.
//!
//! `cargo run --release -p segno-snapshot --example measure -- SCRATCH [FOLDER]` works in a new
//! folder below `SCRATCH`, on a copy of `FOLDER` or on a generated tree. Exact memory peaks would
//! need one process per step; here the peak is that of all steps so far.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for people who work on this crate: it looks at the clock and panics"
)]

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use segno_snapshot::{Request, Restore, SnapshotStore};

struct Real(Instant);

impl Clock for Real {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .map(|kib| format!("{} MB", kib / 1024))
        .unwrap()
}

/// CPU seconds of this process and of the child processes that it waited for.
fn effort() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(4);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

fn time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (began, before) = (Instant::now(), effort());
    let result = work();
    println!(
        "{:>9.3} s  {:>6.2} of CPU  {what}  (peak {})",
        began.elapsed().as_secs_f64(),
        effort() - before,
        peak()
    );
    result
}

fn run(program: &str, arguments: &[&str]) {
    assert!(
        Command::new(program)
            .args(arguments)
            .status()
            .unwrap()
            .success()
    );
}

fn length(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        let inside = fs::read_dir(path).unwrap();
        inside.map(|entry| length(&entry.unwrap().path())).sum()
    } else {
        metadata.len()
    }
}

/// The disk usage of a snapshot store in whole blocks, without the index, which is a cache.
fn allocated(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() && path.ends_with("store/index") {
        0
    } else if metadata.is_dir() {
        let inside = fs::read_dir(path).unwrap();
        inside.map(|entry| allocated(&entry.unwrap().path())).sum()
    } else {
        metadata.blocks() * 512
    }
}

/// Generates text that compresses about as well as source code.
fn make_up(folder: &Path) {
    let words = [
        "fn ", "let ", "return ", "struct ", "self.", "value", "(x)", " = ", ";\n", "{\n", "}\n",
    ];
    let mut state = 7_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for number in 0..20_000 {
        let place = folder.join(format!("{}/{}", number % 40, number % 1000));
        fs::create_dir_all(&place).unwrap();
        let mut text = String::new();
        let size = 1000 + next() % 30_000;
        while (text.len() as u64) < size {
            text.push_str(words[usize::try_from(next() % words.len() as u64).unwrap()]);
            if next() % 4 == 0 {
                let _ = write!(text, "{:x}", next() % 65_536);
            }
        }
        fs::write(place.join(format!("{number}.rs")), text).unwrap();
    }
}

/// Edits ten files in the middle and adds five.
fn edit(files: &[PathBuf], work: &Path, round: usize) {
    for number in 0..10 {
        let path = &files[(number * 977 + round * 131) % files.len()];
        let mut content = fs::read(path).unwrap();
        let middle = content.len() / 2;
        content.splice(middle..middle, format!("edit {round}\n").into_bytes());
        fs::write(path, content).unwrap();
    }
    for number in 0..5 {
        fs::write(
            work.join(format!("new-{round}-{number}")),
            format!("new {number}\n"),
        )
        .unwrap();
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut inside: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    inside.sort();
    for path in inside {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            files(&path, found);
        } else if metadata.is_file() && metadata.len() < 200_000 {
            found.push(path);
        }
    }
}

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let scratch = PathBuf::from(arguments.next().expect("a folder to work in"));
    let scratch = scratch.join(format!("measure-{}", std::process::id()));
    let work = scratch.join("work");
    fs::create_dir_all(&scratch).unwrap();
    match arguments.next() {
        Some(folder) => run(
            "cp",
            &["-a", folder.to_str().unwrap(), work.to_str().unwrap()],
        ),
        None => make_up(&work),
    }
    run("sync", &[]);
    let (work_text, tar) = (work.to_str().unwrap(), scratch.join("work.tar.zst"));
    let tar_text = tar.to_str().unwrap();
    run("tar", &["-cf", "/dev/null", "-C", work_text, "."]);
    time("tar --zstd", || {
        run("tar", &["--zstd", "-cf", tar_text, "-C", work_text, "."]);
    });
    println!("{:>9} MB of tar", length(&tar) / 1_000_000);

    let clock = Real(Instant::now());
    let store = SnapshotStore::open(&scratch.join("store")).unwrap();
    let request = Request::new(&work, &clock);
    let capture = || store.capture(&request, &|_| {}).unwrap();
    let first = time("first capture", capture);
    println!(
        "{:>9} files, {} MB; store {} MB",
        first.files,
        first.bytes / 1_000_000,
        first.stored_bytes / 1_000_000
    );
    time("unchanged", capture);
    let sure = Request {
        recheck_per_mille: 0,
        ..request
    };
    time("unchanged, without doubt", || {
        store.capture(&sure, &|_| {}).unwrap()
    });
    let mut found = Vec::new();
    files(&work, &mut found);
    for round in 0..3 {
        edit(&found, &work, round);
        let before = allocated(&scratch.join("store"));
        let captured = time("10 edited, 5 new", capture);
        println!(
            "{:>9} bytes more, {} allocated, {} files read",
            captured.stored_bytes,
            allocated(&scratch.join("store")) - before,
            captured.read_files
        );
    }
    let options = Restore {
        exact: true,
        ..Restore::default()
    };
    let restore = |into: &Path, options: &Restore<'_>| {
        store
            .restore(first.snapshot, into, options, &|_| {})
            .unwrap()
    };
    let untar = scratch.join("untar");
    fs::create_dir(&untar).unwrap();
    time("tar -x", || {
        run(
            "tar",
            &["--zstd", "-xf", tar_text, "-C", untar.to_str().unwrap()],
        );
    });
    let loose = Restore {
        durable: false,
        ..options
    };
    time("full restore, not synced", || {
        restore(&scratch.join("loose"), &loose)
    });
    run("sync", &[]);
    time("full restore, durable", || {
        restore(&scratch.join("out"), &options)
    });
    let back = time("restore in place", || restore(&work, &options));
    println!(
        "{:>9} written, {} removed",
        back.written,
        back.removed.len()
    );
    let damage = time("verify", || store.verify(first.snapshot, &|_| {}).unwrap());
    assert!(damage.is_empty());
    run("rm", &["-rf", scratch.to_str().unwrap()]);
}
